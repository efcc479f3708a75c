/** Each call of a model reserves its worst case, and gives back what it has not used. */

import { describe, expect, it, vi } from "vitest";
import { limit } from "../../../src/features/limits/index.ts";
import type { WaitingFor } from "../../../src/submissions/types.ts";
import {
  generate,
  givenGate,
  modelOf,
  now,
  pass,
  promptOf,
  readAll,
  refused,
  stepModel,
  submission,
  usage,
} from "./support.ts";

const openai = (more: object = {}) =>
  limit("openai", {
    models: "openai/*",
    requests: "5 per minute",
    tokens: "5000 per minute",
    ...more,
  } as never);

/** A turn that has been admitted. */
async function givenTurn(...args: Parameters<typeof givenGate>) {
  const given = givenGate(...args);
  const admission = given.gate.admit(submission(1));
  expect(admission && (await now(admission))).toBeUndefined();
  if (admission) expect(given.gate.admit(submission(1))).toBeUndefined();
  return given;
}

/** A submission of an agent that has called no model yet. */
const asking = (seq: number) => submission(seq, { answer: { models: ["openai/gpt"] } as never });

const usedOf = ({ keepers }: ReturnType<typeof givenGate>, name = "openai") =>
  keepers.bookOf(name).inspect([""])[0]?.used;

describe("a model call", () => {
  it("is that of the model itself where no limit and no price concerns it", async () => {
    const { gate } = givenGate({ limits: [openai()] });
    const { model } = modelOf();
    const other = Object.assign(model, { provider: "anthropic" });
    expect(gate.model(1, other)).toBe(other);
  });

  it("is charged with the usage that the model reports", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const { model } = modelOf({ usage: usage(300, 50) });
    await now(generate(given.gate, 1, model));
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)).toEqual({ requests: 1, tokens: 350 });
  });

  it.each([
    ["nothing", undefined],
    ["garbage", { inputTokens: { total: Number.NaN }, outputTokens: { total: -5 } }],
    ["an absurd number", usage(1e15, 1e15)],
  ])("is charged with the worst case where the model reports %s", async (_, reported) => {
    const given = await givenTurn({ limits: [openai()] });
    const { model } = modelOf({ usage: reported ?? null });
    await now(generate(given.gate, 1, model, promptOf(100, { maxOutputTokens: 70 })));
    given.gate.released(1);
    await pass(10_000);
    const tokens = usedOf(given)?.tokens ?? 0;
    expect(tokens).toBeGreaterThan(70 + 50);
    expect(tokens).toBeLessThan(70 + 50 + 200);
  });

  it.each([
    ["0 for its input and output", usage(0, 0), 100 + 70],
    ["0 for an output that it has given", usage(100, 0), 100 + 70],
    ["null", { inputTokens: { total: null }, outputTokens: { total: null } }, 100 + 70],
  ])(
    "is charged with the worst case of what the model reports as %s",
    async (_, reported, least) => {
      const prices = { "openai/gpt": { input: 1, output: 10 } };
      const given = await givenTurn({ limits: [openai()], prices });
      const { model } = modelOf({ usage: reported });
      const { stream } = await now(
        stepModel(given.gate, 1, model).doStream(promptOf(100, { maxOutputTokens: 70 })),
      );
      await now(readAll(stream));
      expect(given.gate.takeCost(1)).toBeGreaterThanOrEqual(800 / 1e6);
      given.gate.released(1);
      await pass(10_000);
      expect(usedOf(given)?.tokens).toBeGreaterThanOrEqual(least);
    },
  );

  it("of an empty answer costs no output", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const finish = { type: "finish", finishReason: { unified: "stop" }, usage: usage(100, 0) };
    const { stream } = await now(
      stepModel(given.gate, 1, modelOf({ parts: [finish] }).model).doStream(promptOf()),
    );
    await now(readAll(stream));
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)).toEqual({ requests: 1, tokens: 100 });
  });

  it.each([
    ["openai.responses", undefined, 350],
    ["anthropic.messages", undefined, 150],
    ["openai.responses", "skip", 150],
    ["anthropic.messages", "count", 350],
  ])("of %s with cachedTokens %s counts %s tokens", async (provider, cachedTokens, tokens) => {
    const all = limit("all", { tokens: "5000 per minute", cachedTokens } as never);
    const given = givenGate({ limits: [all] });
    while (given.gate.admit(submission(1))) await pass(10);
    const { model } = modelOf({ usage: usage(300, 50, 200) });
    await now(generate(given.gate, 1, Object.assign(model, { provider })));
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given, "all")).toEqual({ tokens });
  });

  it("asks no keeper while what was lent suffices", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const { model } = modelOf();
    for (let n = 0; n < 3; n++) await now(generate(given.gate, 1, model));
    const asks = given.keepers.asks.length;
    expect(asks).toBeLessThanOrEqual(3);
  });

  it("of a stream is charged at its finish", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const { model } = modelOf({ usage: usage(300, 50) });
    const { stream } = await now(stepModel(given.gate, 1, model).doStream(promptOf()));
    const parts = await now(readAll(stream));
    expect(parts).toHaveLength(2);
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)).toEqual({ requests: 1, tokens: 350 });
  });

  it.each([
    ["cancelled", (stream: ReadableStream) => stream.cancel()],
    ["not read", async () => {}],
  ])("of a stream that is %s is charged with the worst case", async (_, end) => {
    const given = await givenTurn({ limits: [openai()] });
    const { model } = modelOf();
    const { stream } = await now(stepModel(given.gate, 1, model).doStream(promptOf()));
    await now(end(stream));
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)?.tokens).toBeGreaterThan(150);
  });

  it("of a stream that fails midway is charged with the worst case", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const { model } = modelOf({
      parts: [{ type: "text-delta", id: "1", delta: "Y" }, new Error("cut")],
    });
    const { stream } = await now(stepModel(given.gate, 1, model).doStream(promptOf()));
    await expect(now(readAll(stream))).rejects.toThrow("cut");
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)?.tokens).toBeGreaterThan(150);
  });

  it.each([
    [
      "that the provider refuses costs no tokens, and a request",
      refused(400),
      { requests: 1, tokens: 0 },
    ],
    [
      "that was never made costs nothing",
      Object.assign(new Error("no key"), { name: "AI_LoadAPIKeyError" }),
      { requests: 0, tokens: 0 },
    ],
  ])("%s", async (_, fails, used) => {
    const given = await givenTurn({ limits: [openai()] });
    await expect(now(generate(given.gate, 1, modelOf({ fails }).model))).rejects.toBe(fails);
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)).toEqual(used);
  });

  it("waits until a window has room", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "2 per second" })] });
    const { model, calls } = modelOf();
    for (let n = 0; n < 2; n++) await now(generate(given.gate, 1, model));
    const third = generate(given.gate, 1, model);
    await pass(100);
    expect(calls).toHaveLength(2);
    await pass(2_000);
    await now(third);
    expect(calls).toHaveLength(3);
    const [waited, ...others] = given.waited;
    expect(waited).toMatchObject({ limit: "openai", key: "", why: "full" });
    expect(waited?.ms).toBeGreaterThan(500);
    expect(waited?.ms).toBeLessThanOrEqual(2_100);
    expect(others).toEqual([]);
  });

  it("M2: that waits for longer than a second is noted while it waits", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "1 per minute" })] });
    const { model } = modelOf();
    await now(generate(given.gate, 1, model));
    const second = generate(given.gate, 1, model);
    await pass(1_000);
    expect(given.waitings).toEqual([[1, Date.now() - 1_000 + 300_000]]);
    await pass(100_000);
    await now(second);
    expect(given.waitings.slice(1)).toEqual([[1, undefined]]);
  });

  it("asks again where what was lent for later has ended before the machine went on", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "1 per second" })] });
    const { model, calls } = modelOf();
    await now(generate(given.gate, 1, model));
    const second = generate(given.gate, 1, model);
    const lent = () =>
      given.keepers.asks.flatMap(({ answer }) => ("lent" in answer ? [answer] : []));
    const before = lent().length;
    while (lent().length === before) await pass(10);
    expect(lent().at(-1)?.inMs).toBeGreaterThan(10);
    vi.setSystemTime(Date.now() + 10_000);
    await pass(2_000);
    await now(second);
    expect(calls).toHaveLength(2);
    expect(lent()).toHaveLength(before + 2);
  });

  it("that has to wait for long throws what the turn waits for", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "1 per hour" })] });
    const { model, calls } = modelOf();
    await now(generate(given.gate, 1, model));
    const error = await now(generate(given.gate, 1, model)).catch((cause) => cause);
    expect(error).toMatchObject({
      name: "LimitWait",
      waitingFor: { limit: "openai", key: "", why: "full", since: Date.now() },
    });
    expect(error.waitingFor.until).toBeGreaterThan(Date.now() + 30_000);
    expect(calls).toHaveLength(1);
    // The ledger puts the turn back: it keeps its place at the keeper.
    given.gate.released(1);
    await pass(10_000);
    expect(given.keepers.bookOf("openai").inspect([""])).toMatchObject([{ waiting: 1 }]);
  });

  it("of a turn whose model was not known before sends it back to wait at once", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "1 per minute" })] });
    const { model } = modelOf();
    const other = givenGate({ limits: [openai({ requests: "1 per minute" })] }, given.keepers);
    await now(generate(other.gate, 9, model));
    await pass(35_000);
    const started = Date.now();
    const failed = generate(given.gate, 1, model).catch((cause) => cause);
    await pass(1_000);
    expect(await now(failed)).toMatchObject({ name: "LimitWait" });
    expect(Date.now() - started).toBe(1_000);
  });

  it("of a client's turn, which cannot wait in the ledger, fails after 30 seconds", async () => {
    const { gate } = givenGate({ limits: [openai({ requests: "1 per hour" })] });
    const { model } = modelOf();
    await now(generate(gate, undefined, model));
    const failed = expect(generate(gate, undefined, model)).rejects.toMatchObject({
      name: "LimitTimeoutError",
      limit: "openai",
    });
    await pass(31_000);
    await failed;
  });

  it("fails at once with atEnd: fail", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "1 per hour", atEnd: "fail" })] });
    const { model } = modelOf();
    await now(generate(given.gate, 1, model));
    const error = await now(generate(given.gate, 1, model)).catch((cause) => cause);
    expect(error).toMatchObject({
      name: "LimitReachedError",
      limit: "openai",
      dimension: "requests",
      allowed: 1,
    });
    expect(error.until).toBeGreaterThan(Date.now());
    expect(error.message).toContain('Submit it again then, raise the limit, or use atEnd: "wait".');
  });

  it("that needs more than the limit ever has fails with the remedy", async () => {
    const given = await givenTurn({ limits: [openai({ tokens: "100 per minute" })] });
    const { model, calls } = modelOf();
    const error = await now(generate(given.gate, 1, model, promptOf(1_000))).catch(
      (cause) => cause,
    );
    expect(error).toMatchObject({ name: "LimitReachedError", dimension: "tokens", allowed: 100 });
    expect(error.message).toContain("set a lower maxOutputTokens");
    expect(calls).toHaveLength(0);
  });

  it("ends its wait with its signal, and holds nothing then", async () => {
    const given = await givenTurn({ limits: [openai({ requests: "2 per second" })] });
    const { model } = modelOf();
    for (let n = 0; n < 2; n++) await now(generate(given.gate, 1, model));
    const controller = new AbortController();
    const options = promptOf(100, { abortSignal: controller.signal });
    const failed = expect(generate(given.gate, 1, model, options)).rejects.toThrow("stop");
    await pass(50);
    controller.abort(new Error("stop"));
    await pass(0);
    await failed;
    given.gate.released(1);
    await pass(20_000);
    expect(usedOf(given)).toEqual({ requests: 0, tokens: expect.any(Number) });
  });

  it("reserves for two limits at the same time, and both are charged", async () => {
    const all = limit("all", { tokens: "10000 per minute" });
    const given = await givenTurn({ limits: [openai(), all] });
    await now(generate(given.gate, 1, modelOf({ usage: usage(300, 50) }).model));
    given.gate.released(1);
    await pass(10_000);
    expect(usedOf(given)).toEqual({ requests: 1, tokens: 350 });
    expect(usedOf(given, "all")).toEqual({ tokens: 350 });
  });

  it("learns from the reported usage how many tokens a prompt has", async () => {
    const given = await givenTurn({ limits: [openai({ tokens: "1000000 per minute" })] });
    const { model } = modelOf({ usage: usage(1_000, 10) });
    for (let n = 0; n < 2; n++) await now(generate(given.gate, 1, model, promptOf(4_000)));
    given.gate.released(1);
    await pass(10_000);
    const needs = given.keepers.asks.map(({ ask }) => ask.need.tokens ?? 0);
    expect(needs.at(-1)).toBeLessThan(1_600);
  });
});

describe("a refusal of the provider", () => {
  it("closes the limit for all agents, and the call is made again when it is open", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const { model, calls } = modelOf({ fails: refused(429, { "retry-after": "3" }) }, {});
    const answer = generate(given.gate, 1, model);
    await pass(2_500);
    expect(calls).toHaveLength(1);
    expect(given.keepers.observations).toMatchObject([{ refused: { retryAfterMs: 3_000 } }]);
    const other = givenGate({ limits: [openai()] }, given.keepers);
    const waiting = other.gate.admit(asking(9));
    expect(await now(waiting as never)).toMatchObject({ waitingFor: { why: "closed" } });
    await pass(25_000);
    await now(answer);
    expect(calls).toHaveLength(2);
  });

  it("is the error of the call after three of them, which the AI SDK does not retry", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const { model, calls } = modelOf({ fails: refused(429, { "retry-after": "1" }) });
    const failed = expect(generate(given.gate, 1, model)).rejects.toMatchObject({
      statusCode: 429,
      isRetryable: false,
    });
    await pass(60_000);
    await failed;
    expect(calls).toHaveLength(3);
  });

  it("closes all keys, also those that others use later, where each limit has keys", async () => {
    const tenant = limit("tenant", {
      key: ({ metadata }) => metadata.tenant,
      requests: "5 per minute",
      shards: 2,
    });
    const of = (name: string) => ({ metadata: { tenant: name } });
    const given = givenGate({ limits: [tenant] });
    while (given.gate.admit(submission(1, of("acme")))) await pass(10);
    const { model, calls } = modelOf({ fails: refused(429, { "retry-after": "20" }) }, {});
    const answer = generate(given.gate, 1, model);
    await pass(10);
    for (const name of ["globex", "initech", "umbrella"]) {
      const other = givenGate({ limits: [tenant] }, given.keepers);
      const waiting = other.gate.admit(submission(9, of(name)));
      const { waitingFor } = (await now(waiting as never)) as { waitingFor: WaitingFor };
      expect(waitingFor).toMatchObject({ key: name, why: "closed" });
      expect(waitingFor.until).toBeGreaterThanOrEqual(Date.now() + 20_000 - 10);
    }
    const states = ["tenant/0", "tenant/1"].flatMap((name) =>
      given.keepers.bookOf(name).inspect(["acme", "globex"]),
    );
    for (const state of states) expect(state).not.toHaveProperty("lowered");
    await pass(25_000);
    await now(answer);
    expect(calls).toHaveLength(2);
  });

  it("of an account without credit is the error of the call, and closes nothing", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const data = { error: { code: "insufficient_quota" } };
    const { model, calls } = modelOf({ fails: Object.assign(refused(429), { data }) });
    await expect(now(generate(given.gate, 1, model))).rejects.toMatchObject({ statusCode: 429 });
    expect(calls).toHaveLength(1);
    expect(given.keepers.observations).toEqual([]);
  });

  it("in the middle of a stream closes the limit, too", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const error = { type: "error", error: { code: 429, message: "slow down" } };
    const { model } = modelOf({ parts: [error] });
    const { stream } = await now(stepModel(given.gate, 1, model).doStream(promptOf()));
    await now(readAll(stream));
    expect(given.keepers.observations).toMatchObject([{ refused: {} }]);
  });

  it("is not passed on where the headers say nothing new", async () => {
    const given = await givenTurn({ limits: [openai()] });
    const headers = { "x-ratelimit-limit-requests": "3", "x-ratelimit-limit-tokens": "90000" };
    const { model } = modelOf({ headers });
    for (let n = 0; n < 3; n++) {
      await now(generate(given.gate, 1, model));
      await pass(20_000);
    }
    expect(given.keepers.observations).toMatchObject([{ allowed: { requests: 3 } }]);
  });
});

describe("money", () => {
  const prices = { "openai/gpt": { input: 1, cachedInput: 0.1, output: 10 } };

  it("is counted for each call, with the cached input", async () => {
    const { gate } = givenGate({ prices });
    gate.admit(submission(1));
    expect(gate.takeCost(1)).toBeUndefined();
    await now(generate(gate, 1, modelOf({ usage: usage(1_000, 100, 600) }).model));
    // 400 + 600 / 10 + 100 * 10 nanodollars per thousandth of a million
    expect(gate.takeCost(1)).toBeCloseTo((400 + 60 + 1_000) / 1e6, 12);
    expect(gate.takeCost(1)).toBeUndefined();
  });

  it("of a limit is not spent beyond it", async () => {
    const paid = limit("paid", { usd: "0.002 per hour" });
    const given = await givenTurn({ limits: [paid], prices });
    const { model, calls } = modelOf({ usage: usage(100, 60) });
    await now(generate(given.gate, 1, model));
    const error = await now(
      generate(given.gate, 1, model, promptOf(100, { maxOutputTokens: 150 })),
    ).catch((cause) => cause);
    expect(error).toMatchObject({ name: "LimitWait", waitingFor: { limit: "paid" } });
    expect(calls).toHaveLength(1);
  });

  it("of a model without a price is an error", async () => {
    const paid = limit("paid", { usd: "1 per hour" });
    const given = givenGate({ limits: [paid], prices: { "other/*": { input: 1, output: 1 } } });
    const error = await now(generate(given.gate, undefined, modelOf().model)).catch(
      (cause) => cause,
    );
    expect(error).toMatchObject({ name: "PriceMissingError", model: "openai/gpt" });
    expect(error.message).toContain(
      'Add it to prices of limits(), in dollars per million tokens: "openai/gpt"',
    );
  });

  it("of a submission ends before a call that could cost more than is left", async () => {
    const { gate } = givenGate({ prices });
    gate.admit(submission(1, { limits: { usd: 0.003 } }));
    const { model, calls } = modelOf({ usage: usage(100, 100) });
    await now(generate(gate, 1, model));
    await now(generate(gate, 1, model));
    const error = await now(generate(gate, 1, model)).catch((cause) => cause);
    expect(error).toMatchObject({ name: "BudgetExceededError", budget: 0.003, used: 0.0022 });
    expect(calls).toHaveLength(2);
  });

  it("of a submission that was spent before a restart counts", async () => {
    const { gate } = givenGate({ prices });
    gate.admit(submission(1, { limits: { usd: 0.003 }, usage: { cost: 0.0025 } }));
    const failed = now(generate(gate, 1, modelOf().model));
    await expect(failed).rejects.toMatchObject({ name: "BudgetExceededError", used: 0.0025 });
  });

  it("that two calls may cost at the same time counts together", async () => {
    const { gate } = givenGate({ prices });
    gate.admit(submission(1, { limits: { usd: 0.0018 } }));
    const { model } = modelOf();
    const first = await now(stepModel(gate, 1, model).doStream(promptOf()));
    await expect(now(generate(gate, 1, model))).rejects.toMatchObject({
      name: "BudgetExceededError",
    });
    await now(first.stream.cancel());
  });
});

describe("a slot", () => {
  it("is held until the stream ends, renewed meanwhile, and free for other agents then", async () => {
    const given = await givenTurn({ limits: [openai({ concurrency: 1 })] });
    const { model } = modelOf();
    const { stream } = await now(stepModel(given.gate, 1, model).doStream(promptOf()));
    await pass(65_000);
    expect(given.keepers.bookOf("openai").inspect([""])[0]?.used.slots).toBe(1);
    const renewals = given.keepers.asks.filter(({ ask }) => ask.isRenewal);
    expect(renewals.length).toBeGreaterThanOrEqual(5);
    const other = givenGate({ limits: [openai({ concurrency: 1 })] }, given.keepers);
    expect(await now(other.gate.admit(asking(2)) as never)).toMatchObject({
      waitingFor: { limit: "openai", why: "full" },
    });
    await now(readAll(stream));
    given.gate.released(1);
    await pass(6_000);
    expect(given.keepers.bookOf("openai").inspect([""])[0]?.used.slots).toBe(0);
  });
});
