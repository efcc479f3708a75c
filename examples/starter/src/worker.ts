import { createOpenAI } from "@ai-sdk/openai";
import { getAgentByName } from "agents";
import type { AgentWorkflowEvent } from "agents/workflows";
import { ScriptedModel } from "perdure/testing";
import { DurableThink } from "perdure/think";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";

interface Env extends Cloudflare.Env {
  SupportAgent: DurableObjectNamespace<SupportAgent>;
  TICKET_WORKFLOW: Workflow;
  OPENAI_API_KEY?: string; // from .dev.vars, or `wrangler secret put`
}

const triage = z.object({ title: z.string(), priority: z.enum(["low", "normal", "high"]) });
type Ticket = { id: string; text: string };

export class SupportAgent extends DurableThink<Env> {
  override getModel() {
    const apiKey = this.env.OPENAI_API_KEY;
    if (apiKey) return createOpenAI({ apiKey })("gpt-4o-mini");
    return new ScriptedModel({ answer: { title: "Printer on fire", priority: "high" } });
  }

  override onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS tickets (id TEXT PRIMARY KEY, title TEXT, priority TEXT)`;
  }

  // A repeated request with the same id does not start a second workflow.
  open(ticket: Ticket) {
    return this.runWorkflow("TICKET_WORKFLOW", ticket, { id: ticket.id, ifExists: "return" });
  }

  save(id: string, { title, priority }: z.infer<typeof triage>) {
    this.sql`INSERT OR REPLACE INTO tickets VALUES (${id}, ${title}, ${priority})`;
  }

  tickets() {
    return this.sql<{ id: string; title: string; priority: string }>`SELECT * FROM tickets`;
  }
}

export class TicketWorkflow extends ThinkWorkflow<SupportAgent, Ticket> {
  override async run({ payload }: AgentWorkflowEvent<Ticket>, step: ThinkWorkflowStep) {
    const result = await step.prompt("triage", {
      prompt: `Triage this support ticket: ${payload.text}`,
      output: triage, // result is { title: string; priority: "low" | "normal" | "high" }
      timeout: "1 hour",
    });
    await step.do("save", () => this.agent.save(payload.id, result));
  }
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname !== "/tickets") return new Response("Not found", { status: 404 });
    const agent = await getAgentByName(env.SupportAgent, "main");
    if (request.method === "GET") return Response.json(await agent.tickets());
    const id = request.headers.get("Idempotency-Key") ?? crypto.randomUUID();
    await agent.open({ id, text: await request.text() });
    return Response.json({ id }, { status: 202 });
  },
} satisfies ExportedHandler<Env>;
