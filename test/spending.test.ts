/** Tokens, budgets, stalls and resets: what a turn may cost and when it is given up; on the light host. */

import { describe, expect, it } from "vitest";
import { givenLedger } from "./support/given.ts";
import {
  crashOne,
  expectState,
  forever,
  sleep,
  somewhere,
  submit,
  wakeNow,
  within,
} from "./support/ledger.ts";
import { act, births, chance, ledgerOptions, time } from "./support/ledger-object.ts";

const DAY_MS = 86_400_000;

describe("L7 usage", () => {
  it("is readable per attempt and in total", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    const script = { calls: 2, tokens: 10, fail: "overloaded", status: 503, failTimes: 1 };
    await submit(stub, script, { submissionId: "s" });
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    expect(ended.usage).toEqual({ inputTokens: 0, outputTokens: 0, totalTokens: 40 });
    expect(ended.failedAttempts).toMatchObject([{ attempt: 1, usage: { totalTokens: 20 } }]);
  });

  it("is absent where the model reports none", async () => {
    const stub = givenLedger();
    await submit(stub, "x", { submissionId: "s" });
    expect(await expectState(stub, "s", "completed")).not.toHaveProperty("usage");
  });

  it("costs no row of its own, unless there is a budget", async () => {
    const stub = givenLedger();
    await stub.list();
    const cost = async (id: string, options: object) => {
      await within(stub, ({ meter }) => meter.reset());
      await submit(stub, { calls: 3, tokens: 10 }, { submissionId: id, ...options });
      await expectState(stub, id, "completed");
      return within(stub, ({ meter }) => meter.read().rowsWritten);
    };
    await cost("warm", {});
    const free = await cost("free", {});
    expect(await cost("budgeted", { budget: { tokens: 1_000 } })).toBe(free + 3);
  });
});

describe("budget", () => {
  it("ends the submission before the next call of the model", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await submit(
      stub,
      { calls: 5, tokens: 10 },
      { submissionId: "s", budget: { tokens: 20 }, notify: [to] },
    );
    const ended = await expectState(stub, "s", "error", { errorName: "BudgetExceededError" });
    expect(ended.usage?.totalTokens).toBe(20);
    expect(ended.error).toContain("has used 20 of its 20 tokens");
  });

  it("counts all attempts, and is not given back by a crash", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    const retried = { calls: 1, tokens: 10, fail: "overloaded", status: 503 };
    await submit(stub, retried, { submissionId: "retried", budget: { tokens: 25 } });
    const ended = await expectState(stub, "retried", "error", {
      errorName: "BudgetExceededError",
    });
    expect(ended.attempts).toBe(4);
    const crashed = { calls: 2, tokens: 10, delayMs: 50 };
    await submit(stub, crashed, { submissionId: "crashed", budget: { tokens: 20 } });
    await sleep(75);
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "crashed", "error", { errorName: "BudgetExceededError" });
  });

  it("of the day ends every submission, until the next day", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { budget: { tokensPerDay: 25 } });
    // Noon, so that the test does not run over midnight.
    time.aheadMs = DAY_MS * 1.5 - (Date.now() % DAY_MS);
    await submit(stub, { calls: 2, tokens: 10 }, { submissionId: "a" });
    await expectState(stub, "a", "completed");
    await submit(stub, { calls: 2, tokens: 10 }, { submissionId: "b" });
    await expectState(stub, "b", "error", { errorName: "BudgetExceededError" });
    const next = await crashOne(stub);
    await submit(next, { calls: 1, tokens: 10 }, { submissionId: "c" });
    const refused = await expectState(next, "c", "error", { errorName: "BudgetExceededError" });
    expect(refused.error).toContain("of 25 tokens of this day (UTC)");
    time.aheadMs += DAY_MS;
    await submit(next, { calls: 2, tokens: 10 }, { submissionId: "d" });
    await expectState(next, "d", "completed");
    await within(next, (_, { storage }) => {
      expect(storage.sql.exec("SELECT tokens FROM perdure_usage").toArray()).toEqual([
        { tokens: 20 },
      ]);
    });
  });
});

describe("L6 the watchdog", () => {
  const stalls = { stallTimeout: "5 minutes" } as const;

  it("gives up a turn of which nothing is heard, and makes another attempt of it", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    await within(stub, ({ turns }) => {
      const { run } = turns;
      turns.run = async (turn) => {
        turns.run = run;
        turn.begin();
        return forever();
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "running");
    time.aheadMs = 299_000;
    await wakeNow(stub);
    await expectState(stub, "s", "running");
    time.aheadMs = 301_000;
    await wakeNow(stub);
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    expect(ended.failedAttempts).toMatchObject([{ errorName: "TurnStalledError" }]);
  });

  it("leaves one alone that gives signs of life", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    for (let minute = 4; minute < 20; minute += 4) {
      time.aheadMs = minute * 60_000;
      await within(stub, ({ submissions }) => submissions.alive({ seq: 1, attempt: 1 }));
      await wakeNow(stub);
    }
    await expectState(stub, "s", "running", { attempts: 1 });
  });

  it("does not repeat a turn whose tools have run and that means to fail then, and its late end changes nothing", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    let finish = () => {};
    await within(stub, ({ turns, submissions }) => {
      turns.run = async (turn) => {
        await submissions.toolCalls(turn.begin()).start(act());
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s", retry: { afterSideEffects: "fail" } });
    await expectState(stub, "s", "running");
    time.aheadMs = 301_000;
    await wakeNow(stub);
    await expectState(stub, "s", "error", { errorName: "TurnStalledError" });
    await within(stub, () => finish());
    await sleep(10);
    await expectState(stub, "s", "error");
  });

  it("a host that goes on with a turn is waited for as long as it is heard of", async () => {
    const stub = givenLedger();
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    births.set(stub.name ?? "", ({ turns }) => {
      turns.isRecovering = async () => true;
    });
    const next = await crashOne(stub);
    await wakeNow(next);
    time.aheadMs = 590_000;
    await within(next, ({ submissions }) => submissions.alive({ seq: 1, attempt: 1 }));
    time.aheadMs = 1_180_000;
    await wakeNow(next);
    await expectState(next, "s", "running", { attempts: 1 });
    time.aheadMs = 1_800_000;
    await wakeNow(next);
    await expectState(next, "s", "running", { attempts: 2 });
  });
});

describe("L6 the platform's own resets", () => {
  const RESET = "Durable Object reset because its code was updated.";

  it("cost no attempt", async () => {
    const stub = givenLedger();
    const script = { fail: RESET, failTimes: 3 };
    await submit(stub, script, { submissionId: "s", retry: { maxAttempts: 1 } });
    for (let reset = 1; reset <= 3; reset++) {
      await expectState(stub, "s", "running", { attempts: reset });
      await sleep(20);
      await wakeNow(stub);
    }
    await expectState(stub, "s", "completed", { attempts: 4 });
  });

  it("L7 the tokens of an attempt that one has ended are in the usage", async () => {
    const stub = givenLedger();
    await submit(stub, { tokens: 10, fail: RESET, failTimes: 1 }, { submissionId: "s" });
    await expectState(stub, "s", "running", { attempts: 1 });
    await sleep(20);
    await wakeNow(stub);
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    expect(ended.usage?.totalTokens).toBe(20);
  });

  it("but no more than twenty of them, so that the submission comes to an end", async () => {
    const stub = givenLedger();
    await submit(stub, { fail: RESET }, { submissionId: "s", retry: { maxAttempts: 2 } });
    for (let reset = 0; reset < 22; reset++) {
      await expectState(stub, "s", "running", { attempts: reset + 1 });
      await sleep(20);
      await wakeNow(stub);
    }
    await expectState(stub, "s", "error", { attempts: 22 });
  });
});
