/**
 * An answer waits in memory for the end of its turn, and is written with it:
 * what becomes of it when something comes in between, on the light host (L6, L7).
 */

import { describe, expect, it, vi } from "vitest";
import type { Turn, TurnEnd } from "../../../src/submissions/host.ts";
import type { AttemptRef } from "../../../src/submissions/states.ts";
import type { InternalSubmitOptions } from "../../../src/submissions/submit-options.ts";
import { givenLedger, until } from "../../support/given.ts";
import {
  arrived,
  crashOne,
  expectState,
  forever,
  type Ledger,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import {
  act,
  births,
  chance,
  type LedgerObject,
  ledgerOptions,
  type TestOptions,
  time,
} from "../../support/objects/ledger-object.ts";

const ANSWERED = { answer: { schema: {} }, submissionId: "s" } as const;
const HOUR_MS = 3_600_000;

type After = (ref: AttemptRef, turn: Turn, object: LedgerObject) => Promise<TurnEnd>;

/** An object whose turns answer with the number of their attempt, and continue as the test says, after every start. */
function givenAnswering(after: After, options: TestOptions = {}): Ledger {
  const stub = givenLedger();
  // No answer is written by itself, unless the test says so.
  ledgerOptions.set(stub.name ?? "", { holdAnswerMs: 3_600_000, ...options });
  births.set(stub.name ?? "", (object) => {
    object.turns.run = async (turn) => {
      const ref = turn.begin();
      expect(object.submissions.turns.answer(ref, ref.attempt)).toBe(true);
      return after(ref, turn, object);
    };
  });
  return stub;
}

const completed: After = async () => ({ outcome: "completed" });
/** The first attempt does not come to its end. */
const stuck: After = ({ attempt }, ...others) =>
  attempt === 1 ? forever() : completed({ seq: 1, attempt }, ...others);

/** Notes when a turn of the object has answered. */
async function givenSignal(stub: Ledger): Promise<() => boolean> {
  let isAnswered = false;
  await within(stub, ({ submissions: { turns } }) => {
    const answer = turns.answer.bind(turns);
    turns.answer = (...args) => {
      const isTaken = answer(...args);
      isAnswered = true;
      return isTaken;
    };
  });
  return () => isAnswered;
}

async function answered(stub: Ledger, options: InternalSubmitOptions = {}): Promise<void> {
  const isAnswered = await givenSignal(stub);
  await submit(stub, "x", { ...ANSWERED, ...options });
  await until(isAnswered);
  await expectState(stub, "s", "running");
}

/** What the row has for an answer. */
function written(stub: Ledger): Promise<unknown> {
  return within(
    stub,
    (_, { storage }) =>
      storage.sql.exec("SELECT output FROM perdure_submissions").toArray()[0]?.output,
  );
}

describe("L7: an answer that waits for the end of its turn", () => {
  it("O1: a held answer is written with the end, and sent", async () => {
    let end = () => {};
    const ending = new Promise<void>((resolve) => {
      end = resolve;
    });
    const stub = givenAnswering(async () => {
      await ending;
      return { outcome: "completed" };
    });
    const to = somewhere();
    await answered(stub, { notify: [to] });
    expect(await written(stub)).toBeNull();
    const writes: string[] = [];
    await within(stub, ({ meter }) => {
      meter.onWrite = (_, what) => writes.push(what);
      end();
    });
    await expectState(stub, "s", "completed", { output: 1 });
    await arrived(to);
    expect(writes.filter((what) => what.includes("output"))).toHaveLength(1);
  });

  it("a held answer leaves no later work", async () => {
    const HOLD_MS = 987_654;
    const started = vi.spyOn(globalThis, "setTimeout");
    const ended = vi.spyOn(globalThis, "clearTimeout");
    const stub = givenAnswering(completed, { holdAnswerMs: HOLD_MS });
    await submit(stub, "x", ANSWERED);
    await expectState(stub, "s", "completed", { output: 1 });
    const nth = started.mock.calls.findIndex(([, ms]) => ms === HOLD_MS);
    expect(nth).toBeGreaterThanOrEqual(0);
    expect(ended).toHaveBeenCalledWith(started.mock.results[nth]?.value);
    started.mockRestore();
    ended.mockRestore();
  });

  it("a held answer is written alone when the end takes longer than that", async () => {
    const statements: number[] = [];
    const stub = givenAnswering(
      (ref, turn, object) => {
        statements.push(object.meter.statementsOf((what) => what.includes("SET output")));
        return stuck(ref, turn, object);
      },
      { holdAnswerMs: 20 },
    );
    await answered(stub);
    expect(statements).toEqual([0]);
    await until(async () => (await written(stub)) === "1");
    await expectState(await crashOne(stub), "s", "completed", { output: 1, attempts: 1 });
  });

  it("L2: the first answer of an attempt is held, and none of another attempt", async () => {
    const stub = givenAnswering(async (ref, _, { submissions }) => {
      expect(submissions.turns.answer(ref, "second")).toBe(false);
      for (const attempt of [ref.attempt - 1, ref.attempt + 1]) {
        expect(submissions.turns.answer({ ...ref, attempt }, "stale")).toBe(false);
      }
      return { outcome: "completed" };
    });
    await submit(stub, "x", ANSWERED);
    await expectState(stub, "s", "completed", { output: 1 });
  });

  it("L5: a cancellation drops the held answer, and a late end does not restore it", async () => {
    let isLate = false;
    const stub = givenAnswering(async (_, { signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      isLate = true;
      return { outcome: "completed" };
    });
    await answered(stub);
    expect(await stub.cancel("s")).toMatchObject({ outcome: "cancelled" });
    await until(() => isLate);
    // The turn after it begins when it has ended.
    await submit(stub, "x", { ...ANSWERED, submissionId: "next" });
    await expectState(stub, "next", "running");
    expect(await stub.inspect("s")).toMatchObject({ status: "aborted" });
    expect(await stub.inspect("s")).not.toHaveProperty("output");
    expect(await written(stub)).toBeNull();
  });

  const failure = { name: "LateError", message: "late" };
  const overloaded = Object.assign(new Error("overloaded"), { statusCode: 529 });
  it.each<[string, After]>([
    ["fails", async () => ({ outcome: "error", failure })],
    ["fails for now", async () => ({ outcome: "error", failure, cause: overloaded })],
    ["throws", () => Promise.reject(new Error("after the answer"))],
  ])("decides how the turn has ended, though it %s after it", async (_, after) => {
    const stub = givenAnswering(after);
    await submit(stub, "x", ANSWERED);
    await expectState(stub, "s", "completed", { output: 1, attempts: 1 });
  });

  it("L6: decides how a turn has ended that is silent from then on", async () => {
    const stub = givenAnswering(forever, { stallTimeout: "1 hour" });
    await answered(stub);
    time.aheadMs = HOUR_MS + 1;
    await wakeNow(stub);
    await expectState(stub, "s", "completed", { output: 1, attempts: 1 });
  });

  it("L6: a held answer survives a reset that the object instance has seen", async () => {
    const reset = "Durable Object reset because its code was updated.";
    const stub = givenAnswering(() => Promise.reject(new Error(reset)));
    await answered(stub);
    expect(await written(stub)).toBeNull();
    await wakeNow(stub);
    await expectState(stub, "s", "completed", { output: 1, attempts: 1 });
  });

  it("L6: a host that recovers the turn finds the held answer", async () => {
    const stub = givenAnswering(forever);
    await answered(stub);
    const found = await within(stub, ({ submissions }, { storage }) => {
      const query = "SELECT messages FROM perdure_submissions";
      const { messages } = storage.sql.exec<{ messages: string }>(query).one();
      const [asked] = JSON.parse(messages) as { id: string }[];
      return submissions.store.findByMessage(new Set([asked?.id ?? ""]))?.isAnswered;
    });
    expect(found).toBe(true);
  });
});

describe("L6: a crash between an answer and the end of its turn", () => {
  it("asks again if nothing has had effects, and sends one answer", async () => {
    const stub = givenAnswering(stuck);
    const to = somewhere();
    await answered(stub, { notify: [to] });
    await within(stub, (_, { storage }) => storage.sync());
    await expectState(await crashOne(stub), "s", "completed", { output: 2, attempts: 2 });
    expect(await arrived(to)).toHaveLength(1);
  });

  const isolated = { thread: "isolated" };
  it.each<[string, InternalSubmitOptions, TestOptions?]>([
    ["the last attempt", { retry: { maxAttempts: 1 } }],
    ["the last attempt of all turns", {}, { retry: { maxAttempts: 1 } }],
    ["a turn with a budget", { budget: { tokens: 100 } }],
  ])("does not ask again in %s: the answer was written at once", async (_, options, limits) => {
    const stub = givenAnswering(stuck, limits);
    await answered(stub, options);
    expect(await written(stub)).toBe("1");
    await expectState(await crashOne(stub), "s", "completed", { output: 1, attempts: 1 });
  });

  it.each<[string, InternalSubmitOptions]>([
    ["the conversation", {}],
    ["no conversation", isolated],
    [
      "no conversation, and may be repeated",
      { ...isolated, retry: { afterSideEffects: "repeat" } },
    ],
  ])("does not run again what had effects, in %s", async (_, options) => {
    let effects = 0;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { holdAnswerMs: 3_600_000 });
    births.set(stub.name ?? "", ({ turns, submissions }) => {
      turns.run = async ({ begin }) => {
        const ref = begin();
        await submissions.turns.toolCalls(ref).start(act());
        effects++;
        expect(submissions.turns.answer(ref, "of an effect")).toBe(true);
        return forever();
      };
    });
    await answered(stub, options);
    const next = await crashOne(stub);
    await expectState(next, "s", "completed", { output: "of an effect", attempts: 1 });
    expect(effects).toBe(1);
  });

  it("L2: nor a tool that runs after the answer, which is written before it does", async () => {
    const stub = givenAnswering(async (ref, _, { submissions }) => {
      await submissions.turns.toolCalls(ref).start(act());
      return forever();
    });
    await answered(stub, isolated);
    expect(await written(stub)).toBe("1");
    await expectState(await crashOne(stub), "s", "completed", { output: 1, attempts: 1 });
  });

  it("an attempt that resets have ended does not count for the last one", async () => {
    const stub = givenAnswering(
      async ({ attempt }) => {
        if (attempt > 1) return forever();
        throw new Error("Durable Object reset because its code was updated.");
      },
      { retry: { maxAttempts: 2 } },
    );
    let isReset = false;
    await within(stub, ({ turns }) => {
      const { run } = turns;
      turns.run = async ({ begin }) => {
        begin();
        turns.run = run;
        isReset = true;
        throw new Error("Durable Object reset because its code was updated.");
      };
    });
    const isAnswered = await givenSignal(stub);
    await submit(stub, "x", ANSWERED);
    await until(() => isReset);
    await wakeNow(stub);
    await until(isAnswered);
    await expectState(stub, "s", "running", { attempts: 2 });
    // This is the first one that counts, so another may follow.
    expect(await written(stub)).toBeNull();
    await expectState(await crashOne(stub), "s", "running", { attempts: 3 });
  });
});

describe("L7: storage that refuses", () => {
  it("an answer by itself gets it with the end", async () => {
    const errors = vi.spyOn(console, "error").mockImplementation(() => {});
    let end = () => {};
    const ending = new Promise<void>((resolve) => {
      end = resolve;
    });
    const stub = givenAnswering(
      async () => {
        await ending;
        return { outcome: "completed" };
      },
      { holdAnswerMs: 10 },
    );
    await within(stub, ({ meter }) => {
      meter.onWrite = (_, what) => {
        if (what.includes("SET output = ?")) throw new Error("disk full");
      };
    });
    await answered(stub);
    await until(() => errors.mock.calls.length > 0);
    errors.mockRestore();
    expect(await written(stub)).toBeNull();
    await within(stub, end);
    await expectState(stub, "s", "completed", { output: 1 });
  });

  it.each([
    ["the end", "settled_at = ?"],
    ["what it tells", "INTO perdure_outbox"],
  ])("%s gets the answer with it when it is tried again", async (_, write) => {
    chance.random = () => 0;
    const errors = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = givenAnswering(completed);
    const to = somewhere();
    await stub.list();
    await within(stub, ({ meter }) => {
      meter.onWrite = (_, what) => {
        if (!what.includes(write)) return;
        meter.onWrite = undefined;
        throw new Error("disk full");
      };
    });
    await submit(stub, "x", { ...ANSWERED, notify: [to] });
    await expectState(stub, "s", "completed", { output: 1, attempts: 1 });
    expect(await arrived(to)).toHaveLength(1);
    expect(errors).toHaveBeenCalled();
    errors.mockRestore();
  });
});
