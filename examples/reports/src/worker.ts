/**
 * A plain Durable Object that writes a report every night, with an offline model. The routes are for local use: they do not
 * authenticate users.
 *
 *   POST /nightly/<key>    runs the nightly task now, once for each key
 *   GET  /reports          returns the reports
 *   GET  /health
 */

import { DurableObject, type WorkflowEvent } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type DurableVerbs, durable } from "perdure/object";
import { defineScheduledTasks, schedules } from "perdure/scheduler";
import { ScriptedModel } from "perdure/testing";
import { capabilitiesOf } from "perdure/think";
import { DurableWorkflow, type DurableWorkflowStep } from "perdure/workflow";

interface Env extends Cloudflare.Env {
  REPORTS: DurableObjectNamespace<Reports>;
  REPORT_WORKFLOW: Workflow;
}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class Reports extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    // It follows a script: it thinks for two seconds, and answers.
    model: new ScriptedModel({ delayMs: 2_000, text: "All orders were shipped." }),
    instructions: "You write short reports.",
    features: [schedules({ tasks: () => this.tasks() })],
  });

  private tasks() {
    return defineScheduledTasks({
      nightly: {
        schedule: "every day at 02:00 in Europe/Paris",
        handler: ({ idempotencyKey: id }) =>
          this.durable.runWorkflow("REPORT_WORKFLOW", {}, { id, ifExists: "return" }),
      },
    });
  }

  /** Called by the workflow, maybe again after a crash: the workflow's id is the key. */
  save(id: string, text: string) {
    this.ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS reports (id TEXT PRIMARY KEY, text TEXT)",
    );
    this.ctx.storage.sql.exec("INSERT OR IGNORE INTO reports VALUES (?, ?)", id, text);
  }

  reports() {
    this.ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS reports (id TEXT PRIMARY KEY, text TEXT)",
    );
    return this.ctx.storage.sql.exec<{ text: string }>("SELECT text FROM reports").toArray();
  }
}
export interface Reports extends DurableVerbs {}

export class ReportWorkflow extends DurableWorkflow<Reports> {
  override async run({ instanceId }: WorkflowEvent<unknown>, step: DurableWorkflowStep) {
    const text = await step.prompt("write", { prompt: "Write the report of today." });
    await step.do("save", async () => {
      await this.agent.save(instanceId, text);
    });
  }
}

export default {
  async fetch(request, env) {
    const [what = "", key = ""] = new URL(request.url).pathname.slice(1).split("/");
    if (what === "health") return Response.json({ ok: true });
    const reports = env.REPORTS.getByName("main");
    if (what === "reports") return Response.json(await reports.reports());
    if (what !== "nightly" || key === "") return new Response("Not found", { status: 404 });
    await capabilitiesOf(reports).schedules.trigger("nightly", { key });
    return Response.json({ triggered: key });
  },
} satisfies ExportedHandler<Env>;
