/** The ledger with turns by the AI SDK on a plain Durable Object: a scripted model, a tool with an effect, and no Think. */

import { Sessions } from "agents/sessions";
import { tool } from "ai";
import { z } from "zod";
import { SdkTurns } from "../../../src/hosts/sdk/sdk-turns.ts";
import type { TurnSetup } from "../../../src/hosts/sdk/turn-source.ts";
import { Outbox } from "../../../src/outbox/index.ts";
import type { TurnHost } from "../../../src/submissions/host.ts";
import { Submissions } from "../../../src/submissions/submissions.ts";
import { HeldModel } from "../held-model.ts";
import { MeteredObject } from "./metered-object.ts";

/** How often an account was charged, over all objects and restarts. */
export const charges = new Map<string, number>();
/** The model calls, by the object's name, over all restarts. */
export const asked = new Map<string, { model: string; tools: string[]; prompt: string[] }[]>();
/** Overrides of the turn setup, by the name of the object. */
export const lent = new Map<string, Partial<TurnSetup>>();

/** Records its calls. */
export class WatchedModel extends HeldModel {
  /** @param talks whether it calls no tools, even when it must */
  constructor(
    modelId: string,
    private readonly name: string,
    private readonly talks = false,
  ) {
    super(undefined, modelId);
  }

  override doStream(options: Parameters<HeldModel["doStream"]>[0]) {
    const { tools: _, ...withoutTools } = options;
    const stream = super.doStream(this.talks ? withoutTools : options);
    const call = {
      model: this.modelId,
      tools: this.offered().at(-1) ?? [],
      prompt: this.prompts().at(-1) ?? [],
    };
    asked.set(this.name, [...(asked.get(this.name) ?? []), call]);
    return stream;
  }
}

export class AnswerObject extends MeteredObject {
  readonly sessions = new Sessions();
  readonly outbox = new Outbox({ host: this, env: this.env });
  readonly turns = new SdkTurns({
    source: async ({ messagesFor, model = "its own" }) => {
      if (model === "unknown") throw new Error("There is no model of that id");
      const tools = { charge: this.#charge };
      return {
        model: new WatchedModel(model, this.#name),
        instructions: "Do as you are told.",
        messages: await messagesFor(tools),
        tools,
        maxSteps: 5,
        ...lent.get(this.#name),
      };
    },
    sessions: this.sessions,
    ledger: () => this.submissions.turns,
  });
  readonly submissions: Submissions;

  readonly #charge = tool({
    inputSchema: z.object({ account: z.string() }),
    execute: async ({ account }) => {
      await this.ctx.storage.sync();
      charges.set(account, (charges.get(account) ?? 0) + 1);
      return `charged ${account}`;
    },
  });

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    const host: TurnHost = {
      start: () => {},
      run: (turn) => this.turns.run(turn),
      stop: () => {},
      inspectConversation: (turn) => this.turns.inspectConversation(turn),
      isRecovering: async () => false,
      removeMessages: (turn) => this.turns.removeMessages(turn),
      onStatus: async () => {},
      submissionOf: () => undefined,
      isInHostContext: () => false,
      isInsideTurn: () => false,
    };
    this.submissions = new Submissions(host, this.outbox, { retry: { baseDelay: 1 } });
    this.lifecycle.use(this.sessions).use(this.outbox).use(this.submissions);
  }

  get #name(): string {
    return this.ctx.id.name ?? "";
  }

  /** `role: text` of each message of a thread; parts that are no text by their type. */
  async texts(thread: string): Promise<string[]> {
    const messages = await this.turns.threads.messages(thread);
    return messages.map(({ role, parts }) => {
      const said = parts.filter(({ type }) => type !== "step-start");
      return `${role}: ${said.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("")}`;
    });
  }
}
