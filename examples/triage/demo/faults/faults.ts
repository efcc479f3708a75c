/** Plants one fault in the running demo, and waits until an operator has fixed it. */

import { createHmac, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Runtime } from "../../../runtime.ts";

export const FAULTS = [
  ...(["dead-endpoint", "wrong-secret", "stuck-approval", "paused-schedule", "model-429"] as const),
  ...(["poison-delivery", "backlog", "renamed-step", "missing-binding", "hanging-turn"] as const),
];
export type Fault = (typeof FAULTS)[number];

/** How long the receiver answers 410 before it is back. */
const OUTAGE_MS = 8_000;
const POLL_MS = 1_000;
/** Until a changed configuration is loaded. */
const RELOAD_MS = 5_000;

/** The shop's receiver: what webhooks of the agent reach. */
export class Receiver {
  readonly secret = `whsec_${randomBytes(24).toString("base64")}`;
  /** Accepted deliveries, by path. */
  readonly received = new Map<string, Set<string>>();
  readonly #server: Server;
  #isBack = false;

  constructor() {
    this.#server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const status = this.#answer(request, Buffer.concat(chunks).toString());
      response.writeHead(status).end();
    });
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  endOutage(): void {
    this.#isBack = true;
  }

  #answer({ url = "", headers }: IncomingMessage, body: string): number {
    const id = String(headers["webhook-id"]);
    if (url === "/orders" && !this.#isBack) return 410;
    if (url === "/invoices") return 422;
    if (url === "/signed" && !this.#isSigned(headers, body)) return 401;
    this.received.set(url, (this.received.get(url) ?? new Set()).add(id));
    return 200;
  }

  /** As Standard Webhooks signs. */
  #isSigned(headers: IncomingMessage["headers"], body: string): boolean {
    const key = Buffer.from(this.secret.replace("whsec_", ""), "base64");
    const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
    const signature = createHmac("sha256", key).update(signed).digest("base64");
    return String(headers["webhook-signature"]).split(" ").includes(`v1,${signature}`);
  }
}

const WORKER = fileURLToPath(new URL("worker.ts", import.meta.url).href);

/** Adds the shop to the example's configuration. Call it before the start. */
export async function addShop(runtime: Runtime, receiver: Receiver, fault: Fault): Promise<void> {
  const vars = {
    RECEIVER_URL: await receiver.start(),
    // The receiver has a new secret, which the agent does not know.
    RECEIVER_SECRET:
      fault === "wrong-secret" ? "whsec_b2xkIHNlY3JldCBvZiB0aGUgc2hvcA==" : receiver.secret,
    REFUND_STEP: "manager",
    SHOP_MODEL: fault === "model-429" ? "over-quota" : "scripted",
  };
  const refund = { name: "refund", binding: "REFUND_WORKFLOW", class_name: "RefundWorkflow" };
  const audit = { producers: [{ binding: "AUDIT_QUEUE", queue: "audit" }] };
  runtime.editConfig(({ durable_objects: { bindings }, ...config }) => ({
    ...config,
    main: WORKER,
    vars: { ...config.vars, ...vars },
    durable_objects: { bindings: [...bindings, { name: "ShopAgent", class_name: "ShopAgent" }] },
    workflows: [...config.workflows, refund],
    migrations: [...config.migrations, { tag: "v2", new_sqlite_classes: ["ShopAgent"] }],
    ...(fault === "missing-binding" && { queues: audit }),
  }));
}

export type Planting = {
  readonly fault: Fault;
  readonly runtime: Runtime;
  readonly receiver: Receiver;
  readonly adminToken: string;
  readonly signal: AbortSignal;
};

type Item = Readonly<Record<string, unknown>>;
type Lists = (path: string) => Promise<readonly Item[]>;

/** Plants the fault, and resolves when the operator has fixed it. */
export async function plantAndWatch(planting: Planting): Promise<void> {
  const { fault, runtime, receiver, adminToken, signal } = planting;
  const headers = { Authorization: `Bearer ${adminToken}` };
  const planted = await fetch(`${runtime.url}/plant?fault=${fault}`, {
    method: "POST",
    headers,
    signal,
  });
  if (!planted.ok) throw new Error(`/plant answered ${planted.status}: ${await planted.text()}`);
  await deploy(planting);
  setTimeout(() => receiver.endOutage(), OUTAGE_MS);
  const lists: Lists = async (path) => {
    const url = `${runtime.url}/perdure/api/agents/ShopAgent/main/${path}`;
    const response = await fetch(url, { headers, signal });
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    return ((await response.json()) as { items: Item[] }).items;
  };
  for (;;) {
    await delay(POLL_MS);
    signal.throwIfAborted();
    // A runtime that is just reloading does not answer.
    if (await IS_FIXED[fault](lists, receiver).catch(() => false)) return;
  }
}

/** What the team has deployed meanwhile, and what has broken things. */
async function deploy({ fault, runtime, signal }: Planting): Promise<void> {
  if (fault === "renamed-step") {
    await delay(RELOAD_MS);
    const REFUND_STEP = "manager-approval";
    runtime.editConfig((config) => ({ ...config, vars: { ...config.vars, REFUND_STEP } }));
    await delay(RELOAD_MS);
    // The instance runs again from its beginning, and asks under the new name.
    await runtime.resume(signal);
  }
  if (fault === "missing-binding") runtime.editConfig(({ queues: _, ...config }) => config);
}

const isNone = (items: readonly Item[]) => items.length === 0;
const ORDERS = 3;

/** Whether the operator has fixed a fault, as the API and the receiver see it. */
const IS_FIXED: Readonly<Record<Fault, (lists: Lists, receiver: Receiver) => Promise<boolean>>> = {
  "dead-endpoint": async (_, { received }) => received.get("/orders")?.size === ORDERS,
  "wrong-secret": async (_, { received }) => received.get("/signed")?.size === ORDERS,
  "stuck-approval": async (lists) => isNone(await lists("approvals?status=pending")),
  "paused-schedule": async (lists) =>
    (await lists("tasks")).every(({ state }) => state === "active"),
  "model-429": async (lists) => (await lists("submissions?status=completed")).length >= ORDERS,
  "poison-delivery": async (lists) => isNone(await lists("dead-letters")),
  backlog: async (lists) => isNone(await lists("submissions?status=pending,running")),
  "renamed-step": async (lists) => {
    const [refund] = await lists("workflows");
    return refund?.status === "complete" || refund?.status === "terminated";
  },
  "missing-binding": async (lists) =>
    isNone(await lists("deliveries?state=waiting,dead")) &&
    (await lists("submissions?status=completed")).length > 0,
  "hanging-turn": async (lists) => isNone(await lists("submissions?status=pending,running")),
};
