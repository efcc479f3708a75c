/**
 * The HTTP routes: GitHub's webhooks, and the operator's routes behind a token.
 *
 *   POST /webhooks/github            one delivery; 200 once its workflow is started
 *   GET  /results?agent=owner/repo#1 the reports of these agents (the parameter repeats; &platform=1 also asks Workflows)
 *   POST /approve                    { agent, approvalId, by }
 *   GET  /health
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { getAgentByName } from "agents";
import { github, webhooks } from "perdure/webhooks";
import { z } from "zod";
import type { Env, TriageAgent } from "./agent.ts";
import { githubEvent } from "./github.ts";

export { TriageAgent } from "./agent.ts";
export { TriageWorkflow } from "./workflow.ts";

const hooks = webhooks(
  github({
    path: "/webhooks/github",
    secret: "WEBHOOK_SECRET",
    events: ["issues", "issue_comment", "pull_request"],
    schema: githubEvent,
    agent: ({ body }, env: Env) => agentFor(env, `${body.repository}#${body.number}`),
    handle: ({ id, type, body }, agent) =>
      agent.runWorkflow("TRIAGE_WORKFLOW", { delivery: id, event: type, ...body }),
  }),
);

const operatorInput = z.object({
  agent: z.string(),
  approvalId: z.string().default(""),
  by: z.string().min(1).max(100).default("operator"),
});

export default {
  async fetch(request, env, ctx) {
    const answer = await hooks(request, env, ctx);
    if (answer) return answer;
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/health") return Response.json({ ok: true });
    if (!isOperator(request, env))
      return refuse(401, "Send `Authorization: Bearer <ADMIN_TOKEN>`.");
    if (request.method === "GET" && pathname === "/results") {
      const platform = searchParams.get("platform") === "1";
      const agents = searchParams.getAll("agent").map((name) => agentFor(env, name));
      const reports = agents.map(async (agent) => (await agent).report({ platform }));
      return Response.json(await Promise.all(reports));
    }
    if (request.method === "POST" && pathname === "/approve") {
      const input = operatorInput.safeParse(await request.json().catch(() => undefined));
      if (!input.success) return refuse(400, z.prettifyError(input.error));
      const agent = await agentFor(env, input.data.agent);
      const { approvalId, by } = input.data;
      return Response.json({ outcome: (await agent.grantApproval(approvalId, { by })).outcome });
    }
    return refuse(
      404,
      `There is no ${request.method} ${pathname}. GitHub posts to /webhooks/github.`,
    );
  },
} satisfies ExportedHandler<Env>;

/** Compares hashes, so that the comparison takes constant time. */
function isOperator(request: Request, { ADMIN_TOKEN }: Env): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  const given = request.headers.get("Authorization") ?? "";
  return !!ADMIN_TOKEN && timingSafeEqual(hash(given), hash(`Bearer ${ADMIN_TOKEN}`));
}

function refuse(status: number, error: string): Response {
  return Response.json({ error }, { status });
}

function agentFor(env: Env, name: string): Promise<DurableObjectStub<TriageAgent>> {
  return getAgentByName<Env, TriageAgent>(env.TriageAgent, name);
}
