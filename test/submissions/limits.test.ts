/** L9: the ledger is bounded, and says where. */

import { describe, expect, it } from "vitest";
import { InvalidOptionError } from "../../src/core/options/options.ts";
import { Sweep } from "../../src/engine/sweep.ts";
import { BacklogFullError } from "../../src/submissions/errors.ts";
import type { LedgerOptions } from "../../src/submissions/options.ts";
import { readLimits } from "../../src/submissions/options.ts";
import { givenLedger, message, until } from "../support/given.ts";
import { crashOne, wakeNow, within } from "../support/ledger.ts";
import { fillEnded, fillPending } from "../support/ledger-scale.ts";
import { ledgerOptions, time } from "../support/objects/ledger-object.ts";

/** An object whose ledger has these options, after each start. */
function givenLimits(options: LedgerOptions) {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", options);
  return stub;
}

describe("options", () => {
  it("have defaults, and accept Infinity for no limit", () => {
    expect(readLimits()).toMatchObject({
      maxPending: 10_000,
      maxAgeMs: 30 * 86_400_000,
      maxCount: 100_000,
      holdAnswerMs: 250,
    });
    expect(readLimits({ retention: { maxCount: Number.POSITIVE_INFINITY } }).maxCount).toBe(
      Number.POSITIVE_INFINITY,
    );
  });

  it.each<[string, LedgerOptions, string]>([
    [
      "maxPending",
      { maxPending: 0 },
      "Invalid maxPending 0: expected a whole number from 1, or Infinity.",
    ],
    ["maxPending", { maxPending: Number.NaN }, "Invalid maxPending NaN"],
    [
      "retention.maxAge",
      { retention: { maxAge: -1 } },
      "Invalid retention.maxAge -1: expected a positive",
    ],
    ["retention.maxCount", { retention: { maxCount: 1.5 } }, "Invalid retention.maxCount 1.5"],
    ["retry.maxAttempts", { retry: { maxAttempts: 0 } }, "Invalid retry.maxAttempts 0"],
    ["retry.baseDelay", { retry: { baseDelay: -5 } }, "Invalid retry.baseDelay -5"],
    [
      "retry.maxDelay",
      { retry: { maxDelay: "a while" as "1 day" } },
      'Invalid retry.maxDelay "a while": expected a',
    ],
    ["retry.baseDelay", { retry: { baseDelay: 1e15 } }, 'at most "365 days"'],
    ["retry.maxDelay", { retry: { maxDelay: Number.POSITIVE_INFINITY } }, 'at most "365 days"'],
    ["maxConcurrentTurns", { maxConcurrentTurns: 0 }, "Invalid maxConcurrentTurns 0"],
    ["stallTimeout", { stallTimeout: 0 }, "Invalid stallTimeout 0"],
    [
      "maxConcurentTurns",
      { maxConcurentTurns: 3 } as never,
      "in the ledger. Valid options: maxPending",
    ],
    ["budget", { budget: { tokensPerDay: 5 } } as never, 'Unknown option "budget" in the ledger'],
    [
      "retention",
      { retention: "30 days" as never },
      'Invalid retention "30 days": expected an object',
    ],
    ["maxPending", { maxPending: "7" as unknown as number }, 'Invalid maxPending "7"'],
  ])("an invalid %s is refused with its name: %j", (option, options, text) => {
    const refused = expect.objectContaining({ option, message: expect.stringContaining(text) });
    expect(() => readLimits(options)).toThrow(InvalidOptionError);
    expect(() => readLimits(options)).toThrow(refused);
  });
});

describe("L9: the backlog", () => {
  const hold = message({ delayMs: 60_000 });

  it("submissions above maxPending are refused until one has started", async () => {
    const stub = givenLimits({ maxPending: 2 });
    await within(stub, async ({ submissions }) => {
      await submissions.submit([hold], { submissionId: "running" });
      await until(async () => (await submissions.inspect("running"))?.status === "running");
      await submissions.submit([message("a")], { submissionId: "a", idempotencyKey: "key" });
      await submissions.submit([message("b")], { submissionId: "b" });
      const refused = await submissions.submit([message("c")]).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(BacklogFullError);
      expect(refused).toMatchObject({ pending: 2, maxPending: 2 });
      expect(await submissions.list()).toHaveLength(3);
      // What is known is found, however full it is.
      const known = await submissions.submit([message("a")], { idempotencyKey: "key" });
      expect(known).toMatchObject({ submissionId: "a", accepted: false });
      await submissions.cancel("b");
      await submissions.submit([message("c")], { submissionId: "c" });
      await submissions.cancel("running");
      await submissions.wait("c");
    });
  });

  it("the backlog is counted correctly after a crash and after a rolled back transaction", async () => {
    const stub = givenLimits({ maxPending: 3 });
    await within(stub, async ({ submissions }) => {
      for (const id of ["running", "a", "b"]) {
        await submissions.submit([hold], { submissionId: id });
      }
    });
    await within(await crashOne(stub), async ({ lifecycle, submissions, meter }) => {
      await lifecycle.start();
      await until(async () => (await submissions.inspect("running"))?.attempts === 2);
      meter.onWrite = (_, what) => {
        if (what.includes("INSERT INTO perdure_submissions")) throw new Error("disk full");
      };
      await expect(submissions.submit([message("c")])).rejects.toThrow("disk full");
      meter.onWrite = undefined;
      await submissions.submit([message("c")], { submissionId: "c" });
      await expect(submissions.submit([message("d")])).rejects.toThrow(BacklogFullError);
    });
  });

  it("a payload over 1,900,000 bytes is refused", () =>
    within(givenLedger(), async ({ submissions }) => {
      const large = submissions.submit([message("x".repeat(1_900_000))]);
      await expect(large).rejects.toThrow(/of \d+ bytes: expected at most 1900000/);
      await submissions.submit([message("x")]);
    }));
});

function fillRows(sql: SqlStorage, count: number): void {
  sql.exec(
    "INSERT INTO t (seq) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) SELECT n FROM n",
    count,
  );
}

describe("L9: retention", () => {
  it("retention deletes the oldest ended submissions by count, and no open one", async () => {
    const stub = givenLimits({ retention: { maxCount: 10 } });
    await within(stub, async ({ submissions, turns }) => {
      await submissions.submit([message({ isHeld: true })], { submissionId: "open" });
      for (let n = 0; n < 30; n++) {
        const { submissionId } = await submissions.submit([message(`${n}`)]);
        await submissions.cancel(submissionId);
      }
      await submissions.submit([message("last")], { submissionId: "last" });
      for (let n = 0; n < 40; n++) {
        const { submissionId } = await submissions.submit([message(`${n}`)]);
        await submissions.cancel(submissionId);
      }
      const left = await submissions.list({ limit: 1_000 });
      expect(left.length).toBeLessThan(30);
      expect(left.map(({ submissionId }) => submissionId)).toContain("open");
      await until(() => turns.held.has("open"));
      turns.held.get("open")?.();
      await submissions.wait("last");
    });
  });

  it("L9: retention deletes ended submissions although more than 256 open ones are older", async () => {
    const stub = givenLimits({ retention: { maxCount: 100 } });
    const notBefore = new Date(Date.now() + 86_400_000);
    await stub.submit([message("open")], { submissionId: "open", notBefore });
    await within(stub, (_, { storage }) => {
      fillPending(storage, 600, Date.now());
      storage.sql.exec(
        "UPDATE perdure_submissions SET not_before = ? WHERE settled_at IS NULL",
        notBefore.getTime(),
      );
    });
    await within(stub, async (_, { storage }) => {
      await fillEnded(storage, 1, 1_256);
      const query = "UPDATE perdure_submissions SET settled_at = ? WHERE settled_at IS NOT NULL";
      storage.sql.exec(query, Date.now());
    });
    for (let wake = 0; wake < 12; wake++) await wakeNow(stub);
    const counts = await within(stub, (_, { storage }) =>
      storage.sql
        .exec<{ open: number; ended: number }>(
          "SELECT COUNT(*) FILTER (WHERE settled_at IS NULL) AS open, COUNT(settled_at) AS ended FROM perdure_submissions",
        )
        .one(),
    );
    expect(counts).toEqual({ open: 601, ended: 100 });
  });

  it("L9: retention without anything to delete reads two windows, and moves on", async () => {
    await within(givenLedger(), ({ meter }, { storage: { sql } }) => {
      sql.exec("CREATE TABLE t (seq INTEGER PRIMARY KEY, is_over INTEGER NOT NULL DEFAULT 0)");
      fillRows(sql, 2_000);
      const sweep = new Sweep(() => 0.5, "t");
      for (let look = 0; look < 4; look++) {
        meter.reset();
        expect(sweep.prune(sql, "is_over")).toBe(0);
        expect(meter.read()).toMatchObject({ rowsWritten: 0 });
        expect(meter.read().rowsRead).toBeLessThanOrEqual(2 * 256 + 8);
      }
      // The second place was at 1,000, and has begun again behind the newest row.
      for (const seq of [1_900, 700]) {
        sql.exec("UPDATE t SET is_over = 1 WHERE seq = ?", seq);
        let deleted = 0;
        for (let look = 0; look < 8; look++) deleted += sweep.prune(sql, "is_over");
        expect(deleted).toBe(1);
      }
    });
  });

  it("L9: retention reads each row that it deletes once, 5,000 of them at a time", async () => {
    await within(givenLedger(), ({ meter }, { storage: { sql } }) => {
      sql.exec("CREATE TABLE t (seq INTEGER PRIMARY KEY, is_over INTEGER NOT NULL DEFAULT 1)");
      fillRows(sql, 12_000);
      const sweep = new Sweep(() => 0.5, "t");
      for (const expected of [5_000, 5_000, 2_000, 0]) {
        meter.reset();
        expect(sweep.prune(sql, "is_over")).toBe(expected);
        expect(meter.read().rowsRead).toBeLessThanOrEqual(expected * 1.02 + 10);
      }
    });
  });

  it("retention deletes ended submissions by age at the next wake", async () => {
    const stub = givenLimits({ retention: { maxAge: "1 minute" } });
    await stub.submit([message("old")], { submissionId: "old" });
    await stub.wait("old");
    time.aheadMs = 61_000;
    await stub.submit([message("young")], { submissionId: "young" });
    await stub.wait("young");
    await wakeNow(stub);
    expect(await stub.inspect("old")).toBeNull();
    expect(await stub.inspect("young")).toMatchObject({ status: "completed" });
  });
});
