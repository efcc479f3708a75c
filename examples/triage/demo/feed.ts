/**
 * The feed: every issues, issue_comment and pull_request payload of @octokit/webhooks-examples, as GitHub would post it.
 * Each is signed with a secret of the run. A delivery id is a hash of the payload, so a second post is a redelivery.
 */

import { createHash } from "node:crypto";
import examples from "@octokit/webhooks-examples" with { type: "json" };
import { sign } from "@octokit/webhooks-methods";

const EVENTS = ["issues", "issue_comment", "pull_request"];

export interface Payload {
  action: string;
  repository: { full_name: string };
  issue?: { number: number };
  pull_request?: { number: number };
}

export type Delivery = ReturnType<typeof deliveryOf>;

/** GitHub's example payloads, with their events. */
export const payloads = (examples as unknown as { name: string; examples: Payload[] }[])
  .filter(({ name }) => EVENTS.includes(name))
  .flatMap(({ name, examples }) => examples.map((payload) => ({ event: name, payload })));

export function deliveryOf(event: string, payload: Payload, index = 0) {
  const body = JSON.stringify(payload);
  const id = createHash("sha256").update(`${event}:${index}:${body}`).digest("hex").slice(0, 32);
  const number = payload.issue?.number ?? payload.pull_request?.number;
  return {
    id,
    event,
    body,
    action: payload.action,
    agent: `${payload.repository.full_name}#${number}`,
  };
}

export function loadFeed(): Delivery[] {
  return payloads.map(({ event, payload }, index) => deliveryOf(event, payload, index));
}

/** A request as GitHub sends it. */
export async function requestOf(delivery: Delivery, secret: string) {
  return {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-GitHub-Event": delivery.event,
      "X-GitHub-Delivery": delivery.id,
      "X-Hub-Signature-256": await sign(secret, delivery.body),
    },
    body: delivery.body,
  };
}
