/** Storage that a newer version of Perdure wrote, e.g. after a rollback: what is refused, and that it stays as it is. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { message } from "../../support/given.ts";
import { agents, dumpOf, load, versionsIn } from "./dumps.ts";
import { delivery, end, given, receivers, type Stub } from "./work.ts";

afterEach(() => vi.restoreAllMocks());

const HOUR_MS = 3_600_000;

/** The database of the newest schema. */
const [newest] = Object.values(agents).toSorted((one, other) => countOf(other) - countOf(one));
if (!newest) throw new Error("No file in stored/");

function countOf(file: string): number {
  return Object.values(versionsIn(file)).reduce((sum, version) => sum + version, 0);
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
  "dedupe()": (stub) => stub.isNew("received"),
};

/** Of modules that an object needs at its start: without one of them it does not start. */
const AT_START = ["alerts", "deployments", "outbox", "scheduler", "submissions", "waits"] as const;
const ALL = Object.keys(VERBS);

/** Of other modules, the verbs that are refused, and their tables. */
const OTHERS = {
  inbound: { refused: ["inbound.list()", "an arrival"], tables: /perdure_(inbound|refusals)/ },
  operator: { refused: ["operations.operate()"], tables: /perdure_actions/ },
  received: { refused: ["dedupe()"], tables: /perdure_received/ },
  workflows: { refused: ["runWorkflow()"], tables: /perdure_workflows/ },
} as const;

/** An object whose storage has a newer schema of the module, and what is stored. */
async function givenNewer(module: string) {
  const row = `INSERT INTO perdure_schema VALUES ('${module}', `;
  const [before, after] = newest?.split(row) ?? [];
  const first = given();
  const version = Number.parseInt(after ?? "", 10);
  const stored = await load(first, `${before}${row}${version + 1}${after?.replace(/^\d+/, "")}`);
  return { stub: env.StoredObject.get(first.id) as Stub, stored };
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
  dump.split("\n").filter((line) => line.startsWith("INSERT") && tables.test(line));

/** The names of the verbs that are refused. */
async function refusedOf(stub: Stub, module: string): Promise<string[]> {
  const refused: string[] = [];
  for (const [verb, call] of Object.entries(VERBS)) {
    try {
      await call(stub);
    } catch (error) {
      expect(error).toMatchObject({ name: "NewerSchemaError" });
      const known = versionsIn(newest ?? "")[module] ?? Number.NaN;
      const expected = `Invalid schema version ${known + 1} of "${module}" in storage: this version of Perdure supports up to ${known}. Deploy the version`;
      expect(String(error)).toContain(expected);
      refused.push(verb);
    }
  }
  return refused;
}

it("each module of the database has its rule here", () => {
  expect([...AT_START, ...Object.keys(OTHERS)].sort()).toEqual(
    Object.keys(versionsIn(newest)).sort(),
  );
});

describe("a module that an object needs at its start", () => {
  it.each(AT_START)("%s refuses each verb, changes no row, and opens again", async (module) => {
    receivers({});
    const { stub, stored } = await givenNewer(module);
    expect(await refusedOf(stub, module)).toEqual(ALL.filter((verb) => verb !== "dedupe()"));
    expect(await dumpIn(stub)).toBe(stored);
    const opened = await setBack(stub, module);
    expect(await refusedOf(opened, module)).toEqual([]);
    await end(opened);
  });
});

describe("another module", () => {
  it.each(Object.entries(OTHERS))(
    "%s refuses its own verbs only, changes no row of its own, and opens again",
    async (module, rule) => {
      receivers({});
      const { stub, stored } = await givenNewer(module);
      expect(await refusedOf(stub, module)).toEqual(rule.refused);
      expect(rowsOf(await dumpIn(stub), rule.tables)).toEqual(rowsOf(stored, rule.tables));
      const opened = await setBack(stub, module);
      expect(await refusedOf(opened, module)).toEqual([]);
      await end(opened);
    },
  );
});
