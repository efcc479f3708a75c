/** The agents of both halves of the app: one for each cell, which knows its cell by its name. */

import type { ToolSet } from "ai";
import { DurableAgent, durableTool } from "perdure/agent";
import { deployments } from "perdure/deploy";
import { inbound } from "perdure/inbound";
import { operations } from "perdure/operator";
import { defineScheduledTasks, schedules } from "perdure/scheduler";
import { z } from "zod";
import { bindingsOf, type Cell, type Code, cellOf, type Edit, idOf, kindOf } from "./cells.ts";
import { type DeskEnv, deskOf, passDesk } from "./desk.ts";
import { CellModel } from "./model.ts";

/** What the driver reads of an agent. */
export type Look = {
  /** Kinds of the waits that are open. */
  readonly waits: readonly string[];
  readonly submissions: Readonly<Record<string, number>>;
  readonly deadLetters: number;
};

/** What answers have for an amount: those to the old code, and those that obey the narrower schema of the new code. */
export const OLD = 5;
export const NEW = 1;

export const toolOf = (edit: Edit, code: Code): string =>
  edit === "rename-tool" && code === "new" ? "invoice" : "charge";

/** @param edit of its class */
export function agentOf(code: Code, edit: Edit = "none") {
  const toolName = toolOf(edit, code);
  return class CellAgent extends DurableAgent<DeskEnv & Cloudflare.Env> {
    static override readonly features = [
      deployments({ version: code }),
      operations(),
      inbound(),
      schedules(),
    ];

    get cell(): Cell {
      return cellOf(this.name);
    }

    override getModel() {
      const pass = () => passDesk(this.env, this.name, "model");
      return new CellModel(toolName, pass);
    }

    override getTools(): ToolSet {
      const charge = durableTool({
        name: toolName,
        description: "Charges the customer.",
        inputSchema: z.object({ what: z.string() }),
        execute: async ({ what }, { step }) => {
          if (this.cell.state === "tool") await passDesk(this.env, this.name, "tool");
          await step.do("charge", async () => {
            await deskOf(this.env).effect(this.name, what);
          });
          return "charged";
        },
      });
      return { [toolName]: charge };
    }

    override getScheduledTasks() {
      const handler = async () => {
        await passDesk(this.env, this.name, "task");
        await deskOf(this.env).effect(this.name, "task");
      };
      const task = { schedule: "every year on march 1 at 09:00 in Europe/Paris", handler } as const;
      const isRenamed = edit === "rename-task" && code === "new";
      return defineScheduledTasks(isRenamed ? { digest: task } : { report: task });
    }

    async begin(): Promise<void> {
      const { cell } = this;
      const { workflow, agent } = bindingsOf(cell, code);
      await deskOf(this.env).begin(kindOf(cell), this.name);
      if (cell.edit === "rename-task") await this.schedules.trigger("report", { key: "pending" });
      const id = idOf(cell);
      await this.runWorkflow(workflow as never, { cell }, { id, agentBinding: agent });
    }

    look(): Look {
      const all = <Row extends Record<string, SqlStorageValue>>(query: string) =>
        this.ctx.storage.sql.exec<Row>(query).toArray();
      const hasJobs = all("SELECT 1 FROM sqlite_master WHERE name = 'perdure_jobs'").length > 0;
      const query = `SELECT substr(module, 6) AS kind FROM perdure_jobs JOIN perdure_schema ON module LIKE 'kind:%' AND version = seq >> 44
         WHERE due_at IS NOT NULL`;
      const waits = hasJobs ? all<{ kind: string }>(query) : [];
      const submissions = all<{ status: string; count: number }>(
        "SELECT status, count(*) AS count FROM perdure_submissions GROUP BY status",
      );
      const dead = all<{ count: number }>(
        "SELECT count(*) AS count FROM perdure_outbox_ended WHERE state = 'dead'",
      );
      return {
        waits: waits.map(({ kind }) => kind),
        submissions: Object.fromEntries(submissions.map(({ status, count }) => [status, count])),
        deadLetters: dead[0]?.count ?? 0,
      };
    }

    /** Decides each open approval. A person who is asked again reads the new form. */
    async decide(): Promise<void> {
      const { items } = await this.approvals.list();
      for (const { approvalId } of items) {
        const times = await deskOf(this.env).effect(this.name, "decided");
        await this.approvals.grant(approvalId, { payload: { amount: times === 1 ? OLD : NEW } });
      }
    }

    /** The sender has no second event. */
    async receive(): Promise<void> {
      const body = { cell: this.name, amount: OLD };
      const sent = { source: "stripe", id: "evt_1", type: "paid", body, receivedAt: Date.now() };
      const arrival = { ...sent, bytes: JSON.stringify(body).length, hash: "0".repeat(64) };
      await this.callKernel("acceptArrival", { arrival });
    }
  };
}
