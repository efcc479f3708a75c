/**
 * L9 the ledger costs the same however much is stored and however much waits,
 * and takes thousands of submissions at once. Counts are exact and the same on
 * every machine; times are printed, and nothing depends on them.
 *
 * `VITE_PERDURE_SCALE_ROWS` and `VITE_PERDURE_SCALE_LOAD` set other sizes. A
 * million small rows take workerd about four seconds.
 */

import { beforeEach, describe, expect, it } from "vitest";
import { ListScanLimitError } from "../../../src/submissions/errors.ts";
import type { TurnEnd } from "../../../src/submissions/host.ts";
import type { ListSubmissionsOptions } from "../../../src/submissions/types.ts";
import { givenLedger, message, until } from "../../support/given.ts";
import { jobOf, sleep, somewhere, wakeNow, within } from "../../support/ledger.ts";
import { CostTable, fillEnded, fillPending, Recorder } from "../../support/ledger-scale.ts";
import {
  chance,
  type LedgerObject,
  ledgerOptions,
  time,
} from "../../support/objects/ledger-object.ts";
import { limitMs, sizeOf } from "../../support/sizes.ts";

const STORED = [10, 1_000, sizeOf("SCALE_ROWS", 100_000)];
const WAITING = [0, 10_000];
const LOAD = sizeOf("SCALE_LOAD", 2_000);
const DAY_MS = 86_400_000;

beforeEach(() => {
  // No alarm comes while something is counted.
  time.aheadMs = DAY_MS;
});
/** An object in which any number may wait. */
function givenRoom() {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", { maxPending: Number.POSITIVE_INFINITY });
  return stub;
}

const OVERLOADED: TurnEnd = {
  outcome: "error",
  failure: { name: "Error", message: "overloaded" },
  cause: Object.assign(new Error("overloaded"), { statusCode: 529 }),
};

/** Turns that claim, answer at a signal, and end as the test says. */
class HeldTurns {
  #end: ((end: TurnEnd) => void) | undefined;
  /** How many have begun. */
  begun = 0;
  /** An answered turn is not put off: its answer stands (L7). */
  isAnswering = false;

  constructor({ turns, submissions }: LedgerObject) {
    turns.run = ({ begin }) => {
      const ref = begin();
      if (this.isAnswering) submissions.turns.answer(ref, { ok: true });
      this.begun++;
      return new Promise((resolve) => {
        this.#end = resolve;
      });
    };
  }

  /** Ends the one that is held, and waits until the ledger has done what follows. */
  async end(end: TurnEnd): Promise<void> {
    this.#end?.(end);
    this.#end = undefined;
    await sleep(5);
  }
}

/** What a submission passes through, step by step, in a ledger of this size. */
async function passThrough(
  { submissions }: LedgerObject,
  turns: HeldTurns,
  step: (name: string, work: () => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const keyed = [message("keyed")];
  const { begun } = turns;
  turns.isAnswering = true;
  // Nothing runs: the first one also finds what is next, claims it and takes its answer.
  await step("submit, claim and answer", async () => {
    await submissions.submit([message("x")], { submissionId: "bare" });
    await sleep(5);
  });
  expect(turns.begun).toBe(begun + 1);
  await step("submit with a key", () => submissions.submit(keyed, { idempotencyKey: "once" }));
  await step("submit once more", () => submissions.submit(keyed, { idempotencyKey: "once" }));
  await submissions.submit([message("x")], { submissionId: "third" });
  await step("inspect", () => submissions.inspect("e7"));
  await step("inspect of none", () => submissions.inspect("?"));
  await step("wait for an ended one", () => submissions.wait("e7"));
  await step("cancel of a pending one", () => submissions.cancel("third"));
  await step("delete", () => submissions.delete("third"));
  turns.isAnswering = false;
  await step("settle, and the next one", () => turns.end({ outcome: "completed" }));
  expect(turns.begun).toBe(begun + 2);
  await step("put off", () => turns.end(OVERLOADED));
  expect(turns.begun).toBe(begun + 2);
}

describe("L9: the cost does not depend on how much is stored, nor on how much waits", () => {
  it("of any step of a submission, all of which read by an index", {
    timeout: limitMs(60_000),
  }, async () => {
    const table = new CostTable();
    const scans = new Set<string>();
    const took: string[] = [];
    await within(givenRoom(), async (object, { storage }) => {
      const { submissions, meter } = object;
      const turns = new HeldTurns(object);
      // What an object counts once for each start, and the wake that a burst shares.
      await submissions.submit([message("x")], { submissionId: "warm" });
      await sleep(5);
      chance.random = () => 0;
      await turns.end(OVERLOADED);
      await turns.end({ outcome: "completed" });
      chance.random = () => 0.9;
      const recorder = new Recorder(meter);
      for (const [index, count] of STORED.entries()) {
        const stored = STORED[index - 1] ?? 0;
        const ms = await fillEnded(storage, stored + 1, count);
        took.push(`${count - stored} rows in ${ms} ms`);
        for (const waiting of WAITING) {
          fillPending(storage, waiting, Date.now());
          const size = `${count}+${waiting}`;
          await passThrough(object, turns, async (name, work) => {
            table.add(name, size, await recorder.during(work));
          });
          for (const { query, steps } of recorder.plans(storage, "perdure_submissions")) {
            const scan = steps.find((plan) => /^SCAN perdure_submissions(?! USING )/.test(plan));
            if (scan) scans.add(`${scan}: ${query}`);
          }
          storage.sql.exec(
            "DELETE FROM perdure_submissions WHERE idempotency_key NOT GLOB 'ke*' OR idempotency_key IS NULL",
          );
        }
      }
    });
    console.log(`filled with ${took.join(", ")}`);
    table.print();
    expect([...scans]).toEqual([]);
    expect(table.uneven()).toEqual([]);
    // What the README of the ledger promises, statement by statement.
    const first = "submit, claim and answer";
    const one = [{ rowsWritten: 1 }];
    expect(table.statements(first, /^INSERT INTO perdure_submissions/)).toMatchObject([
      { rowsWritten: 3 },
    ]);
    expect(table.statements("submit with a key", /^INSERT INTO perdure_sub/)).toMatchObject([
      { rowsWritten: 3 },
    ]);
    expect(table.statements(first, / SET status = 'running'/)).toMatchObject(one);
    expect(table.statements(first, / AS bytes, .* output IS NULL/s)).toMatchObject([
      { rowsRead: 1, rowsWritten: 0 },
    ]);
    expect(table.statements("settle, and the next one", / SET status = \?/)).toMatchObject(one);
    const reads = [
      table.statements(first, /^SELECT .* status = 'pending' .*LIMIT/),
      table.statements("submit once more", /^SELECT .* idempotency_key = /),
      table.statements("inspect", /^SELECT .* submission_id = /),
    ];
    for (const read of reads) expect(read).toEqual([{ rowsRead: 1, rowsWritten: 0 }]);
  });
});

describe("L9: reads", () => {
  it("L9: a list without matches reads at most 100,000 rows, and names the next cursor", {
    timeout: limitMs(60_000),
  }, async () => {
    await within(givenRoom(), async ({ submissions, meter }, { storage }) => {
      await submissions.stats();
      await fillEnded(storage, 1, 100_001);
      fillPending(storage, 3, Date.now());
      const read = async (options: ListSubmissionsOptions) => {
        meter.reset();
        const found = await submissions.list(options).catch((error: unknown) => error);
        return { found, rows: meter.read().rowsRead };
      };
      const nowhere = await read({ thread: "nowhere" });
      expect(nowhere.found).toBeInstanceOf(ListScanLimitError);
      expect(nowhere.rows).toBeLessThan(100_100);
      const { next } = nowhere.found as ListScanLimitError;
      expect(await read({ thread: "nowhere", before: next })).toMatchObject({ found: [] });
      // Of 100,004 the newest 100,000 are read: this is the newest of the others.
      storage.sql.exec(
        "UPDATE perdure_submissions SET thread = 'old' WHERE seq IN (SELECT seq FROM perdure_submissions ORDER BY seq LIMIT 1 OFFSET ?)",
        3,
      );
      const old = await read({ thread: "old" });
      expect(old.found).toBeInstanceOf(ListScanLimitError);
      const { next: after } = old.found as ListScanLimitError;
      expect(await read({ thread: "old", before: after })).toMatchObject({ found: [{}] });
      const late = await read({ createdAfter: new Date(2) });
      expect(late).toMatchObject({ found: [{}, {}, {}] });
      const open = await read({ status: ["pending", "running"] });
      expect(open.found).toHaveLength(3);
      expect(open.rows).toBeLessThan(20);
      expect((await read({ status: "running" })).rows).toBeLessThan(20);
      expect(await read({ before: "unknown" })).toMatchObject({
        found: { name: "UnknownCursorError" },
      });
    });
  });

  it("L9: no verb about many submissions reads their messages", async () => {
    const stub = givenRoom();
    await within(stub, async ({ submissions, meter, turns }) => {
      turns.run = ({ begin }) => {
        begin();
        return new Promise(() => {});
      };
      const { workflow, instance } = somewhere();
      const recorder = new Recorder(meter);
      const fill = (thread: string) =>
        submissions.submitMany(
          Array.from({ length: 250 }, () => ({
            messages: [message("x")],
            options: { thread, notify: [{ ...somewhere(), workflow, instance }] },
          })),
        );
      const queriesOf = async (work: () => Promise<unknown>) =>
        (await recorder.during(work)).map(({ query }) => query);
      await fill("a");
      const listed = await queriesOf(() => submissions.list({ limit: 1_000 }));
      await fill("b");
      const cleared = await queriesOf(() => submissions.clearThread("a", async () => {}));
      const found = (query: string) => query.includes("json_each(notify)");
      const terminated = await queriesOf(() => submissions.cancelFor({ workflow, instance }, "x"));
      expect(terminated.filter(found)).toHaveLength(1);
      const many = [...listed, ...cleared.filter(isOfMany), ...terminated.filter(found)];
      expect(many.length).toBeGreaterThan(4);
      expect(many.filter((query) => /SELECT \*|RETURNING \*|messages/.test(query))).toEqual([]);
      expect(await submissions.stats()).toMatchObject({ pending: 0, running: 0 });
      expect(await submissions.list({ status: "skipped", limit: 1_000 })).toHaveLength(249);
    });
  });

  it("L9: a list takes a limit up to 1,000, and a deletion up to 10,000", async () => {
    await within(givenRoom(), async ({ submissions }) => {
      await expect(submissions.list({ limit: 1_000 })).resolves.toEqual([]);
      await expect(submissions.list({ limit: 1_001 })).rejects.toThrow(
        "Invalid limit 1001: expected a whole number from 1 to 1000.",
      );
      await expect(submissions.deleteMany({ limit: 10_000 })).resolves.toBe(0);
      await expect(submissions.deleteMany({ limit: 10_001 })).rejects.toThrow("from 1 to 10000");
    });
  });

  it("L9: a small column is read without the large columns of its row", {
    timeout: limitMs(60_000),
  }, async () => {
    await within(givenRoom(), async ({ submissions }, { storage }) => {
      await submissions.stats();
      await fillEnded(storage, 1, 256);
      storage.sql.exec("UPDATE perdure_submissions SET messages = hex(zeroblob(250000))");
      await storage.sync();
      const timed = async (column: string, times: number) => {
        const query = `SELECT COUNT(${column}) AS rows FROM perdure_submissions`;
        const from = performance.now();
        for (let time = 0; time < times; time++) storage.sql.exec(query).one();
        await storage.sync();
        return (performance.now() - from) / times;
      };
      const whole = await timed("LENGTH(CAST(messages AS BLOB) || 'x')", 3);
      const small = await timed("NULLIF(settled_at, -1)", 30);
      console.log(`256 rows of 500 kB: settled_at in ${small} ms, messages in ${whole} ms`);
      expect(small).toBeLessThan(whole / 20);
    });
  });
});

/** Statements that end several submissions. */
const isOfMany = (query: string) => query.includes("'skipped'");

describe("L1, L4, L9: a load", () => {
  it(`of ${LOAD} submissions on one object: each runs once, in order, and nothing stays behind`, {
    timeout: limitMs(60_000),
  }, async () => {
    const stub = givenRoom();
    const ids = Array.from({ length: LOAD }, (_, index) => `load-${index}`);
    const ran: string[] = [];
    const statusCalls = new Map<string, number>();
    await within(stub, async ({ submissions, turns }, { storage }) => {
      let open = () => {};
      const wait = new Promise<void>((resolve) => {
        open = resolve;
      });
      turns.onStatus = async ({ status }) => {
        statusCalls.set(status, (statusCalls.get(status) ?? 0) + 1);
      };
      turns.run = async ({ begin, submissionId }) => {
        begin();
        ran.push(submissionId);
        await wait;
        return { outcome: "completed" };
      };
      const start = Date.now();
      for (const submissionId of ids) {
        const { accepted } = await submissions.submit([message("x")], { submissionId });
        expect(accepted).toBe(true);
      }
      await storage.sync();
      const accepted = Date.now();
      expect(await submissions.stats()).toMatchObject({ pending: LOAD - 1 });
      open();
      await until(() => statusCalls.get("completed") === LOAD, limitMs(50_000));
      await storage.sync();
      const ended = Date.now();
      const rate = (ms: number) => `${ms} ms, ${Math.round((LOAD / ms) * 1_000)} a second`;
      console.log(
        `${LOAD} submissions: accepted in ${rate(accepted - start)}; run in ${rate(ended - accepted)}`,
      );
      expect(ran).toEqual(ids);
      expect(Object.fromEntries(statusCalls)).toEqual({
        pending: LOAD,
        running: LOAD,
        completed: LOAD,
      });
      const counts = storage.sql
        .exec("SELECT status, attempts, COUNT(*) AS count FROM perdure_submissions GROUP BY 1, 2")
        .toArray();
      expect(counts).toEqual([{ status: "completed", attempts: 1, count: LOAD }]);
    });
    await expectIdle(stub, ids);
  });
});

/** What can be seen of the maps in memory from outside: nothing is live, left over, announced or waited for. */
async function expectIdle(stub: ReturnType<typeof givenLedger>, ids: string[]): Promise<void> {
  for (let wake = 0; wake < 2; wake++) await wakeNow(stub);
  await within(stub, async ({ submissions, meter }, ctx) => {
    // A runner with live or interrupted turns, and an outbox with deliveries in flight, keep the wake.
    expect(jobOf(ctx)).toBeNull();
    // One that were still announced would be waited for, and the answer never come.
    const sample = [0, 1, LOAD >> 1, LOAD - 1].map((index) => ids[index] ?? "");
    for (const id of sample) {
      const ended = await submissions.wait(id);
      expect(ended, `the wait for ${id}`).toMatchObject({ status: "completed" });
      expect(await submissions.cancel(id)).toMatchObject({ outcome: "already_terminal" });
    }
    // The next one costs what it would cost the first: the wake, the row and its indexes.
    meter.reset();
    await submissions.submit([message("x")], { submissionId: "after" });
    await until(async () => (await submissions.inspect("after"))?.status === "completed");
    expect(meter.read().rowsWritten).toBeLessThan(12);
  });
}
