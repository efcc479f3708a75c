/** Turns of a plain object with limits(): with keepers in objects of their own, and a scripted model. */

import { env } from "cloudflare:workers";
import { tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Problem } from "../../../src/core/problems.ts";
import {
  type Limit,
  type LimitEvent,
  type LimitsOptions,
  limit,
  limits,
} from "../../../src/features/limits/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { method } from "../../../src/outbox/index.ts";
import type { SubmitMessagesOptions } from "../../../src/submissions/index.ts";
import { ask, modelCalls, type Script, ScriptedModel } from "../../../src/testing/index.ts";
import { message, until } from "../../support/given.ts";
import { stubOf as keeperOf } from "../../support/limits/keeper.ts";
import { type LimitedApp, limitedApps } from "../../support/objects/limited-object.ts";
import { accessTo } from "../../support/objects/objects.ts";
import { HANG_MS } from "../../support/sizes.ts";

const { inside, crash, wake } = accessTo(() => env.LimitedObject);

type Agent = { readonly name: string };

function givenAgent(app: LimitedApp = {}): Agent {
  const name = crypto.randomUUID();
  limitedApps.set(name, app);
  return { name };
}

/** The name of a limit, which has a keeper of its own. */
const unique = () => `limit-${crypto.randomUUID()}`;

const limiting = (...some: Limit[]) => [limits({ limits: some } as LimitsOptions)];

function submit(agent: Agent, script: Script = {}, options: SubmitMessagesOptions = {}) {
  return inside(agent, async ({ durable }) => {
    const { submissionId } = await durable.submitMessages([message(ask(script))], options);
    return submissionId;
  });
}

const inspect = (agent: Agent, id: string) =>
  inside(agent, async ({ durable }) => {
    const found = await durable.inspectSubmission(id);
    if (!found) throw new Error(`There is no submission ${id}`);
    return found;
  });

async function ended(agent: Agent, id: string) {
  await until(async () => (await inspect(agent, id)).completedAt !== undefined);
  return inspect(agent, id);
}

async function waiting(agent: Agent, id: string) {
  await until(async () => (await inspect(agent, id)).waitingFor !== undefined);
  return inspect(agent, id);
}

const states = async (name: string, key = "") =>
  (await keeperOf({ name }).list({ key, limit: 10 })).keys[0];

describe("a turn within its lease", () => {
  it("costs no statement, no row and no call more than one without limits()", async () => {
    const name = unique();
    const openai = limit(name, { requests: "1000 per minute", tokens: "9000000 per minute" });
    const limited = givenAgent({ features: limiting(openai) });
    const free = givenAgent();
    const costOf = async (agent: Agent) => {
      await inside(agent, ({ meter }) => meter.reset());
      const id = await submit(agent);
      await ended(agent, id);
      return inside(agent, ({ meter }) => meter.read());
    };
    for (let n = 0; n < 4; n++) for (const agent of [limited, free]) await costOf(agent);
    const rowsBefore = (await states(name))?.used.requests;
    const [mine, theirs] = [await costOf(limited), await costOf(free)];
    expect(mine).toEqual(theirs);
    expect((await states(name))?.used.requests).toBe(rowsBefore);
  });
});

describe("a turn that has to wait", () => {
  it("says for what, costs no attempt, survives a crash, and runs when it may", async () => {
    const name = unique();
    const agent = givenAgent({ features: limiting(limit(name, { requests: "10 per minute" })) });
    await keeperOf({ name }).pause("", "a bill", {
      requests: { amount: 10, window: { ms: 60_000 } },
    } as never);
    const id = await submit(agent);
    expect(await waiting(agent, id)).toMatchObject({
      status: "pending",
      attempts: 0,
      waitingFor: { limit: name, key: "", why: "paused", reason: "a bill" },
    });
    await crash(agent);
    expect(await inspect(agent, id)).toMatchObject({ waitingFor: { limit: name } });
    await keeperOf({ name }).resume("", {
      requests: { amount: 10, window: { ms: 60_000 } },
    } as never);
    await inside(
      agent,
      (_, ctx) => void ctx.storage.sql.exec("UPDATE perdure_submissions SET due_at = 1"),
    );
    await crash(agent);
    await wake(agent);
    expect(await ended(agent, id)).toMatchObject({ status: "completed", attempts: 1 });
  });

  it("is cancelled at once, and its place is free", async () => {
    const name = unique();
    const agent = givenAgent({ features: limiting(limit(name, { requests: "1 per hour" })) });
    await ended(agent, await submit(agent));
    const id = await submit(agent, { id: crypto.randomUUID() });
    await waiting(agent, id);
    await inside(agent, ({ durable }) => durable.cancelSubmission(id, "enough"));
    expect(await inspect(agent, id)).toMatchObject({ status: "aborted", error: "enough" });
  });

  it("does not hold up turns of other threads that do not wait", async () => {
    const name = unique();
    const tenant = limit(name, { key: ({ thread }) => thread, requests: "1 per hour" });
    const agent = givenAgent({ features: limiting(tenant) });
    await ended(agent, await submit(agent, {}, { thread: "a" }));
    const late = await submit(agent, { id: "late" }, { thread: "a" });
    await waiting(agent, late);
    await ended(agent, await submit(agent, {}, { thread: "b" }));
    expect(await inspect(agent, late)).toMatchObject({
      status: "pending",
      waitingFor: { key: "a" },
    });
  });
});

describe("a model call that has to wait", () => {
  it("ends its attempt uncounted, with its tool calls recorded, and goes on later", async () => {
    const name = unique();
    let charged = 0;
    const tools = {
      charge: tool({ inputSchema: z.object({}), execute: async () => `charged ${++charged}` }),
    };
    const agent = givenAgent({
      features: limiting(limit(name, { requests: "1 per hour" })),
      tools,
    });
    const script = { id: crypto.randomUUID(), tool: { name: "charge", input: {} } };
    const id = await submit(agent, script, { retry: { maxAttempts: 1 } });
    expect(await waiting(agent, id)).toMatchObject({
      status: "pending",
      attempts: 0,
      waitingFor: { limit: name },
    });
    expect(charged).toBe(1);
    limitedApps.set(agent.name, { tools });
    await inside(
      agent,
      (_, ctx) => void ctx.storage.sql.exec("UPDATE perdure_submissions SET due_at = 1"),
    );
    await crash(agent);
    await wake(agent);
    expect(await ended(agent, id)).toMatchObject({ status: "completed", attempts: 1 });
    expect(charged).toBe(1);
  });

  it("M2: in memory counts no attempt where its object crashes meanwhile", async () => {
    const name = unique();
    let charged = 0;
    const tools = {
      charge: tool({ inputSchema: z.object({}), execute: async () => `charged ${++charged}` }),
    };
    const features = limiting(limit(name, { requests: "1 per minute" }));
    const agent = givenAgent({ features, tools });
    const script = { id: crypto.randomUUID(), tool: { name: "charge", input: {} } };
    const id = await submit(agent, script, { retry: { maxAttempts: 1 } });
    await until(async () => ((await states(name))?.waiting ?? 0) > 0);
    expect(await inspect(agent, id)).toMatchObject({ status: "running", attempts: 1 });
    for (let crashes = 0; crashes < 3; crashes++) {
      await crash(agent);
      await wake(agent);
      expect(await waiting(agent, id)).toMatchObject({ status: "pending", attempts: 0 });
    }
    limitedApps.set(agent.name, { tools });
    await inside(
      agent,
      (_, ctx) => void ctx.storage.sql.exec("UPDATE perdure_submissions SET due_at = 1"),
    );
    await crash(agent);
    await wake(agent);
    expect(await ended(agent, id)).toMatchObject({ status: "completed", attempts: 1 });
    expect(charged).toBe(1);
  });

  it("of a provider that refuses in spite of all is made again, in the same attempt", async () => {
    const name = unique();
    const agent = givenAgent({ features: limiting(limit(name, { requests: "100 per minute" })) });
    const script = {
      ...{ id: crypto.randomUUID(), fail: "slow down", failTimes: 1, status: 429 },
      headers: { "retry-after-ms": "300" },
    };
    const id = await submit(agent, script);
    expect(await ended(agent, id)).toMatchObject({ status: "completed", attempts: 1 });
    expect(modelCalls.get(ask(script))).toBe(2);
  });

  it("whose stream breaks off fails the attempt, and the next one completes", async () => {
    const name = unique();
    const agent = givenAgent({
      features: limiting(limit(name, { requests: "100 per minute", tokens: "9000000 per minute" })),
    });
    const script = { id: crypto.randomUUID(), fail: "network connection lost", failTimes: 1 };
    const id = await submit(agent, script, { retry: { maxAttempts: 2 } });
    expect(await ended(agent, id)).toMatchObject({ status: "completed", attempts: 2 });
  });
});

describe("money", () => {
  const prices = { "perdure/*": { input: 1, output: 100 } };
  const model = new ScriptedModel();

  it("of a submission is in its usage, and of each of its calls", async () => {
    const agent = givenAgent({ features: [limits({ prices })] });
    const id = await submit(agent);
    // 10 tokens in, 5 out
    expect((await ended(agent, id)).usage).toMatchObject({ cost: (10 + 500) / 1e6 });
  });

  it("of a budget ends the submission before a call that it does not cover", async () => {
    const agent = givenAgent({ model, features: [limits({ prices, maxOutputTokens: 10 })] });
    const id = await submit(agent, {}, { budget: { usd: 0.000_9 } });
    expect(await ended(agent, id)).toMatchObject({
      status: "error",
      errorName: "BudgetExceededError",
    });
    const other = await submit(agent, {}, { budget: { usd: 0.01 } });
    expect(await ended(agent, other)).toMatchObject({ status: "completed" });
  });

  it.each([true, false])(
    "that is nearly used is notified once: to a destination %s",
    async (isSent) => {
      const name = unique();
      const problems: Problem[] = [];
      const paid = limit(name, {
        usd: "0.006 per day",
        ...(isSent && { notify: method("notified") }),
      });
      const features = [limits({ limits: [paid], prices, maxOutputTokens: 10 })];
      const agent = givenAgent({ features, problems });
      for (let n = 0; n < 10; n++) await ended(agent, await submit(agent, { id: `${n}` }));
      const late = await submit(agent, { id: "late" });
      const told = async () => {
        const got = await inside(agent, (object) => object.got as { event: LimitEvent }[]);
        const events = isSent ? got.map(({ event }) => event) : problems.map(({ ids }) => ids);
        return events.map((event) => ({ limit: event.limit, percent: event.percent }));
      };
      await until(async () => (await told()).length >= 2);
      expect(await told()).toEqual([80, 100].map((percent) => ({ limit: name, percent })));
      if (!isSent) expect(problems[0]).toMatchObject({ type: "limit:money", level: "warn" });
      await inside(agent, ({ durable }) => durable.cancelSubmission(late));
    },
  );
});

describe("options of submissions", () => {
  it("concurrency: one at a time across agents", async () => {
    const key = unique();
    const [one, other] = [
      givenAgent({ features: limiting() }),
      givenAgent({ features: limiting() }),
    ];
    const options = { concurrency: { key, limit: 1 } };
    const first = await submit(one, { delayMs: 2 * HANG_MS }, options);
    await until(async () => (await inspect(one, first)).status === "running");
    const second = await submit(other, {}, options);
    expect(await waiting(other, second)).toMatchObject({
      waitingFor: { limit: "concurrency", key, why: "full" },
    });
    await inside(one, ({ durable }) => durable.cancelSubmission(first));
    expect(await ended(one, first)).toMatchObject({ status: "aborted" });
    expect(await ended(other, second)).toMatchObject({ status: "completed" });
  });

  it("singleton: skip ends the newer one as skipped", async () => {
    const key = unique();
    const agent = givenAgent({ features: limiting() });
    const options = { concurrency: { key, limit: 1 }, singleton: "skip" as const };
    const first = await submit(agent, { delayMs: 2 * HANG_MS }, { ...options, thread: "a" });
    await until(async () => (await inspect(agent, first)).status === "running");
    const second = await submit(agent, {}, { ...options, thread: "b" });
    expect(await ended(agent, second)).toMatchObject({
      status: "skipped",
      errorName: "SubmissionSkippedError",
    });
    expect(await inspect(agent, first)).toMatchObject({ status: "running", attempts: 1 });
    await inside(agent, ({ durable }) => durable.cancelSubmission(first));
  });
});

it("a keeper that cannot be reached lets turns wait, or run", async () => {
  const given = { requests: "1 per hour" } as const;
  const [waits, allows] = [unique(), unique()];
  const one = givenAgent({ features: limiting(limit(waits, given)) });
  const other = givenAgent({
    features: limiting(limit(allows, { ...given, whenUnreachable: "allow" })),
  });
  const { keeperScripts } = await import("../../support/objects/keeper-object.ts");
  for (const name of [waits, allows])
    keeperScripts.set(name, {
      onAsk: () => {
        throw new Error("It is down");
      },
    });
  expect(await waiting(one, await submit(one))).toMatchObject({
    waitingFor: { why: "unreachable" },
  });
  const id = await submit(other);
  expect(await ended(other, id)).toMatchObject({ status: "completed" });
});

it("the verbs of the agent list, pause and resume its limits", async () => {
  const name = unique();
  const agent = givenAgent({ features: limiting(limit(name, { requests: "9 per minute" })) });
  await ended(agent, await submit(agent));
  const listed = await inside(agent, async ({ durable }) => {
    await capabilitiesOf(durable).limits.pause(name, "", "why");
    return capabilitiesOf(durable).limits.list();
  });
  expect(listed.items).toMatchObject([
    { limit: name, key: "", reason: "why", requests: { amount: 9 } },
  ]);
});
