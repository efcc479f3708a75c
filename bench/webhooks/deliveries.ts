/** The deliveries of the soak: a plan from a seed, and each sender's signature. */

import { createHmac } from "node:crypto";
import { between, oneOf, type Random } from "../../test/acceptance/soak/random.ts";

export const SOURCES = ["github", "stripe", "standard-webhooks"] as const;
/** What a handler calls: one or two methods of the agent, or none. */
const KINDS = ["submit", "workflow", "sync", "async", "two", "none"] as const;
/** When a delivery is sent again: at the same time over other connections, after the next kill, or after all others, in order. */
const AGAIN = ["together", "after a kill", "later"] as const;
/** Of the Worker's endpoints. */
export const MAX_BYTES = 65_536;

export type Kind = (typeof KINDS)[number];
export type Again = (typeof AGAIN)[number];

export type Body = {
  readonly kind: Kind;
  /** The agent's name. */
  readonly agent: string;
  readonly delayMs: number;
};

export type Delivery = Body & {
  readonly source: (typeof SOURCES)[number];
  readonly id: string;
  readonly again: readonly Again[];
};

/** The state of an agent, by its public verbs. */
export type Look = {
  readonly agent: string;
  readonly log: readonly {
    source: string;
    id: string;
    verdict: string;
    duplicates: number;
    /** Why its handler has not ended. */
    error: string | null;
  }[];
  readonly effects: readonly { delivery: string; what: string; times: number }[];
  readonly submissions: readonly { delivery: string; status: string }[];
  readonly workflows: readonly string[];
  /** Entries of the outbox. */
  readonly waiting: number;
  readonly deadLetters: readonly { id: string; error: string }[];
};

const SMALL_AGENT = "small";
/** The share of deliveries for an agent that has little room. */
const FOR_SMALL = 0.05;

/** Whether the agent of this name has little room. */
export function isSmall(agent: string | undefined): boolean {
  return agent === SMALL_AGENT;
}

export function agentsOf(count: number): string[] {
  return [SMALL_AGENT, ...Array.from({ length: count }, (_, index) => `agent-${index}`)];
}

/** Half of so many deliveries are duplicates. */
export function planOf(random: Random, count: number, agents: readonly string[]): Delivery[] {
  const unique = Math.ceil(count / 2);
  const again = Array.from({ length: unique }, (): Again[] => []);
  for (let copy = unique; copy < count; copy++) oneOf(random, again).push(oneOf(random, AGAIN));
  const [small = SMALL_AGENT, ...others] = agents;
  return again.map((times, index): Delivery => {
    const isForSmall = random() < FOR_SMALL;
    return {
      source: oneOf(random, SOURCES),
      id: `delivery-${index}`,
      kind: isForSmall ? "submit" : oneOf(random, KINDS),
      agent: isForSmall ? small : oneOf(random, others),
      delayMs: between(random, 0, 100),
      again: times,
    };
  });
}

/** What the Worker has as a secret: in base64 with a prefix, as Standard Webhooks has it. The other senders use the same text. */
export const SECRET = `whsec_${Buffer.from("a secret of the soak").toString("base64")}`;

/** A request for a delivery. Each time it is signed anew, as senders do. */
export function requestOf(
  delivery: Delivery,
  { secret = SECRET, padding = 0 } = {},
): RequestInit & {
  readonly path: string;
} {
  const { source, id, kind, agent, delayMs } = delivery;
  const own = source === "stripe" ? { id, type: kind } : { type: kind };
  const body = JSON.stringify({ ...own, kind, agent, delayMs, padding: "x".repeat(padding) });
  const seconds = Math.floor(Date.now() / 1_000);
  const hmac = (text: string) => createHmac("sha256", secret).update(text);
  const headers: Record<string, string> = { "content-type": "application/json" };
  switch (source) {
    case "github":
      headers["x-github-event"] = kind;
      headers["x-github-delivery"] = id;
      headers["x-hub-signature-256"] = `sha256=${hmac(body).digest("hex")}`;
      break;
    case "stripe":
      headers["stripe-signature"] = `t=${seconds},v1=${hmac(`${seconds}.${body}`).digest("hex")}`;
      break;
    case "standard-webhooks": {
      const key = Buffer.from(secret.slice("whsec_".length), "base64");
      const signature = createHmac("sha256", key).update(`${id}.${seconds}.${body}`);
      headers["webhook-id"] = id;
      headers["webhook-timestamp"] = String(seconds);
      headers["webhook-signature"] = `v1,${signature.digest("base64")}`;
    }
  }
  return { path: `/hooks/${source}`, method: "POST", headers, body };
}
