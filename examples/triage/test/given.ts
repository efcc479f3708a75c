/** Helpers of the tests: deliveries as GitHub posts them, calls of the operator, and reads of the storage. */

import { listDurableObjectIds } from "cloudflare:test";
import { env as bindings, exports } from "cloudflare:workers";
import { vi } from "vitest";
import { type Delivery, deliveryOf, payloads, requestOf } from "../demo/feed.ts";
import type { AgentReport, Env } from "../src/agent.ts";
// Loading Think takes seconds. Loaded here, they do not count for any test.
import "../src/worker.ts";

export const env = bindings as Env;
const worker = (exports as unknown as { default: Fetcher }).default;

/** GitHub's example payload for this event and action, with a unique repository. `fields` change it. */
export function givenDelivery(event = "issues", action = "opened", fields = {}): Delivery {
  const example = payloads.find((one) => one.event === event && one.payload.action === action);
  if (!example) throw new Error(`No example payload of ${event}.${action}`);
  const repository = { full_name: `perdure/${crypto.randomUUID()}` };
  return deliveryOf(event, { ...example.payload, repository, ...fields });
}

export async function post(delivery: Delivery, secret = env.WEBHOOK_SECRET ?? "") {
  return send("/webhooks/github", await requestOf(delivery, secret));
}

export async function send(path: string, init?: RequestInit) {
  const response = await worker.fetch(`https://triage.test${path}`, init);
  return { status: response.status, body: await response.json() };
}

/** A call of the operator: GET without a body, POST with one. */
export function operate(path: string, body?: object) {
  const headers = {
    Authorization: `Bearer ${env.ADMIN_TOKEN}`,
    "Content-Type": "application/json",
  };
  return send(path, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
}

export async function report(agent: string): Promise<AgentReport> {
  const { body } = await operate(`/results?${new URLSearchParams({ agent, platform: "1" })}`);
  return (body as [AgentReport])[0];
}

/** The agent's report when all of its deliveries have this status. */
export function reportWhen({ agent }: Delivery, status: string): Promise<AgentReport> {
  const read = async () => {
    const found = await report(agent);
    const isThere = found.deliveries.every(
      (row) => row.status === status && (status === "waiting" || row.platformStatus === status),
    );
    if (isThere && found.deliveries.length > 0) return found;
    throw new Error(`The deliveries are ${JSON.stringify(found.deliveries)}`);
  };
  return vi.waitFor(read, { timeout: 60_000, interval: 50 });
}

/** The ids of all agents. Each stores something at its first call. */
export async function agentsStored(): Promise<string[]> {
  return (await listDurableObjectIds(env.TriageAgent)).map(String).sort();
}
