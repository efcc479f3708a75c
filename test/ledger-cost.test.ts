/** What the ledger writes for a turn, in rows of its own tables, as `src/submissions/README.md` has it in its last paragraph. */

import { expect, it } from "vitest";
import type { InternalSubmitOptions } from "../src/submissions/types.ts";
import { givenLedger, until } from "./support/given.ts";
import {
  expectState,
  type Ledger,
  somewhere,
  submit,
  waitingIn,
  wakeNow,
  within,
} from "./support/ledger.ts";
import { chance, ledgerOptions, type TurnScript, time } from "./support/ledger-object.ts";

const HOUR_MS = 3_600_000;
const hold = { delayMs: 60_000 };
const ACCEPT = 3;
const CLAIM = 1;
const END = 1;
const TURN = ACCEPT + CLAIM + END;

/** Rows of Perdure's tables that `work` writes, until nothing is under way any more. */
async function rowsOf(stub: Ledger, work: () => Promise<unknown>): Promise<number> {
  await stub.list();
  await within(stub, ({ meter }) => meter.reset());
  await work();
  await until(() => within(stub, (_, ctx) => waitingIn(ctx).length === 0));
  return within(stub, ({ meter }) => meter.rowsWrittenBy((query) => query.includes(" perdure_")));
}

const isolated = { thread: "isolated" };
/** One that fits into a row, but not together with what was asked. */
const long = { answer: "x".repeat(1_000_000) };
const failing = { fail: "overloaded", status: 503, failTimes: 1 };

it.each<[string, number, InternalSubmitOptions, TurnScript]>([
  ["a turn", TURN, {}, {}],
  ["a key", TURN + 1, { idempotencyKey: "k" }, {}],
  ["an answer", TURN + 1, { answer: { schema: {} } }, { answer: "x" }],
  ["an answer of four parts", TURN + 1 + 4, { answer: { schema: {} } }, long],
  ["a destination", TURN + 2, { notify: [somewhere()] }, {}],
  ["two destinations", TURN + 4, { notify: [somewhere(), somewhere()] }, {}],
  ["tokens without a budget", TURN, {}, { tokens: 1, calls: 3 }],
  ["a budget, and three calls", TURN + 3, { budget: { tokens: 9 } }, { tokens: 1, calls: 3 }],
  ["tools in two calls", TURN + 1, {}, { acts: true, calls: 2 }],
  ["another attempt", TURN + 2 + CLAIM, {}, failing],
  ["another attempt of an isolated one", TURN + 6 + CLAIM, isolated, failing],
])("%s: %d rows", async (_, rows, options, script) => {
  chance.random = () => 0;
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    await submit(stub, script, { submissionId: "s", ...options });
    await expectState(stub, "s", "completed");
  });
  expect(cost).toBe(rows);
});

it("a budget of the day: 2 rows for each call of the model", async () => {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", { budget: { tokensPerDay: 100 } });
  const cost = await rowsOf(stub, async () => {
    await submit(stub, { tokens: 1, calls: 3 }, { submissionId: "s" });
    await expectState(stub, "s", "completed");
  });
  expect(cost).toBe(TURN + 3 * 2);
});

it("waiting for a time: 2 rows", async () => {
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    await submit(stub, "x", { submissionId: "s", notBefore: new Date(Date.now() + HOUR_MS) });
    time.aheadMs = HOUR_MS + 1;
    await wakeNow(stub);
    await expectState(stub, "s", "completed");
  });
  expect(cost).toBe(TURN + 2);
});

it("a debounced one: 4 rows to accept, and 2 for each repetition", async () => {
  const stub = givenLedger();
  const again = () => submit(stub, "x", { debounce: { key: "k", delay: "1 hour" } });
  expect(await rowsOf(stub, again)).toBe(ACCEPT + 1);
  for (let n = 0; n < 2; n++) expect(await rowsOf(stub, again)).toBe(2);
});

it("joining: 1 row", async () => {
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    await submit(stub, { delayMs: 40, calls: 5 }, { submissionId: "s" });
    await submit(stub, "x", { submissionId: "steer", whenBusy: "steer" });
    await expectState(stub, "steer", "completed", { mergedInto: "s" });
  });
  expect(cost).toBe(2 * TURN + 1);
});

it.each([
  ["an interruption", 0, "interrupt"],
  ["a rollback", 2, "rollback"],
] as const)("%s: %d rows", async (_, rows, whenBusy) => {
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    await submit(stub, hold, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "instead", whenBusy });
    await expectState(stub, "instead", "completed");
  });
  expect(cost).toBe(2 * TURN + rows);
});
