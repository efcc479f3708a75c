/**
 * L1-L9 on random sequences: submissions of every kind, cancellations, crashes
 * between and in the middle of steps, time and wakes, each compared with a
 * small model of the ledger after every step.
 *
 * The seed is fixed. `VITE_PERDURE_MODEL_SEED` and `VITE_PERDURE_MODEL_RUNS`
 * try others and more; a failure prints the seed, the path to it and the
 * shortest sequence that was found, and `VITE_PERDURE_MODEL_PATH` goes there.
 */

import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { endWithAnswer } from "../src/submissions/index.ts";
import { givenLedger } from "./support/given.ts";
import { knob, textKnob } from "./support/knobs.ts";
import { expectState, jobOf, submit, wakeNow, within } from "./support/ledger.ts";
import type { Plot, Rules } from "./support/ledger-model.ts";
import { chance, time } from "./support/ledger-object.ts";
import { type CalmStep, Run, type Step } from "./support/ledger-run.ts";

const RUNS = knob("MODEL_RUNS", 250);
const SEED = knob("MODEL_SEED", 20_261_121);
const DAY_MS = 86_400_000;

/** The steps of time below never add up to one of the delays, so that milliseconds do not matter. */
const RULES: Rules = {
  maxPending: 4,
  maxAttempts: 3,
  delayMs: (failures) => 60_000 * 2 ** (failures - 1),
};
const SHORT_MS = 35_000;
const LONG_MS = 1_000_000;

const plot: fc.Arbitrary<Plot> = fc
  .record({
    fails: fc.constantFrom(0, 0, 0, 1, 2, 9),
    failure: fc.constantFrom("permanent", "transient", "transient", "reset"),
    holds: fc.boolean(),
    deaf: fc.constantFrom(false, false, true),
    answers: fc.constantFrom(false, false, true),
    effects: fc.constantFrom(false, false, true),
  })
  .map((drawn) => ({
    ...drawn,
    failure: drawn.fails === 0 ? ("permanent" as const) : drawn.failure,
    deaf: drawn.deaf && drawn.holds,
  }));

const calm: fc.Arbitrary<CalmStep> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant("submit" as const),
      key: fc.constantFrom(undefined, undefined, "a", "b", "c"),
      plot,
      maxAttempts: fc.constantFrom(undefined, undefined, 1, 2),
      afterSideEffects: fc.constantFrom(false, true),
      onConflict: fc.constantFrom("return" as const, "throw" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("repeat" as const), nth: fc.nat(5) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("cancel" as const),
      nth: fc.nat(5),
      of: fc.constantFrom("open" as const, "open" as const, "all" as const),
    }),
  },
  { weight: 5, arbitrary: fc.constant({ op: "release" as const }) },
  { weight: 4, arbitrary: fc.constant({ op: "wake" as const }) },
  { weight: 1, arbitrary: fc.constant({ op: "skip" as const }) },
);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 20, arbitrary: calm },
  { weight: 2, arbitrary: fc.constant({ op: "crash" as const }) },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("pass" as const),
      ms: fc.constantFrom(SHORT_MS, LONG_MS),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("crash in" as const),
      step: calm,
      point: fc.record({
        write: fc.integer({ min: 1, max: 8 }),
        when: fc.constantFrom("before" as const, "after" as const),
      }),
    }),
  },
);

beforeEach(() => {
  chance.random = () => 0.5;
});
afterEach(() => {
  time.aheadMs = 0;
  chance.random = Math.random;
});

it("L1-L9 the ledger does what the model does, whatever comes in whatever order", async () => {
  const tally = { steps: 0, crashes: 0, ms: Date.now() };
  let patienceMs = 5_000;
  const property = fc.asyncProperty(
    fc.array(step, { maxLength: 24, size: "max" }),
    async (steps) => {
      // So far ahead that no alarm comes on its own: a sequence alone decides when the object wakes.
      time.aheadMs = DAY_MS;
      const run = new Run(RULES, patienceMs);
      try {
        await run.play(steps);
      } catch (error) {
        // While it looks for a shorter sequence it need not be sure.
        patienceMs = 150;
        throw error;
      }
      tally.steps += steps.length;
      tally.crashes += run.crashes;
    },
  );
  const path = textKnob("MODEL_PATH");
  await fc.assert(property, { numRuns: RUNS, seed: SEED, ...(path && { path }) });
  tally.ms = Date.now() - tally.ms;
  console.log(`seed ${SEED}: ${RUNS} sequences`, tally);
  expect(tally.crashes).toBeGreaterThan(0);
}, 600_000);

describe("what such sequences have found", () => {
  it("L1 a cancelled turn that meets a reset keeps nothing from running", async () => {
    const stub = givenLedger();
    let meetReset = () => {};
    await within(stub, ({ turns }) => {
      const { run } = turns;
      turns.run = async ({ begin }) => {
        begin();
        turns.run = run;
        await new Promise<void>((resolve) => {
          meetReset = resolve;
        });
        throw new Error("Durable Object reset because its code was updated.");
      };
    });
    await submit(stub, "x", { submissionId: "cancelled" });
    await expectState(stub, "cancelled", "running");
    await stub.cancel("cancelled");
    await within(stub, () => meetReset());
    await submit(stub, "x", { submissionId: "next" });
    for (let wake = 0; wake < 3; wake++) await wakeNow(stub);
    await expectState(stub, "next", "completed", {}, 1_000);
  });

  const deferred = { fail: "overloaded", status: 529, headers: { "retry-after": "3600" } };

  it("L5 cancelling a deferred one says that its messages are in the conversation", async () => {
    const stub = givenLedger();
    await submit(stub, deferred, { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    expect(await stub.conversation()).toHaveLength(1);
    expect(await stub.cancel("s")).toMatchObject({ outcome: "cancelled", messagesApplied: true });
  });

  it("L4 L8 what waits behind a deferred one runs when that one is cancelled", async () => {
    const stub = givenLedger();
    await submit(stub, deferred, { submissionId: "s" });
    await submit(stub, "x", { submissionId: "next" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    // From here on the wake is an hour away.
    await wakeNow(stub);
    await stub.cancel("s");
    await expectState(stub, "next", "completed", {}, 1_000);
  });

  it("L1 and is found again soon when the object crashes in its turn", async () => {
    const stub = givenLedger();
    await submit(stub, deferred, { submissionId: "s" });
    await submit(stub, { delayMs: 60_000 }, { submissionId: "next" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    await wakeNow(stub);
    await stub.cancel("s");
    await expectState(stub, "next", "running", {}, 1_000);
    const wake = await within(stub, (_, ctx) => jobOf("perdure.submissions", ctx));
    expect((wake ?? Number.POSITIVE_INFINITY) - Date.now()).toBeLessThan(31_000);
    await stub.cancel("next");
  });

  it("L7 a turn that fails for now after its answer is recorded does not end unanswered", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    await within(stub, ({ turns, submissions }) => {
      turns.run = async ({ begin }) => {
        const ref = begin();
        const isAnswered = submissions.answer(ref, { ok: ref.attempt });
        if (ref.attempt === 1) throw new Error("Network connection lost.");
        return endWithAnswer({ outcome: "completed" }, { isAnswered, problem: undefined });
      };
    });
    await submit(stub, "x", { submissionId: "s", answer: { schema: {} } });
    const ended = await expectState(stub, "s", "completed", {}, 1_000);
    expect(ended.output).toEqual({ ok: ended.attempts });
  });
});
