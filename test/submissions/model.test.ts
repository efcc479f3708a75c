/**
 * L1-L9 on random sequences: submissions of every kind, cancellations, crashes between and within commands, time and
 * wakes. The ledger is compared with a small model after every step (test/support/model-test.ts).
 *
 * The seed is fixed. `VITE_PERDURE_MODEL_SEED` and `VITE_PERDURE_MODEL_RUNS` try others and more. A failure prints the
 * seed, the path and the shortest sequence that fails; `VITE_PERDURE_MODEL_PATH` replays it.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { endWithAnswer } from "../../src/submissions/host.ts";
import { givenLedger, until } from "../support/given.ts";
import {
  crashOne,
  expectState,
  forever,
  jobOf,
  release,
  sleep,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { testAgainstModel } from "../support/model-test.ts";
import { chance, ledgerOptions, time } from "../support/objects/ledger-object.ts";
import { limitMs } from "../support/sizes.ts";
import { ledgerSteps, RULES } from "./model/commands.ts";
import { LedgerComparison } from "./model/ledger-comparison.ts";

it(
  "L1-L9: the ledger does what the model does after any sequence of commands and crashes",
  () =>
    testAgainstModel({
      name: "MODEL",
      runs: 40,
      steps: ledgerSteps,
      start: fc.constant(undefined),
      shrinkMs: 300,
      subject: () => new LedgerComparison(RULES),
    }),
  limitMs(600_000),
);

describe("bugs that such sequences have found", () => {
  it("L1: a cancelled turn that meets a reset does not block its thread", async () => {
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
    await expectState(stub, "next", "completed");
  });

  const deferred = { fail: "overloaded", status: 529, headers: { "retry-after": "3600" } };

  it("L5: cancelling a submission that waits for a retry returns that its messages are in the conversation", async () => {
    const stub = givenLedger();
    await submit(stub, deferred, { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    expect(await stub.conversation()).toHaveLength(1);
    expect(await stub.cancel("s")).toMatchObject({ outcome: "cancelled", messagesApplied: true });
  });

  it("L4, L8: the next submission runs when one that waits for a retry is cancelled", async () => {
    const stub = givenLedger();
    await submit(stub, deferred, { submissionId: "s" });
    await submit(stub, "x", { submissionId: "next" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    // From here on the wake is an hour away.
    await wakeNow(stub);
    await stub.cancel("s");
    await expectState(stub, "next", "completed");
  });

  it("L1: the next submission is found soon when the object crashes in its turn", async () => {
    const stub = givenLedger();
    await submit(stub, deferred, { submissionId: "s" });
    await submit(stub, { delayMs: 60_000 }, { submissionId: "next" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    await wakeNow(stub);
    await stub.cancel("s");
    await expectState(stub, "next", "running");
    const wake = await within(stub, (_, ctx) => jobOf(ctx));
    expect((wake ?? Number.POSITIVE_INFINITY) - Date.now()).toBeLessThan(31_000);
    await stub.cancel("next");
  });

  const deaf = { isHeld: true, isDeaf: true };

  it("L5: a submission is not deleted before its rollback is done", async () => {
    const stub = givenLedger();
    await submit(stub, deaf, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "next", whenBusy: "rollback" });
    expect(await within(stub, ({ submissions }) => submissions.delete("s"))).toBe(false);
    expect(await within(stub, ({ submissions }) => submissions.deleteMany())).toBe(0);
    await release(stub, "s");
    await expectState(stub, "next", "completed");
    expect(await stub.conversation()).toEqual([expect.any(String), "reply-next"]);
    expect(await within(stub, ({ submissions }) => submissions.delete("s"))).toBe(true);
  });

  it("L2, L4: a cancelled turn that still runs keeps its thread, though it may be deleted", async () => {
    const stub = givenLedger();
    await submit(stub, deaf, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await stub.cancel("s");
    await within(stub, ({ submissions }) => submissions.delete("s"));
    // Once it was given the number of the one that was forgotten, and took its place.
    await submit(stub, "x", { submissionId: "beside", thread: "side" });
    await submit(stub, "x", { submissionId: "next" });
    await expectState(stub, "beside", "completed");
    await release(stub, "s");
    await expectState(stub, "next", "completed");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply"));
    expect(replies).toEqual(["reply-s", "reply-next"]);
  });

  it("L5: a rollback waits for the end of its turn, though another rollback is done before", async () => {
    const stub = givenLedger();
    await submit(stub, deaf, { submissionId: "s" });
    await submit(stub, { delayMs: 60_000 }, { submissionId: "beside", thread: "side" });
    await expectState(stub, "s", "running");
    await expectState(stub, "beside", "running");
    await submit(stub, "x", { submissionId: "next", whenBusy: "rollback" });
    await submit(stub, "x", { submissionId: "also", whenBusy: "rollback", thread: "side" });
    await expectState(stub, "also", "completed");
    await release(stub, "s");
    await expectState(stub, "next", "completed");
    expect(await stub.conversation()).toEqual([expect.any(String), "reply-next"]);
  });

  it("L1: a joined submission whose messages were not stored gets a turn of its own, though the joined turn was answered", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { holdAnswerMs: 1 });
    await within(stub, ({ turns, submissions }) => {
      turns.run = async ({ begin }) => {
        const ref = begin();
        submissions.turns.answer(ref, "done");
        await sleep(20);
        await until(() => submissions.turns.nextStep(ref).length > 0);
        return forever();
      };
    });
    await submit(stub, "x", { submissionId: "s", answer: { schema: {} } });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "joined", whenBusy: "steer" });
    await expectState(stub, "joined", "running", { mergedInto: "s" });
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "s", "completed");
    await expectState(next, "joined", "completed", { attempts: 2 });
    expect(await next.conversation()).toContain("reply-joined");
  });

  it("L4: an expired submission does not join a turn", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true, calls: 2 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "late", whenBusy: "steer", expiresIn: 50 });
    time.aheadMs = 51;
    await release(stub, "s");
    await expectState(stub, "s", "completed");
    await expectState(stub, "late", "skipped", { errorName: "SubmissionExpiredError" });
  });

  it("L7: a turn that fails for now after its answer is recorded does not end unanswered", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    await within(stub, ({ turns, submissions }) => {
      turns.run = async ({ begin }) => {
        const ref = begin();
        const isAnswered = submissions.turns.answer(ref, { ok: ref.attempt });
        if (ref.attempt === 1) throw new Error("Network connection lost.");
        return endWithAnswer({ outcome: "completed" }, { isAnswered, problem: undefined });
      };
    });
    await submit(stub, "x", { submissionId: "s", answer: { schema: {} } });
    const ended = await expectState(stub, "s", "completed");
    expect(ended.output).toEqual({ ok: ended.attempts });
  });
});
