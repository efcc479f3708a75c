/** The worker of the soak of deliveries: three senders in front of agents that count the effects of each delivery. */

import { getAgentByName } from "agents";
import type { AgentWorkflowEvent } from "agents/workflows";
import { inbound } from "perdure/inbound";
import { dedupe, method, type Delivery as Sent } from "perdure/outbox";
import type { SubmissionEvent } from "perdure/submissions";
import { ask, ScriptedModel } from "perdure/testing";
import { DurableThink } from "perdure/think";
import { type Arrival, github, standardWebhooks, stripe, webhooks } from "perdure/webhooks";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { meterOf } from "../worker/cost.ts";
import { served } from "../worker/served.ts";
import { type Body, isSmall, type Look, MAX_BYTES } from "./deliveries.ts";

interface Env extends Cloudflare.Env {
  readonly HookAgent: DurableObjectNamespace<HookAgent>;
  readonly HOOKED: Workflow<Params>;
}
type Params = { readonly delivery: string };

/** For an agent whose name asks for it: one slow turn at a time, and one that waits. */
const SMALL = { maxPending: 1, maxConcurrentTurns: 1 } as const;
const SLOW_MS = 300;
/** Items of one page of a list. */
const PAGE = 1_000;
const OPEN = ["queued", "running", "waiting", "paused", "waitingForPause"];

export class HookAgent extends DurableThink<Env> {
  static override readonly features = [inbound()];
  readonly #meter;
  readonly #once = dedupe(this.ctx.storage);

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf(ctx);
    super(ctx, env, isSmall(ctx.id.name) ? SMALL : {});
    this.#meter = meter;
    this.sql`CREATE TABLE IF NOT EXISTS effects (
      delivery TEXT, what TEXT, times INTEGER, PRIMARY KEY (delivery, what)) WITHOUT ROWID`;
  }

  override getModel() {
    return new ScriptedModel();
  }

  /** Returns no promise, so that the effect commits with the delivery. */
  note(delivery: string, what: string): { noted: string } {
    this.sql`INSERT INTO effects VALUES (${delivery}, ${what}, 1)
      ON CONFLICT DO UPDATE SET times = times + 1`;
    return { noted: delivery };
  }

  /** Has its effect before it resolves, so that a crash in between repeats it. */
  async noteLater(delivery: string, delayMs: number): Promise<{ noted: string }> {
    await scheduler.wait(delayMs);
    const noted = this.note(delivery, "async");
    await scheduler.wait(delayMs);
    return noted;
  }

  /** The end of a turn. */
  onEnded(sent: Sent<SubmissionEvent>): void {
    const { delivery } = sent.event.data.metadata as Params;
    this.#once(sent, () => this.note(delivery, "turn"));
  }

  async look(): Promise<Look> {
    const effects = this.ctx.storage.sql.exec<{ delivery: string; what: string; times: number }>(
      "SELECT delivery, what, times FROM effects",
    );
    const log = await everyPage((page) => this.inbound.list(page));
    const deadLetters = await everyPage((page) => this.outbox.listDeadLetters(page));
    return {
      agent: this.name,
      log: log.map(({ source, id, verdict, duplicates, error }) => {
        return { source, id, verdict, duplicates, error: error?.message ?? null };
      }),
      effects: effects.toArray(),
      submissions: await this.#submissions(),
      workflows: this.#workflows(),
      waiting: (await this.outbox.stats()).waiting,
      deadLetters: deadLetters.map(({ id, lastError: error }) => ({ id, error })),
    };
  }

  async #submissions(): Promise<Look["submissions"]> {
    const found: Look["submissions"][number][] = [];
    for (let before: string | undefined; ; ) {
      const page = await this.listSubmissions({ limit: PAGE, ...(before && { before }) });
      const last = page.at(-1);
      if (last === undefined) return found;
      for (const { metadata, status } of page) {
        found.push({ delivery: String(metadata?.delivery), status });
      }
      before = last.submissionId;
    }
  }

  #workflows(): string[] {
    const found: string[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = this.getWorkflows({ limit: 100, ...(cursor && { cursor }) });
      found.push(...page.workflows.map(({ workflowId }) => workflowId));
      cursor = page.nextCursor;
    }
    return found;
  }

  /** Rows that the agent has written since the last call. */
  rowsWritten(): number {
    const rows = this.#meter?.rowsWrittenBy((query) => !query.includes("__miniflare")) ?? 0;
    this.#meter?.reset();
    return rows;
  }
}

async function everyPage<Item>(
  read: (page: {
    limit: number;
    cursor?: string;
  }) => Promise<{ readonly items: readonly Item[]; readonly cursor?: string | undefined }>,
): Promise<Item[]> {
  const found: Item[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await read({ limit: PAGE, ...(cursor && { cursor }) });
    found.push(...page.items);
    if (page.cursor === undefined) return found;
    cursor = page.cursor;
  }
}

export class HookedWorkflow extends ThinkWorkflow<HookAgent, Params> {
  override async run({ payload, instanceId }: AgentWorkflowEvent<Params>, step: ThinkWorkflowStep) {
    await step.do("note", async () => {
      await this.agent.note(payload.delivery, `workflow ${instanceId}`);
    });
  }
}

function handle({ id, body }: Arrival<Body>, agent: DurableObjectStub<HookAgent>) {
  const submit = () => {
    const text = ask({ text: id, delayMs: isSmall(body.agent) ? SLOW_MS : 0 });
    return agent.submitMessages([{ id, role: "user", parts: [{ type: "text", text }] }], {
      thread: "isolated",
      metadata: { delivery: id },
      notify: method("onEnded"),
    });
  };
  switch (body.kind) {
    case "submit":
      return submit();
    case "workflow":
      return agent.runWorkflow("HOOKED", { delivery: id }, { agentBinding: "HookAgent" });
    case "sync":
      return agent.note(id, "sync");
    case "async":
      return agent.noteLater(id, body.delayMs);
    case "two":
      return agent.note(id, "sync").then(submit);
    case "none":
      return undefined;
  }
}

const options = {
  secret: "SECRET",
  maxBytes: MAX_BYTES,
  agent: ({ body }: Arrival<Body>, env: Cloudflare.Env) =>
    getAgentByName((env as Env).HookAgent, body.agent),
  handle,
};
const hooks = webhooks(github(options), stripe(options), standardWebhooks(options));

const requests = served<Env>({
  look: async (env, name: string) => (await getAgentByName(env.HookAgent, name)).look(),
  rows: async (env, name: string) => (await getAgentByName(env.HookAgent, name)).rowsWritten(),
  /** The platform's status of workflows. Resumes open ones, for which the local engine needs an event after a kill. */
  workflows: async (env, ids: string[]) => {
    const statuses = ids.map(async (id) => {
      const instance = await env.HOOKED.get(id);
      const { status } = await instance.status();
      if (OPEN.includes(status)) await instance.sendEvent({ type: "wake", payload: {} });
      return [id, status];
    });
    return Object.fromEntries(await Promise.all(statuses));
  },
});

export default {
  fetch: async (request, env, ctx) =>
    (await hooks(request, env, ctx)) ?? requests.fetch(request, env, ctx),
} satisfies ExportedHandler<Env>;
