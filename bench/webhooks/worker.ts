/** The worker of the soak of deliveries: three senders in front of agents that count the effects of each delivery. */

import { getAgentByName } from "agents";
import type { AgentWorkflowEvent } from "agents/workflows";
import { inbound } from "perdure/inbound";
import { dedupe, method, type Delivery as Sent } from "perdure/outbox";
import type { SubmissionEvent } from "perdure/submissions";
import { DurableThink } from "perdure/think";
import { type Arrival, github, standardWebhooks, stripe, webhooks } from "perdure/webhooks";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { ask, ScriptedModel } from "../../src/testing/scripted-model.ts";
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

  look(): Look {
    const all = <Row extends Record<string, SqlStorageValue>>(query: string) =>
      this.ctx.storage.sql.exec<Row>(query).toArray();
    return {
      agent: this.name,
      log: all("SELECT source, id, verdict, duplicates, error FROM perdure_inbound"),
      effects: all("SELECT delivery, what, times FROM effects"),
      submissions: all(
        "SELECT json_extract(metadata, '$.delivery') AS delivery, status FROM perdure_submissions",
      ),
      workflows: all<{ id: string }>("SELECT workflow_id AS id FROM cf_agents_workflows").map(
        ({ id }) => id,
      ),
      waiting:
        all<{ count: number }>("SELECT COUNT(*) AS count FROM perdure_outbox")[0]?.count ?? 0,
      deadLetters: all("SELECT id, last_error AS error FROM perdure_dead_letters"),
    };
  }

  /** Rows that the log has written since the last call. */
  rowsOfLog(): number {
    const rows = this.#meter?.rowsWrittenBy((query) => query.includes("perdure_inbound")) ?? 0;
    this.#meter?.reset();
    return rows;
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
  rows: async (env, name: string) => (await getAgentByName(env.HookAgent, name)).rowsOfLog(),
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
