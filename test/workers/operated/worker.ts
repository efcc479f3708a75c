/**
 * A shop to operate: an agent with a scripted model, a workflow with an approval, and a source of deliveries. `POST /plant`
 * gives the agent `main` something of each list of the operator API. test/support/operated.ts starts it.
 */

import { env } from "cloudflare:workers";
import { getAgentByName } from "agents";
import type { AgentWorkflowEvent } from "agents/workflows";
import { dashboard } from "perdure/dashboard";
import { deployments } from "perdure/deploy";
import { inbound } from "perdure/inbound";
import { limit, limits } from "perdure/limits";
import type { Identity } from "perdure/operator";
import { operations, traces } from "perdure/operator";
import { type DeliveryPolicy, webhook } from "perdure/outbox";
import type { SubmitMessagesOptions } from "perdure/submissions";
import { ask, ScriptedModel } from "perdure/testing";
import { DurableThink, defineScheduledTasks } from "perdure/think";
import { custom, webhooks } from "perdure/webhooks";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";

export { LimitKeeper } from "perdure/limits";

interface Env extends Cloudflare.Env {
  ShopAgent: DurableObjectNamespace<ShopAgent>;
  REFUND_WORKFLOW: Workflow;
  /** Not real ones: of the operator who acts, of the one who reads, and of the sender of deliveries. */
  ACT_TOKEN: string;
  READ_TOKEN: string;
  ORDERS_TOKEN: string;
  /** Of a collector. */
  OTLP_URL?: string;
  OTLP_HEADERS?: string;
  /** Set: the model never replies, so that a turn is running for as long as a test needs it. */
  MODEL_HANGS?: string;
}

/** What is planted: how many submissions of the past, and how many dead letters; or so many rows of ended submissions. */
type Planted = {
  readonly submissions?: number;
  readonly deadLetters?: number;
  readonly rows?: number;
};

/** What a test submits by `POST /ask`. */
export type Asked = {
  readonly messages: string[];
  readonly options?: SubmitMessagesOptions<undefined>;
};

const { OTLP_URL } = env as Env;
const HOUR = 3_600_000;
/** Nothing listens on it. */
const closed = (path: string, policy?: DeliveryPolicy) =>
  webhook(`http://127.0.0.1:9/${path}`, { secret: "HOOK_SECRET", ...(policy && { policy }) });
/** What a page must show as text. */
const HOSTILE = `<img src=x onerror="document.title='hacked'">'"&\u202e{{7*7}}`;

const say = (text: string) => ({
  id: crypto.randomUUID(),
  role: "user" as const,
  parts: [{ type: "text" as const, text }],
});

export class ShopAgent extends DurableThink<Env> {
  static override readonly features = [
    operations(),
    deployments({ version: "2026.11.1" }),
    inbound(),
    limits({
      limits: [
        limit("supplier", { key: ({ metadata }) => metadata.supplier, requests: "5 per hour" }),
      ],
    }),
    ...(OTLP_URL ? [traces({ url: OTLP_URL, headers: "OTLP_HEADERS" })] : []),
  ];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, {
      maxPending: 20_000,
      retention: { maxCount: 1_000_000 },
      outbox: { allowPrivateAddresses: true },
    });
  }

  override getModel() {
    return new ScriptedModel(this.env.MODEL_HANGS ? { hangTimes: 1_000 } : undefined);
  }

  override getScheduledTasks() {
    const handler = () => {};
    return defineScheduledTasks({
      "night-shift": { schedule: "every day at 02:30 in Europe/Berlin", handler },
      digest: { schedule: "every weekday at 09:00 in America/New_York", handler },
      heartbeat: { schedule: "every 5 minutes", description: HOSTILE, handler },
      broken: {
        schedule: "every day at 04:00",
        timezone: "UTC",
        pauseOnFailure: true,
        retry: { maxAttempts: 1 },
        handler: () => {
          throw new Error("The supplier answered 503");
        },
      },
    });
  }

  /** Accepts submissions of each status; those that have ended end some seconds later. */
  async plant({ submissions = 20, deadLetters = 3 }: Planted): Promise<void> {
    const metadata = (n: number) => ({ user: n % 7, order: `o-${n}`, vip: n % 2 === 0 });
    await this.submitMany([
      ...Array.from({ length: submissions }, (_, n) => ({
        messages: [say(ask({ text: `Order ${n} is on its way` }))],
        options: { submissionId: `past-${n}`, thread: `customer-${n % 5}`, metadata: metadata(n) },
      })),
      {
        messages: [say(ask({ fail: "The model refused" }))],
        options: { submissionId: "failed", retry: { maxAttempts: 1 } },
      },
      {
        messages: [say(ask({ fail: HOSTILE }))],
        options: { submissionId: "hostile", thread: HOSTILE, metadata: { note: HOSTILE } },
      },
      {
        messages: [say(ask({ hangTimes: 1_000 }))],
        options: { submissionId: "hanging", thread: "hanging" },
      },
      {
        messages: [say(ask({ text: "after the one that hangs" }))],
        options: { submissionId: "queued", thread: "hanging" },
      },
      ...Array.from({ length: 5 }, (_, n) => ({
        messages: [say("later")],
        options: { submissionId: `later-${n}`, notBefore: Date.now() + HOUR },
      })),
      {
        messages: [say("never")],
        options: { submissionId: "cancelled", notBefore: Date.now() + HOUR },
      },
    ]);
    await this.cancelSubmission("cancelled");
    for (let n = 0; n < deadLetters; n++) {
      this.outbox.put(closed(String(n % 3), { maxAttempts: 1 }), { order: n });
    }
    this.outbox.put(closed("waits"), { order: HOSTILE });
    await this.schedules.pause("digest", HOSTILE);
    await this.limits.pause("supplier", HOSTILE, HOSTILE);
    await this.schedules.trigger("night-shift", { key: "first" });
    await this.schedules.trigger("broken", { key: "first" });
    for (const order of ["o-1", "o-2", HOSTILE]) {
      await this.runWorkflow("REFUND_WORKFLOW", { order });
    }
    await this.operations.operate({
      action: { do: "cancel", submissionId: "later-0" },
      by: "planter",
      reason: HOSTILE,
    });
  }

  /** As many submissions take minutes to run. They ended within the last day, in 1,000 threads. */
  fill(rows: number): void {
    this.ctx.storage.sql.exec(
      `WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?1)
       INSERT INTO perdure_submissions
         (submission_id, idempotency_key, thread, status, attempts, messages, metadata, created_at, started_at, settled_at)
       SELECT 'row-' || i, 'row-' || i, 'thread-' || (i % 1000), iif(i % 100 = 0, 'error', 'completed'), 1, '[]',
         '{"order":' || i || '}', ?2 + i * 800, ?2 + i * 800, ?2 + i * 800 + 500 FROM numbers`,
      rows,
      Date.now() - rows * 800,
    );
  }
}

export class RefundWorkflow extends ThinkWorkflow<ShopAgent, { order: string }> {
  override async run({ payload }: AgentWorkflowEvent<{ order: string }>, step: ThinkWorkflowStep) {
    await step.prompt("check", { prompt: ask({ text: `${payload.order} was paid` }) });
    const { approved } = await step.approval("refund", {
      title: `Refund ${payload.order}`,
      timeout: "1 day",
    });
    return { refunded: approved };
  }
}

/** A step of each kind that a trace has. */
export class OrderWorkflow extends ThinkWorkflow<ShopAgent> {
  override async run(_event: AgentWorkflowEvent, step: ThinkWorkflowStep) {
    await step.do("reserve", async () => 1);
    await step.prompt("check", { prompt: ask({ text: "It was paid" }) });
    await step.approval("ship", { timeout: "1 day" });
    await step.sleep("rest", 10);
    await step.do("send", async () => 1);
  }
}

const main = (env: Env) => getAgentByName<Env, ShopAgent>(env.ShopAgent, "main");

const hooks = webhooks(
  custom({
    name: "orders",
    path: "/orders",
    scheme: "token",
    secret: "ORDERS_TOKEN",
    header: "x-orders-token",
    id: "x-orders-id",
    type: "x-orders-type",
    agent: (_, env: Env) => main(env),
    events: ["paid", "refunded", "poison"],
    handle: async ({ id, type }, agent) => {
      if (type === "poison") throw new Error(`No order has the id ${id}`);
      await agent.submitMessages([say(ask({ text: `thanks for ${id}` }))], { thread: "orders" });
    },
  }),
);

/** A bearer token; or, for browsers, the cookie `operator`, as a login in front of the Worker sets it. */
function authorize(request: Request, env: Env): Identity | null {
  const bearer = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1];
  const cookie = /(?:^|; )operator=([^;]+)/.exec(request.headers.get("cookie") ?? "")?.[1];
  const token = bearer ?? cookie;
  if (token === env.ACT_TOKEN) return { id: "ada", can: "act" };
  if (token === env.READ_TOKEN) return { id: "rita", can: "read" };
  return null;
}

const operators = dashboard<Env>({
  agents: {
    Shop: { namespace: (env) => env.ShopAgent, names: ["main", "empty"] },
    Missing: {
      namespace: (env) => (env as never as { Missing: typeof env.ShopAgent }).Missing,
      names: ["main"],
    },
  },
  authorize,
});

async function plant(request: Request, env: Env, url: URL): Promise<Response> {
  const planted = (await request.json()) as Planted;
  const agent = await main(env);
  if (planted.rows) {
    await agent.fill(planted.rows);
    return Response.json({});
  }
  await agent.plant(planted);
  for (const [id, type] of [
    ["d-1", "paid"],
    ["d-2", "refunded"],
    ["d-3", "poison"],
    ["d-4", "unknown"],
  ] as const) {
    const headers = {
      "content-type": "application/json",
      "x-orders-token": env.ORDERS_TOKEN,
      "x-orders-id": id,
      "x-orders-type": type,
    };
    await hooks(
      new Request(new URL("/orders", url), { method: "POST", headers, body: '{"order":1}' }),
      env,
      { waitUntil() {} },
    );
  }
  return Response.json({});
}

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url);
    if (url.pathname === "/health") return Response.json({});
    if (url.pathname === "/ask" && request.method === "POST") {
      const agent = await main(env);
      const { messages, options } = (await request.json()) as Asked;
      return Response.json(await agent.submitMessages(messages.map(say), options));
    }
    if (url.pathname === "/order") {
      return Response.json(await (await main(env)).runWorkflow("ORDER_WORKFLOW", {}));
    }
    const isPlanter = request.headers.get("authorization") === `Bearer ${env.ACT_TOKEN}`;
    if (url.pathname === "/plant" && isPlanter) return plant(request, env, url);
    const answer = (await hooks(request, env, ctx)) ?? (await operators(request, env));
    return answer ?? new Response("Not found", { status: 404 });
  },
} satisfies ExportedHandler<Env>;
