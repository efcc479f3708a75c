/** The triage Worker with a shop agent beside it, in which the demo plants faults for operators to find. */

import { getAgentByName } from "agents";
import type { AgentWorkflowEvent } from "agents/workflows";
import { dashboard } from "perdure/dashboard";
import { operations } from "perdure/operator";
import { queue, webhook } from "perdure/outbox";
import { ask, ScriptedModel } from "perdure/testing";
import { DurableThink, defineScheduledTasks } from "perdure/think";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import type { Env as TriageEnv } from "../../src/agent.ts";
import { operators } from "../../src/operators.ts";
import triage from "../../src/worker.ts";

export { Directory, TriageAgent, TriageWorkflow } from "../../src/worker.ts";

interface Env extends TriageEnv {
  ShopAgent: DurableObjectNamespace<ShopAgent>;
  REFUND_WORKFLOW: Workflow;
  /** Of the shop's receiver, which the demo runs. */
  RECEIVER_URL: string;
  RECEIVER_SECRET: string;
  /** The step's name, which a deploy changes. */
  REFUND_STEP: string;
  /** `over-quota` answers 429. */
  SHOP_MODEL: string;
}

const text = (words: string) => ({
  id: crypto.randomUUID(),
  role: "user" as const,
  parts: [{ type: "text" as const, text: words }],
});

export class ShopAgent extends DurableThink<Env> {
  static override readonly features = [operations()];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { maxPending: 350, outbox: { allowPrivateAddresses: true } });
  }

  override getModel() {
    const quota = { fail: "You exceeded your quota", status: 429, headers: { "retry-after": "2" } };
    return new ScriptedModel(this.env.SHOP_MODEL === "over-quota" ? quota : undefined);
  }

  override getScheduledTasks() {
    return defineScheduledTasks({
      "price-list": {
        schedule: "every day at 04:00 in Europe/Berlin",
        description: "Reads the supplier's price list",
        pauseOnFailure: true,
        retry: { maxAttempts: 1 },
        handler: ({ cause }) => {
          // The supplier had no list yet when the demo planted the fault.
          if (cause === "trigger" && this.#failsOnce())
            throw new Error("The supplier answered 503");
        },
      },
    });
  }

  #failsOnce(): boolean {
    this.sql`CREATE TABLE IF NOT EXISTS failed (id INTEGER PRIMARY KEY)`;
    const known = this.sql`SELECT 1 FROM failed`;
    this.sql`INSERT OR IGNORE INTO failed VALUES (1)`;
    return known.length === 0;
  }

  async plant(fault: string): Promise<void> {
    const receiver = (path: string) =>
      webhook(`${this.env.RECEIVER_URL}/${path}`, { secret: "RECEIVER_SECRET" });
    const orders = ["o-1001", "o-1002", "o-1003"];
    switch (fault) {
      case "dead-endpoint":
        for (const order of orders) this.outbox.put(receiver("orders"), { order });
        break;
      case "wrong-secret":
        for (const order of orders) this.outbox.put(receiver("signed"), { order });
        break;
      case "poison-delivery":
        this.outbox.put(receiver("invoices"), { invoice: "i-77", total: "NaN" });
        break;
      case "missing-binding":
        // It ends after the deploy that has lost the binding.
        await this.submitMessages([text(ask({ delayMs: 6_000 }))], {
          notify: queue("AUDIT_QUEUE"),
        });
        break;
      case "stuck-approval":
      case "renamed-step":
        await this.runWorkflow("REFUND_WORKFLOW", { order: orders[0] }, { id: "refund-o-1001" });
        break;
      case "paused-schedule":
        await this.schedules.trigger("price-list", { key: "first" });
        break;
      case "model-429":
        for (const order of orders) {
          await this.submitMessages([text(`Summarise order ${order}`)], {
            thread: order,
            retry: { maxAttempts: 3 },
          });
        }
        break;
      case "hanging-turn":
        await this.submitMessages([text(ask({ hangTimes: 1 }))], { thread: "support-ada" });
        break;
      case "backlog":
        await this.submitMany([
          { messages: [text(ask({ delayMs: 30_000 }))], options: { thread: "import" } },
          ...Array.from({ length: 330 }, (_, n) => ({
            messages: [text(ask({ id: `row ${n}`, delayMs: 30_000 }))],
            options: { thread: "import", metadata: { import: "2026-11" } },
          })),
        ]);
        break;
      default:
        throw new Error(`Unknown fault ${fault}`);
    }
  }
}

export class RefundWorkflow extends ThinkWorkflow<ShopAgent, { order: string }> {
  override async run({ payload }: AgentWorkflowEvent<{ order: string }>, step: ThinkWorkflowStep) {
    const { REFUND_STEP } = this.env as unknown as Env;
    const title = `Refund order ${payload.order}`;
    const { approved } = await step.approval(REFUND_STEP, { title, timeout: "30 minutes" });
    await step.reportComplete({ refunded: approved });
    return { refunded: approved };
  }
}

const operate = dashboard<Env>({
  ...operators,
  agents: {
    ...operators.agents,
    ShopAgent: { namespace: (env: Env) => env.ShopAgent, names: ["main"] },
  },
});

export default {
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    const isAdmin = request.headers.get("Authorization") === `Bearer ${env.ADMIN_TOKEN}`;
    if (pathname === "/plant" && isAdmin) {
      await (await getAgentByName(env.ShopAgent, "main")).plant(searchParams.get("fault") ?? "");
      return Response.json({});
    }
    return (await operate(request, env)) ?? triage.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;
