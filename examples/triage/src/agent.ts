/** One agent for each issue or pull request. It answers the workflows' prompts, and stores labels and the counts of the proof. */

import { inbound } from "perdure/inbound";
import { operations } from "perdure/operator";
import { agent } from "perdure/outbox";
import { DurableThink } from "perdure/think";
import type { Directory } from "./directory.ts";
import { countedModel, modelFor } from "./models.ts";
import { SYSTEM_PROMPT, type Triage } from "./triage.ts";

/** The bindings of wrangler.jsonc, and secrets that are set outside of it. */
export interface Env extends Cloudflare.Env {
  TriageAgent: DurableObjectNamespace<TriageAgent>;
  Directory: DurableObjectNamespace<Directory>;
  TRIAGE_WORKFLOW: Workflow;
  /** `offline-rules`, `openai/<model>` or `anthropic/<model>`. */
  MODEL?: string;
  /** The secret that GitHub signs its deliveries with. Without it every delivery is refused. */
  WEBHOOK_SECRET?: string;
  /** The bearer token of operators. Without it, they are refused. */
  ADMIN_TOKEN?: string;
  /** Opens the dashboard to everybody on this machine: set by `npm run demo -- --open`. */
  OPEN_DASHBOARD?: string;
  OPENAI_API_KEY?: string;
  ANTHROPIC_API_KEY?: string;
}

export type AgentReport = Awaited<ReturnType<TriageAgent["report"]>>;
export type DeliveryReport = AgentReport["deliveries"][number];

type Counts = { calls: number; answers: number; labelRequests: number; triage: string };
const NO_COUNTS: Counts = { calls: 0, answers: 0, labelRequests: 0, triage: "null" };

export class TriageAgent extends DurableThink<Env> {
  static override readonly features = [operations(), inbound()];
  /** The model calls that are streaming: their deliveries, and when they began. */
  readonly #calls = new Map<string, number>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    // Never deleted: the labels of a delivery are written once.
    this.sql`CREATE TABLE IF NOT EXISTS triage_proof (
      delivery TEXT PRIMARY KEY, calls INTEGER NOT NULL DEFAULT 0, answers INTEGER NOT NULL DEFAULT 0,
      labelRequests INTEGER NOT NULL DEFAULT 0, triage TEXT NOT NULL DEFAULT 'null') WITHOUT ROWID`;
  }

  override onStart() {
    // At each start. The directory ignores a name that it has.
    const directory = agent({ agent: "Directory", name: "all", method: "add" });
    this.outbox.put(directory, { name: this.name }, { id: "directory" });
  }

  override getModel() {
    return countedModel(modelFor(this.env), {
      started: (delivery) => {
        this.#calls.set(delivery, Date.now());
        this.sql`INSERT INTO triage_proof (delivery, calls) VALUES (${delivery}, 1)
          ON CONFLICT DO UPDATE SET calls = calls + 1`;
      },
      answered: (delivery) => {
        this.#calls.delete(delivery);
        this.sql`UPDATE triage_proof SET answers = answers + 1 WHERE delivery = ${delivery}`;
      },
    });
  }

  override getSystemPrompt() {
    return SYSTEM_PROMPT;
  }

  /** Writes the labels at the first call, and counts every call. */
  applyLabels(delivery: string, triage: Triage): void {
    this.sql`UPDATE triage_proof SET labelRequests = labelRequests + 1,
      triage = CASE triage WHEN 'null' THEN ${JSON.stringify(triage)} ELSE triage END WHERE delivery = ${delivery}`;
  }

  /** What has become of each delivery. `platform` also asks Workflows itself. */
  async report({ platform }: { platform: boolean }) {
    const { items: approvals } = await this.approvals.list({
      status: ["pending", "approved"],
      limit: 100,
    });
    const rows = (await this.#started()).map(async ({ delivery, workflowId }) => {
      const [row] = this.sql<Counts>`SELECT * FROM triage_proof WHERE delivery = ${delivery}`;
      const tracked = this.getWorkflow(workflowId);
      const approval = approvals.find(({ workflow }) => workflow.id === workflowId);
      return {
        delivery,
        workflowId,
        status: approval?.status === "pending" ? "waiting" : (tracked?.status ?? "queued"),
        platformStatus: platform ? await this.#statusOf(workflowId) : undefined,
        error: tracked?.error?.message,
        approval,
        ...(row ?? NO_COUNTS),
        /** Null until its labels are written. */
        triage: JSON.parse((row ?? NO_COUNTS).triage) as Triage | null,
      };
    });
    return {
      agent: this.name,
      workflows: this.getWorkflows({ limit: 1 }).total,
      /** Of the model calls that are streaming, in milliseconds. */
      callAges: [...this.#calls.values()].map((since) => Date.now() - since),
      deliveries: await Promise.all(rows),
    };
  }

  /** The deliveries of the log, each with the workflow that it started. */
  async #started() {
    const { items } = await this.inbound.list({ verdict: "accepted", limit: 100 });
    return items.flatMap(({ id: delivery, calls: [call] }) =>
      call?.kind === "workflow" ? { delivery, workflowId: call.workflowId } : [],
    );
  }

  async #statusOf(workflowId: string): Promise<string> {
    try {
      return (await this.getWorkflowStatus("TRIAGE_WORKFLOW", workflowId)).status;
    } catch (error) {
      if (String(error).includes("not_found")) return "unknown";
      throw error;
    }
  }
}
