/** L8: transient failures defer durably, within the attempt limit; others end at once. */

import { describe, expect, it } from "vitest";
import { transientOf } from "../../../src/core/failures.ts";
import { nextAttempt } from "../../../src/submissions/turns/next-attempt.ts";
import { givenLedger } from "../../support/given.ts";
import { crashOne, expectState, jobOf, submit, wakeNow, within } from "../../support/ledger.ts";
import { chance, ledgerOptions, time } from "../../support/objects/ledger-object.ts";

const OVERLOADED = { fail: "overloaded", status: 529 };

describe("which failures are transient", () => {
  const api = (statusCode: number, rest: object = {}) =>
    Object.assign(new Error("provider"), { statusCode, responseHeaders: {}, ...rest });

  it.each([408, 425, 429, 500, 502, 503, 504, 529])("a status of %i", (status) => {
    expect(transientOf(api(status), Date.now())).toEqual({ retryAfterMs: undefined });
  });

  it.each([400, 401, 403, 404, 409, 413, 422])("not a status of %i", (status) => {
    expect(transientOf(api(status, { isRetryable: true }), Date.now())).toBeUndefined();
  });

  it.each([
    ["a network that was lost", new Error("Network connection lost.")],
    ["a failed fetch", new TypeError("fetch failed")],
    ["a stream that stalled", "The stream stalled for 60000 ms"],
    ["what a provider calls so", Object.assign(new Error("busy"), { isRetryable: true })],
    [
      "the last error of the AI SDK's own retries",
      Object.assign(new Error("x"), { lastError: api(503) }),
    ],
    [
      "the cause of another error",
      new Error("turn", { cause: new Error("wrap", { cause: api(429) }) }),
    ],
  ])("%s", (_, error) => {
    expect(transientOf(error, Date.now())).toBeDefined();
  });

  it.each([new Error("no such tool"), "no", undefined, null, 7, {}])("not %s", (error) => {
    expect(transientOf(error, Date.now())).toBeUndefined();
  });

  it("an error that is its own cause comes to an end", () => {
    const loop = new Error("loop");
    loop.cause = loop;
    expect(transientOf(loop, Date.now())).toBeUndefined();
  });

  it.each([
    [{ "retry-after": "7" }, 7_000],
    [{ "retry-after": "7", "retry-after-ms": "250" }, 250],
    [{ "retry-after": new Date(Date.now() - 60_000).toUTCString() }, 0],
    [{ "retry-after": "soon" }, undefined],
    [{}, undefined],
  ])("Retry-After: %j", (responseHeaders, retryAfterMs) => {
    expect(transientOf(api(429, { responseHeaders }), Date.now())).toEqual({ retryAfterMs });
  });

  it("Retry-After as a date", () => {
    const responseHeaders = { "retry-after": new Date(Date.now() + 30_000).toUTCString() };
    const wait = transientOf(api(503, { responseHeaders }), Date.now())?.retryAfterMs ?? 0;
    expect(wait).toBeGreaterThan(28_000);
    expect(wait).toBeLessThanOrEqual(30_000);
  });
});

describe("the decision", () => {
  const turn = {
    spec: undefined,
    priors: [],
    why: { refusal: undefined },
    isRemembered: true,
    transient: { retryAfterMs: undefined },
    hasEffects: false,
    mayRepeatEffects: false,
    attempts: 2,
    maxAttempts: 5,
  };
  const backoff = { baseMs: 1_000, capMs: 3_000 };

  it.each([
    ["draws from the bound of that attempt", turn, 0.5, 1_000],
    ["keeps to the cap", { ...turn, attempts: 4 }, 0.5, 1_500],
    [
      "waits as long as Retry-After says",
      { ...turn, transient: { retryAfterMs: 9_000 } },
      0.5,
      9_000,
    ],
    ["not after the last attempt", { ...turn, attempts: 5 }, 0.5, undefined],
    ["not of what is permanent", { ...turn, transient: undefined }, 0.5, undefined],
    ["L6 not after effects", { ...turn, hasEffects: true }, 0.5, undefined],
    [
      "L6: after effects that may repeat",
      { ...turn, hasEffects: true, mayRepeatEffects: true },
      0.5,
      1_000,
    ],
  ])("%s", (_, failed, random, expected) => {
    const next = nextAttempt(failed, backoff, random);
    expect(next).toEqual(
      expected === undefined ? undefined : { follow: "again", delayMs: expected },
    );
  });
});

describe("L8: on the light host", () => {
  it("a transient failure is retried later, and stays readable", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    await submit(stub, { ...OVERLOADED, failTimes: 2, text: "at last" }, { submissionId: "s" });
    const ended = await expectState(stub, "s", "completed", { attempts: 3 });
    expect(ended.failedAttempts).toEqual(
      [1, 2].map((attempt) => ({
        attempt,
        startedAt: expect.any(Number),
        endedAt: expect.any(Number),
        error: "overloaded",
        errorName: "AI_APICallError",
      })),
    );
    expect(await stub.conversation()).toHaveLength(2);
  });

  it("a permanent failure ends the submission at once", async () => {
    const stub = givenLedger();
    await submit(stub, { fail: "bad key", status: 401 }, { submissionId: "s" });
    await expectState(stub, "s", "error", { attempts: 1, error: "bad key" });
  });

  it.each([
    ["of the submission", { retry: { maxAttempts: 2 } }, {}],
    ["of the ledger", {}, { retry: { maxAttempts: 2 } }],
  ])("the attempts end at the limit %s, with the last error", async (_, options, ledger) => {
    chance.random = () => 0;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", ledger);
    await submit(stub, OVERLOADED, { submissionId: "s", ...options });
    const ended = await expectState(stub, "s", "error", { attempts: 2, error: "overloaded" });
    expect(ended.failedAttempts).toHaveLength(1);
  });

  it("L4: the next submissions of the thread wait as well: they would meet the same failure", async () => {
    chance.random = () => 0.999;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { retry: { baseDelay: "1 minute" } });
    await submit(stub, { ...OVERLOADED, failTimes: 1 }, { submissionId: "first" });
    await submit(stub, "x", { submissionId: "second" });
    const deferred = await expectState(stub, "first", "pending", { attempts: 1 });
    expect(deferred.dueAt).toBeGreaterThan(Date.now() + 50_000);
    await expectState(stub, "second", "pending", { attempts: 0 });
    time.aheadMs = 61_000;
    await wakeNow(stub);
    await expectState(stub, "first", "completed", { attempts: 2 });
    await expectState(stub, "second", "completed", { attempts: 1 });
  });

  it("Retry-After outlives a crash", async () => {
    const stub = givenLedger();
    const limited = { fail: "slow down", status: 429, headers: { "retry-after": "120" } };
    await submit(stub, { ...limited, failTimes: 1 }, { submissionId: "s" });
    const { dueAt } = await expectState(stub, "s", "pending", { attempts: 1 });
    expect(dueAt).toBeGreaterThan(Date.now() + 110_000);
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "s", "pending", { attempts: 1, dueAt });
    time.aheadMs = 121_000;
    await wakeNow(next);
    await expectState(next, "s", "completed", { attempts: 2 });
  });

  it("a very long Retry-After delays the thread for a day at most, and the wake is armed", async () => {
    const stub = givenLedger();
    const absurd = { fail: "x", status: 429, headers: { "retry-after": "99999999999999" } };
    await submit(stub, absurd, { submissionId: "s" });
    const { dueAt = 0 } = await expectState(stub, "s", "pending", { attempts: 1 });
    expect(dueAt).toBeGreaterThan(Date.now() + 86_000_000);
    expect(dueAt).toBeLessThanOrEqual(Date.now() + 86_400_000);
    await wakeNow(stub);
    await within(stub, (_, ctx) => expect(jobOf(ctx)).toBe(dueAt));
  });

  it("L5: a submission that waits for a retry can be cancelled", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { retry: { baseDelay: "1 minute" } });
    chance.random = () => 0.999;
    await submit(stub, { ...OVERLOADED, failTimes: 1 }, { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    expect(await stub.cancel("s")).toMatchObject({
      outcome: "cancelled",
      previousStatus: "pending",
    });
    time.aheadMs = 61_000;
    await wakeNow(stub);
    await expectState(stub, "s", "aborted", { attempts: 1 });
  });
});
