/** Storage that a newer version of Perdure wrote, e.g. after a rollback: what is refused, and that it stays as it is. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../src/hosts/public.ts";
import { message } from "../support/given.ts";
import { arrival, call } from "../support/inbound.ts";

afterEach(() => vi.restoreAllMocks());

const HOUR_MS = 3_600_000;

const given = () => env.StoredObject.getByName(`stored-${crypto.randomUUID()}`);
type Stub = ReturnType<typeof given>;

const delivery = () => call(arrival("d1"), "submitMessages", [[message("inbound", "m-1")]]);

/** Nothing of the object goes on. */
const end = (stub: DurableObjectStub<undefined>) =>
  runInDurableObject(stub, async (_, ctx) => {
    await ctx.storage.deleteAlarm();
    await ctx.storage.deleteAll();
    ctx.abort("ended");
  }).catch(() => {});

/** The tables of Perdure with their rows, as lines. */
function dumpOf({ sql }: DurableObjectStorage): string {
  const tables = sql.exec<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE name LIKE 'perdure_%' AND type = 'table' ORDER BY name",
  );
  const lines = Array.from(tables, ({ name }) =>
    Array.from(sql.exec(`SELECT * FROM ${name}`), (row) => `${name} ${JSON.stringify(row)}`),
  );
  return lines.flat().join("\n");
}

/** A verb of each module, and one of each capability. */
const VERBS: Readonly<Record<string, (stub: Stub) => Promise<unknown>>> = {
  "submitMessages()": (stub) =>
    stub.submitMessages([message("Hello")], { notBefore: Date.now() + HOUR_MS }),
  "inspectSubmission()": (stub) => stub.inspectSubmission("completed"),
  "listSubmissions()": (stub) => stub.listSubmissions(),
  "runWorkflow()": (stub) => stub.runWorkflow("OBJECT_WORKFLOW", { step: "none" }),
  "outbox.stats()": (stub) => capabilitiesOf(stub).outbox.stats(),
  "approvals.list()": (stub) => capabilitiesOf(stub).approvals.list(),
  "schedules.list()": (stub) => capabilitiesOf(stub).schedules.list(),
  "schedules.pause()": (stub) => capabilitiesOf(stub).schedules.pause("note"),
  "inbound.list()": (stub) => capabilitiesOf(stub).inbound.list(),
  "an arrival": (stub) => stub.callKernel("acceptArrival", delivery()),
  "operations.healthReport()": (stub) => capabilitiesOf(stub).operations.healthReport(),
  "operations.listActions()": (stub) => capabilitiesOf(stub).operations.listActions(),
  "operations.operate()": (stub) => {
    const action = { do: "pause-task", taskId: "note" } as const;
    return capabilitiesOf(stub).operations.operate({ action, by: "ada", reason: "a rollback" });
  },
  "step.approval()": (stub) =>
    stub.callKernel("openWait", {
      kind: "approval",
      idempotencyKey: "approval",
      run: "r1",
      workflow: { name: "OBJECT_WORKFLOW", id: "o1", stepName: "ask" },
      timeoutMs: HOUR_MS,
      request: { title: "Refund?", schema: null },
    }),
  "dedupe()": (stub) => stub.isNew("received"),
};

/** Of modules that an object needs at its start: without one of them it does not start. */
const AT_START = ["alerts", "deployments", "jobs", "outbox", "scheduler", "submissions"] as const;
const ALL = Object.keys(VERBS);

/** Of other modules, the verbs that are refused, and their tables. */
const OTHERS = {
  inbound: { refused: ["inbound.list()", "an arrival"], tables: /perdure_(inbound|refusals)/ },
  operator: { refused: ["operations.operate()"], tables: /perdure_actions/ },
  received: { refused: ["dedupe()"], tables: /perdure_received/ },
  workflows: { refused: ["runWorkflow()"], tables: /perdure_workflows/ },
} as const;

/** The versions of the modules, by their names. */
const versionsIn = ({ sql }: DurableObjectStorage) =>
  Object.fromEntries(
    sql
      .exec<{ module: string; version: number }>(
        "SELECT module, version FROM perdure_schema WHERE module NOT LIKE 'kind:%'",
      )
      .toArray()
      .map(({ module, version }) => [module, version]),
  );

/** An object in which every module has stored something. */
async function givenUsed(): Promise<Stub> {
  const stub = given();
  for (const use of Object.values(VERBS)) await use(stub);
  return stub;
}

/** An object whose storage has a newer schema of the module, what is stored, and the version that this Perdure knows. */
async function givenNewer(module: string) {
  const first = await givenUsed();
  let stored = "";
  let known = 0;
  await runInDurableObject(first, async (_, ctx) => {
    known = versionsIn(ctx.storage)[module] ?? Number.NaN;
    const change = "UPDATE perdure_schema SET version = version + 1 WHERE module = ?";
    ctx.storage.sql.exec(change, module);
    await ctx.storage.deleteAlarm();
    await ctx.storage.sync();
    stored = dumpOf(ctx.storage);
    ctx.abort("restart");
  }).catch((error: unknown) => {
    if (!String(error).includes("restart")) throw error;
  });
  return { stub: env.StoredObject.get(first.id) as Stub, stored, known };
}

/** Sets the version back, as if a newer Perdure had never been there, and ends the object. */
async function setBack(stub: Stub, module: string): Promise<Stub> {
  await runInDurableObject(stub, async (_, ctx) => {
    const change = "UPDATE perdure_schema SET version = version - 1 WHERE module = ?";
    ctx.storage.sql.exec(change, module);
    await ctx.storage.sync();
    ctx.abort("restart");
  }).catch(() => {});
  return env.StoredObject.get(stub.id) as Stub;
}

const dumpIn = (stub: Stub) => runInDurableObject(stub, (_, { storage }) => dumpOf(storage));

/** The rows of some tables. */
const rowsOf = (dump: string, tables: RegExp) =>
  dump.split("\n").filter((line) => tables.test(line));

/** The names of the verbs that are refused. */
async function refusedOf(stub: Stub, module: string, known: number): Promise<string[]> {
  const refused: string[] = [];
  for (const [verb, call] of Object.entries(VERBS)) {
    try {
      await call(stub);
    } catch (error) {
      expect(error).toMatchObject({ name: "NewerSchemaError" });
      const expected = `Invalid schema version ${known + 1} of "${module}" in storage: this version of Perdure supports up to ${known}. Deploy the version`;
      expect(String(error)).toContain(expected);
      refused.push(verb);
    }
  }
  return refused;
}

it("each module of the database has its rule here", async () => {
  const stub = await givenUsed();
  const versions = await runInDurableObject(stub, (_, { storage }) => versionsIn(storage));
  expect([...AT_START, ...Object.keys(OTHERS)].sort()).toEqual(Object.keys(versions).sort());
  await end(stub);
});

describe("a module that an object needs at its start", () => {
  it.each(AT_START)("%s refuses each verb, changes no row, and opens again", async (module) => {
    const { stub, stored, known } = await givenNewer(module);
    expect(await refusedOf(stub, module, known)).toEqual(ALL.filter((verb) => verb !== "dedupe()"));
    expect(await dumpIn(stub)).toBe(stored);
    const opened = await setBack(stub, module);
    expect(await refusedOf(opened, module, known)).toEqual([]);
    await end(opened);
  });
});

describe("another module", () => {
  it.each(Object.entries(OTHERS))(
    "%s refuses its own verbs only, changes no row of its own, and opens again",
    async (module, rule) => {
      const { stub, stored, known } = await givenNewer(module);
      expect(await refusedOf(stub, module, known)).toEqual(rule.refused);
      expect(rowsOf(await dumpIn(stub), rule.tables)).toEqual(rowsOf(stored, rule.tables));
      const opened = await setBack(stub, module);
      expect(await refusedOf(opened, module, known)).toEqual([]);
      await end(opened);
    },
  );
});
