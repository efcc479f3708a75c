/**
 * The HTTP routes: GitHub's webhooks, and the operator's routes behind a token.
 *
 *   POST /webhooks/github            one delivery; 200 once its workflow is started
 *   GET  /results?agent=owner/repo#1 the reports of these agents (the parameter repeats; &platform=1 also asks Workflows)
 *   GET  /perdure                    the dashboard, and its API
 *   GET  /health
 */

import { getAgentByName } from "agents";
import { dashboard } from "perdure/dashboard";
import { github, webhooks } from "perdure/webhooks";
import type { Env, TriageAgent } from "./agent.ts";
import { githubEvent } from "./github.ts";
import { isOperator, operators } from "./operators.ts";

export { TriageAgent } from "./agent.ts";
export { Directory } from "./directory.ts";
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

const operate = dashboard(operators);

export default {
  async fetch(request, env, ctx) {
    const answer = (await hooks(request, env, ctx)) ?? (await operate(request, env));
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
    return refuse(
      404,
      `There is no ${request.method} ${pathname}. GitHub posts to /webhooks/github.`,
    );
  },
} satisfies ExportedHandler<Env>;

function refuse(status: number, error: string): Response {
  return Response.json({ error }, { status });
}

function agentFor(env: Env, name: string): Promise<DurableObjectStub<TriageAgent>> {
  return getAgentByName<Env, TriageAgent>(env.TriageAgent, name);
}
