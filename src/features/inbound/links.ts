/** The feature of signed links: makes them, and does what their endpoint asks for. */

import { type Agent, type AgentPathStep, getSubAgentByName } from "agents";
import * as z from "zod";
import type { CallsKernel } from "../../core/calls.ts";
import { byteLength, preview } from "../../core/json.ts";
import { type Link, MAX_TOKEN, signLink } from "../../core/links.ts";
import {
  duration,
  list,
  oneOf,
  optionsOf,
  readOptions,
  text,
} from "../../core/options/option-schemas.ts";
import { InvalidOptionError, invalidMessage, invalidOption } from "../../core/options/options.ts";
import { secretIn } from "../../core/secrets.ts";
import { bindingsOf, isAlike, NAMESPACE } from "../../outbox/destinations/bindings.ts";
import type { Feature, Kernel } from "../../workflow/agent/kernel.ts";
import { InvalidApprovalError } from "../../workflow/waits/errors.ts";
import { type Approvals, checkPayload } from "../../workflow/waits/kinds/approval.ts";
import type { LinkApprovalOptions } from "../../workflow/waits/kinds/approval-types.ts";
import type { Wait } from "../../workflow/waits/protocol.ts";
import type { InboundCalls, LinkAnswer, LinkCall, UrlOutcome, UrlRequest } from "./protocol.ts";

/** Signed links of an agent: approvals by link, and URLs of `step.webhook()`. */
export type LinkSettings = {
  /** Where the Worker serves them, e.g. `"https://app.example.com/hooks/links"`. */
  readonly url: string;
  /** The name of a secret in env. Of several, the first one signs, and the endpoint accepts all of them. */
  readonly secret: string | readonly string[];
  /**
   * The binding of this agent, or of its root agent, in the Worker that serves the links.
   * @default the binding of this Worker that leads to the agent
   */
  readonly agentBinding?: string;
};

/** A payload travels in the URL. */
const MAX_PAYLOAD_BYTES = 1_000;
const MAX_SECRETS = 10;

const SECRET = text({ maxLength: 100 });
const SETTINGS = optionsOf<LinkSettings>()({
  url: z.custom<string>(isUrl, {
    error: 'expected a URL, e.g. "https://app.example.com/hooks/links"',
  }),
  secret: z.union([SECRET, list(SECRET, { min: 1, max: MAX_SECRETS })]),
  agentBinding: text({ maxLength: 100 }).optional(),
});
const OPTIONS = optionsOf<LinkApprovalOptions>()({
  expiresIn: duration({ max: "365 days" }).default(7 * 86_400_000),
  by: text({ maxLength: 200 }).default("link"),
  payload: z.unknown().optional(),
});
const PATH = list(optionsOf<AgentPathStep>()({ className: text(), name: text() }));
const CALL = z.looseObject(
  { do: oneOf(["inspect", "grant", "reject", "receive"]) },
  { error: "expected an object" },
);
const DECISION = oneOf(["grant", "reject"]);

function isUrl(value: unknown): boolean {
  const url = typeof value === "string" ? URL.parse(value) : null;
  const isHttp = url?.protocol === "https:" || url?.protocol === "http:";
  return isHttp && url.search === "" && url.hash === "" && url.username === "";
}

/**
 * Lets an agent sign links: `approvals.link()`, and the URLs of `step.webhook()` with `url: true`. Its Worker serves them by
 * `links()` of `perdure/webhooks`. For a sub-agent, the class of its root agent needs it too.
 *
 * @throws InvalidOptionError
 * @example
 * export class Desk extends DurableThink<Env> {
 *   static override readonly features = [
 *     signedLinks({ url: "https://app.example.com/hooks/links", secret: "LINK_SECRET" }),
 *   ];
 * }
 */
export function signedLinks(settings: LinkSettings): Feature<"signedLinks", Links> {
  const read = readOptions(SETTINGS, settings, "options of signedLinks()");
  return {
    feature: "signedLinks",
    install: (kernel) => {
      const links = new Links(kernel, read);
      const followLink: InboundCalls["followLink"] = (path, call) => links.follow(path, call);
      kernel.calls.set("followLink", followLink);
      return links;
    },
  };
}

/** The installed `inbound()`, which this file cannot import: it imports this one. */
type Receives = {
  readonly stepWaits: { receive(call: UrlRequest): Promise<UrlOutcome> };
};

/** Verbs of the agent, which the app may override. */
type Decides = { readonly approvals: Pick<Approvals, "inspect" | "grant" | "reject"> };

/** What a link says, besides where its agent is. */
type LinkContent = Link extends infer Each
  ? Each extends Link
    ? Omit<Each, "binding" | "name" | "jurisdiction" | "path" | "expires">
    : never
  : never;

export class Links implements Pick<Approvals, "link"> {
  constructor(
    private readonly kernel: Pick<Kernel, "agent" | "verbs" | "waits" | "features" | "clock">,
    private readonly settings: LinkSettings,
  ) {}

  /** @throws InvalidOptionError if the agent can sign no links, because the secret is not in env */
  async check(): Promise<void> {
    await this.#secret();
  }

  /** @throws InvalidApprovalError, InvalidOptionError */
  async link(
    approvalId: string,
    given: "grant" | "reject",
    options: LinkApprovalOptions = {},
  ): Promise<string> {
    const invalid = (field: string, message: string) => new InvalidApprovalError(field, message);
    const decision = readOptions(DECISION, given, "decision", invalid);
    readOptions(OPTIONS, options, "options of approvals.link()", invalid);
    await this.check();
    readOptions(text(), approvalId, "approvalId", invalid);
    const { waits } = this.kernel;
    await waits.ready();
    const wait = waits.find(approvalId);
    if (wait?.kind !== "approval") {
      const problem = "expected an approval of this agent that is there";
      throw invalid("approvalId", invalidMessage("approvalId", preview(approvalId), problem));
    }
    return this.sign(wait, decision, options);
  }

  /** A link for an approval that may not be stored yet. @throws InvalidApprovalError, InvalidOptionError */
  async sign(
    wait: Pick<Wait, "waitId" | "request">,
    decision: "grant" | "reject",
    options: LinkApprovalOptions,
  ): Promise<string> {
    const invalid = (field: string, message: string) => new InvalidApprovalError(field, message);
    const { expiresIn, by, payload } = readOptions(OPTIONS, options, "link", invalid);
    if (decision === "grant") checkPayload(payload, wait);
    else if (payload !== undefined) {
      const problem = "expected no payload, because a rejection takes none";
      throw invalid("payload", invalidMessage("payload", preview(payload), problem));
    }
    const bytes = payload === undefined ? 0 : byteLength(JSON.stringify(payload));
    if (bytes > MAX_PAYLOAD_BYTES) {
      const problem = `expected at most ${MAX_PAYLOAD_BYTES} bytes, because it is part of the URL`;
      throw invalid("payload", invalidMessage("payload", `of ${bytes} bytes`, problem));
    }
    const content = {
      ...({ what: "approval", id: wait.waitId, decision, by } as const),
      ...(payload !== undefined && { payload }),
    };
    return this.urlOf(content, this.kernel.clock.now() + expiresIn);
  }

  /** @throws InvalidOptionError if the agent cannot be found by a link, or the URL would be too long */
  async urlOf(content: LinkContent, expires: number): Promise<string> {
    const secret = await this.#secret();
    const token = await signLink({ ...this.#place(), ...content, expires } as Link, secret);
    if (token.length > MAX_TOKEN) {
      throw new InvalidOptionError(
        "signedLinks",
        `Invalid link of ${token.length} characters: expected at most ${MAX_TOKEN}. Use shorter names of agents.`,
      );
    }
    return `${this.settings.url}?token=${token}`;
  }

  /** The secret that signs. */
  async #secret(): Promise<string> {
    const [name = ""] = [this.settings.secret].flat();
    const secret = await secretIn(this.kernel.agent.env, name);
    if (secret !== undefined) return secret;
    throw new InvalidOptionError(
      "secret",
      `The secret ${name} is not set. Set it: wrangler secret put ${name}`,
    );
  }

  /** Where the agent is. */
  #place(): Pick<Link, "binding" | "name" | "jurisdiction" | "path"> {
    const { selfPath, ctx } = this.kernel.agent;
    const [root, ...path] = selfPath as [AgentPathStep, ...AgentPathStep[]];
    const isRoot = path.length === 0;
    const { jurisdiction } = ctx.id;
    return {
      binding: this.#bindingOf(root, isRoot),
      name: root.name,
      ...(isRoot && jurisdiction !== undefined && { jurisdiction }),
      ...(!isRoot && { path: path.map(({ className, name }) => ({ className, name })) }),
    };
  }

  /** For a sub-agent only its root agent knows its own id. */
  #bindingOf({ className, name }: AgentPathStep, isRoot: boolean): string {
    const { agentBinding } = this.settings;
    if (agentBinding !== undefined) return agentBinding;
    const { env, ctx } = this.kernel.agent;
    const isOwn = ([binding, namespace]: [string, DurableObjectNamespace]) => {
      if (!isRoot) return isAlike(binding, className);
      const { jurisdiction } = ctx.id;
      const there =
        jurisdiction === undefined
          ? namespace
          : namespace.jurisdiction(jurisdiction as DurableObjectJurisdiction);
      return there.idFromName(name).equals(ctx.id);
    };
    const found = bindingsOf(env, NAMESPACE).find(isOwn);
    if (found) return found[0];
    const expected = `the name of a Durable Object binding of the agent's class ${className}`;
    throw invalidOption("agentBinding", undefined, expected);
  }

  /** Does what a link asks for, here or in the sub-agent at the end of the path. @throws InvalidOptionError */
  async follow(path: readonly AgentPathStep[], call: LinkCall): Promise<LinkAnswer> {
    const [step, ...rest] = readOptions(PATH, path, "path of a link");
    readOptions(CALL, call, "call of a link");
    if (step) {
      const named = { name: step.className } as unknown as typeof Agent;
      const child = await getSubAgentByName(this.kernel.agent as never, named, step.name);
      return (child as unknown as CallsKernel<InboundCalls>).callKernel("followLink", rest, call);
    }
    if (call.do === "receive") {
      const inbound = this.kernel.features.get("inbound", "A URL of step.webhook()");
      return { received: await (inbound as Receives).stepWaits.receive(call) };
    }
    const { approvals } = this.kernel.verbs as Decides;
    const { approvalId } = call;
    if (call.do === "inspect") return { approval: await approvals.inspect(approvalId) };
    const { by, payload } = call;
    if (call.do === "reject") return { decided: await approvals.reject(approvalId, { by }) };
    const options = { by, ...(payload !== undefined && { payload }) };
    return { decided: await approvals.grant(approvalId, options) };
  }
}
