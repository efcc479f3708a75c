/** Which turns start now, and what those that do not wait for. */

import { describe, expect, it, vi } from "vitest";
import type { LimitGate } from "../../../src/features/limits/gate.ts";
import { limit } from "../../../src/features/limits/index.ts";
import { windowOf } from "../../../src/features/limits/keeper/calendar.ts";
import type { Admission } from "../../../src/submissions/gate.ts";
import type { Submission } from "../../../src/submissions/store/rows.ts";
import {
  generate,
  givenGate,
  modelOf,
  now,
  pass,
  promptOf,
  stepModel,
  submission,
} from "./support.ts";

const one = (rate = "1 per hour", more: object = {}) =>
  limit("one", { requests: rate, ...more } as never);
const concurrency = { key: "c", limit: 1 };
const owned = (limits: object, more: Partial<Submission> = {}) =>
  ({ limits, ...more }) as Partial<Submission>;

/** What the gate decides in the end. */
async function decided(gate: LimitGate, given: Submission): Promise<Admission> {
  for (let n = 0; n < 10; n++) {
    const admission = gate.admit(given);
    if (!admission) return undefined;
    const decision = await now(admission);
    if (decision) return decision;
  }
  throw new Error("The gate did not decide");
}

describe("a turn", () => {
  it("starts at once, without a call, where no limit concerns it", () => {
    const { gate, keepers } = givenGate();
    expect(gate.admit(submission(1))).toBeUndefined();
    gate.released(1);
    expect(keepers.asks).toEqual([]);
  });

  it("starts at once, without a call, by what was lent before", async () => {
    const { gate, keepers } = givenGate({ limits: [one("1000 per minute")] });
    const { model } = modelOf();
    for (let seq = 1; seq <= 30; seq++) {
      await decided(gate, submission(seq));
      await now(generate(gate, seq, model));
      gate.released(seq);
      await pass(1_000);
    }
    expect(keepers.asks.length).toBeLessThan(10);
    const before = keepers.asks.length;
    expect(gate.admit(submission(100))).toBeUndefined();
    expect(keepers.asks).toHaveLength(before);
  });

  it("asks for all its limits at the same time, and starts when it has them", async () => {
    const two = limit("two", { requests: "5 per minute" });
    const { gate, keepers } = givenGate({ limits: [one(), two] });
    keepers.latencyMs = 100;
    const asked = gate.admit(submission(1));
    await pass(100);
    expect(keepers.asks.map(({ keeper }) => keeper)).toEqual(["one", "two"]);
    expect(await asked).toBeUndefined();
    expect(gate.admit(submission(1))).toBeUndefined();
  });

  it("keeps what it got of one limit while it waits for another", async () => {
    const full = limit("full", { requests: "1 per minute" });
    const money = limit("money", { usd: "1 per hour" });
    const prices = { "*": { input: 1, output: 1 } };
    const { gate, keepers } = givenGate({ limits: [money, full], prices });
    await decided(givenGate({ limits: [full] }, keepers).gate, submission(9));
    expect(await decided(gate, submission(1))).toMatchObject({ waitingFor: { limit: "full" } });
    const asks = () => keepers.asks.filter(({ keeper }) => keeper === "money").length;
    const before = asks();
    expect(before).toBe(1);
    await pass(10_000);
    expect(await decided(gate, submission(1))).toMatchObject({ waitingFor: { limit: "full" } });
    expect(asks()).toBe(before);
  });

  it("that waits says for what, since when, and until when", async () => {
    const { gate, keepers } = givenGate({ limits: [one()] });
    await decided(givenGate({ limits: [one()] }, keepers).gate, submission(9));
    const since = Date.now();
    const first = await decided(gate, submission(1));
    expect(first).toEqual({
      waitingFor: { limit: "one", key: "", since, until: expect.any(Number), why: "full" },
    });
    const { waitingFor } = first as { waitingFor: NonNullable<Submission["waitingFor"]> };
    expect(waitingFor.until).toBeGreaterThan(since + 1_000);
    await pass(60_000);
    expect(await decided(gate, submission(1, { waitingFor }))).toMatchObject({
      waitingFor: { since },
    });
  });

  it("goes on waiting after a restart, with the time that it has waited", async () => {
    const { keepers } = givenGate();
    await decided(givenGate({ limits: [one()] }, keepers).gate, submission(9));
    const { gate } = givenGate({ limits: [one()] }, keepers);
    const since = Date.now() - 500_000;
    const waitingFor = { limit: "one", key: "", since, until: Date.now(), why: "full" } as const;
    expect(await decided(gate, submission(1, { waitingFor }))).toMatchObject({
      waitingFor: { since },
    });
    expect(keepers.asks.at(-1)?.ask.waitedMs).toBeGreaterThanOrEqual(0);
    await decided(gate, submission(1, { waitingFor }));
    expect(keepers.asks.at(-1)?.ask.waitedMs).toBe(500_000);
  });

  it("ends with LimitTimeoutError when it has waited longer than the limit's timeout", async () => {
    const given = { limits: [one("1 per hour", { timeout: "10 minutes" })] };
    const { keepers } = givenGate();
    await decided(givenGate(given, keepers).gate, submission(9));
    const { gate } = givenGate(given, keepers);
    const since = Date.now();
    let decision = await decided(gate, submission(1));
    expect(decision).toMatchObject({ waitingFor: { limit: "one" } });
    for (let n = 0; n < 100 && decision && "waitingFor" in decision; n++) {
      const { until } = decision.waitingFor;
      expect(until).toBeLessThanOrEqual(since + 600_000);
      await pass(until - Date.now());
      decision = await decided(gate, submission(1));
    }
    expect(decision).toMatchObject({ status: "error", failure: { name: "LimitTimeoutError" } });
    expect(Date.now() - since).toBe(600_000);
  });

  it("ends with LimitReachedError where the limit says so", async () => {
    const given = { limits: [one("1 per hour", { atEnd: "fail" })] };
    const { gate } = givenGate(given);
    const { model } = modelOf();
    await decided(gate, submission(1));
    await now(generate(gate, 1, model));
    const freeAt = Date.now() + 3_600_000;
    gate.released(1);
    await pass(10_000);
    const decision = await decided(gate, submission(2));
    expect(decision).toMatchObject({
      status: "error",
      failure: { name: "LimitReachedError", message: expect.stringContaining("allows 1 requests") },
    });
    const { failure } = decision as { failure: { message: string } };
    const [, until = ""] = /until (\S+Z)\./.exec(failure.message) ?? [];
    expect(Date.parse(until)).toBeGreaterThanOrEqual(freeAt);
    expect(Date.parse(until)).toBeLessThan(freeAt + 120_000);
  });

  it("ends with LimitReachedError that says when the next day begins", async () => {
    const given = { limits: [one("1 per day", { atEnd: "fail", zone: "Asia/Tokyo" })] };
    const { gate } = givenGate(given);
    await decided(gate, submission(1));
    await now(generate(gate, 1, modelOf().model));
    gate.released(1);
    const { endsAt } = windowOf({ calendar: "day", zone: "Asia/Tokyo" }, Date.now());
    expect(await decided(gate, submission(2))).toMatchObject({
      failure: { message: expect.stringContaining(`until ${new Date(endsAt).toISOString()}`) },
    });
  });

  it("that is cancelled while its limit is asked gives back what it gets", async () => {
    const { gate, keepers } = givenGate({ limits: [one()] });
    keepers.latencyMs = 1_000;
    const asked = gate.admit(submission(1));
    await pass(500);
    gate.released(1);
    await pass(10_000);
    expect(await asked).toBeUndefined();
    expect(
      await decided(givenGate({ limits: [one()] }, keepers).gate, submission(9)).catch(String),
    ).toBeDefined();
    const [state] = keepers.bookOf("one").inspect([""]);
    expect(state?.used.requests).toBeLessThanOrEqual(1);
    expect(keepers.returns).toMatchObject([{ lent: { requests: 1 }, used: {} }]);
  });

  it("that is cancelled while it waits is forgotten by the keeper", async () => {
    const { gate, keepers } = givenGate({ limits: [one("1 per hour")] });
    const { model } = modelOf();
    await decided(gate, submission(1));
    await now(generate(gate, 1, model));
    gate.released(1);
    const waiting = () => keepers.bookOf("one").inspect([""])[0]?.waiting;
    expect(await decided(gate, submission(2))).toMatchObject({ waitingFor: { why: "full" } });
    expect(waiting()).toBe(1);
    gate.released(2);
    await pass(100);
    expect(waiting()).toBe(0);
  });

  it("waits while its limit is paused, and says why", async () => {
    const { gate, keepers } = givenGate({ limits: [one()] });
    keepers
      .bookOf("one")
      .pause("", "a bill", { requests: { amount: 1, window: { ms: 3_600_000 } } });
    expect(await decided(gate, submission(1))).toMatchObject({
      waitingFor: { why: "paused", reason: "a bill" },
    });
    keepers.bookOf("one").resume("", { requests: { amount: 1, window: { ms: 3_600_000 } } });
    await pass(60_000);
    expect(await decided(gate, submission(1))).toBeUndefined();
  });

  it("waits while its keeper cannot be reached", async () => {
    const { gate, keepers } = givenGate({ limits: [one()] });
    keepers.isReachable = false;
    expect(await decided(gate, submission(1))).toMatchObject({
      waitingFor: { why: "unreachable" },
    });
    keepers.isReachable = true;
    expect(await decided(gate, submission(1))).toBeUndefined();
  });

  it("runs without its limit with whenUnreachable: allow, and its use is reported later", async () => {
    const { gate, keepers } = givenGate({
      limits: [one("5 per hour", { whenUnreachable: "allow" })],
    });
    keepers.isReachable = false;
    expect(await decided(gate, submission(1))).toBeUndefined();
    await now(generate(gate, 1, modelOf().model));
    gate.released(1);
    keepers.isReachable = true;
    await decided(gate, submission(2));
    expect(keepers.bookOf("one").inspect([""])[0]?.used.requests).toBe(2);
  });

  it("of a key that is invalid ends with an error", async () => {
    const keyed = limit("tenant", {
      key: ({ metadata }) => metadata.tenant,
      requests: "1 per hour",
    });
    const { gate } = givenGate({ limits: [keyed] });
    expect(await decided(gate, submission(1, { metadata: { tenant: 5 } }))).toMatchObject({
      status: "error",
      failure: { name: "InvalidLimitKeyError" },
    });
    expect(await decided(gate, submission(2))).toBeUndefined();
    const acme = submission(3, { metadata: { tenant: "acme" } });
    expect(await decided(gate, acme)).toBeUndefined();
  });

  it("asks for its new key when a debounced repetition has replaced its metadata", async () => {
    const tenant = limit("tenant", {
      key: ({ metadata }) => metadata.tenant,
      requests: "1 per hour",
    });
    const { gate, keepers } = givenGate({ limits: [tenant] });
    const other = givenGate({ limits: [tenant] }, keepers).gate;
    await decided(other, submission(9, { metadata: { tenant: "acme" } }));
    const acme = submission(1, { metadata: { tenant: "acme" } });
    expect(await decided(gate, acme)).toMatchObject({ waitingFor: { key: "acme" } });
    expect(await decided(gate, submission(1, { metadata: { tenant: "globex" } }))).toBeUndefined();
  });

  it("asks as the key that shares the limits without keys", async () => {
    const tenant = limit("tenant", {
      key: ({ metadata }) => metadata.tenant,
      requests: "9 per hour",
      share: { acme: 3 },
    });
    const { gate, keepers } = givenGate({ limits: [one(), tenant] });
    await decided(gate, submission(1, { metadata: { tenant: "acme" }, rank: -7 }));
    const asked = keepers.asks.map(({ keeper, ask: { share, priority } }) => [
      keeper,
      share,
      priority,
    ]);
    expect(asked).toEqual([
      ["one", { key: "acme", weight: 3 }, 7],
      ["tenant", undefined, 7],
    ]);
  });

  it("shares by the keys of a limit without amounts, which has no keeper", async () => {
    const tenant = limit("tenant", { key: ({ metadata }) => metadata.tenant, share: "fair" });
    const { gate, keepers } = givenGate({ limits: [one("10 per minute"), tenant] });
    await decided(gate, submission(1, { metadata: { tenant: "acme" } }));
    const asked = keepers.asks.map(({ keeper, ask: { share } }) => [keeper, share]);
    expect(asked).toEqual([["one", { key: "acme", weight: 1 }]]);
  });

  it("is not asked about models that this agent does not use", async () => {
    const other = limit("other", { models: "other/*", requests: "5 per minute" });
    const { gate, keepers } = givenGate({ limits: [other] });
    await decided(gate, submission(1));
    expect(keepers.asks).toHaveLength(0);
    const { model } = modelOf();
    const openai = limit("openai", { models: "openai/*", requests: "5 per minute" });
    const agent = givenGate({ limits: [other, openai] }, keepers);
    await decided(agent.gate, submission(1));
    await now(generate(agent.gate, 1, model));
    agent.gate.released(1);
    await pass(10_000);
    const before = keepers.asks.length;
    await decided(agent.gate, submission(2));
    expect(keepers.asks.slice(before).map(({ keeper }) => keeper)).toEqual(["openai"]);
  });

  it("is not ended, nor kept waiting, by the limit of a model that it may not call", async () => {
    const used = [
      limit("fails", { models: "openai/*", requests: "1 per hour", atEnd: "fail" }),
      limit("waits", { models: "other/*", requests: "1 per hour", timeout: "10 minutes" }),
    ];
    const { gate, keepers } = givenGate({ limits: used });
    const { model } = modelOf();
    await now(generate(gate, 9, model));
    gate.released(9);
    expect(await decided(gate, submission(1))).toBeUndefined();
    await expect(now(generate(gate, 1, model))).rejects.toThrow('The limit "fails" allows');
    const since = Date.now() - 600_000;
    const waitingFor = { limit: "waits", key: "", since, until: Date.now(), why: "full" } as const;
    await decided(givenGate({ limits: used }, keepers).gate, submission(1, { waitingFor }));
    expect(await decided(gate, submission(2, { waitingFor }))).toBeUndefined();
  });

  it("that a model call has sent back to wait asks for its limit before it starts again", async () => {
    const limits = [limit("openai", { models: "openai/*", requests: "1 per hour" })];
    const { keepers, gate } = givenGate({ limits });
    await now(generate(gate, 9, modelOf().model));
    const again = givenGate({ limits }, keepers).gate;
    const since = Date.now();
    const waitingFor = { limit: "openai", key: "", since, until: since, why: "full" } as const;
    expect(await decided(again, submission(1, { waitingFor }))).toMatchObject({
      waitingFor: { limit: "openai" },
    });
  });

  it("gives back what it has not used when no work is left", async () => {
    const { gate, keepers } = givenGate({ limits: [one("10 per hour")] });
    await decided(gate, submission(1));
    gate.released(1);
    await pass(0);
    expect(keepers.returns).toMatchObject([{ lent: { requests: 1 }, used: {} }]);
  });
});

describe("a concurrency key", () => {
  it("is held while the turn runs, renewed, and free at its end, across agents", async () => {
    const { gate, keepers } = givenGate();
    const other = givenGate({}, keepers).gate;
    expect(await decided(gate, submission(1, owned({ concurrency })))).toBeUndefined();
    await pass(100_000);
    expect(await decided(other, submission(2, owned({ concurrency })))).toMatchObject({
      waitingFor: { limit: "concurrency", key: "c", why: "full" },
    });
    gate.released(1);
    await pass(0);
    await pass(10_000);
    expect(await decided(other, submission(2, owned({ concurrency })))).toBeUndefined();
  });

  it("is taken again by a turn that goes on after a restart", async () => {
    const { keepers } = givenGate();
    const rows = new Map([[1, submission(1, owned({ concurrency }, { status: "running" }))]]);
    const { gate } = givenGate({}, keepers, { rows });
    stepModel(gate, 1, modelOf().model);
    await pass(0);
    expect(keepers.asks).toMatchObject([{ ask: { isRenewal: true }, answer: { outcome: "lent" } }]);
    const other = givenGate({}, keepers).gate;
    expect(await decided(other, submission(2, owned({ concurrency })))).toMatchObject({
      waitingFor: { limit: "concurrency" },
    });
  });

  it("with singleton: skip, ends the newer one as skipped", async () => {
    const { gate, keepers } = givenGate();
    const other = givenGate({}, keepers).gate;
    const limits = { concurrency, singleton: "skip" };
    expect(await decided(gate, submission(1, owned(limits)))).toBeUndefined();
    expect(await decided(other, submission(2, owned(limits)))).toMatchObject({
      status: "skipped",
      failure: { name: "SubmissionSkippedError" },
    });
  });

  it("with singleton: replace, ends the older one that runs at its next renewal", async () => {
    const { gate, keepers, replaced } = givenGate();
    const other = givenGate({}, keepers).gate;
    const limits = { concurrency, singleton: "replace" };
    expect(await decided(gate, submission(1, owned(limits)))).toBeUndefined();
    await pass(1_000);
    const newer = submission(2, owned(limits));
    expect(await decided(other, newer)).toMatchObject({ waitingFor: { limit: "concurrency" } });
    await pass(11_000);
    expect(replaced).toEqual([1]);
    gate.released(1);
    await pass(10_000);
    expect(await decided(other, newer)).toBeUndefined();
  });

  it("with singleton: replace, ends the older one that waits at its next ask", async () => {
    const { gate, keepers } = givenGate();
    const other = givenGate({}, keepers).gate;
    expect(await decided(gate, submission(9, owned({ concurrency })))).toBeUndefined();
    const limits = { concurrency, singleton: "replace" };
    const older = submission(1, owned(limits));
    expect(await decided(gate, older)).toMatchObject({ waitingFor: { limit: "concurrency" } });
    await pass(1_000);
    await decided(other, submission(2, owned(limits)));
    expect(await decided(gate, older)).toMatchObject({
      status: "aborted",
      failure: { name: "SubmissionReplacedError" },
    });
  });
});

describe("a rate of submissions", () => {
  const rate = { key: "r", limit: { amount: 2, per: "minute" } };

  it("counts starts, across agents, and no attempt that follows", async () => {
    const { gate, keepers } = givenGate();
    const other = givenGate({}, keepers).gate;
    expect(await decided(gate, submission(1, owned({ rate })))).toBeUndefined();
    expect(await decided(other, submission(1, owned({ rate })))).toBeUndefined();
    expect(await decided(other, submission(2, owned({ rate })))).toMatchObject({
      waitingFor: { limit: "rate", key: "r" },
    });
    expect(await decided(gate, submission(3, owned({ rate }, { attempts: 1 })))).toBeUndefined();
  });
});

describe("options of submissions", () => {
  const read = (options: object) => givenGate().gate.read(options as never);

  it("are kept as they are needed", () => {
    expect(
      read({
        concurrency,
        rate: { key: "r", limit: "10 per minute" },
        singleton: "skip",
        budget: { usd: 0.5 },
      }),
    ).toEqual({
      concurrency,
      rate: { key: "r", limit: { amount: 10, per: "minute" } },
      singleton: "skip",
      usd: 0.5,
    });
  });

  it.each([
    [{ concurrency: { key: "", limit: 1 } }, "concurrency.key"],
    [{ concurrency: { key: "k".repeat(257), limit: 1 } }, "concurrency.key"],
    [{ concurrency: { key: "k", limit: 0 } }, "concurrency.limit"],
    [{ concurrency: { key: "k", limit: 1.5 } }, "concurrency.limit"],
    [{ concurrency: { key: "k" } }, "concurrency.limit"],
    [{ concurrency: { key: "k", limit: 1, more: 2 } }, "concurrency.more"],
    [{ concurrency: "k" }, "concurrency"],
    [{ rate: { key: "k", limit: "10 a minute" } }, "rate.limit"],
    [{ rate: { key: 5, limit: "10 per minute" } }, "rate.key"],
    [{ singleton: "both", concurrency }, "singleton"],
    [{ singleton: "skip" }, "singleton"],
    [{ budget: { usd: 0 } }, "budget.usd"],
    [{ budget: { usd: -1 } }, "budget.usd"],
    [{ budget: { usd: Number.NaN } }, "budget.usd"],
    [{ budget: { usd: "1" } }, "budget.usd"],
  ])("%j is refused: %s", (options, field) => {
    expect(() => read(options)).toThrow(
      expect.objectContaining({ name: "InvalidSubmissionError", field }),
    );
  });
});

it("keeps a bounded number of keys, and gives back those that were used longest ago", async () => {
  const keyed = limit("tenant", {
    key: ({ metadata }) => metadata.tenant,
    requests: "1000 per minute",
  });
  const { gate, keepers } = givenGate({ limits: [keyed] }, undefined, { maxKeys: 5 });
  gate.admit(submission(0));
  for (let seq = 1; seq <= 20; seq++) {
    await decided(gate, submission(seq, { metadata: { tenant: `t${seq}` } }));
    gate.released(seq);
  }
  await pass(0);
  const returned = new Set(keepers.returns.map(({ key }) => key));
  expect(returned.size).toBeGreaterThanOrEqual(15);
});

it("tells the app of used money once, and confirms it", async () => {
  const paid = limit("paid", { usd: "0.001 per day" });
  const prices = { "*": { input: 0, output: 10 } };
  const { gate, notices, keepers } = givenGate({ limits: [paid], prices, maxOutputTokens: 90 });
  const { model } = modelOf();
  await decided(gate, submission(1));
  const { stream } = await now(stepModel(gate, 1, model).doStream(promptOf()));
  await now(stream.cancel());
  gate.released(1);
  await pass(10_000);
  await decided(gate, submission(2));
  await pass(0);
  expect(notices).toMatchObject([{ limit: "paid", notice: { percent: 80, key: "" } }]);
  await pass(120_000);
  await decided(gate, submission(2));
  await pass(0);
  expect(notices).toHaveLength(1);
  expect(keepers.asks.some(({ ask }) => ask.notified?.length)).toBe(true);
  vi.useRealTimers();
});
