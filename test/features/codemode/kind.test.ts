/** The kind `codemode` before a runtime that does what no real one should: no code is run twice, and no wait waits for nothing. */

import { afterEach, expect, it } from "vitest";
import { Codemode } from "../../../src/features/codemode/kind.ts";
import type {
  CallRecord,
  CodemodeRuntime,
  ExecutionRecord,
} from "../../../src/features/codemode/types.ts";
import { until } from "../../support/given.ts";
import { waitsTime } from "../../support/objects/waits-object.ts";
import { silence } from "../../support/scheduler.ts";
import { ask, givenWaits, inside, open, rowsOf } from "../../support/waits.ts";

afterEach(() => {
  waitsTime.aheadMs = 0;
});

/** An object whose code runs in that runtime. */
function givenCodemode(given: Partial<CodemodeRuntime>) {
  const runtime: CodemodeRuntime = {
    execute: async () => ({ status: "completed" }),
    approve: async () => ({ status: "completed" }),
    reject: async () => true,
    rollback: async () => {},
    executions: async () => [],
    deleteExecution: async () => true,
    ...given,
  };
  const port = { runtime: async () => runtime, sync: async () => {} };
  return givenWaits({ kinds: (_, waits) => ({ codemode: new Codemode(waits, port) }) });
}

const request = () => ask({ kind: "codemode", request: { code: "1", onReject: "keep" } });

function paused(code: string, args: unknown): ExecutionRecord {
  const action: CallRecord = {
    seq: 0,
    connector: "shop",
    method: "charge",
    args,
    state: "pending",
  };
  const now = Date.now();
  return { id: "e", code, status: "paused", log: [action], createdAt: now, updatedAt: now };
}

it("L6: code whose record is not kept is run once, and fails", async () => {
  let runs = 0;
  const stub = givenCodemode({
    execute: async () => {
      runs++;
      // As a sandbox is, which lets the test go on.
      await new Promise((resolve) => setTimeout(resolve, 10));
      return { status: "completed" };
    },
  });
  await open(stub, request());
  await until(async () => (await rowsOf(stub))[0]?.status !== "open").catch(() => {});
  expect(runs).toBe(1);
  expect(await rowsOf(stub)).toMatchObject([{ status: "failed" }]);
  const [row] = await rowsOf(stub);
  const wait = await inside(stub, ({ waits }) => waits.find(row?.wait_id ?? ""));
  expect(wait?.result).toMatchObject({ error: expect.stringContaining("maxExecutions") });
});

it("L6: code that an earlier version has begun is found by its comment", async () => {
  const now = Date.now();
  let record: ExecutionRecord | undefined;
  const stub = givenCodemode({
    execute: async ({ code }) => {
      const [mark] = code.split("\n");
      const before = { id: "e", code: `\`\`\`js\n${mark}\n1\n\`\`\``, log: [], result: 1 };
      record = { ...before, status: "completed", createdAt: now, updatedAt: now };
      return { status: "completed" };
    },
    executions: async () => (record ? [record] : []),
  });
  await open(stub, request());
  await until(async () => (await rowsOf(stub))[0]?.status === "completed");
});

it("L6: an approval that changes nothing is given once, and fails", async () => {
  let [record, approvals]: [ExecutionRecord | undefined, number] = [undefined, 0];
  const stub = givenCodemode({
    execute: async ({ code }) => {
      record = paused(code, {});
      return { status: "paused" };
    },
    approve: async () => {
      approvals++;
      await new Promise((resolve) => setTimeout(resolve, 10));
      return { status: "paused" };
    },
    executions: async () => (record ? [record] : []),
  });
  await open(stub, request());
  await until(async () => (await rowsOf(stub)).length === 2);
  await inside(stub, async ({ approvals, waits }) =>
    approvals.grant((await waits.findByKey("e-0"))?.waitId ?? ""),
  );
  await until(async () => (await rowsOf(stub))[0]?.status === "failed").catch(() => {});
  expect(approvals).toBe(1);
  expect(await rowsOf(stub)).toMatchObject([{ status: "failed" }, { status: "completed" }]);
});

it("W2: an action is asked about whatever its arguments are: of those that no row holds, the beginning is shown", async () => {
  silence();
  // What codemode takes: a million characters, here of three bytes.
  const args = { text: "あ".repeat(900_000) };
  let record: ExecutionRecord | undefined;
  const stub = givenCodemode({
    execute: async ({ code }) => {
      record = paused(code, args);
      return { status: "paused" };
    },
    executions: async () => (record ? [record] : []),
  });
  await open(stub, request());
  await until(async () => (await rowsOf(stub)).length === 2);
  const {
    items: [approval],
  } = await inside(stub, (object) => object.approvals.list());
  const { args: shown } = (approval?.data ?? {}) as { args?: string };
  expect(shown).toMatch(/^\(2,?700,?\d* bytes.*\{"text":"あ/s);
  expect(new TextEncoder().encode(shown ?? "").byteLength).toBeLessThan(200_000);
});
