/**
 * The feed: every issues, issue_comment and pull_request payload of @octokit/webhooks-examples, as GitHub would post it.
 * Each is signed with a secret of the run. A delivery id is a hash of the payload, so a second post is a redelivery.
 */

import { createHash } from "node:crypto";
import examples from "@octokit/webhooks-examples" with { type: "json" };
import { sign } from "@octokit/webhooks-methods";
import type { Receipt } from "../src/triage.ts";

const EVENTS = ["issues", "issue_comment", "pull_request"];
const CONCURRENCY = 6;
const RETRY_DELAY_MS = 250;
const REQUEST_TIMEOUT_MS = 15_000;

export interface Delivery {
  id: string;
  event: string;
  agent: string;
  body: string;
  signature: string;
}

interface Payload {
  repository: { full_name: string };
  issue?: { number: number };
  pull_request?: { number: number };
}

export async function loadFeed(secret: string): Promise<Delivery[]> {
  const definitions = examples as unknown as { name: string; examples: Payload[] }[];
  const payloads = definitions
    .filter((definition) => EVENTS.includes(definition.name))
    .flatMap((definition) =>
      definition.examples.map((payload, index) => ({ event: definition.name, payload, index })),
    );
  return Promise.all(
    payloads.map(async ({ event, payload, index }) => {
      const body = JSON.stringify(payload);
      const number = payload.issue?.number ?? payload.pull_request?.number;
      return {
        id: deliveryId(`${event}:${index}:${body}`),
        event,
        agent: `${payload.repository.full_name}#${number}`,
        body,
        signature: await sign(secret, body),
      };
    }),
  );
}

export function agentsOf(feed: Delivery[]): string[] {
  return [...new Set(feed.map((delivery) => delivery.agent))];
}

export interface Posting {
  receipts: Receipt[];
  /** Posts that were repeated because the worker did not answer. */
  retries: number;
}

/**
 * Posts every delivery, a few at a time, in order. A post that fails because the runtime is down is repeated, like a
 * redelivery of GitHub. A refused post fails the run.
 */
export async function postFeed(
  feed: Delivery[],
  url: () => string,
  signal: AbortSignal,
  onReceipt: (receipt: Receipt) => void = () => undefined,
): Promise<Posting> {
  const posting: Posting = { receipts: [], retries: 0 };
  const queue = feed.values();
  const worker = async () => {
    for (const delivery of queue) {
      const receipt = await postUntilTaken(delivery, url, signal, () => posting.retries++);
      posting.receipts.push(receipt);
      onReceipt(receipt);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return posting;
}

async function postUntilTaken(
  delivery: Delivery,
  url: () => string,
  signal: AbortSignal,
  onRetry: () => void,
): Promise<Receipt> {
  for (;;) {
    signal.throwIfAborted();
    const response = await post(delivery, url(), signal).catch((error: unknown) => {
      signal.throwIfAborted();
      return error;
    });
    if (response instanceof Response) {
      const text = await response.text().catch(() => "");
      if (response.status === 202) return JSON.parse(text) as Receipt;
      if (response.status < 500)
        throw new Error(`Delivery ${delivery.id} was refused with ${response.status}: ${text}`);
    }
    onRetry();
    await delay(RETRY_DELAY_MS, signal);
  }
}

function post(delivery: Delivery, url: string, signal: AbortSignal): Promise<Response> {
  return fetch(`${url}/webhooks/github`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-GitHub-Event": delivery.event,
      "X-GitHub-Delivery": delivery.id,
      "X-Hub-Signature-256": delivery.signature,
    },
    body: delivery.body,
    signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
  });
}

/** In the shape of GitHub's own delivery ids. */
function deliveryId(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20, 32),
  ].join("-");
}

/** A pause between two attempts. It rejects early when the run ends. */
export function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}
