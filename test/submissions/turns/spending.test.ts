/** Tokens, budgets, stalls and resets: what a turn may cost and when it is given up; on the light host. */

import { describe, expect, it, vi } from "vitest";
import { preview } from "../../../src/core/json.ts";
import type { TokenUsage } from "../../../src/submissions/types.ts";
import { givenLedger, until } from "../../support/given.ts";
import {
  crashOne,
  expectState,
  forever,
  held,
  type Ledger,
  release,
  sleep,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import { act, births, chance, ledgerOptions, time } from "../../support/objects/ledger-object.ts";

describe("L7: usage", () => {
  it("usage is readable for each attempt and in total", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    const script = { calls: 2, tokens: 10, fail: "overloaded", status: 503, failTimes: 1 };
    await submit(stub, script, { submissionId: "s" });
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    expect(ended.usage).toEqual({ inputTokens: 0, outputTokens: 0, totalTokens: 40 });
    expect(ended.failedAttempts).toMatchObject([{ attempt: 1, usage: { totalTokens: 20 } }]);
  });

  it("usage is absent if the model reports none", async () => {
    const stub = givenLedger();
    await submit(stub, "x", { submissionId: "s" });
    expect(await expectState(stub, "s", "completed")).not.toHaveProperty("usage");
  });

  it("costs no row for one call, and one before each further call; with a budget, one after each", async () => {
    const stub = givenLedger();
    await stub.list();
    const cost = async (id: string, options: object, calls = 3) => {
      await within(stub, ({ meter }) => meter.reset());
      await submit(stub, { calls, tokens: 10 }, { submissionId: id, ...options });
      await expectState(stub, id, "completed");
      return within(stub, ({ meter }) => meter.read().rowsWritten);
    };
    await cost("warm", {});
    const one = await cost("one", {}, 1);
    expect(await cost("three", {})).toBe(one + 2);
    expect(await cost("budgeted", { budget: { tokens: 1_000 } })).toBe(one + 3);
  });
});

describe("budget", () => {
  it("a used-up budget ends the submission before the next model call", async () => {
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

  it("a budget counts all attempts, those before a crash included", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    const retried = { calls: 1, tokens: 10, fail: "overloaded", status: 503 };
    await submit(stub, retried, { submissionId: "retried", budget: { tokens: 25 } });
    const ended = await expectState(stub, "retried", "error", {
      errorName: "BudgetExceededError",
    });
    expect(ended.attempts).toBe(4);
    const crashed = { calls: 2, tokens: 10, isHeld: true };
    await submit(stub, crashed, { submissionId: "crashed", budget: { tokens: 20 } });
    await held(stub, "crashed");
    const next = await crashOne(stub);
    await wakeNow(next);
    await release(next, "crashed");
    await expectState(next, "crashed", "error", { errorName: "BudgetExceededError" });
  });
});

describe("L7: a call that reports no tokens", () => {
  it.each([
    ["fails", undefined],
    ["reports none", {}],
  ])(
    "L7: a call that %s counts as what it may have used, where there is a budget",
    async (_, usage) => {
      chance.random = () => 0;
      const stub = givenLedger();
      await within(stub, ({ turns, submissions: { turns: engine } }) => {
        turns.run = async (turn) => {
          const ref = turn.begin();
          engine.nextStep(ref);
          engine.budgets.reserveTokens(ref, () => 20);
          if (usage) engine.budgets.finished(ref, usage, false);
          if (usage) engine.recordUsage(ref, usage);
          const failure = { name: "Error", message: "overloaded" };
          return { outcome: "error", failure, cause: failure.message };
        };
      });
      await submit(stub, "x", { submissionId: "s", budget: { tokens: 30 } });
      const ended = await expectState(stub, "s", "error", { errorName: "BudgetExceededError" });
      expect(ended).toMatchObject({ attempts: 3, usage: { totalTokens: 40 } });
      await submit(stub, "x", { submissionId: "free", retry: { maxAttempts: 2 } });
      expect(await expectState(stub, "free", "error")).not.toHaveProperty("usage");
    },
  );

  it("L7: a call that has waited for a limit counts once, by its report", async () => {
    const stub = givenLedger();
    await within(stub, ({ turns, submissions: { turns: engine } }) => {
      turns.run = async (turn) => {
        const ref = turn.begin();
        engine.nextStep(ref);
        engine.budgets.reserveTokens(ref, () => 20);
        // limits() reads the times of the attempt when the call is sent after its wait.
        engine.budgets.recordOf(ref.seq);
        engine.budgets.finished(ref, { totalTokens: 7 }, false);
        engine.recordUsage(ref, { totalTokens: 7 });
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s", budget: { tokens: 30 } });
    expect(await expectState(stub, "s", "completed")).toMatchObject({ usage: { totalTokens: 7 } });
  });

  it("L7: a call that its provider refuses counts as nothing", async () => {
    const stub = givenLedger();
    await within(stub, ({ turns, submissions: { turns: engine } }) => {
      turns.run = async (turn) => {
        const ref = turn.begin();
        engine.nextStep(ref);
        engine.budgets.reserveTokens(ref, () => 20);
        engine.budgets.reserveTokens(ref, () => 0);
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s", budget: { tokens: 30 } });
    expect((await expectState(stub, "s", "completed")).usage?.totalTokens ?? 0).toBe(0);
  });
});

describe("L7: tokens as a model reports them", () => {
  /** A turn whose calls of the model report this. */
  async function reporting(stub: Ledger, reports: readonly unknown[]): Promise<number[]> {
    const calls: number[] = [];
    await within(stub, ({ turns, submissions }) => {
      turns.run = async (turn) => {
        const ref = turn.begin();
        for (const [call, report] of reports.entries()) {
          submissions.turns.nextStep(ref);
          calls.push(call);
          submissions.turns.recordUsage(ref, report as TokenUsage);
        }
        return { outcome: "completed" };
      };
    });
    return calls;
  }
  const GARBAGE = [Number.NaN, -5, Number.POSITIVE_INFINITY, "10", {}, [3]];

  it.each(GARBAGE)(
    "L7: %j tokens count as none, and a turn without a budget completes",
    async (tokens) => {
      const stub = givenLedger();
      const report = { inputTokens: tokens, outputTokens: 5, totalTokens: tokens };
      await reporting(stub, [report, report]);
      await submit(stub, "x", { submissionId: "s" });
      const ended = await expectState(stub, "s", "completed");
      expect(ended.usage).toEqual({ inputTokens: 0, outputTokens: 10, totalTokens: 10 });
    },
  );

  it.each(GARBAGE)(
    "L7: %j tokens end a turn with a budget before its next call",
    async (tokens) => {
      const good = { inputTokens: 5, outputTokens: 5, totalTokens: 10 };
      for (const bad of [
        { inputTokens: tokens, outputTokens: tokens, totalTokens: tokens },
        { inputTokens: tokens, outputTokens: 5 },
        { totalTokens: tokens },
      ]) {
        const stub = givenLedger();
        const calls = await reporting(stub, [good, bad, good, good]);
        await submit(stub, "x", { submissionId: "s", budget: { tokens: 1_000 } });
        const ended = await expectState(stub, "s", "error", { errorName: "UsageNotReportedError" });
        expect(ended.error).toContain(`Tokens ${preview(tokens)}`);
        expect(ended.error).toContain("expected finite numbers from 0, so budget.tokens");
        expect(calls).toHaveLength(2);
      }
    },
  );

  it.each(GARBAGE)(
    "L7: %j tokens of a part are no matter where the total is a number",
    async (tokens) => {
      const stub = givenLedger();
      const report = { inputTokens: tokens, outputTokens: 5, totalTokens: 12 };
      await reporting(stub, [report, report]);
      await submit(stub, "x", { submissionId: "s", budget: { tokens: 100 } });
      const ended = await expectState(stub, "s", "completed");
      expect(ended.usage).toMatchObject({ outputTokens: 10, totalTokens: 24 });
    },
  );

  it("L7: invalid token counts are logged once for each object instance", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = givenLedger();
    await reporting(stub, [{ totalTokens: Number.NaN }, { totalTokens: -1 }]);
    for (const submissionId of ["a", "b"]) {
      await submit(stub, "x", { submissionId });
      await expectState(stub, submissionId, "completed");
    }
    const lines = log.mock.calls.map(String).filter((line) => line.includes("usage"));
    log.mockRestore();
    expect(lines).toEqual([expect.stringContaining("totalTokens NaN")]);
  });

  it("L7: calls that report no tokens at all end a turn with a budget after five in a row", async () => {
    const stub = givenLedger();
    const none = { totalTokens: 0 };
    const calls = await reporting(
      stub,
      Array.from({ length: 50 }, () => none),
    );
    await submit(stub, "x", { submissionId: "s", budget: { tokens: 30 } });
    await expectState(stub, "s", "error", { errorName: "UsageNotReportedError" });
    expect(calls).toHaveLength(5);
  });

  it.each([[undefined], [{}], [{ inputTokens: undefined, totalTokens: undefined }]])(
    "L7: a model that reports %j ends a turn with a budget before its next call",
    async (report) => {
      const stub = givenLedger();
      const calls = await reporting(stub, [report, report, report]);
      await submit(stub, "x", { submissionId: "s", budget: { tokens: 30 } });
      const ended = await expectState(stub, "s", "error", { errorName: "UsageNotReportedError" });
      expect(ended).toMatchObject({
        attempts: 1,
        error: expect.stringContaining("budget.tokens (30)"),
      });
      expect(calls).toHaveLength(1);
      // Without a budget nothing has to be measured.
      await submit(stub, "x", { submissionId: "free" });
      await expectState(stub, "free", "completed");
    },
  );
});

describe("L6: the watchdog", () => {
  const stalls = { stallTimeout: "5 minutes" } as const;

  it("the watchdog ends a turn without progress, and another attempt follows", async () => {
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

  it("L6: the watchdog ends a turn that its host does not begin, and counts it as an attempt", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { ...stalls, retry: { maxAttempts: 2 } });
    let runs = 0;
    await within(stub, ({ turns }) => {
      turns.run = () => {
        runs++;
        return forever();
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "pending");
    time.aheadMs = 299_000;
    await wakeNow(stub);
    await expectState(stub, "s", "pending", { attempts: 0 });
    time.aheadMs = 301_000;
    await wakeNow(stub);
    const again = await expectState(stub, "s", "pending", { attempts: 1 });
    expect(again.failedAttempts).toMatchObject([{ errorName: "TurnStalledError" }]);
    await until(() => runs === 2);
    time.aheadMs = 602_000;
    await wakeNow(stub);
    await expectState(stub, "s", "error", { attempts: 2, errorName: "TurnStalledError" });
  });

  it("L6: the watchdog waits for a host that is busy with a turn of its own", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    let isFree = () => {};
    await within(stub, ({ turns }) => {
      turns.run = async (turn) => {
        await new Promise<void>((resolve) => {
          isFree = resolve;
        });
        turn.begin();
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    for (let minute = 4; minute < 20; minute += 4) {
      time.aheadMs = minute * 60_000;
      await within(stub, ({ submissions }) => submissions.turns.busy("main"));
      await wakeNow(stub);
    }
    await expectState(stub, "s", "pending", { attempts: 0 });
    await within(stub, () => isFree());
    await expectState(stub, "s", "completed", { attempts: 1 });
  });

  it("L6: a turn that is begun too late, after it was given up, does nothing", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    let begin = () => {};
    let late: unknown;
    await within(stub, ({ turns }) => {
      const { run } = turns;
      turns.run = async (turn) => {
        turns.run = run;
        await new Promise<void>((resolve) => {
          begin = resolve;
        });
        try {
          turn.begin();
        } catch (error) {
          late = error;
          throw error;
        }
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await expectState(stub, "s", "pending");
    time.aheadMs = 301_000;
    await wakeNow(stub);
    await expectState(stub, "s", "completed", { attempts: 2 });
    await within(stub, () => begin());
    await sleep(10);
    expect(late).toMatchObject({ name: "TurnRefused" });
    await expectState(stub, "s", "completed", { attempts: 2 });
  });

  it("the watchdog does not end a turn with progress", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    for (let minute = 4; minute < 20; minute += 4) {
      time.aheadMs = minute * 60_000;
      await within(stub, ({ submissions }) => submissions.turns.heartbeat({ seq: 1 }));
      await wakeNow(stub);
    }
    await expectState(stub, "s", "running", { attempts: 1 });
  });

  it("with afterSideEffects fail, a stalled turn whose tools have run is not repeated, and its late end changes nothing", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", stalls);
    let finish = () => {};
    await within(stub, ({ turns, submissions }) => {
      turns.run = async (turn) => {
        await submissions.turns.toolCalls(turn.begin()).start(act());
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

  it("the ledger waits for a host that recovers a turn while it reports progress", async () => {
    const stub = givenLedger();
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    births.set(stub.name ?? "", ({ turns }) => {
      turns.isRecovering = async () => true;
    });
    const next = await crashOne(stub);
    await wakeNow(next);
    time.aheadMs = 590_000;
    await within(next, ({ submissions }) => submissions.turns.heartbeat({ seq: 1 }));
    time.aheadMs = 1_180_000;
    await wakeNow(next);
    await expectState(next, "s", "running", { attempts: 1 });
    time.aheadMs = 1_800_000;
    await wakeNow(next);
    await expectState(next, "s", "running", { attempts: 2 });
  });
});

describe("L6: the platform's own resets", () => {
  const RESET = "Durable Object reset because its code was updated.";

  /** Wakes the object until the attempt has begun: a wake while the one before still ends begins none. */
  async function comesTo(stub: Ledger, attempts: number): Promise<void> {
    await until(async () => {
      if (((await stub.inspect("s"))?.attempts ?? 0) >= attempts) return true;
      await wakeNow(stub);
      return false;
    });
  }

  it("cost no attempt", async () => {
    const stub = givenLedger();
    const script = { fail: RESET, failTimes: 3 };
    await submit(stub, script, { submissionId: "s", retry: { maxAttempts: 1 } });
    for (let attempts = 2; attempts <= 4; attempts++) await comesTo(stub, attempts);
    await expectState(stub, "s", "completed", { attempts: 4 });
  });

  it("L7: the tokens of an attempt that one has ended are in the usage", async () => {
    const stub = givenLedger();
    await submit(stub, { tokens: 10, fail: RESET, failTimes: 1 }, { submissionId: "s" });
    await comesTo(stub, 2);
    const ended = await expectState(stub, "s", "completed", { attempts: 2 });
    expect(ended.usage?.totalTokens).toBe(20);
  });

  it("but no more than twenty of them, so that the submission comes to an end", async () => {
    const stub = givenLedger();
    await submit(stub, { fail: RESET }, { submissionId: "s", retry: { maxAttempts: 2 } });
    for (let attempts = 2; attempts <= 22; attempts++) await comesTo(stub, attempts);
    await wakeNow(stub);
    await expectState(stub, "s", "error", { attempts: 22 });
  });
});
