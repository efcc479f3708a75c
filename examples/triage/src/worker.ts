/**
 * The HTTP routes: GitHub's webhooks, and the operator's routes behind a token. It validates a request and calls the agent of
 * the issue or pull request. It stores nothing itself, so a refused request leaves nothing behind.
 *
 *   POST /webhooks/github            one delivery; 202 once its workflow is started
 *   GET  /results?agent=owner/repo#1 the reports of these agents (the parameter repeats; &platform=1 also asks Workflows)
 *   POST /approve                    { agent, delivery, approvedBy }
 *   POST /wake                       { agent }: local development only, see TriageAgent.wakeWorkflows()
 *   GET  /health
 */

import { verify } from "@octokit/webhooks-methods";
import { getAgentByName } from "agents";
import { z } from "zod";
import type { TriageAgent } from "./agent.ts";
import type { Env } from "./env.ts";
import { assertSupported, parsePayload, readHeaders } from "./github.ts";
import { HttpError, json, parseJson, readBody, requireMethod, requireToken } from "./http.ts";
import { agentNameFor } from "./triage.ts";

export { TriageAgent } from "./agent.ts";
export { TriageWorkflow } from "./workflow.ts";

const MAX_BODY_BYTES = 1024 * 1024;
const SIGNATURE = /^sha256=[0-9a-f]{64}$/i;

export default {
  async fetch(request, env) {
    try {
      return await route(request, env);
    } catch (error) {
      if (error instanceof HttpError) return json({ error: error.message }, error.status);
      console.error(error);
      return json(
        {
          error:
            "The request failed inside the worker; its log has the reason. It is safe to send it again.",
        },
        500,
      );
    }
  },
} satisfies ExportedHandler<Env>;

async function route(request: Request, env: Env): Promise<Response> {
  const url = new URL(request.url);
  switch (url.pathname) {
    case "/webhooks/github":
      return receive(request, env);
    case "/results":
      return results(request, env, url);
    case "/approve":
      return approve(request, env);
    case "/wake":
      return wake(request, env);
    case "/health":
      return json({ ok: true });
    default:
      throw new HttpError(
        404,
        `There is nothing at ${url.pathname}. Webhooks go to POST /webhooks/github.`,
      );
  }
}

/** Verifies the signature of the raw body before it parses any of it. */
async function receive(request: Request, env: Env): Promise<Response> {
  requireMethod(request, "POST");
  const body = await readBody(request, MAX_BODY_BYTES);
  await requireSignature(request, env, body);
  const payload = parseJson(body);
  const { event, delivery } = readHeaders(request.headers);
  // GitHub sends a ping when a webhook is created.
  if (event === "ping") return json({ ok: true });
  assertSupported(event);
  const triageEvent = parsePayload(delivery, event, payload);
  const agent = await agentFor(env, agentNameFor(triageEvent));
  return json(await agent.receiveDelivery(triageEvent), 202);
}

async function requireSignature(request: Request, env: Env, body: string): Promise<void> {
  if (!env.WEBHOOK_SECRET)
    throw new HttpError(503, "Deliveries are refused: the worker has no WEBHOOK_SECRET.");
  const signature = request.headers.get("X-Hub-Signature-256");
  if (!signature)
    throw new HttpError(
      401,
      "The header X-Hub-Signature-256 is missing. Set a secret at the webhook.",
    );
  const valid =
    SIGNATURE.test(signature) && body !== "" && (await verify(env.WEBHOOK_SECRET, body, signature));
  if (!valid)
    throw new HttpError(401, "The signature in X-Hub-Signature-256 does not match the body.");
}

async function results(request: Request, env: Env, url: URL): Promise<Response> {
  requireMethod(request, "GET");
  await requireToken(request, env.ADMIN_TOKEN);
  const names = url.searchParams.getAll("agent");
  if (names.length === 0 || names.length > 50) {
    throw new HttpError(400, "Name 1 to 50 agents, each as agent=owner/repo%23number.");
  }
  const platform = url.searchParams.get("platform") === "1";
  const reports = names.map(async (name) => (await agentFor(env, name)).report({ platform }));
  return json({ agents: await Promise.all(reports) });
}

const approvalSchema = z.object({
  agent: z.string(),
  delivery: z.string(),
  approvedBy: z.string().min(1).max(100),
});

async function approve(request: Request, env: Env): Promise<Response> {
  const { agent, delivery, approvedBy } = await operatorInput(request, env, approvalSchema);
  return json({
    approved: await (await agentFor(env, agent)).approveDelivery(delivery, approvedBy),
  });
}

async function wake(request: Request, env: Env): Promise<Response> {
  const { agent } = await operatorInput(request, env, z.object({ agent: z.string() }));
  return json({ woken: await (await agentFor(env, agent)).wakeWorkflows() });
}

async function operatorInput<T>(request: Request, env: Env, schema: z.ZodType<T>): Promise<T> {
  requireMethod(request, "POST");
  await requireToken(request, env.ADMIN_TOKEN);
  const parsed = schema.safeParse(parseJson(await readBody(request, MAX_BODY_BYTES)));
  if (!parsed.success) throw new HttpError(400, z.prettifyError(parsed.error));
  return parsed.data;
}

function agentFor(env: Env, name: string): Promise<DurableObjectStub<TriageAgent>> {
  return getAgentByName<Env, TriageAgent>(env.TriageAgent, name);
}
