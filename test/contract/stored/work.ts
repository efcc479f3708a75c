/** Work of every kind, open and ended, for a database that later versions open. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type { Ask, Rules } from "../../../src/features/limits/keeper/protocol.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { webhook } from "../../../src/outbox/index.ts";
import { message, until } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import { charges, steps } from "../hosts/app.ts";
import { ALERTED, held, SECRET } from "../hosts/stored-object.ts";
import type { Asked } from "../hosts/workflows.ts";

export const HOOK = "https://receiver.example.com/hook";
const GONE = "https://gone.example.com/hook";
/** The params of the workflows that wait, by their ids. */
export const WORKFLOWS = {
  "stored-approval": { step: "approval" },
  "stored-webhook": { step: "webhook" },
  "stored-prompt": { step: "text", prompt: '{"text":"prompted","delayMs":6000}' },
} as const satisfies Record<string, Asked>;

export const given = () => env.StoredObject.getByName(`stored-${crypto.randomUUID()}`);
export type Stub = ReturnType<typeof given>;
export const givenKeeper = () => env.LIMIT_KEEPER.getByName(`stored-${crypto.randomUUID()}`);
type KeeperStub = ReturnType<typeof givenKeeper>;

/** The receivers of notifications. Returns the requests that they got. */
export function receivers(answers: Record<string, number>): string[] {
  const requests: string[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const { url } = new Request(input, init);
    requests.push(url);
    return new Response(null, { status: answers[url] ?? 404 });
  });
  return requests;
}

/** Nothing of the object goes on. */
export const end = (stub: DurableObjectStub<undefined>) =>
  runInDurableObject(stub, async (_, ctx) => {
    await ctx.storage.deleteAlarm();
    await ctx.storage.deleteAll();
    ctx.abort("ended");
  }).catch(() => {});

export const delivery = () => call(arrival("d1"), "submitMessages", [[message("inbound", "m-1")]]);

const submit = (stub: Stub, id: string, script: object, options: object = {}) =>
  stub.submitMessages([message(script, `m-${id}`)], { submissionId: id, ...options });

const RULES: Rules = { requests: { amount: 10, window: { ms: 3_600_000 } }, slots: 1 };

/** A lease that holds the only slot, and a key that is paused. */
export async function lend(keeper: KeeperStub): Promise<void> {
  await keeper.ask(ask("lent"));
  await keeper.pause("paused", "unpaid", RULES);
}

/** What a turn asks of the keeper. */
export const ask = (key: string): Ask => ({
  ticket: crypto.randomUUID(),
  key,
  rules: RULES,
  need: { slots: 1, requests: 1 },
  waitedMs: 0,
});

/** Does the work. When it resolves, the object has it all in its storage. */
export async function work(stub: Stub): Promise<void> {
  const requests = receivers({ [HOOK]: 503, [ALERTED]: 503, [GONE]: 410 });
  await startWorkflows(stub);
  await runTasks(stub);
  await stub.callKernel("acceptArrival", delivery());
  await endSubmissions(stub);
  await until(async () => (await capabilitiesOf(stub).outbox.stats()).deadLetters === 1);
  await until(async () => requests.includes(HOOK));
  await stub.isNew("received");
  // The wait for a prompt is its submission.
  await until(async () => (await rowsOf(stub, "perdure_waits")) === 2);
  await until(async () => (await rowsOf(stub, "perdure_submissions WHERE run NOT NULL")) === 1);
  await until(() => requests.includes(ALERTED));
  const later = { notBefore: Date.now() + 10_000, idempotencyKey: "key of pending" };
  await submit(stub, "pending", { text: "later" }, { ...later, thread: "later" });
  const charge = { name: "charge", input: { account: "stored" } };
  const slow = { tool: charge, text: "paid", delayMs: 2_000 };
  await submit(stub, "running", slow, { thread: "running" });
  await submit(stub, "queued", { text: "queued" }, { thread: "running" });
  await until(() => charges.get("stored") === 1);
  const ship = { name: "ship", input: { account: "stored" } };
  await submit(stub, "calling", { tool: ship, text: "shipped" }, { thread: "calling" });
  await until(() => steps.get("stored")?.length === 2);
}

async function startWorkflows(stub: Stub): Promise<void> {
  for (const [id, params] of Object.entries(WORKFLOWS))
    await stub.runWorkflow(bindingOf(id), params, { id });
}

/** One of them is of a class that `versions()` has made. */
const bindingOf = (id: string) =>
  id === "stored-webhook" ? "OBJECT_VERSIONED" : "OBJECT_WORKFLOW";

/** Paused, run, and begun by a run that has not ended. */
async function runTasks(stub: Stub): Promise<void> {
  const { schedules } = capabilitiesOf(stub);
  await schedules.pause("ask", "for now");
  await schedules.trigger("note", { key: "recorded" });
  held.set(stub.name ?? "", new Promise(() => {}));
  await schedules.trigger("slow", { key: "begun" });
}

async function endSubmissions(stub: Stub): Promise<void> {
  const notified = { thread: "done", notify: webhook(HOOK, SECRET), idempotencyKey: "key of done" };
  await submit(stub, "completed", { text: "done" }, notified);
  await submit(stub, "failed", { fail: "no" }, { thread: "failed", notify: webhook(GONE, SECRET) });
  await submit(stub, "cancelled", {}, { notBefore: Date.now() + 3_600_000 });
  const cancel = { do: "cancel", submissionId: "cancelled" } as const;
  const by = { action: cancel, by: "ada", reason: "not needed" };
  await capabilitiesOf(stub).operations.operate(by);
}

const rowsOf = (stub: Stub, from: string) =>
  runInDurableObject(stub, (_, { storage: { sql } }) =>
    Number(sql.exec(`SELECT count(*) AS rows FROM ${from}`).one().rows),
  );
