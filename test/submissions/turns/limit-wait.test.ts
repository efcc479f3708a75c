/** Turns that have to wait for a limit after they have begun, and what model calls cost, by a scripted gate; on the light host. */

import { describe, expect, it } from "vitest";
import { givenLedger, until } from "../../support/given.ts";
import {
  crashOne,
  expectState,
  type Ledger,
  release,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import { full, gated, limitWait, ScriptedGate } from "../../support/limits/gate.ts";
import { act, chance, time } from "../../support/objects/ledger-object.ts";

const MINUTE = 60_000;

/** The first attempts of "s" call the model once, and end with what these throw. Later ones do what their script says. */
async function ending(stub: Ledger, ...errors: (() => unknown)[]): Promise<void> {
  await within(stub, (object) => {
    const { turns, submissions } = object;
    const run = turns.run.bind(turns);
    turns.run = async (turn) => {
      const error = turn.submissionId === "s" ? errors.shift() : undefined;
      if (!error) return run(turn);
      const ref = turn.begin();
      for (const { id } of turn.messages) turns.say(turn.thread, id, id);
      submissions.turns.nextStep(ref);
      submissions.turns.recordUsage(ref, { totalTokens: 10 });
      throw error();
    };
  });
}

async function later(stub: Ledger, ms: number) {
  time.aheadMs += ms;
  await wakeNow(stub);
}

describe("a turn whose model has to wait for a limit", () => {
  const wait = () => limitWait(MINUTE);

  it.each([
    ["as it is thrown", wait],
    ["as the cause of an error", () => new Error("failed", { cause: wait() })],
    [
      "as the last error of several",
      () => Object.assign(new Error("failed"), { lastError: wait() }),
    ],
  ])("L8: waits in the ledger, and its attempt is not counted, %s", async (_, error) => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await ending(stub, error);
    await submit(stub, { tokens: 5 }, { submissionId: "s", retry: { maxAttempts: 1 } });
    const waiting = await expectState(stub, "s", "pending", { attempts: 0 });
    expect(waiting).toMatchObject({ waitingFor: { limit: "openai", why: "full" } });
    expect(waiting.dueAt).toBe(waiting.waitingFor?.until);
    await later(stub, MINUTE);
    const ended = await expectState(stub, "s", "completed", { attempts: 1 });
    expect(ended).not.toHaveProperty("failedAttempts");
    expect(ended.usage?.totalTokens).toBe(15);
  });

  it("L4: goes before all others of its thread, also before urgent ones", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await ending(stub, wait);
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 0 });
    await submit(stub, "x", { submissionId: "urgent", whenBusy: "interrupt" });
    await later(stub, MINUTE);
    await expectState(stub, "urgent", "completed");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply"));
    expect(replies).toEqual(["reply-s", "reply-urgent"]);
  });

  it.each([
    ["isolated", { thread: "isolated" }],
    ["of a pool", { thread: "isolated", batch: { id: "b", concurrency: 1 } }],
  ])("one that is %s does not block the others", async (_, options) => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await ending(stub, wait);
    await submit(stub, "x", { submissionId: "s", ...options });
    await expectState(stub, "s", "pending", { attempts: 0 });
    await submit(stub, "x", { submissionId: "other", ...options });
    await expectState(stub, "other", "completed");
    await later(stub, MINUTE);
    await expectState(stub, "s", "completed", { attempts: 1 });
  });

  it("L1: may wait thirty times, and is not ended by the resets of the platform after that", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    const reset = () => new Error("Durable Object reset because its code was updated.");
    await ending(stub, ...Array(30).fill(() => limitWait(10)), ...Array(3).fill(reset));
    await submit(stub, "x", { submissionId: "s", retry: { maxAttempts: 1 } });
    await until(async () => {
      await later(stub, 20);
      return (await stub.inspect("s"))?.status === "completed";
    });
    await expectState(stub, "s", "completed", { attempts: 4 });
  });

  it("L6: its finished tool calls are answered from their records", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    const decisions: string[] = [];
    await within(stub, ({ turns, submissions }) => {
      turns.run = async (turn) => {
        const ref = turn.begin();
        const calls = submissions.turns.toolCalls(ref, turn.isAgain ? () => [] : undefined);
        const decision = await calls.start(act());
        decisions.push(decision.action);
        if (decision.action === "run") decision.end({ output: "done" });
        if (decisions.length === 1) throw wait();
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 0 });
    await later(stub, MINUTE);
    await expectState(stub, "s", "completed", { attempts: 1 });
    expect(decisions).toEqual(["run", "answer"]);
  });

  it("L6: with afterSideEffects fail, a turn whose tools have run ends with the error", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await within(stub, ({ turns, submissions }) => {
      turns.run = async (turn) => {
        await submissions.turns.toolCalls(turn.begin()).start(act());
        throw wait();
      };
    });
    await submit(stub, "x", { submissionId: "s", retry: { afterSideEffects: "fail" } });
    await expectState(stub, "s", "error", { error: "The limit openai is used up" });
  });

  it("L1: waits on after a crash, and then runs", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await ending(stub, wait);
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 0 });
    const next = await crashOne(stub);
    await wakeNow(next);
    const waiting = await expectState(next, "s", "pending", { attempts: 0 });
    expect(waiting.waitingFor).toMatchObject({ limit: "openai" });
    await later(next, MINUTE);
    await expectState(next, "s", "completed", { attempts: 1 });
  });

  it("L2: a late one of an earlier attempt changes nothing", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await submit(stub, { delayMs: 10_000 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    const cause = wait();
    const failure = { name: "LimitWait", message: cause.message };
    const end = { outcome: "error", failure, cause } as const;
    await within(stub, ({ submissions }) => submissions.turns.end({ seq: 1, attempt: 0 }, end));
    await expectState(stub, "s", "running", { attempts: 1 });
    await stub.cancel("s");
    await within(stub, ({ submissions }) => submissions.turns.end({ seq: 1, attempt: 1 }, end));
    await expectState(stub, "s", "aborted", { attempts: 1 });
  });

  it("without a gate, the error is one like any other", async () => {
    const stub = givenLedger();
    await ending(stub, wait);
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "error", { error: "The limit openai is used up" });
  });

  it("waits before its turn again, and shows what for", async () => {
    const stub = givenLedger();
    const gate = new ScriptedGate(({ attempts }) =>
      attempts === 1 && gate.asked.length < 3 ? full(MINUTE, { limit: "tenant" }) : undefined,
    );
    gated(stub, gate);
    await ending(stub, wait);
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 0 });
    await later(stub, MINUTE);
    await until(async () => (await stub.inspect("s"))?.waitingFor?.limit === "tenant");
    await later(stub, MINUTE);
    await expectState(stub, "s", "completed", { attempts: 1 });
  });
});

describe("L7: what model calls cost", () => {
  it("is in the usage of the submission, of its failed attempts and of its end", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    const gate = new ScriptedGate();
    gated(stub, gate);
    gate.cost = 0.1;
    const failing = { tokens: 10, fail: "overloaded", status: 503, failTimes: 1, isHeld: true };
    await submit(stub, failing, { submissionId: "s" });
    await release(stub, "s");
    await expectState(stub, "s", "running", { attempts: 2 });
    gate.cost = 0.2;
    await release(stub, "s");
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    expect(ended.usage).toEqual({ inputTokens: 0, outputTokens: 0, totalTokens: 20, cost: 0.3 });
    expect(ended.failedAttempts).toMatchObject([{ usage: { totalTokens: 10, cost: 0.1 } }]);
  });

  it("counts for a call that has failed, and for one that reports no tokens", async () => {
    const stub = givenLedger();
    const gate = new ScriptedGate();
    gated(stub, gate);
    gate.cost = 0.1;
    await submit(stub, { fail: "no" }, { submissionId: "failed" });
    const failed = await expectState(stub, "failed", "error");
    expect(failed.usage).toMatchObject({ totalTokens: 0, cost: 0.1 });
    await submit(stub, "x", { submissionId: "free" });
    expect(await expectState(stub, "free", "completed")).not.toHaveProperty("usage");
  });

  it("L6: with a budget in dollars it is written after each call, so that no crash gives any back", async () => {
    const stub = givenLedger();
    const gate = new ScriptedGate();
    gated(stub, gate);
    gate.cost = 0.25;
    const script = { calls: 2, tokens: 10, isHeld: true };
    await submit(stub, script, { submissionId: "s", budget: { usd: 1 } });
    await until(async () => (await stub.inspect("s"))?.usage);
    await expectState(stub, "s", "running");
    expect((await stub.inspect("s"))?.usage).toMatchObject({ totalTokens: 10, cost: 0.25 });
    const next = await crashOne(stub);
    gate.cost = 0.5;
    await wakeNow(next);
    await release(next, "s");
    const ended = await expectState(next, "s", "completed", { attempts: 2 });
    expect(ended.usage).toMatchObject({ totalTokens: 30, cost: 0.75 });
  });

  it("costs a row for each further call, and one more with such a budget", async () => {
    const stub = givenLedger();
    gated(stub, new ScriptedGate());
    await stub.list();
    const rowsOf = async (options: object) => {
      await within(stub, ({ meter }) => meter.reset());
      const { submissionId } = await submit(stub, { calls: 3, tokens: 10 }, options);
      await expectState(stub, submissionId, "completed");
      return within(stub, ({ meter }) =>
        meter.rowsWrittenBy((query) => query.includes(" perdure_")),
      );
    };
    const free = await rowsOf({});
    expect(await rowsOf({ budget: { usd: 1 } })).toBe(free + 1);
    expect(await rowsOf({ concurrency: { key: "k", limit: 1 } })).toBe(free);
  });
});
