/** Storage that an earlier version of Perdure wrote opens, and its open work goes on. `stored/` has a dump of each version. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { version } from "../../package.json";
import { capabilitiesOf } from "../../src/hosts/public.ts";
import { webhook } from "../../src/kernel/outbox/index.ts";
import type { OriginParams } from "../../src/workflow/durable-workflow.ts";
import { message, until } from "../support/given.ts";
import { arrival, call } from "../support/inbound.ts";
import { charges } from "./hosts/app.ts";

const HOOK = "https://receiver.example.com/hook";
const GONE = "https://gone.example.com/hook";
const SECRET = { secret: "HOOK_SECRET" };
const APPROVAL = "stored-approval";

const dumps = import.meta.glob<string>("./stored/*.sql", {
  query: "?raw",
  import: "default",
  eager: true,
});

afterEach(() => vi.restoreAllMocks());

const given = () => env.ObjectHost.getByName(`stored-${crypto.randomUUID()}`);
type Stub = ReturnType<typeof given>;

/** The receivers of notifications. Returns the requests that they got. */
function receivers(answers: Record<string, number>): string[] {
  const requests: string[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const { url } = new Request(input, init);
    requests.push(url);
    return new Response(null, { status: answers[url] ?? 404 });
  });
  return requests;
}

const delivery = () => call(arrival("d1"), "submitMessages", [[message("inbound", "m-inbound")]]);

/** Work of every kind, open and ended. */
async function work(stub: Stub): Promise<void> {
  const requests = receivers({ [HOOK]: 503, [GONE]: 410 });
  const submit = (id: string, script: object, options: object = {}) =>
    stub.submitMessages([message(script, `m-${id}`)], { submissionId: id, ...options });
  await stub.runWorkflow("OBJECT_WORKFLOW", { step: "approval" }, { id: APPROVAL });
  await stub.callKernel("acceptArrival", delivery());
  await capabilitiesOf(stub).schedules.pause("ask", "for now");
  await capabilitiesOf(stub).schedules.trigger("note", { key: "recorded" });
  await submit("completed", { text: "done" }, { thread: "done", notify: webhook(HOOK, SECRET) });
  await submit("failed", { fail: "broken" }, { thread: "failed", notify: webhook(GONE, SECRET) });
  await until(async () => (await capabilitiesOf(stub).outbox.stats()).deadLetters === 1);
  await until(async () => requests.includes(HOOK));
  await until(async () => (await capabilitiesOf(stub).approvals.list()).items.length === 1);
  const cancel = { do: "cancel", submissionId: "cancelled" } as const;
  await submit("cancelled", {}, { notBefore: Date.now() + 3_600_000 });
  await capabilitiesOf(stub).operations.operate({
    action: cancel,
    by: "ada",
    reason: "not needed",
  });
  await submit("pending", { text: "later" }, { notBefore: Date.now() + 10_000, thread: "later" });
  const charge = { name: "charge", input: { account: "stored" } };
  await submit("running", { tool: charge, text: "paid", delayMs: 1_000 }, { thread: "running" });
  await until(() => charges.get("stored") === 1);
}

/** The tables of Perdure as SQL. */
function dumpOf({ sql }: DurableObjectStorage): string {
  const own = sql.exec<{ type: string; name: string; sql: string }>(
    "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'perdure_%' AND sql NOT NULL ORDER BY rowid",
  );
  const all = own.toArray();
  const tables = all.filter(({ type }) => type === "table");
  const rows = tables.flatMap(({ name }) =>
    [...sql.exec(`SELECT * FROM ${name}`).raw()].map(
      (row) => `INSERT INTO ${name} VALUES (${row.map(literal).join(", ")})`,
    ),
  );
  const others = all.filter(({ type }) => type !== "table");
  const made = (objects: typeof all) => objects.map((object) => object.sql);
  return [...made(tables), ...rows, ...made(others), ""].join(";\n");
}

function literal(value: SqlStorageValue): string {
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  if (value instanceof ArrayBuffer) throw new TypeError("A dump has no blobs.");
  return String(value);
}

it("the version of package.json has a dump of its storage", async () => {
  const file = `./stored/${version}.sql`;
  if (file in dumps) return;
  const stub = given();
  await work(stub);
  const dump = await runInDurableObject(stub, (_, { storage }) => dumpOf(storage));
  await expect(dump).toMatchFileSnapshot(file);
});

it.each(Object.entries(dumps))("L1 O2 S4 W2: the open work in %s goes on", async (_, dump) => {
  charges.clear();
  const requests = receivers({ [HOOK]: 200 });
  const stub = given();
  const workflowId = crypto.randomUUID();
  await runInDurableObject(stub, async (_object, ctx) => {
    ctx.storage.sql.exec(dump.replaceAll(APPROVAL, workflowId));
    await ctx.storage.sync();
    ctx.abort("restart");
  }).catch(() => {});
  const restarted = env.ObjectHost.get(stub.id) as Stub;
  // The engine does not have the workflow of the dump. This one asks for the approval again, and gets the stored wait.
  const perdure = { workflow: "OBJECT_WORKFLOW", binding: "ObjectHost", name: stub.name ?? "" };
  const params: OriginParams = { perdure, params: { step: "approval" } };
  const instance = await env.OBJECT_WORKFLOW.create({ id: workflowId, params });
  const ended = (id: string) =>
    until(async () => {
      const found = await restarted.inspectSubmission(id);
      return found?.completedAt !== undefined && found;
    });
  expect(await ended("pending")).toMatchObject({ status: "completed", output: "later" });
  expect(await ended("running")).toMatchObject({ status: "completed", output: "paid" });
  expect(charges.get("stored")).toBeUndefined();
  expect(await ended("completed")).toMatchObject({ output: "done" });
  expect(await ended("cancelled")).toMatchObject({ status: "aborted" });
  await until(async () => (await capabilitiesOf(restarted).outbox.stats()).waiting === 0);
  expect(requests).toEqual([HOOK]);
  expect((await capabilitiesOf(restarted).outbox.listDeadLetters()).items).toMatchObject([
    { attempts: 1 },
  ]);
  expect(await restarted.callKernel("acceptArrival", delivery())).toMatchObject({
    verdict: "duplicate",
  });
  expect((await capabilitiesOf(restarted).inbound.list()).items).toMatchObject([{ duplicates: 1 }]);
  const task = await capabilitiesOf(restarted).schedules.inspect("ask");
  expect(task).toMatchObject({ state: "paused", paused: { note: "for now" } });
  await capabilitiesOf(restarted).schedules.trigger("note", { key: "recorded" });
  expect((await capabilitiesOf(restarted).schedules.runs("note")).items).toHaveLength(1);
  const {
    items: [approval],
  } = await capabilitiesOf(restarted).approvals.list();
  const { approvalId = "none" } = approval ?? {};
  expect(dump).toContain(approvalId);
  const payload = { amount: 1 };
  const decision = await capabilitiesOf(restarted).approvals.grant(approvalId, { payload });
  expect(decision.outcome).toBe("decided");
  const { output } = await until(async () => {
    const found = await instance.status();
    return found.status === "complete" && found;
  });
  expect(output).toMatchObject({ approved: true, payload });
  expect((await capabilitiesOf(restarted).operations.listActions()).items).toMatchObject([
    { by: "ada" },
  ]);
});
