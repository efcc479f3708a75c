/** Helpers of the tests: deliveries as GitHub posts them, calls of the operator, and reads of the storage. */

import { listDurableObjectIds } from "cloudflare:test";
import { env as bindings, exports } from "cloudflare:workers";
import examples from "@octokit/webhooks-examples" with { type: "json" };
import { sign } from "@octokit/webhooks-methods";
import { vi } from "vitest";
import type { Env } from "../src/env.ts";
import type { AgentReport, DeliveryReport, DeliveryStatus, Receipt } from "../src/triage.ts";
// Loading Think takes seconds. Loaded here, they do not count for any test.
import "../src/worker.ts";

export const env = bindings as Env;
const worker = (exports as unknown as { default: Fetcher }).default;

export interface Payload {
  action: string;
  repository: { full_name: string };
  issue?: Record<string, unknown>;
  pull_request?: Record<string, unknown>;
  comment?: Record<string, unknown>;
}

/** Every payload of the demo's feed, with its event. */
export const feed: { event: string; payload: Payload }[] = (
  examples as unknown as { name: string; examples: Payload[] }[]
)
  .filter(({ name }) => ["issues", "issue_comment", "pull_request"].includes(name))
  .flatMap(({ name, examples }) => examples.map((payload) => ({ event: name, payload })));

export interface Delivery {
  id: string;
  event: string;
  agent: string;
  body: string;
}

/** GitHub's example payload for this event and action, with a unique repository. */
export function givenDelivery(event = "issues", action = "opened"): Delivery {
  const example = feed.find((one) => one.event === event && one.payload.action === action);
  if (!example) throw new Error(`No example payload of ${event}.${action}`);
  const repository = `perdure/${crypto.randomUUID()}`;
  const payload = { ...example.payload, repository: { full_name: repository } };
  const { number } = (payload.issue ?? payload.pull_request) as { number: number };
  return {
    id: crypto.randomUUID(),
    event,
    agent: `${repository}#${number}`,
    body: JSON.stringify(payload),
  };
}

/** The payload with changed fields. A field that is undefined is removed. */
export function changed(delivery: Delivery, fields: Record<string, unknown>): Delivery {
  return { ...delivery, body: JSON.stringify({ ...JSON.parse(delivery.body), ...fields }) };
}

export interface Answer<Body> {
  status: number;
  body: Body;
}

export interface Refusal {
  error: string;
}

/** Posts a signed delivery. `headers` adds headers, or removes them with undefined. */
export async function post<Body = Receipt>(
  delivery: Delivery,
  headers: Record<string, string | undefined> = {},
): Promise<Answer<Body>> {
  const sent = {
    "Content-Type": "application/json",
    "X-GitHub-Event": delivery.event,
    "X-GitHub-Delivery": delivery.id,
    "X-Hub-Signature-256": await signatureOf(delivery.body),
    ...headers,
  };
  return send("/webhooks/github", {
    method: "POST",
    headers: Object.entries(sent).filter((header): header is [string, string] => !!header[1]),
    body: delivery.body,
  });
}

export async function signatureOf(body: string, secret = env.WEBHOOK_SECRET): Promise<string> {
  // The library cannot sign an empty body.
  return sign(secret ?? "", body || " ");
}

export async function send<Body = Refusal>(
  path: string,
  init?: RequestInit,
): Promise<Answer<Body>> {
  const response = await worker.fetch(`https://triage.test${path}`, init);
  return { status: response.status, body: (await response.json()) as Body };
}

/** A call of the operator: GET without a body, POST with one. */
export function operate<Body>(path: string, body?: unknown): Promise<Answer<Body>> {
  return send(path, {
    method: body === undefined ? "GET" : "POST",
    headers: { Authorization: `Bearer ${env.ADMIN_TOKEN}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

export async function approve({ agent, id }: Delivery, approvedBy = "ann"): Promise<boolean> {
  const call = { agent, delivery: id, approvedBy };
  return (await operate<{ approved: boolean }>("/approve", call)).body.approved;
}

export async function report(agent: string): Promise<AgentReport> {
  const query = new URLSearchParams({ agent, platform: "1" });
  const { body } = await operate<{ agents: [AgentReport] }>(`/results?${query}`);
  return body.agents[0];
}

/** The agent's report when a delivery has this status. Its workflow must have ended on the platform, too. */
export function reportWhen(delivery: Delivery, status: DeliveryStatus): Promise<AgentReport> {
  return vi.waitFor(
    async () => {
      const found = await report(delivery.agent);
      const row = rowOf(found, delivery);
      const agreed = status === "waiting" || row?.platformStatus === status;
      if (row?.status === status && agreed) return found;
      throw new Error(`The delivery is ${row?.status}, and ${row?.platformStatus} on the platform`);
    },
    { timeout: 20_000, interval: 50 },
  );
}

export function rowOf(found: AgentReport, { id }: Delivery): DeliveryReport | undefined {
  return found.deliveries.find((row) => row.delivery === id);
}

export function agentOf({ agent }: Delivery) {
  return env.TriageAgent.getByName(agent);
}

/** The ids of all agents. Each stores something at its first call. */
export async function agentsStored(): Promise<string[]> {
  return (await listDurableObjectIds(env.TriageAgent)).map(String).sort();
}
