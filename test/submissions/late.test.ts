/**
 * Who comes late changes nothing (L2): attempts that were given up, submissions that were deleted, decisions that
 * overlap; on the light host.
 */

import { describe, expect, it } from "vitest";
import { TurnRefused } from "../../src/submissions/host.ts";
import type { AttemptRef } from "../../src/submissions/states.ts";
import { givenLedger, message, until } from "../support/given.ts";
import {
  crashOne,
  expectState,
  forever,
  givenWait,
  type Ledger,
  playing,
  release,
  sleep,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import {
  act,
  births,
  chance,
  type LedgerObject,
  ledgerOptions,
  time,
} from "../support/objects/ledger-object.ts";

const RESET = "Durable Object reset because its code was updated.";
const hold = { delayMs: 60_000 };
const rollback = { submissionId: "instead", whenBusy: "rollback" } as const;

/** A ledger that gives up a turn without progress for five minutes. */
function givenWatch() {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", { stallTimeout: "5 minutes" });
  return stub;
}

/** No turn has made progress for longer than that. */
async function stall(stub: Ledger): Promise<void> {
  time.aheadMs = 301_000;
  await wakeNow(stub);
}

describe("L2: an attempt that is over", () => {
  const steps: [string, (object: LedgerObject, ref: AttemptRef) => unknown][] = [
    ["call of the model", ({ submissions }, ref) => submissions.turns.nextStep(ref)],
    ["tool", ({ submissions }, ref) => submissions.turns.toolCalls(ref).start(act())],
  ];

  /** The first turn of "s" comes to its next step when the wait opens. Returns the wait and what became of the step. */
  async function givenLateStep(stub: Ledger, step: (typeof steps)[number][1]) {
    const wait = givenWait();
    const late: { refusal?: unknown; isDone?: true } = {};
    await playing(stub, "s", async (turn, object) => {
      const ref = turn.begin();
      object.submissions.turns.nextStep(ref);
      if (ref.attempt > 1) return { outcome: "completed" };
      await wait.pass();
      try {
        await step(object, ref);
        late.isDone = true;
      } catch (error) {
        late.refusal = error;
        throw error;
      }
      return { outcome: "completed", messageId: "late" };
    });
    await submit(stub, "x", { submissionId: "s" });
    await wait.reached();
    return { wait, late };
  }

  it.each(steps)("given up, an attempt is refused its next %s", async (_, step) => {
    chance.random = () => 0;
    const stub = givenWatch();
    const { wait, late } = await givenLateStep(stub, step);
    await stall(stub);
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    await wait.open(stub);
    await until(() => late.refusal);
    expect(late.refusal).toBeInstanceOf(TurnRefused);
    expect(late).not.toHaveProperty("isDone");
    expect(await stub.inspect("s")).toEqual(ended);
  });

  it.each(steps)("cancelled, an attempt is refused its next %s", async (_, step) => {
    const stub = givenLedger();
    const { wait, late } = await givenLateStep(stub, step);
    await stub.cancel("s");
    await wait.open(stub);
    await until(() => late.refusal);
    expect(late.refusal).toBeInstanceOf(TurnRefused);
    expect(late).not.toHaveProperty("isDone");
    await expectState(stub, "s", "aborted", { attempts: 1 });
  });

  it("L5: the messages of a rolled back attempt are removed before the next turn", async () => {
    const stub = givenWatch();
    await submit(stub, { ...hold, isDeaf: true }, { submissionId: "deaf" });
    await expectState(stub, "deaf", "running");
    const instead = message("x");
    await stub.submit([instead], rollback);
    await expectState(stub, "deaf", "aborted");
    await expectState(stub, "instead", "pending");
    // One wake gives it up, the next one takes its messages back.
    await stall(stub);
    await wakeNow(stub);
    await expectState(stub, "instead", "completed");
    expect(await stub.conversation()).toEqual([instead.id, "reply-instead"]);
  });
});

describe("L2: a deleted submission", () => {
  const answer = { schema: { type: "string" } };

  /** One that is deleted while its turn goes on. Returns what its turn still knows it by. */
  async function givenDeleted(stub: Ledger): Promise<AttemptRef> {
    const refs: AttemptRef[] = [];
    await playing(stub, "old", (turn) => {
      refs.push(turn.begin());
      return forever();
    });
    await submit(stub, "x", { submissionId: "old", thread: "a", answer });
    await expectState(stub, "old", "running");
    await stub.cancel("old");
    expect(await within(stub, ({ submissions }) => submissions.delete("old"))).toBe(true);
    const [ref] = refs;
    if (!ref) throw new Error("Its turn has not begun");
    return ref;
  }

  it("its late answer does not reach the next submission", async () => {
    const stub = givenLedger();
    const late = await givenDeleted(stub);
    const next = { submissionId: "next", thread: "b", answer };
    await submit(stub, { isHeld: true, answer: "its own" }, next);
    await expectState(stub, "next", "running", { attempts: late.attempt });
    expect(await within(stub, ({ submissions }) => submissions.turns.answer(late, "late"))).toBe(
      false,
    );
    await release(stub, "next");
    await expectState(stub, "next", "completed", { output: "its own" });
  });

  it("its late end does not end the next submission", async () => {
    const stub = givenLedger();
    const late = await givenDeleted(stub);
    await submit(stub, hold, { submissionId: "next", thread: "b" });
    const before = await expectState(stub, "next", "running", { attempts: late.attempt });
    await within(stub, ({ submissions }) =>
      submissions.turns.end(late, { outcome: "completed", messageId: "late" }),
    );
    expect(await stub.inspect("next")).toEqual(before);
  });

  it("L4: a deleted submission that wanted to join is not replaced by one of another thread", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { maxConcurrentTurns: 1 });
    await submit(stub, { isHeld: true, calls: 2 }, { submissionId: "s", thread: "a" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "steer", thread: "a", whenBusy: "steer" });
    await stub.cancel("steer");
    expect(await within(stub, ({ submissions }) => submissions.delete("steer"))).toBe(true);
    await submit(stub, "private", { submissionId: "other", thread: "b" });
    await expectState(stub, "s", "running");
    await release(stub, "s");
    const ended = await expectState(stub, "other", "completed");
    expect(ended).not.toHaveProperty("mergedInto");
    expect(await stub.conversation("a")).toHaveLength(2);
    expect(await stub.conversation("b")).toHaveLength(2);
  });

  it("L5: a rolled back submission cannot be deleted before its messages are removed", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true, isDeaf: true }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    const instead = message("x");
    await stub.submit([instead], rollback);
    const remove = () => within(stub, ({ submissions }) => submissions.delete("s"));
    expect(await remove()).toBe(false);
    await release(stub, "s");
    await expectState(stub, "instead", "completed");
    expect(await stub.conversation()).toEqual([instead.id, "reply-instead"]);
    expect(await remove()).toBe(true);
  });
});

describe("L6: an interrupted turn", () => {
  it("is decided once by two concurrent checks, and again when the next attempt is interrupted", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "s" });
    await expectState(stub, "s", "running");
    const wait = givenWait();
    births.set(stub.name ?? "", ({ turns }) => {
      const { inspectConversation: inspect, run } = turns;
      turns.inspectConversation = async (turn) => {
        turns.inspectConversation = inspect;
        const found = await turns.inspectConversation(turn);
        await wait.pass();
        return found;
      };
      turns.run = async (turn) => {
        if (turn.submissionId !== "s") return run.call(turns, turn);
        turns.run = run;
        turn.begin();
        throw new Error(RESET);
      };
    });
    const next = await crashOne(stub);
    await next.list();
    // The alarm is slow to tell what was left; a rollback of another thread asks meanwhile.
    const slow = wakeNow(next);
    await wait.reached();
    await submit(next, hold, { submissionId: "other", thread: "other" });
    await submit(next, "x", { ...rollback, thread: "other" });
    await expectState(next, "s", "running", { attempts: 1 });
    await wait.open(next);
    await expectState(next, "s", "running", { attempts: 2 });
    await slow;
    await until(async () => {
      await wakeNow(next);
      return (await next.inspect("s"))?.attempts === 3;
    });
    await expectState(next, "instead", "completed", { thread: "other" });
  });

  it("L5: messages are removed once, and not from a later retry", async () => {
    const stub = givenLedger();
    const asked = message(hold);
    await stub.submit([asked], { submissionId: "s" });
    await expectState(stub, "s", "running");
    const wait = givenWait();
    let times = 0;
    await within(stub, ({ turns }) => {
      const removeMessages = turns.removeMessages.bind(turns);
      turns.removeMessages = async (turn) => {
        times++;
        await wait.pass();
        await removeMessages(turn);
      };
    });
    const instead = message("x");
    await stub.submit([instead], rollback);
    await wait.reached();
    const retried = await within(stub, ({ submissions }) => submissions.retry("s"));
    // The alarm comes in the middle of it.
    const slow = wakeNow(stub);
    await sleep(30);
    await wait.open(stub);
    await expectState(stub, retried?.submissionId ?? "", "running");
    await wait.open(stub);
    await slow;
    expect(await stub.conversation()).toEqual([instead.id, "reply-instead", asked.id]);
    expect(times).toBe(1);
  });

  it("that could not be read after a reset is decided at a later wake", async () => {
    const stub = givenLedger();
    let hasFailed = false;
    await within(stub, ({ turns, meter }) => {
      const { run } = turns;
      const exec = meter.exec.bind(meter);
      turns.run = async (turn) => {
        turns.run = run;
        turn.begin();
        meter.exec = (query, read) => {
          if (!query.startsWith("SELECT * FROM perdure_submissions WHERE seq")) {
            return exec(query, read);
          }
          meter.exec = exec;
          hasFailed = true;
          throw new Error("storage is busy");
        };
        throw new Error(RESET);
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "running", { attempts: 1 });
    await until(() => hasFailed);
    await wakeNow(stub);
    await expectState(stub, "s", "completed", { attempts: 2 });
  });
});
