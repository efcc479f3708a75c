/** The workflows that a plain Durable Object has started: what is found, in which order, and how many are kept. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { WorkflowTable } from "../../../src/hosts/object/workflow-table.ts";

type Named = { readonly id: string; readonly name?: string; readonly metadata?: object };

/** A table with these workflows, added one millisecond after the other. */
function withTable(
  added: readonly Named[],
  check: (table: WorkflowTable, count: () => number) => void,
  most?: number,
) {
  const stub = env.OutboxObject.getByName(crypto.randomUUID());
  return runInDurableObject(stub as unknown as DurableObjectStub, (_, { storage }) => {
    const table = new WorkflowTable(storage, most);
    for (const [now, { id, name = "REPORT", metadata }] of added.entries())
      table.add({ id, name, metadata }, { now });
    check(table, () => {
      const [row] = storage.sql.exec("SELECT count(*) AS n FROM perdure_workflows").toArray();
      return Number(row?.n);
    });
  });
}

const ids = ({ workflows }: { workflows: readonly { workflowId: string }[] }) =>
  workflows.map(({ workflowId }) => workflowId);
const some = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `w${i}` }));

it("lists the newest first, in pages", () =>
  withTable(some(5), (table) => {
    const first = table.page({ limit: 2 });
    expect([ids(first), first.total]).toEqual([["w4", "w3"], 5]);
    const cursor = first.nextCursor ?? "";
    const second = table.page({ limit: 2, cursor });
    expect(ids(second)).toEqual(["w2", "w1"]);
    const last = table.page({ limit: 2, cursor: second.nextCursor ?? "" });
    expect([ids(last), last.nextCursor]).toEqual([["w0"], null]);
    expect(ids(table.page({ orderBy: "asc", limit: 2 }))).toEqual(["w0", "w1"]);
  }));

it("refuses a cursor of something else", () =>
  withTable(some(1), (table) => {
    expect(() => table.page({ cursor: "x' OR 1" })).toThrow(`Invalid cursor "x' OR 1"`);
  }));

it("finds by status, name and metadata, whatever the metadata's keys are", () =>
  withTable(
    [
      { id: "a", metadata: { 'a "quoted".key': "one", isUrgent: true, left: null } },
      { id: "b", metadata: { 'a "quoted".key': "two" } },
      { id: "c", name: "OTHER" },
    ],
    (table) => {
      table.update("b", "errored", { name: "Error", message: "no" }, { now: 9 });
      expect(ids(table.page({ status: "errored" }))).toEqual(["b"]);
      expect(ids(table.page({ status: ["errored", "queued"] }))).toEqual(["c", "b", "a"]);
      expect(ids(table.page({ workflowName: "OTHER" }))).toEqual(["c"]);
      expect(ids(table.page({ metadata: { 'a "quoted".key': "two" } }))).toEqual(["b"]);
      expect(ids(table.page({ metadata: { isUrgent: true } }))).toEqual(["a"]);
      expect(ids(table.page({ metadata: { missing: "x" } }))).toEqual([]);
      expect(table.find("b")).toMatchObject({
        status: "errored",
        error: { name: "Error", message: "no" },
        completedAt: new Date(9),
      });
    },
  ));

it("keeps an instance that is added twice as it is", () =>
  withTable(
    [
      { id: "a", name: "FIRST" },
      { id: "a", name: "SECOND" },
    ],
    (table) => {
      expect(table.find("a")).toMatchObject({ workflowName: "FIRST", createdAt: new Date(0) });
    },
  ));

it("keeps the newest, as many as it may", () =>
  withTable(
    some(7),
    (table, count) => {
      expect(count()).toBe(3);
      expect(ids(table.page())).toEqual(["w6", "w5", "w4"]);
    },
    3,
  ));
