/** What the ledger writes for a turn, in rows of its own tables, as `src/submissions/README.md` has it in its last paragraph. */

import { expect, it } from "vitest";
import type { InternalSubmitOptions } from "../../../src/submissions/submit-options.ts";
import { givenLedger, message, until } from "../../support/given.ts";
import {
  expectState,
  type Ledger,
  playing,
  release,
  sleep,
  somewhere,
  submit,
  waitingIn,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import {
  chance,
  ledgerOptions,
  type TurnScript,
  time,
} from "../../support/objects/ledger-object.ts";

const HOUR_MS = 3_600_000;
const hold = { delayMs: 60_000 };
/** With an id that the ledger gives; one of the caller's own is a row more. */
const ACCEPT = 2;
const CLAIM = 1;
const END = 1;
const TURN = ACCEPT + CLAIM + END;

/** Rows of Perdure's tables that `work` writes, until nothing is in flight. */
async function rowsOf(stub: Ledger, work: () => Promise<unknown>): Promise<number> {
  await stub.list();
  await within(stub, ({ meter }) => meter.reset());
  await work();
  await until(() => within(stub, (_, ctx) => waitingIn(ctx).length === 0));
  return within(stub, ({ meter }) => meter.rowsWrittenBy((query) => query.includes(" perdure_")));
}

const ANSWERED = { answer: { schema: {} } };
const once = { retry: { maxAttempts: 1 } };
const budget = { tokens: 9 };
const isolated = { thread: "isolated" };
/** One that fits into a row, but not together with what was asked. */
const long = { answer: "x".repeat(1_000_000) };
const failing = { fail: "overloaded", status: 503, failTimes: 1 };

it.each<[string, number, InternalSubmitOptions, TurnScript]>([
  ["a turn", TURN, {}, {}],
  ["an id of the caller's own", TURN + 1, { submissionId: "s" }, {}],
  ["a key", TURN + 1, { idempotencyKey: "k" }, {}],
  ["an answer", TURN, ANSWERED, { answer: "x" }],
  ["an answer of the last attempt", TURN + 1, { ...ANSWERED, ...once }, { answer: "x" }],
  ["an answer after a tool", TURN + 3, ANSWERED, { answer: "x", acts: true }],
  ["an answer with a budget", TURN + 2, { ...ANSWERED, budget }, { answer: "x", tokens: 1 }],
  [
    "a prompt",
    TURN + 1 + 2,
    { ...ANSWERED, idempotencyKey: "k", ...isolated, notify: [somewhere()] },
    { answer: "x" },
  ],
  ["an answer of four parts, and the table of large values", TURN + 1 + 4 + 1, ANSWERED, long],
  ["a destination", TURN + 2, { notify: [somewhere()] }, {}],
  ["two destinations", TURN + 4, { notify: [somewhere(), somewhere()] }, {}],
  ["the tokens of three calls", TURN + 2, {}, { tokens: 1, calls: 3 }],
  ["a budget, and three calls", TURN + 3, { budget: { tokens: 9 } }, { tokens: 1, calls: 3 }],
  ["tools in two calls", TURN + 4, {}, { acts: true, calls: 2 }],
  ["another attempt", TURN + 2 + CLAIM, {}, failing],
  ["another attempt of an isolated one", TURN + 6 + CLAIM, isolated, failing],
])("%s: %d rows", async (_, rows, options, script) => {
  chance.random = () => 0;
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    const { submissionId } = await submit(stub, script, options);
    await expectState(stub, submissionId, "completed");
  });
  expect(cost).toBe(rows);
});

it("an acceptance while a turn runs is 1 statement, once the object has accepted another", async () => {
  const stub = givenLedger();
  await submit(stub, hold);
  const statements = await within(stub, async ({ meter, submissions }) => {
    await submissions.submit([message("first")]);
    meter.reset();
    for (let n = 0; n < 10; n++) await submissions.submit([message("next")]);
    return meter.read().statements;
  });
  expect(statements).toBe(10);
});

it("waiting for a time: 2 rows", async () => {
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    const notBefore = new Date(Date.now() + HOUR_MS);
    const { submissionId } = await submit(stub, "x", { notBefore });
    time.aheadMs = HOUR_MS + 1;
    await wakeNow(stub);
    await expectState(stub, submissionId, "completed");
  });
  expect(cost).toBe(TURN + 2);
});

it("a debounced one: 3 rows to accept, and 2 for each repetition", async () => {
  const stub = givenLedger();
  const again = () => submit(stub, "x", { debounce: { key: "k", delay: "1 hour" } });
  expect(await rowsOf(stub, again)).toBe(ACCEPT + 1);
  for (let n = 0; n < 2; n++) expect(await rowsOf(stub, again)).toBe(2);
});

it("an answer whose turn takes its time to end: 1 row", async () => {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", { holdAnswerMs: 1 });
  await playing(stub, "s", async ({ begin }, { submissions }) => {
    submissions.turns.answer(begin(), "x");
    await sleep(20);
    return { outcome: "completed" };
  });
  const cost = await rowsOf(stub, async () => {
    await submit(stub, "x", { ...ANSWERED, submissionId: "s" });
    await expectState(stub, "s", "completed");
  });
  expect(cost).toBe(TURN + 1 + 1);
});

it("joining: 1 row", async () => {
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    const { submissionId: mergedInto } = await submit(stub, { isHeld: true, calls: 2 });
    const { submissionId } = await submit(stub, "x", { whenBusy: "steer" });
    await release(stub, mergedInto);
    await expectState(stub, submissionId, "completed", { mergedInto });
  });
  expect(cost).toBe(2 * TURN + 1);
});

it.each([
  ["an interruption", 0, "interrupt"],
  ["a rollback", 2, "rollback"],
] as const)("%s: %d rows", async (_, rows, whenBusy) => {
  const stub = givenLedger();
  const cost = await rowsOf(stub, async () => {
    const held = await submit(stub, hold);
    await expectState(stub, held.submissionId, "running");
    const { submissionId } = await submit(stub, "x", { whenBusy });
    await expectState(stub, submissionId, "completed");
  });
  expect(cost).toBe(2 * TURN + rows);
});
