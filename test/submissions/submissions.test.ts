/** The ledger on the light host: what is promised of a submission (L1 L2 L4 L5 L7), with and without crashes. */

import { describe, expect, it } from "vitest";
import type { TurnHost } from "../../src/submissions/host.ts";
import { ask, type Script } from "../../src/testing/index.ts";
import { crash, givenLedger, message, until } from "../support/given.ts";
import {
  again,
  crashOne,
  expectState,
  forever,
  held,
  release,
  sleep,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { births, ledgerOptions } from "../support/objects/ledger-object.ts";

const LONG: Script = { delayMs: 60_000 };

describe("L1: an accepted submission reaches exactly one end", () => {
  it("the status hook is called for each change, in order", async () => {
    const stub = givenLedger();
    const accepted = await submit(stub, { delayMs: 20 }, { submissionId: "s" });
    expect(accepted).toEqual({
      submissionId: "s",
      requestId: "s",
      status: "pending",
      accepted: true,
      thread: "main",
      attempts: 0,
      createdAt: expect.any(Number),
    });
    await stub.wait("s");
    await within(stub, ({ turns }) => {
      expect(turns.statuses).toEqual(["s:pending", "s:running", "s:completed"]);
    });
  });

  it("a turn that throws ends in error", async () => {
    const stub = givenLedger();
    await submit(stub, { fail: "the model is gone" }, { submissionId: "s" });
    expect(await stub.wait("s")).toMatchObject({
      status: "error",
      error: "the model is gone",
      errorName: "Error",
    });
  });

  it("a submission ends after a crash right after its acceptance, and one in the middle of its turn", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "s" });
    await crash();
    await expectState(again(stub), "s", "running", { attempts: 2 });
    await release(again(stub), "s");
    await expectState(again(stub), "s", "completed", { attempts: 2 });
  });

  it("a submission ends after four crashes of its turn", async () => {
    let stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "s" });
    for (let attempt = 1; attempt <= 4; attempt++) {
      await expectState(stub, "s", "running", { attempts: attempt });
      stub = await crashOne(stub);
    }
    await expectState(stub, "s", "running", { attempts: 5 });
    await release(stub, "s");
    await expectState(stub, "s", "completed", { attempts: 5 });
    expect(await stub.conversation()).toHaveLength(2);
  });

  it("L6: the fifth crash is the last: attempts are bounded, and what waits behind it runs", async () => {
    let stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await submit(stub, "next", { submissionId: "next" });
    for (let attempt = 1; attempt <= 5; attempt++) {
      await expectState(stub, "s", "running", { attempts: attempt });
      stub = await crashOne(stub);
    }
    await expectState(stub, "s", "error", { attempts: 5, errorName: "TurnInterruptedError" });
    await expectState(stub, "next", "completed");
  });

  it.each([
    "Durable Object reset because its code was updated.",
    "exceeded its memory limit and was reset.",
  ])("when a turn fails with the reset of another object: %s", async (fail) => {
    const stub = givenLedger();
    await submit(stub, { fail, delayMs: 5 }, { submissionId: "s" });
    await submit(stub, "next", { submissionId: "next" });
    // Each wake may be worth an attempt, and resets that are seen cost none of them.
    await until(async () => {
      await wakeNow(stub);
      return (await stub.inspect("next"))?.status === "completed";
    });
    await expectState(stub, "s", "error");
  });

  it("a submission ends when its end could not be written at first", async () => {
    const stub = givenLedger();
    await stub.list();
    await within(stub, ({ meter }) => {
      let refusals = 2;
      meter.onWrite = (_, what) => {
        if (what.includes("SET status = ?") && refusals-- > 0)
          throw new Error("string or blob too big");
      };
    });
    await submit(stub, { delayMs: 20 }, { submissionId: "s" });
    await until(async () => {
      await wakeNow(stub);
      return ["completed", "error"].includes((await stub.inspect("s"))?.status ?? "");
    });
  });
});

it("L7: an error that repeats the whole request is cut, so that the end can be stored", async () => {
  const stub = givenLedger();
  await submit(stub, { fail: "x".repeat(1_000_000) }, { submissionId: "s" });
  const ended = await expectState(stub, "s", "error");
  expect(ended.error).toHaveLength(4_102);
  expect(ended.error).toMatch(/ \[cut\]$/);
});

describe("L2: a late finisher changes nothing", () => {
  it("the late end of a turn that ignores its cancellation changes nothing", async () => {
    const stub = givenLedger();
    let finish = () => {};
    await within(stub, ({ turns }) => {
      turns.run = async ({ begin }) => {
        begin();
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        return { outcome: "completed", messageId: "late" };
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "running");
    await stub.cancel("s");
    const aborted = await stub.inspect("s");
    await within(stub, () => finish());
    await sleep(20);
    expect(await stub.inspect("s")).toEqual(aborted);
  });

  it("the late end of an attempt before a crash changes nothing, during the next attempt and after it", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    const next = await crashOne(stub);
    await expectState(next, "s", "running", { attempts: 2 });
    const late = () =>
      within(next, ({ submissions }) => {
        for (const outcome of ["completed", "aborted", "skipped"] as const) {
          submissions.turns.end({ seq: 1, attempt: 1 }, { outcome, messageId: "late" });
        }
        expect(submissions.turns.answer({ seq: 1, attempt: 1 }, "late")).toBe(false);
      });
    await late();
    await release(next, "s");
    await expectState(next, "s", "completed", { attempts: 2, messageId: "reply-s" });
    const ended = await next.inspect("s");
    await late();
    expect(await next.inspect("s")).toEqual(ended);
  });

  it("of an earlier attempt, while the host recovers a later one: the later one is still checked", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await expectState(stub, "s", "running");
    let isRecovering = true;
    births.set(stub.name ?? "", ({ turns }) => {
      turns.isRecovering = async () => isRecovering;
      turns.run = async ({ begin }) => {
        begin();
        return { outcome: "completed" };
      };
    });
    const next = await crashOne(stub);
    await within(next, async ({ lifecycle, submissions }) => {
      await lifecycle.start();
      submissions.turns.end({ seq: 1, attempt: 0 }, { outcome: "completed" });
    });
    expect(await next.inspect("s")).toMatchObject({ status: "running", attempts: 1 });
    isRecovering = false;
    for (let wake = 0; wake < 3; wake++) await wakeNow(next);
    await expectState(next, "s", "completed");
  });
});

describe("L4: first in, first out", () => {
  it("one turn at a time, and messages join the conversation when their turn starts", async () => {
    const stub = givenLedger();
    for (const id of ["a", "b", "c"]) {
      await within(stub, ({ submissions }) =>
        submissions.submit([message("first", `${id}1`), message({ isHeld: true }, `${id}2`)], {
          submissionId: id,
        }),
      );
    }
    await release(stub, "a");
    await held(stub, "b");
    expect(await stub.conversation()).toEqual(["a1", "a2", "reply-a", "b1", "b2"]);
    for (const id of ["b", "c"]) await release(stub, id);
    await stub.wait("c");
    expect((await stub.conversation()).slice(5)).toEqual(["reply-b", "c1", "c2", "reply-c"]);
    await within(stub, ({ turns }) => {
      const running = turns.statuses.filter((status) => !status.endsWith("pending"));
      expect(running).toEqual(
        ["a", "b", "c"].flatMap((id) => [`${id}:running`, `${id}:completed`]),
      );
    });
  });

  it("after a crash, running submissions come before pending ones", async () => {
    const stub = givenLedger();
    for (const id of ["a", "b", "c"]) await submit(stub, { isHeld: true }, { submissionId: id });
    await release(stub, "a");
    await expectState(stub, "b", "running");
    const next = await crashOne(stub);
    await next.list();
    for (const id of ["b", "c"]) await release(next, id);
    await expectState(next, "c", "completed");
    const replies = (await next.conversation()).filter((id) => id.startsWith("reply"));
    expect(replies).toEqual(["reply-a", "reply-b", "reply-c"]);
  });
});

describe("L5: cancel", () => {
  it("L5: cancelling a pending submission appends no message", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "first" });
    await within(stub, ({ submissions }) =>
      submissions.submit([message("x", "never")], { submissionId: "s" }),
    );
    expect(await stub.cancel("s", "not needed")).toMatchObject({
      outcome: "cancelled",
      previousStatus: "pending",
      messagesApplied: false,
      submission: { status: "aborted", error: "not needed", errorName: "SubmissionCancelledError" },
    });
    await release(stub, "first");
    await stub.wait("first");
    await expectState(await crashOne(stub), "s", "aborted");
    expect(await again(stub).conversation()).not.toContain("never");
  });

  it.each([
    [{ order: 7 }, /^\{"order":7\}$/],
    ["x".repeat(3_000_000), /^x{1000,20000}\D{1,40}$/],
    [new Error("too late"), /^too late$/],
    [null, /^null$/],
    [Symbol("x"), /^Symbol\(x\)$/],
  ])("L5: stores the reason %# as a text of limited length", async (reason, stored) => {
    await within(givenLedger(), async ({ submissions }) => {
      const asked = { notBefore: new Date(Date.now() + 60_000), submissionId: "s" };
      await submissions.submit([message("x", "never")], asked);
      await submissions.cancel("s", reason);
      expect((await submissions.inspect("s"))?.error).toMatch(stored);
    });
  });

  it("L5: cancelling a running submission aborts its turn, and the next one runs", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await submit(stub, "next", { submissionId: "next" });
    await expectState(stub, "s", "running");
    const result = await stub.cancel("s");
    expect(result).toMatchObject({
      outcome: "cancelled",
      previousStatus: "running",
      messagesApplied: true,
    });
    expect(result).not.toHaveProperty("submission.error");
    await expectState(stub, "next", "completed");
    expect(await stub.conversation()).not.toContain("reply-s");
  });

  it("L5: cancelling a submission that its host recovers stops the host, and the next one runs", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await submit(stub, "next", { submissionId: "next" });
    await expectState(stub, "s", "running");
    const stopped: unknown[] = [];
    births.set(stub.name ?? "", ({ turns }) => {
      turns.isRecovering = async () => true;
      turns.stop = (...args: Parameters<TurnHost["stop"]>) =>
        void stopped.push([args[0].messages.length, args[1]]);
    });
    const next = await crashOne(stub);
    expect(await next.cancel("s", "enough")).toMatchObject({
      outcome: "cancelled",
      messagesApplied: true,
    });
    expect(stopped).toEqual([[1, "enough"]]);
    await expectState(next, "next", "completed");
  });

  it("L5: a submission that a crash has made pending again can be cancelled", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await expectState(stub, "s", "running");
    births.set(stub.name ?? "", ({ turns }) => {
      turns.run = forever;
    });
    const next = await crashOne(stub);
    await expectState(next, "s", "pending", { attempts: 1 });
    expect(await next.cancel("s")).toMatchObject({
      outcome: "cancelled",
      previousStatus: "pending",
    });
    await expectState(next, "s", "aborted");
  });

  it("L5: others run although the host cannot read the cancelled turn's conversation", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await submit(stub, "next", { submissionId: "next" });
    await expectState(stub, "s", "running");
    births.set(stub.name ?? "", ({ turns }) => {
      turns.isRecovering = async () => true;
    });
    const next = await crashOne(stub);
    await next.list();
    await within(next, async ({ turns, submissions }) => {
      turns.inspectConversation = async () => {
        throw new Error("the conversation cannot be read");
      };
      await submissions.cancel("s").catch(() => {});
    });
    await expectState(next, "s", "aborted");
    await expectState(next, "next", "completed");
  });

  it("L5: cancelling an ended or unknown submission changes nothing", async () => {
    const stub = givenLedger();
    await submit(stub, "x", { submissionId: "s" });
    const ended = await stub.wait("s");
    expect(await stub.cancel("s")).toEqual({
      outcome: "already_terminal",
      submissionId: "s",
      submission: ended,
    });
    expect(await stub.cancel("?")).toEqual({ outcome: "not_found", submissionId: "?" });
  });
});

describe("L7: the result stays readable", () => {
  it.each([{ title: "t", tags: ["a"] }, "text", 0, false, null])(
    "the answer %j, also after a crash",
    async (value) => {
      const stub = givenLedger();
      const metadata = { from: "test", nested: { ok: true } };
      await submit(
        stub,
        { answer: value },
        { submissionId: "s", answer: { schema: {} }, metadata },
      );
      const expected = {
        status: "completed",
        output: value,
        metadata,
        messageId: "reply-s",
        requestId: "s",
      };
      expect(await stub.wait("s")).toMatchObject(expected);
      expect(await (await crashOne(stub)).inspect("s")).toMatchObject(expected);
    },
  );

  it("a turn without its answer fails, with the reason", async () => {
    const stub = givenLedger();
    await submit(stub, { ignoreTools: true }, { submissionId: "s", answer: { schema: {} } });
    const ended = await stub.wait("s");
    expect(ended).toMatchObject({
      status: "error",
      errorName: "UnansweredPromptError",
      messageId: "reply-s",
    });
    expect(ended).not.toHaveProperty("output");
  });

  it("an answer that was written before a crash is not asked for again", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { holdAnswerMs: 1 });
    let asked = 0;
    births.set(stub.name ?? "", ({ turns, submissions }) => {
      turns.run = async ({ begin }) => {
        asked++;
        submissions.turns.answer(begin(), "the answer");
        return forever();
      };
    });
    await submit(stub, ask({}), { submissionId: "s", answer: { schema: {} } });
    await expectState(stub, "s", "running");
    await sleep(20);
    await expectState(await crashOne(stub), "s", "completed", {
      output: "the answer",
      attempts: 1,
    });
    expect(asked).toBe(1);
  });
});
