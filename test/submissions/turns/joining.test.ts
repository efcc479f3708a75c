/** What a submission does to the turn that runs before it: steer, rollback, debounce; on the light host. */

import { describe, expect, it } from "vitest";
import { givenLedger, message } from "../../support/given.ts";
import {
  arrived,
  crashOne,
  expectState,
  givenWait,
  jobOf,
  playing,
  release,
  sleep,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import { act, chance, time } from "../../support/objects/ledger-object.ts";

const hold = { delayMs: 60_000 };
/** Joins what has come when the test releases it, at its last call. */
const talkative = { isHeld: true, calls: 2 };
/** Goes on after it has joined something. */
const lasting = { isHeld: true, calls: 3 };

describe("whenBusy: steer", () => {
  const steer = { submissionId: "steer", whenBusy: "steer" } as const;

  it("joins the running turn at its next model call, and ends with it", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await submit(stub, lasting, { submissionId: "s" });
    await submit(stub, "x", { submissionId: "behind" });
    await expectState(stub, "s", "running");
    await submit(stub, "and this", { ...steer, notify: [to] });
    await release(stub, "s");
    await expectState(stub, "steer", "running", { mergedInto: "s", attempts: 1 });
    await release(stub, "s");
    await expectState(stub, "s", "completed");
    await expectState(stub, "steer", "completed", { mergedInto: "s", messageId: "reply-s" });
    await arrived(to);
    await expectState(stub, "behind", "completed");
    const said = await stub.conversation();
    expect(said).toHaveLength(5);
    expect(said[2]).toBe("reply-s");
  });

  it("a steering submission goes next if the turn makes no further model call", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "s" });
    await submit(stub, "x", { submissionId: "behind" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", steer);
    await release(stub, "s");
    const ended = await expectState(stub, "steer", "completed");
    expect(ended).not.toHaveProperty("mergedInto");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply-"));
    expect(replies.slice(0, 2)).toEqual(["reply-s", "reply-steer"]);
  });

  it("a steering submission runs alone if no turn runs, and never joins itself", async () => {
    const stub = givenLedger();
    await submit(stub, talkative, steer);
    await release(stub, "steer");
    const ended = await expectState(stub, "steer", "completed");
    expect(ended).not.toHaveProperty("mergedInto");
  });

  it("L5: a joined submission is cancelled with its turn, or alone", async () => {
    const stub = givenLedger();
    await submit(stub, lasting, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", steer);
    await submit(stub, "x", { submissionId: "other", whenBusy: "steer" });
    await release(stub, "s");
    await expectState(stub, "other", "running", { mergedInto: "s" });
    expect(await stub.cancel("steer")).toMatchObject({
      outcome: "cancelled",
      previousStatus: "running",
      messagesApplied: true,
    });
    await expectState(stub, "s", "running");
    await stub.cancel("s", "enough");
    await expectState(stub, "other", "aborted", { error: "enough" });
  });

  it("L8: a joined submission stays with a turn that is retried later, and ends with it", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    await submit(
      stub,
      { ...talkative, fail: "overloaded", status: 503, failTimes: 1 },
      { submissionId: "s" },
    );
    await expectState(stub, "s", "running");
    await submit(stub, "x", steer);
    await release(stub, "s");
    await expectState(stub, "s", "completed", { attempts: 2 });
    await expectState(stub, "steer", "completed", { mergedInto: "s", attempts: 1 });
  });

  it("L1: after a crash, a submission is joined if its messages are in the turn, and otherwise waits", async () => {
    const stub = givenLedger();
    const hasJoined = givenWait();
    // A host that takes its time to store what joins, where it joins late: the object dies in between.
    await playing(stub, "s", async (turn, { turns, submissions }) => {
      const ref = turn.begin();
      for (const { id } of turn.messages) turns.say(turn.thread, id, "asked");
      for (;;) {
        const joined = submissions.turns.nextStep(ref);
        if (turns.conversation().length > 1 && joined.length > 0) await hasJoined.pass();
        for (const { id } of joined) turns.say(turn.thread, id, "joined");
        await sleep(10);
      }
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "running");
    const [said, unsaid] = [message("said"), message("unsaid")];
    await stub.submit([said], { submissionId: "said", whenBusy: "steer" });
    await expectState(stub, "said", "running", { mergedInto: "s" });
    await stub.submit([unsaid], { submissionId: "unsaid", whenBusy: "steer" });
    await hasJoined.reached();
    await expectState(stub, "unsaid", "running", { mergedInto: "s" });
    expect(await stub.conversation()).toContain(said.id);
    expect(await stub.conversation()).not.toContain(unsaid.id);
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "s", "completed", { attempts: 2 });
    await expectState(next, "said", "completed", { mergedInto: "s" });
    expect(await expectState(next, "unsaid", "completed")).not.toHaveProperty("mergedInto");
    const [, ...rest] = await next.conversation();
    // The interrupted turn comes first: another one would answer its messages.
    expect(rest).toEqual([said.id, "reply-s", unsaid.id, "reply-unsaid"]);
  });

  it("L1: messages that were not stored before a crash wait for a turn of their own", async () => {
    const stub = givenLedger();
    const hasJoined = givenWait();
    await playing(stub, "s", async (turn, { turns, submissions }) => {
      const ref = turn.begin();
      for (const { id } of turn.messages) turns.say(turn.thread, id, "asked");
      await submissions.turns.toolCalls(ref).start(act());
      while (submissions.turns.nextStep(ref).length === 0) await sleep(10);
      await hasJoined.pass();
      return { outcome: "completed" };
    });
    const retry = { afterSideEffects: "fail" } as const;
    await submit(stub, "x", { submissionId: "s", retry });
    await expectState(stub, "s", "running");
    const unsaid = message("x");
    await stub.submit([unsaid], { submissionId: "unsaid", whenBusy: "steer" });
    await hasJoined.reached();
    await expectState(stub, "unsaid", "running", { mergedInto: "s" });
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "s", "error", { errorName: "TurnInterruptedError" });
    expect(await expectState(next, "unsaid", "completed")).not.toHaveProperty("mergedInto");
    expect((await next.conversation()).slice(-2)).toEqual([unsaid.id, "reply-unsaid"]);
  });

  it("L1: joined messages are stored later, though the host could not store them at once", async () => {
    chance.random = () => 0.99;
    const stub = givenLedger();
    await submit(stub, talkative, { submissionId: "s" });
    await expectState(stub, "s", "running");
    let failures = 0;
    await within(stub, ({ submissions }) => {
      const nextStep = submissions.turns.nextStep.bind(submissions.turns);
      submissions.turns.nextStep = (ref) => {
        const joined = nextStep(ref);
        if (joined.length === 0) return joined;
        failures++;
        throw new Error("Network connection lost");
      };
    });
    const joining = message("x");
    await stub.submit([joining], steer);
    await release(stub, "s");
    expect(await expectState(stub, "steer", "completed")).not.toHaveProperty("mergedInto");
    await expectState(stub, "s", "pending", { attempts: 1 });
    time.aheadMs = 10_000;
    await wakeNow(stub);
    await release(stub, "s");
    await expectState(stub, "s", "completed", { attempts: 2 });
    const [, ...rest] = await stub.conversation();
    expect(rest).toEqual([joining.id, "reply-steer", "reply-s"]);
    expect(failures).toBe(1);
  });

  it("L1: joined messages that could not be stored are stored once, though another attempt begins at once", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    await submit(stub, talkative, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await within(stub, ({ submissions, turns }) => {
      const nextStep = submissions.turns.nextStep.bind(submissions.turns);
      submissions.turns.nextStep = (ref) => {
        const joined = nextStep(ref);
        if (joined.length > 0) throw new Error("Network connection lost");
        return joined;
      };
      const inspect = turns.inspectConversation.bind(turns);
      turns.inspectConversation = async (turn) => {
        const found = await inspect(turn);
        await sleep(20);
        return found;
      };
    });
    const joining = message(talkative);
    await stub.submit([joining], steer);
    await release(stub, "s");
    await expectState(stub, "s", "running", { attempts: 2 });
    await release(stub, "s");
    await expectState(stub, "s", "completed", { attempts: 2 });
    await expectState(stub, "steer", "completed", { mergedInto: "s" });
    const [, ...rest] = await stub.conversation();
    expect(rest).toEqual([joining.id, "reply-s"]);
  });

  it("L4: an expired submission does not join", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true, calls: 2 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { ...steer, expiresIn: "1 second" });
    time.aheadMs = 5_000;
    await release(stub, "s");
    await expectState(stub, "s", "completed");
    await expectState(stub, "steer", "skipped", { errorName: "SubmissionExpiredError" });
    expect(await stub.conversation()).toHaveLength(2);
  });

  it("L6: findByMessage() with a joined message returns the submission whose turn it is", async () => {
    const stub = givenLedger();
    await submit(stub, lasting, { submissionId: "s" });
    await expectState(stub, "s", "running");
    const joining = message("x");
    await stub.submit([joining], steer);
    await release(stub, "s");
    await expectState(stub, "steer", "running", { mergedInto: "s" });
    const found = await within(stub, ({ submissions }) =>
      submissions.store.findByMessage(new Set([joining.id])),
    );
    expect(found?.submissionId).toBe("s");
  });
});

describe("whenBusy: rollback", () => {
  const rollback = { submissionId: "instead", whenBusy: "rollback" } as const;

  it("L5: stops the running turn, and removes its messages before its own turn starts", async () => {
    const stub = givenLedger();
    await submit(stub, "before", { submissionId: "before" });
    await expectState(stub, "before", "completed");
    await submit(stub, hold, { submissionId: "hold" });
    await submit(stub, "x", { submissionId: "waiting", priority: 100 });
    await expectState(stub, "hold", "running");
    const seen: string[][] = [];
    await within(stub, ({ turns }) => {
      const { run } = turns;
      turns.run = (turn) => {
        seen.push(turns.conversation());
        return run.call(turns, turn);
      };
    });
    await submit(stub, "x", rollback);
    await expectState(stub, "hold", "aborted", {
      error: "Interrupted by submission instead",
      errorName: "SubmissionInterruptedError",
    });
    await expectState(stub, "waiting", "completed");
    expect(seen[0]).toHaveLength(2);
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply-"));
    expect(replies).toEqual(["reply-before", "reply-instead", "reply-waiting"]);
    expect(await stub.conversation()).toHaveLength(6);
  });

  it("a rollback also removes messages that joined the turn", async () => {
    const stub = givenLedger();
    await submit(stub, lasting, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "joined", whenBusy: "steer" });
    await release(stub, "s");
    await expectState(stub, "joined", "running", { mergedInto: "s" });
    await submit(stub, "x", rollback);
    await expectState(stub, "instead", "completed");
    await expectState(stub, "joined", "aborted");
    expect(await stub.conversation()).toHaveLength(2);
  });

  it("L1: a rollback continues after a crash before the messages were removed", async () => {
    const stub = givenLedger();
    await submit(stub, { ...hold, isDeaf: true }, { submissionId: "hold" });
    await expectState(stub, "hold", "running");
    await submit(stub, "x", rollback);
    await expectState(stub, "hold", "aborted");
    await expectState(stub, "instead", "pending");
    expect(await stub.conversation()).toHaveLength(1);
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "instead", "completed");
    expect(await next.conversation()).toHaveLength(2);
  });

  it("a rollback is retried if the conversation could not be written, and the next turn waits for it", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "hold" });
    await expectState(stub, "hold", "running");
    let failures = 0;
    await within(stub, ({ turns }) => {
      const removeMessages = turns.removeMessages.bind(turns);
      turns.removeMessages = async (turn) => {
        if (failures++ === 0) throw new Error("not now");
        await removeMessages(turn);
      };
    });
    await submit(stub, "x", rollback);
    await expectState(stub, "hold", "aborted");
    await sleep(50);
    await expectState(stub, "instead", "pending");
    await wakeNow(stub);
    await expectState(stub, "instead", "completed");
    expect(failures).toBe(2);
  });
});

describe("debounce", () => {
  const debounce = { key: "k", delay: "10 seconds" } as const;

  it("repetitions become one turn with the latest messages, when none has come for the delay", async () => {
    const stub = givenLedger();
    const first = await submit(stub, "1", { debounce, metadata: { n: 1 } });
    expect(first).toMatchObject({ accepted: true, status: "pending" });
    time.aheadMs = 8_000;
    const second = await submit(stub, { text: "last" }, { debounce, metadata: { n: 2 } });
    expect(second).toMatchObject({ accepted: true, debounced: true, metadata: { n: 2 } });
    expect(second.submissionId).toBe(first.submissionId);
    time.aheadMs = 11_000;
    await wakeNow(stub);
    await expectState(stub, first.submissionId, "pending");
    time.aheadMs = 19_000;
    await wakeNow(stub);
    await expectState(stub, first.submissionId, "completed");
    expect(await stub.list()).toHaveLength(1);
    const texts = await within(stub, (_, { storage }) =>
      storage.sql.exec<{ text: string }>("SELECT text FROM conversation").toArray(),
    );
    expect(texts.map(({ text }) => text)).toContain("last");
  });

  it("repetitions delay the turn by at most maxDelay, ten times the delay by default", async () => {
    const stub = givenLedger();
    const { submissionId } = await submit(stub, "x", { debounce });
    const { submissionId: other } = await submit(stub, "x", {
      debounce: { key: "other", delay: "10 seconds", maxDelay: "15 seconds" },
    });
    for (let n = 1; n <= 12; n++) {
      time.aheadMs = n * 9_000;
      await submit(stub, "x", { debounce });
      if (n === 1) {
        await submit(stub, "x", { debounce: { ...debounce, key: "other" } });
        expect((await stub.inspect(other))?.dueAt).toBeLessThan(Date.now() + 16_000);
      }
      if (n === 11)
        expect((await stub.inspect(submissionId))?.dueAt).toBeLessThan(Date.now() + 101_000);
    }
    await wakeNow(stub);
    await expectState(stub, submissionId, "completed");
  });

  it("L1: a debounced turn starts at its exact time, also after a crash", async () => {
    const stub = givenLedger();
    const { submissionId, dueAt = 0 } = await submit(stub, "x", {
      debounce: { key: "k", delay: "1 hour" },
    });
    const next = await crashOne(stub);
    await next.list();
    await wakeNow(next);
    const wake = await within(next, (_, ctx) => jobOf(ctx));
    expect(wake).toBe(dueAt);
    time.aheadMs = 3_600_000;
    await wakeNow(next);
    await expectState(next, submissionId, "completed");
  });

  it("debounce keys belong to a thread, and a started turn accepts no repetition", async () => {
    const stub = givenLedger();
    const soon = { key: "k", delay: 1 } as const;
    const main = await submit(stub, hold, { debounce: soon });
    const side = await submit(stub, hold, { debounce: soon, thread: "side" });
    expect(side.submissionId).not.toBe(main.submissionId);
    await sleep(5);
    await wakeNow(stub);
    await expectState(stub, main.submissionId, "running");
    const again = await submit(stub, "x", { debounce: soon });
    expect(again.submissionId).not.toBe(main.submissionId);
    expect(again).not.toHaveProperty("debounced");
  });

  it("O1: each destination of any repetition is notified of the end once", async () => {
    const stub = givenLedger();
    const [a, b] = [somewhere(), somewhere()];
    await submit(stub, "1", { debounce, notify: [a] });
    await submit(stub, "2", { debounce, notify: [a, b] });
    time.aheadMs = 10_001;
    await wakeNow(stub);
    expect(await arrived(a)).toHaveLength(1);
    expect(await arrived(b)).toHaveLength(1);
  });

  it("L5: a debounced submission can be cancelled, and the next one starts a new delay", async () => {
    const stub = givenLedger();
    const first = await submit(stub, "x", { debounce });
    await stub.cancel(first.submissionId);
    const second = await submit(stub, "x", { debounce });
    expect(second.submissionId).not.toBe(first.submissionId);
  });
});
