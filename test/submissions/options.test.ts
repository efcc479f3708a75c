/** When and in which order turns run, and what can be asked of many of them, on the light host. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { jsonSchemaOf } from "../../src/core/schema/schema.ts";
import {
  BacklogFullError,
  BusyError,
  InvalidSubmissionError,
} from "../../src/submissions/errors.ts";
import { readOutput } from "../../src/submissions/read-output.ts";
import type {
  InternalSubmitOptions,
  SubmitMessagesOptions,
} from "../../src/submissions/submit-options.ts";
import { givenLedger, message, refusal, until } from "../support/given.ts";
import {
  acceptOne,
  crashOne,
  expectState,
  jobOf,
  release,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { delivered, ledgerOptions, time } from "../support/objects/ledger-object.ts";

const HOUR_MS = 3_600_000;
/** Keeps the line from moving until it is cancelled. */
const hold = { delayMs: 60_000 };

describe("notBefore", () => {
  it("L4: a scheduled submission does not block other submissions", async () => {
    const stub = givenLedger();
    const notBefore = new Date(Date.now() + HOUR_MS);
    await submit(stub, "later", { submissionId: "later", notBefore });
    await submit(stub, "now", { submissionId: "now" });
    await expectState(stub, "now", "completed");
    const later = await expectState(stub, "later", "pending");
    expect(later).toMatchObject({ dueAt: notBefore.getTime() });
  });

  it("L1: a scheduled submission starts on time after a crash, in the order of acceptance", async () => {
    const stub = givenLedger();
    const notBefore = new Date(Date.now() + HOUR_MS);
    await submit(stub, "later", { submissionId: "later", notBefore });
    await wakeNow(stub);
    await within(stub, (_, ctx) => expect(jobOf(ctx)).toBeGreaterThan(Date.now() + HOUR_MS / 2));
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "later", "pending", { attempts: 0 });
    time.aheadMs = HOUR_MS + 1;
    await wakeNow(next);
    await expectState(next, "later", "completed");
  });

  it("a notBefore in the past starts the turn at once", async () => {
    const stub = givenLedger();
    await submit(stub, "x", { submissionId: "s", notBefore: new Date(0) });
    await expectState(stub, "s", "completed");
  });

  it("a scheduled submission can be cancelled, and a reset skips it", async () => {
    const stub = givenLedger();
    const notBefore = new Date(Date.now() + HOUR_MS);
    for (const id of ["a", "b"]) await submit(stub, "x", { submissionId: id, notBefore });
    expect(await stub.cancel("a")).toMatchObject({ outcome: "cancelled", messagesApplied: false });
    await stub.reset();
    await expectState(stub, "a", "aborted");
    await expectState(stub, "b", "skipped");
    expect(await within(stub, ({ submissions }) => submissions.stats())).toEqual({
      pending: 0,
      running: 0,
    });
  });
});

describe("expiresIn", () => {
  it("skips a turn that has not started in time, with the reason", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "hold" });
    await submit(stub, "x", { submissionId: "s", expiresIn: 60_000 });
    await submit(stub, "x", { submissionId: "behind" });
    time.aheadMs = 61_000;
    await stub.cancel("hold");
    await expectState(stub, "s", "skipped", { errorName: "SubmissionExpiredError", attempts: 0 });
    await expectState(stub, "behind", "completed");
    expect((await stub.conversation()).filter((id) => id === "reply-s")).toEqual([]);
  });

  it("a turn that started in time does not expire", async () => {
    const stub = givenLedger();
    await submit(stub, { delayMs: 100 }, { submissionId: "s", expiresIn: 60_000 });
    await expectState(stub, "s", "running");
    time.aheadMs = 61_000;
    await expectState(stub, "s", "completed");
  });
});

describe("priority", () => {
  it("L4: higher priorities run first, equal ones in the order of acceptance", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "hold" });
    for (const [id, priority] of [
      ["a", 0],
      ["low", -5],
      ["b", 0],
      ["high", 10],
    ] as const) {
      await submit(stub, "x", { submissionId: id, priority });
    }
    await stub.cancel("hold");
    await expectState(stub, "low", "completed");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply-"));
    expect(replies).toEqual(["high", "a", "b", "low"].map((id) => `reply-${id}`));
  });
});

describe("whenBusy", () => {
  it("reject throws while a submission of the thread is open, and stores nothing", async () => {
    const stub = givenLedger();
    await within(stub, async ({ submissions }) => {
      const reject = { whenBusy: "reject" } as const;
      await submissions.submit([message(hold)], { submissionId: "hold", ...reject });
      const refused = submissions.submit([message("x")], reject);
      await expect(refused).rejects.toBeInstanceOf(BusyError);
      await expect(refused).rejects.toMatchObject({ submissionId: "hold" });
      expect(await submissions.list()).toHaveLength(1);
      await submissions.cancel("hold");
      expect(await submissions.submit([message("x")], reject)).toMatchObject({ accepted: true });
    });
  });

  it("interrupt cancels the running turn and goes before all pending ones", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "hold" });
    await submit(stub, "x", { submissionId: "waiting", priority: 100 });
    await expectState(stub, "hold", "running");
    await submit(stub, { delayMs: 50 }, { submissionId: "urgent", whenBusy: "interrupt" });
    await expectState(stub, "hold", "aborted", { error: "Interrupted by submission urgent" });
    await expectState(stub, "waiting", "completed");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply-"));
    expect(replies).toEqual(["reply-urgent", "reply-waiting"]);
  });

  it("interrupt with a known key interrupts nothing", async () => {
    const stub = givenLedger();
    const urgent = { whenBusy: "interrupt", idempotencyKey: "key" } as const;
    await submit(stub, "x", urgent);
    await submit(stub, { isHeld: true }, { submissionId: "next" });
    await expectState(stub, "next", "running");
    expect(await submit(stub, "x", urgent)).toMatchObject({ accepted: false });
    await release(stub, "next");
    await expectState(stub, "next", "completed");
  });
});

describe("L1: invalid options are refused with their names, and nothing is stored", () => {
  it.each([
    ["priority", { priority: 101 }, "from -100 to 100"],
    ["metadata", { metadata: nested(501) }, "expected at most 500 levels"],
    ["priority", { priority: 0.5 }, "whole number"],
    [
      "whenBusy",
      { whenBusy: "panic" as "reject" },
      'Invalid whenBusy "panic": expected "enqueue", "reject"',
    ],
    ["expiresIn", { expiresIn: 0 }, 'a text such as "30 seconds"'],
    [
      "expiresIn",
      { expiresIn: "soon" as "1 day" },
      'Invalid expiresIn "soon": expected a positive number',
    ],
    [
      "expiresIn",
      { expiresIn: 60_000, notBefore: new Date(Date.now() + HOUR_MS) },
      "would expire before notBefore",
    ],
    ["thread", { thread: "" }, "a non-empty string"],
    ["channel", { thread: "side", channel: "slack" }, "channels belong to the main thread"],
    ["whenBusy", { thread: "isolated", whenBusy: "reject" }, "waits for no other"],
    ["whenBusy", { whenBusy: "steer", answer: { schema: {} } }, "an output of its own"],
    ["budget.tokens", { budget: { tokens: 0 } }, "from 1"],
    ["debounce.key", { debounce: { key: "", delay: 1 } }, "a non-empty string"],
    [
      "debounce.delay",
      { debounce: { key: "k", delay: 0 } },
      "Invalid debounce.delay 0: expected a positive number",
    ],
    [
      "debounce.maxDelay",
      { debounce: { key: "k", delay: 2, maxDelay: 1 } },
      "Invalid debounce.maxDelay 1: expected at least debounce.delay, 2 ms",
    ],
    [
      "debounce",
      { idempotencyKey: "a", debounce: { key: "k", delay: 1 } },
      "cannot be combined with idempotencyKey",
    ],
    [
      "debounce",
      { whenBusy: "steer", debounce: { key: "k", delay: 1 } },
      "cannot be combined with whenBusy",
    ],
    ["notBefore", { notBefore: new Date(Number.NaN) }, "a valid Date"],
    ["notBefore", { notBefore: new Date("2300-01-01") }, "before the year 2189"],
    [
      "whenBusy",
      { whenBusy: "interrupt", notBefore: new Date(Date.now() + HOUR_MS) },
      "about the turn that runs now. Leave out notBefore",
    ],
    [
      "onConflict",
      { onConflict: "thorw" as "throw" },
      'Invalid onConflict "thorw": expected "return" or "throw"',
    ],
    ["notBefore", { notBefore: "tomorrow" as unknown as Date }, "a valid Date"],
    ["retry.maxAttempts", { retry: { maxAttempts: 0 } }, "from 1"],
    [
      "retry.afterSideEffects",
      { retry: { afterSideEffects: "no" as never } },
      'afterSideEffects "no": expected "tell", "fail" or "repeat"',
    ],
    [
      "retry.maxAttemps",
      { retry: { maxAttemps: 3 } as never },
      'Unknown option "maxAttemps" in retry',
    ],
    ["idempotancyKey", { idempotancyKey: "x" } as never, 'Unknown option "idempotancyKey"'],
    ["budget", { budget: 5 as never }, "expected an object with tokens"],
    ["budget", { budget: {} as never }, "expected tokens or usd"],
    ["output", { output: "x" as never }, 'Invalid output "x": expected a schema of Zod'],
    ["output", { output: [] as never }, "Invalid output []: expected a schema"],
    ["output", { output: { city: "" } }, "it has no keyword of a JSON Schema"],
    ["output", { output: { type: "object", check: () => 1 } }, "output.check is a function"],
    [
      "output",
      { output: { type: 5 } },
      'Invalid output {"type":5}: expected null, boolean, number',
    ],
    ["output", { output: { type: "strin" } }, "expected null, boolean, number"],
    ["output", { output: { type: ["string", null] } }, "expected null, boolean, number"],
    [
      "output",
      { output: z.object({ at: z.date() }) },
      "at is a Date, which no JSON value can be. Use a type that JSON has",
    ],
    ["strategy", { strategy: "tool" }, 'Invalid strategy "tool": it needs an output'],
    ["repair", { repair: 1 }, "Invalid repair 1: it needs an output"],
    [
      "repair",
      { repair: 11, output: z.string() },
      "Invalid repair 11: expected a whole number from 0 to 10",
    ],
    [
      "strategy",
      { strategy: "x" as never, output: z.string() },
      'expected "auto", "tool" or "json"',
    ],
    ["whenBusy", { whenBusy: "steer", output: z.string() }, "an output of its own"],
    ["notify", { notify: "x" as never }, 'Invalid notify "x": expected a destination or a list'],
    ["notify", { notify: { kind: "http" } as never }, 'Invalid notify[0].kind "http"'],
    [
      "notify",
      { notify: [{ kind: "http" }] as never },
      'Invalid notify[0].kind "http": expected one of agent, method',
    ],
    ["notify", { notify: [{ ...somewhere(), instance: "" }] }, 'Invalid notify[0].instance ""'],
    [
      "notify",
      { notify: [{ ...somewhere(), eventType: "a b" }] },
      'Invalid notify[0].eventType "a b"',
    ],
    ["notify", { notify: (() => []) as never }, "expected a destination or a list"],
    [
      "notify",
      { notify: [somewhere(), { ...somewhere(), instance: "" }] },
      'Invalid notify[1].instance ""',
    ],
  ] as [string, InternalSubmitOptions & SubmitMessagesOptions, string][])(
    "%s: %j",
    (field, options, text) =>
      within(givenLedger(), async ({ submissions }) => {
        const refused = options.answer
          ? acceptOne(submissions, [message("x")], options)
          : submissions.submit([message("x")], options);
        await expect(refused).rejects.toBeInstanceOf(InvalidSubmissionError);
        await expect(refused).rejects.toMatchObject({
          field,
          message: expect.stringContaining(text),
        });
        expect(await submissions.list()).toEqual([]);
      }),
  );
});

it("O1: notify takes one destination as well as a list of one", async () => {
  const stub = givenLedger();
  const to = somewhere();
  await submit(stub, "x", { submissionId: "s", notify: to });
  const [delivery] = await until(() => delivered.get(to.instance));
  expect(delivery?.payload).toMatchObject({ data: { submissionId: "s", status: "completed" } });
  const again = await submit(stub, "x", { idempotencyKey: "k", notify: [to] });
  const other = await submit(stub, "x", { idempotencyKey: "k", notify: to });
  expect(other).toMatchObject({ submissionId: again.submissionId, accepted: false });
});

it("O1: notify is one destination or a list, and undefined ones are left out", async () => {
  const stub = givenLedger();
  const [one, two, alone] = [somewhere(), somewhere(), somewhere()];
  await submit(stub, "x", { submissionId: "s", notify: [one, undefined, two] });
  for (const { instance } of [one, two]) {
    const deliveries = await until(() => delivered.get(instance));
    expect(deliveries).toHaveLength(1);
  }
  await within(stub, ({ submissions }) =>
    submissions.submitMany([{ messages: [message("x")], options: { notify: alone } }]),
  );
  await until(() => delivered.get(alone.instance));
  await submit(stub, "x", { submissionId: "u", notify: undefined });
  expect(await within(stub, ({ submissions }) => submissions.wait("u"))).toMatchObject({
    status: "completed",
  });
});

it("L3: an empty key or id is none, as of an absent header", () =>
  within(givenLedger(), async ({ submissions }) => {
    const empty = { submissionId: "", idempotencyKey: "" };
    const first = await submissions.submit([message("x")], empty);
    const second = await submissions.submit([message("y")], empty);
    expect([first.accepted, second.accepted]).toEqual([true, true]);
    expect(first.submissionId).toMatch(/^1-/);
    expect(second).not.toHaveProperty("idempotencyKey");
  }));

it("invalid options of lists, deletions and waits are refused, and nothing is deleted", () =>
  within(givenLedger(), async ({ submissions }) => {
    await submissions.submit([message("x")], { submissionId: "s" });
    await submissions.wait("s");
    const refused = (field: string) =>
      expect.objectContaining({ name: "InvalidSubmissionError", field });
    const typo = { before: new Date() } as never;
    await expect(submissions.deleteMany(typo)).rejects.toEqual(refused("before"));
    const text = { completedBefore: "yesterday" as never };
    await expect(submissions.deleteMany(text)).rejects.toEqual(refused("completedBefore"));
    await expect(submissions.list({ limits: 5 } as never)).rejects.toEqual(refused("limits"));
    await expect(submissions.list(null as never)).rejects.toEqual(refused("listSubmissions()"));
    const never = { timeoutMs: Number.NaN };
    await expect(submissions.wait("s", never)).rejects.toEqual(refused("timeoutMs"));
    expect(await submissions.list()).toHaveLength(1);
  }));

describe("submitMany", () => {
  it("L4: submitMany() accepts all in order, in one transaction", () =>
    within(givenLedger(), async ({ submissions, meter }) => {
      await submissions.list();
      meter.reset();
      const many = Array.from({ length: 1_000 }, (_, n) => ({
        messages: [message(`${n}`)],
        options: { submissionId: `s${n}` },
      }));
      const results = await submissions.submitMany(many);
      expect(results.map(({ submissionId }) => submissionId)).toEqual(
        many.map(({ options }) => options.submissionId),
      );
      expect(meter.read().rowsWritten).toBeLessThanOrEqual(3 * 1_000 + 10);
      submissions.turns.reset();
    }));

  it.each<[string, object, object, RegExp]>([
    ["an unknown option", {}, { thred: "x" }, /Unknown option "thred"/],
    ["no messages", { messages: [] }, {}, /at least one message/],
    ["messages that are none", { messages: "hello" }, {}, /at least one message, got "hello"/],
    ["an id of two", {}, { submissionId: "first", idempotencyKey: "other" }, /refer to different/],
    [
      "a known key",
      { messages: [message("y")] },
      { idempotencyKey: "k", onConflict: "throw" },
      /k/,
    ],
    ["a busy thread", {}, { whenBusy: "reject" }, /./],
    ["a destination", {}, { notify: [{ kind: "fax" }] }, /Invalid notify\[0\]\.kind "fax"/],
    ["too large a text", { messages: [message("x".repeat(1_990_000))] }, {}, /bytes/],
    ["a time", {}, { notBefore: "soon" }, /notBefore/],
  ])(
    "L1: submitMany() names the item that is refused for %s, and accepts none",
    async (_, item, options, words) => {
      await within(givenLedger(), async ({ submissions }) => {
        const first = { submissionId: "first", idempotencyKey: "k" };
        const error = await refusal(
          submissions.submitMany([
            { messages: [message("x")], options: first },
            { messages: [message("x")], ...item, options } as never,
          ]),
        );
        expect(error.message).toMatch(/\bitem 1 of submitMany\(\)/);
        expect(error.message).toMatch(words);
        expect(error.name).not.toBe("Error");
        expect(await submissions.list()).toEqual([]);
      });
    },
  );

  it("submitMany() accepts none when one is refused", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { maxPending: 2 });
    await within(stub, async ({ submissions }) => {
      const three = [1, 2, 3].map((n) => ({ messages: [message(`${n}`)] }));
      await expect(submissions.submitMany(three)).rejects.toBeInstanceOf(BacklogFullError);
      expect(await submissions.list()).toEqual([]);
      expect(await submissions.submitMany(three.slice(1))).toHaveLength(2);
    });
  });

  it("submitMany() with interrupt cancels the running turn once", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "hold" });
    await expectState(stub, "hold", "running");
    await within(stub, ({ submissions }) =>
      submissions.submitMany([
        { messages: [message("a")], options: { submissionId: "a", whenBusy: "interrupt" } },
        { messages: [message("b")], options: { submissionId: "b", whenBusy: "interrupt" } },
        { messages: [message("c")], options: { submissionId: "c" } },
      ]),
    );
    await expectState(stub, "hold", "aborted", { error: "Interrupted by submission a" });
    for (const id of ["a", "b", "c"]) await expectState(stub, id, "completed");
  });

  it("L3: submitMany() accepts a repeated key once", () =>
    within(givenLedger(), async ({ submissions }) => {
      const options = { idempotencyKey: "key" };
      const [first, second] = await submissions.submitMany([
        { messages: [message("x")], options },
        { messages: [message("x")], options },
      ]);
      expect(first?.accepted).toBe(true);
      expect(second).toMatchObject({ accepted: false, submissionId: first?.submissionId });
    }));
});

describe("retry of a failed submission", () => {
  it("creates a new submission with the same messages, which takes over the key", async () => {
    const stub = givenLedger();
    await submit(stub, { fail: "no", failTimes: 1 }, { submissionId: "s", idempotencyKey: "key" });
    const failed = await expectState(stub, "s", "error");
    await within(stub, async ({ submissions }) => {
      const again = await submissions.retry("s");
      expect(again).toMatchObject({ accepted: true, idempotencyKey: "key" });
      expect(again?.submissionId).not.toBe("s");
      expect(await submissions.wait(again?.submissionId ?? "")).toMatchObject({
        status: "completed",
        attempts: 1,
      });
      expect(await submissions.inspect("s")).toEqual({ ...failed, idempotencyKey: undefined });
    });
    // The messages, once, and the reply.
    expect(await stub.conversation()).toHaveLength(2);
  });

  it("L3: a repeated retry returns the same new submission", async () => {
    const stub = givenLedger();
    await submit(stub, { fail: "no" }, { submissionId: "s" });
    await expectState(stub, "s", "error");
    await within(stub, async ({ submissions }) => {
      const again = await submissions.retry("s");
      const { submissionId = "" } = again ?? {};
      expect(again?.accepted).toBe(true);
      expect(await submissions.retry("s")).toMatchObject({ submissionId, accepted: false });
      expect(await submissions.wait(submissionId)).toMatchObject({ status: "error" });
      // Failed as well, it is the one to retry.
      expect(await submissions.retry("s")).toMatchObject({ submissionId, accepted: false });
      expect(await submissions.retry(submissionId)).toMatchObject({ accepted: true });
    });
  });

  it("L1: retrying a submission does not change others, whatever their ids", async () => {
    const stub = givenLedger();
    await submit(stub, "somebody's", { submissionId: "A:retry" });
    await expectState(stub, "A:retry", "completed");
    await submit(stub, { fail: "no", failTimes: 1 }, { submissionId: "A" });
    await expectState(stub, "A", "error");
    const again = await within(stub, ({ submissions }) => submissions.retry("A"));
    expect(again?.accepted).toBe(true);
    expect(again?.submissionId).not.toBe("A:retry");
    await expectState(stub, again?.submissionId ?? "", "completed");
  });

  it("L1: an id that is used again after its deletion has no retry yet", async () => {
    const stub = givenLedger();
    const failing = { fail: "no" };
    await submit(stub, failing, { submissionId: "A" });
    await expectState(stub, "A", "error");
    const first = await within(stub, ({ submissions }) => submissions.retry("A"));
    await expectState(stub, first?.submissionId ?? "", "error");
    await within(stub, ({ submissions }) => submissions.delete("A"));
    await submit(stub, failing, { submissionId: "A" });
    await expectState(stub, "A", "error");
    const second = await within(stub, ({ submissions }) => submissions.retry("A"));
    expect(second).toMatchObject({ accepted: true });
    expect(second?.submissionId).not.toBe(first?.submissionId);
    // And one whose retry was deleted is tried again by another.
    await expectState(stub, second?.submissionId ?? "", "error");
    await within(stub, ({ submissions }) => submissions.delete(second?.submissionId ?? ""));
    const third = await within(stub, ({ submissions }) => submissions.retry("A"));
    expect(third).toMatchObject({ accepted: true });
  });

  it("L4: the retry of an interrupting submission runs by its priority", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "urgent", whenBusy: "interrupt" });
    await expectState(stub, "urgent", "running");
    await stub.cancel("urgent");
    await submit(stub, hold, { submissionId: "runs" });
    await expectState(stub, "runs", "running");
    await submit(stub, hold, { submissionId: "important", priority: 100 });
    const again = await within(stub, ({ submissions }) => submissions.retry("urgent"));
    await stub.cancel("runs");
    await expectState(stub, "important", "running");
    await expectState(stub, again?.submissionId ?? "", "pending");
  });

  it("L1: retrying a scheduled submission that was cancelled arms a wake for now, not for its former time", () =>
    within(givenLedger(), async ({ submissions }, ctx) => {
      const notBefore = new Date(Date.now() + HOUR_MS);
      await submissions.submit([message(hold)], { submissionId: "s", notBefore });
      await submissions.cancel("s");
      const again = await submissions.retry("s");
      expect(again).toMatchObject({ accepted: true, status: "pending" });
      expect(jobOf(ctx)).toBeLessThan(Date.now() + 60_000);
      expect(again?.dueAt).toBeUndefined();
      await submissions.cancel(again?.submissionId ?? "");
    }));

  it("L7: a retry begins without what its submission has left: no tokens, and no turn that it joined", async () => {
    const stub = givenLedger();
    await submit(stub, { ...hold, calls: 2, tokens: 7 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "joined", whenBusy: "steer" });
    await within(stub, async ({ submissions }) => {
      const ref = { seq: 1, attempt: 1 };
      submissions.turns.nextStep(ref);
      submissions.turns.recordUsage(ref, { totalTokens: 7 });
      await submissions.cancel("s");
      expect(await submissions.inspect("joined")).toMatchObject({ mergedInto: "s" });
      expect(await submissions.inspect("s")).toMatchObject({ usage: { totalTokens: 7 } });
      for (const id of ["s", "joined"]) {
        const again = await submissions.retry(id);
        expect(again).toMatchObject({ accepted: true, status: "pending" });
        expect(again).not.toHaveProperty("usage");
        expect(again).not.toHaveProperty("mergedInto");
        await submissions.cancel(again?.submissionId ?? "");
      }
    });
  });

  it("does not retry an open or completed submission, and returns it", () =>
    within(givenLedger(), async ({ submissions }) => {
      await submissions.submit([message("x")], { submissionId: "s" });
      expect(await submissions.retry("s")).toMatchObject({ submissionId: "s", accepted: false });
      await submissions.wait("s");
      expect(await submissions.retry("s")).toMatchObject({ submissionId: "s", accepted: false });
      expect(await submissions.retry("?")).toBeNull();
    }));
});

describe("list", () => {
  it("pages by cursor without a limit, and filters by metadata and time", () =>
    within(givenLedger(), async ({ submissions }) => {
      const many = Array.from({ length: 250 }, (_, n) => ({
        messages: [message(`${n}`)],
        options: {
          submissionId: `s${n}`,
          metadata: { even: n % 2 === 0, n, 'odd "name".x': n % 2 ? "odd" : "even" },
        },
      }));
      await submissions.submitMany(many);
      submissions.turns.reset();
      const ids: string[] = [];
      for (let before: string | undefined; ; ) {
        const page = await submissions.list({ limit: 60, ...(before && { before }) });
        ids.push(...page.map(({ submissionId }) => submissionId));
        before = page.at(-1)?.submissionId;
        if (page.length < 60) break;
      }
      expect(ids).toEqual(many.map(({ options }) => options.submissionId).reverse());
      expect(await submissions.list({ limit: 1_000 })).toHaveLength(250);
      const count = async (options: Parameters<typeof submissions.list>[0]) =>
        (await submissions.list({ limit: 1_000, ...options })).length;
      expect(await count({ metadata: { even: true } })).toBe(125);
      expect(await count({ metadata: { even: false, n: 7 } })).toBe(1);
      expect(await count({ metadata: { 'odd "name".x': "odd" } })).toBe(125);
      expect(await count({ metadata: { even: "true" } })).toBe(0);
      expect(await count({ createdAfter: new Date(Date.now() + HOUR_MS) })).toBe(0);
      expect(await count({ createdBefore: new Date(Date.now() + HOUR_MS) })).toBe(250);
      await expect(count({ before: "gone" })).rejects.toMatchObject({
        name: "UnknownCursorError",
        before: "gone",
      });
    }));
});

it("stats() counts open submissions and has the oldest one", () =>
  within(givenLedger(), async ({ submissions }) => {
    expect(await submissions.stats()).toEqual({ pending: 0, running: 0 });
    await submissions.submit([message(hold)], { submissionId: "hold" });
    await submissions.submit([message("a")], { submissionId: "a" });
    await submissions.submit([message("b")], { notBefore: new Date(Date.now() + HOUR_MS) });
    const { createdAt } = (await submissions.inspect("a")) ?? {};
    expect(await submissions.stats()).toEqual({
      pending: 2,
      running: 1,
      oldestPendingAt: createdAt,
    });
    await submissions.cancel("hold");
  }));

/** An object in an object, so many levels deep. */
function nested(levels: number): Record<string, unknown> {
  let value: Record<string, unknown> = {};
  for (let level = 1; level < levels; level++) value = { a: value };
  return value;
}

it.each([[null], [undefined], [5], [{}]])("%j in place of a schema is refused", async (given) => {
  const schema = given as never;
  const ended = { submissionId: "s", status: "completed", output: 1 };
  const error = await refusal(readOutput(schema, ended));
  expect(error).toMatchObject({ name: "InvalidOptionError", option: "schema" });
  expect(() => jsonSchemaOf(schema)).toThrow("it is no Standard Schema");
});
