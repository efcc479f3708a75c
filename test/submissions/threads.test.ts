/** L4: within a thread one turn at a time, threads side by side up to a limit, on the light host. */

import { describe, expect, it } from "vitest";
import { BusyError } from "../../src/submissions/errors.ts";
import { givenLedger, message } from "../support/given.ts";
import {
  crashOne,
  expectState,
  held,
  jobOf,
  release,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { chance, ledgerOptions, time } from "../support/objects/ledger-object.ts";

/** Keeps a thread from moving until it is cancelled. */
const hold = { delayMs: 3_600_000 };

/** Below the 30 seconds of a heartbeat, and not over before a busy machine has looked. */
const retry = { baseDelay: 20_000, maxDelay: 20_000 };

/** A ledger in which so many turns may run at a time. */
function givenLanes(maxConcurrentTurns: number) {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", { maxConcurrentTurns, retry });
  return stub;
}

/** The ids that have this status, by the order of acceptance. */
async function idsThatAre(stub: ReturnType<typeof givenLedger>, status: "pending" | "running") {
  const found = await stub.list({ status });
  return found.map(({ submissionId }) => submissionId).reverse();
}

describe("L4: threads", () => {
  it("a busy thread blocks no other one, and each keeps its order", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "main" });
    await submit(stub, "x", { submissionId: "behind main" });
    for (const id of ["a", "b", "c"]) await submit(stub, "x", { submissionId: id, thread: "side" });
    await expectState(stub, "c", "completed", { thread: "side" });
    await expectState(stub, "main", "running");
    await expectState(stub, "behind main", "pending", { thread: "main" });
    const side = (await stub.conversation("side")).filter((id) => id.startsWith("reply-"));
    expect(side).toEqual(["reply-a", "reply-b", "reply-c"]);
    expect(await stub.conversation()).toHaveLength(1);
    await stub.cancel("main");
    await expectState(stub, "behind main", "completed");
  });

  it("at most as many turns run as maxConcurrentTurns allows, four by default", async () => {
    const stub = givenLedger();
    const ids = ["a", "b", "c", "d", "e", "f"];
    for (const id of ids) await submit(stub, hold, { submissionId: id, thread: id });
    expect(await idsThatAre(stub, "running")).toEqual(["a", "b", "c", "d"]);
    await stub.cancel("b");
    await expectState(stub, "e", "running");
    expect(await idsThatAre(stub, "pending")).toEqual(["f"]);
  });

  it("a thread with many submissions does not starve the others", async () => {
    const stub = givenLanes(1);
    await submit(stub, { isHeld: true }, { submissionId: "first", thread: "busy" });
    for (const id of ["1", "2", "3"]) {
      await submit(stub, { delayMs: 5 }, { submissionId: `busy ${id}`, thread: "busy" });
    }
    await submit(stub, { delayMs: 5 }, { submissionId: "quiet", thread: "quiet" });
    await release(stub, "first");
    await expectState(stub, "busy 3", "completed");
    const began = await within(stub, ({ turns }) =>
      turns.statuses.filter((status) => status.endsWith(":running")),
    );
    expect(began.indexOf("quiet:running")).toBeLessThanOrEqual(2);
  });

  it("an interrupted turn blocks no other thread", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "left", thread: "side", retry: { maxAttempts: 1 } });
    await submit(stub, "x", { submissionId: "behind", thread: "side" });
    await submit(stub, hold, { submissionId: "main", retry: { maxAttempts: 1 } });
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "left", "error", { errorName: "TurnInterruptedError" });
    await expectState(next, "main", "error");
    await expectState(next, "behind", "completed");
  });

  it("a thread that cannot be read blocks no other one, and continues when it can be read", async () => {
    const stub = givenLanes(1);
    await submit(stub, hold, { submissionId: "first", thread: "x" });
    await submit(stub, "x", { submissionId: "bad", thread: "bad" });
    await submit(stub, "x", { submissionId: "good", thread: "good" });
    const rewrite = (change: string) =>
      within(stub, (_, { storage }) => {
        const { sql } = storage;
        sql.exec(`UPDATE perdure_submissions SET messages = ${change} WHERE thread = 'bad'`);
      });
    await rewrite("'broken' || messages");
    await stub.cancel("first");
    await expectState(stub, "good", "completed");
    await rewrite("substr(messages, 7)");
    await wakeNow(stub);
    await expectState(stub, "bad", "completed");
  });

  it("L8: a turn that waits for a retry blocks its own thread, and no other one", async () => {
    chance.random = () => 0.99;
    const stub = givenLedger();
    const failing = { fail: "overloaded", status: 503 };
    await submit(stub, failing, { submissionId: "off", thread: "side" });
    await submit(stub, "x", { submissionId: "behind", thread: "side" });
    await expectState(stub, "off", "pending", { attempts: 1 });
    await submit(stub, "x", { submissionId: "main" });
    await expectState(stub, "main", "completed");
    await expectState(stub, "behind", "pending", { attempts: 0 });
  });

  it("L1: a wake comes for the thread that is due first, while another one runs", async () => {
    chance.random = () => 0.99;
    const stub = givenLanes(4);
    await submit(stub, hold, { submissionId: "main" });
    await submit(stub, { fail: "x", status: 503 }, { submissionId: "off", thread: "side" });
    const off = await expectState(stub, "off", "pending", { attempts: 1 });
    await wakeNow(stub);
    const wake = await within(stub, (_, ctx) => jobOf(ctx));
    expect(wake).toBeLessThanOrEqual(off.dueAt ?? 0);
  });

  it("list() filters by thread", async () => {
    const stub = givenLedger();
    await submit(stub, "x", { submissionId: "m" });
    await submit(stub, "x", { submissionId: "s", thread: "side" });
    expect(await stub.list({ thread: "side" })).toMatchObject([{ submissionId: "s" }]);
    expect(await stub.list({ thread: "main" })).toMatchObject([{ submissionId: "m" }]);
    expect(await stub.list({ thread: "none" })).toEqual([]);
  });

  it("whenBusy applies to its own thread only", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "main" });
    const reject = { whenBusy: "reject", thread: "side" } as const;
    await within(stub, async ({ submissions }) => {
      await submissions.submit([message(hold)], { ...reject, submissionId: "side" });
      await expect(submissions.submit([message("x")], reject)).rejects.toBeInstanceOf(BusyError);
    });
    await submit(stub, "x", { submissionId: "urgent", thread: "side", whenBusy: "interrupt" });
    await expectState(stub, "side", "aborted");
    await expectState(stub, "urgent", "completed");
    await expectState(stub, "main", "running");
  });

  it("L5: a reset of the main conversation ends what is open in it, and nothing else", async () => {
    const stub = givenLedger();
    for (const thread of ["main", "side"]) {
      await submit(stub, hold, { submissionId: `${thread} runs`, thread });
      await submit(stub, "x", { submissionId: `${thread} waits`, thread });
    }
    await stub.reset();
    await expectState(stub, "main runs", "aborted");
    await expectState(stub, "main waits", "skipped");
    await expectState(stub, "side runs", "running");
    await expectState(stub, "side waits", "pending");
  });
});

describe("L4: isolated turns", () => {
  const isolated = { thread: "isolated" } as const;

  it("run in parallel up to the limit, and add to no conversation", async () => {
    const stub = givenLanes(3);
    for (const id of ["a", "b", "c", "d"]) {
      await submit(stub, hold, { ...isolated, submissionId: id });
    }
    expect(await idsThatAre(stub, "running")).toEqual(["a", "b", "c"]);
    await stub.cancel("b");
    await expectState(stub, "d", "running");
    expect(await stub.conversation()).toEqual([]);
  });

  it("go by priority, and then by the order of acceptance", async () => {
    const stub = givenLanes(1);
    await submit(stub, hold, { ...isolated, submissionId: "first" });
    await submit(stub, hold, { ...isolated, submissionId: "low", priority: -1 });
    await submit(stub, hold, { ...isolated, submissionId: "high", priority: 1 });
    for (const id of ["first", "high"]) await stub.cancel(id);
    await expectState(stub, "low", "running");
  });

  it("L8: an isolated turn that waits for a retry blocks no other, and runs when it is due", async () => {
    chance.random = () => 0.99;
    const stub = givenLanes(1);
    const failing = { fail: "overloaded", status: 503, failTimes: 1 };
    await submit(stub, failing, { ...isolated, submissionId: "off" });
    const { dueAt = 0 } = await expectState(stub, "off", "pending", { attempts: 1 });
    await submit(stub, "x", { ...isolated, submissionId: "next" });
    await expectState(stub, "next", "completed");
    const wake = await within(stub, (_, ctx) => jobOf(ctx));
    expect(wake).toBeLessThanOrEqual(dueAt);
    time.aheadMs = 30_000;
    await wakeNow(stub);
    await expectState(stub, "off", "completed", { attempts: 2 });
  });

  it("L6: an isolated turn that a crash interrupts starts over, after side effects only if they do not mean to fail", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { ...isolated, submissionId: "plain" });
    await submit(stub, { isHeld: true, acts: true }, { ...isolated, submissionId: "acts" });
    const fails = { ...isolated, retry: { afterSideEffects: "fail" } } as const;
    await submit(stub, { isHeld: true, acts: true }, { ...fails, submissionId: "fails" });
    await held(stub, "acts");
    await held(stub, "fails");
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "plain", "running", { attempts: 2 });
    await expectState(next, "acts", "running", { attempts: 2 });
    const ended = await expectState(next, "fails", "error", { errorName: "TurnInterruptedError" });
    expect(ended.error).toContain("its tools have had effects");
  });
});
