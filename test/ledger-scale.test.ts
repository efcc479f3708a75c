/**
 * L9 the ledger costs the same however much is stored and however much waits,
 * and takes thousands of submissions at once. Counts are exact and the same on
 * every machine; times are printed, and nothing depends on them.
 *
 * `VITE_PERDURE_SCALE_ROWS` and `VITE_PERDURE_SCALE_LOAD` set other sizes. A
 * million small rows take workerd about four seconds.
 */

import { beforeEach, describe, expect, it } from "vitest";
import type { TurnEnd } from "../src/submissions/index.ts";
import { givenLedger, message, until } from "./support/given.ts";
import { knob, limitMs } from "./support/knobs.ts";
import { jobOf, sleep, wakeNow, within } from "./support/ledger.ts";
import { chance, type LedgerObject, ledgerOptions, time } from "./support/ledger-object.ts";
import { CostTable, fillEnded, fillPending, Recorder } from "./support/ledger-scale.ts";

const STORED = [10, 1_000, knob("SCALE_ROWS", 100_000)];
const WAITING = [0, 10_000];
const LOAD = knob("SCALE_LOAD", 2_000);
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

/** Turns that claim, answer when told to, and wait for a word about how to end. */
class HeldTurns {
  #end: ((end: TurnEnd) => void) | undefined;
  /** How many have begun. */
  begun = 0;
  /** An answered turn is not put off: its answer stands (L7). */
  isAnswering = false;

  constructor({ turns, submissions }: LedgerObject) {
    turns.run = ({ begin }) => {
      const ref = begin();
      if (this.isAnswering) submissions.answer(ref, { ok: true });
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

describe("L9 the cost does not depend on how much is stored, nor on how much waits", () => {
  it("of any step of a submission, all of which read by an index", {
    timeout: limitMs(60_000),
  }, async () => {
    const table = new CostTable();
    const scans = new Set<string>();
    const took: string[] = [];
    await within(givenRoom(), async (object, { storage }) => {
      const { submissions, meter } = object;
      const turns = new HeldTurns(object);
      // What a life counts once, and the wake that a burst shares.
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

describe("L1 L4 L9 a load", () => {
  it(`of ${LOAD} submissions on one object: each runs once, in order, and nothing stays behind`, {
    timeout: limitMs(60_000),
  }, async () => {
    const stub = givenRoom();
    const ids = Array.from({ length: LOAD }, (_, index) => `load-${index}`);
    const ran: string[] = [];
    const told = new Map<string, number>();
    await within(stub, async ({ submissions, turns }, { storage }) => {
      let open = () => {};
      const gate = new Promise<void>((resolve) => {
        open = resolve;
      });
      turns.onStatus = async ({ status }) => {
        told.set(status, (told.get(status) ?? 0) + 1);
      };
      turns.run = async ({ begin, submissionId }) => {
        begin();
        ran.push(submissionId);
        await gate;
        return { outcome: "completed" };
      };
      const start = Date.now();
      for (const submissionId of ids) {
        const { accepted } = await submissions.submit([message("x")], { submissionId });
        expect(accepted).toBe(true);
      }
      await storage.sync();
      const accepted = Date.now();
      expect(await submissions.list({ status: "pending", limit: LOAD })).toHaveLength(LOAD - 1);
      open();
      await until(() => told.get("completed") === LOAD, limitMs(50_000));
      await storage.sync();
      const ended = Date.now();
      const rate = (ms: number) => `${ms} ms, ${Math.round((LOAD / ms) * 1_000)} a second`;
      console.log(
        `${LOAD} submissions: accepted in ${rate(accepted - start)}; run in ${rate(ended - accepted)}`,
      );
      expect(ran).toEqual(ids);
      expect(Object.fromEntries(told)).toEqual({ pending: LOAD, running: LOAD, completed: LOAD });
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
  await within(stub, async ({ submissions, outbox, meter }, ctx) => {
    // A runner that has something live or left over, and an outbox under way, keep the wake.
    expect(jobOf("perdure.submissions", ctx)).toBeNull();
    expect(outbox.isBusy).toBe(false);
    // One that were still announced would be waited for, and the answer never come.
    const sample = [0, 1, LOAD >> 1, LOAD - 1].map((index) => ids[index] ?? "");
    for (const id of sample) {
      const ended = await Promise.race([submissions.wait(id), sleep(500)]);
      expect(ended, `the wait for ${id}`).toMatchObject({ status: "completed" });
      expect(await submissions.cancel(id)).toMatchObject({ outcome: "already_terminal" });
    }
    // The next one costs what it would cost the first: the wake, the row and its indexes.
    meter.reset();
    await submissions.submit([message("x")], { submissionId: "after" });
    await until(async () => (await submissions.inspect("after"))?.status === "completed", 5_000);
    expect(meter.read().rowsWritten).toBeLessThan(12);
  });
}
