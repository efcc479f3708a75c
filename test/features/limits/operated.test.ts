/** Limits for operators on a real agent: its report, its actions with their audit log, its costs and its trace. */

import { env } from "cloudflare:workers";
import { tool } from "ai";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import {
  type Limit,
  type LimitsOptions,
  limit,
  limits,
} from "../../../src/features/limits/index.ts";
import { operations } from "../../../src/operator/index.ts";
import type { Action } from "../../../src/operator/protocol.ts";
import { ask, type Script } from "../../../src/testing/index.ts";
import { message, until } from "../../support/given.ts";
import { limitedApps } from "../../support/objects/limited-object.ts";
import { accessTo } from "../../support/objects/objects.ts";

const { inside, crash, wake } = accessTo(() => env.LimitedObject);

type Agent = { readonly name: string };

/** The name of a limit, which has keepers of its own. */
const unique = () => `limit-${crypto.randomUUID()}`;

function givenAgent(...some: Limit[]): Agent {
  const name = crypto.randomUUID();
  const prices = { "*": { input: 1, output: 2 } };
  const options = { limits: some, prices } as LimitsOptions;
  const look = tool({ inputSchema: z.object({}), execute: () => "found" });
  limitedApps.set(name, { features: [operations(), limits(options)], tools: { look } });
  return { name };
}

const tenant = (name: string) =>
  limit(name, { key: ({ thread }) => thread, requests: "100 per minute", usd: "20 per day" });

function submit(agent: Agent, thread = "main", script: Script = {}): Promise<string> {
  return inside(agent, async ({ durable }) => {
    const { submissionId } = await durable.submitMessages([message(ask(script))], { thread });
    return submissionId;
  });
}

const inspect = (agent: Agent, id: string) =>
  inside(agent, ({ durable }) => durable.inspectSubmission(id));
const act = (agent: Agent, action: Action, reason = "a loop") =>
  inside(agent, ({ durable }) => durable.operations.operate({ action, by: "ann", reason }));
const report = (agent: Agent) => inside(agent, ({ durable }) => durable.operations.healthReport());

describe("limits of an agent", () => {
  it("are paused and resumed by operators, with a reason, for all agents, and seen in the report", async () => {
    const name = unique();
    const [one, other] = [givenAgent(tenant(name)), givenAgent(tenant(name))];
    const paused = await act(one, { do: "pause-limit", limit: name, key: "acme" });
    expect(paused).toMatchObject({
      ...{ outcome: "done", count: 1 },
      after: { limit: name, key: "acme", reason: "a loop", pausedAt: expect.any(Number) },
    });
    const id = await submit(other, "acme");
    await until(async () => (await inspect(other, id))?.waitingFor !== undefined);
    const { findings, verdicts } = await report(other);
    expect(findings).toMatchObject([
      {
        ...{ code: "limit-paused", severity: "warning", evidence: { ids: [id] } },
        fix: { action: { do: "resume-limit", limit: name, key: "acme" } },
      },
    ]);
    expect(verdicts.starts).toBe(false);
    expect((await report(one)).findings).toMatchObject([{ severity: "info" }]);
    const resume = { do: "resume-limit", limit: name, key: "acme" } as const;
    expect(await act(other, resume, "paid")).toMatchObject({ outcome: "done" });
    expect(await act(other, resume, "paid")).toMatchObject({ outcome: "unchanged" });
    await inside(
      other,
      (_, ctx) => void ctx.storage.sql.exec("UPDATE perdure_submissions SET due_at = 1"),
    );
    await crash(other);
    await wake(other);
    await until(async () => (await inspect(other, id))?.status === "completed");
    expect((await report(other)).findings).toEqual([]);
    const audit = await inside(other, ({ durable }) => durable.operations.listActions());
    expect(audit.items).toMatchObject([
      { by: "ann", reason: "paid", outcome: "unchanged" },
      { by: "ann", reason: "paid", outcome: "done", action: resume },
    ]);
    const trace = await inside(other, ({ durable }) => durable.operations.traceSubmission(id));
    expect(trace?.spans.find(({ kind }) => kind === "wait")?.attributes).toMatchObject({
      ...{ "perdure.limit.name": name, "perdure.limit.key": "acme" },
      "perdure.limit.wait_ms": expect.any(Number),
    });
  });

  it.each([
    ["emoji", "👾".repeat(100)],
    ["512 characters", "x".repeat(512)],
    ["control characters", "a\u0000\u001b[31m\n\u202e"],
    ["a name of a prototype", "__proto__"],
    ["HTML", `<img src=x onerror="alert(1)">'"&`],
  ])("with a key of %s are paused, listed and resumed", async (_, key) => {
    const name = unique();
    const agent = givenAgent(tenant(name));
    expect(await act(agent, { do: "pause-limit", limit: name, key })).toMatchObject({
      ...{ outcome: "done", after: { key } },
    });
    const { items } = await inside(agent, ({ durable }) => durable.limits.list({ name, key }));
    expect(items).toMatchObject([{ limit: name, key, reason: "a loop" }]);
    expect((await report(agent)).findings).toMatchObject([{ code: "limit-paused" }]);
    expect(await act(agent, { do: "resume-limit", limit: name, key })).toMatchObject({
      outcome: "done",
    });
  });

  it.each([
    ["an unknown limit", { limit: "none", key: "a" }, "Invalid limit"],
    ["no key", { key: "" }, "Invalid key"],
    ["a key above 512 characters", { key: "x".repeat(513) }, "Invalid key"],
  ])("with %s are not changed, and the error says why", async (_, target, error) => {
    const name = unique();
    const agent = givenAgent(tenant(name));
    const result = await act(agent, { do: "pause-limit", limit: name, ...target } as Action);
    expect(result).toMatchObject({ outcome: "failed", count: 0 });
    expect(result.failed[0]?.error).toContain(error);
  });

  it("have the time that a model call has waited in memory, in its span", async () => {
    const name = unique();
    const agent = givenAgent(limit(name, { requests: "1 per second" }));
    // The clock stands still until the second call waits: it comes within a second of the first, also on a busy machine.
    const from = Date.now();
    const realNow = Date.now;
    const now = vi.spyOn(Date, "now").mockReturnValue(from);
    onTestFinished(() => now.mockRestore());
    const id = await submit(agent, "main", { tool: { name: "look", input: {} }, text: "done" });
    await until(async () => {
      const { items } = await inside(agent, ({ durable }) => durable.limits.list({ name }));
      return items.some(({ waiting }) => waiting === 1);
    });
    const goesOnAt = realNow();
    now.mockImplementation(() => from + realNow() - goesOnAt);
    await until(async () => (await inspect(agent, id))?.status === "completed");
    const trace = await inside(agent, ({ durable }) => durable.operations.traceSubmission(id));
    const [first, second] = trace?.spans.filter(({ kind }) => kind === "model") ?? [];
    expect(first?.attributes).not.toHaveProperty("perdure.limit.name");
    expect(second?.attributes).toMatchObject({
      ...{ "perdure.limit.name": name, "perdure.limit.key": "", "perdure.limit.why": "full" },
      "perdure.limit.wait_ms": expect.any(Number),
    });
    const { startedAt = 0, endedAt = 0, attributes } = second ?? {};
    const waitedMs = Number(attributes?.["perdure.limit.wait_ms"]);
    expect(waitedMs).toBeGreaterThanOrEqual(0);
    expect(waitedMs).toBeLessThanOrEqual(endedAt - startedAt);
  });

  it("have costs by submission and by day", async () => {
    const agent = givenAgent(tenant(unique()));
    const id = await submit(agent);
    await until(async () => (await inspect(agent, id))?.status === "completed");
    const cost = (await inspect(agent, id))?.usage?.cost ?? 0;
    expect(cost).toBeGreaterThan(0);
    const { items } = await inside(agent, ({ durable }) => durable.operations.listCosts());
    expect(items).toEqual([{ day: expect.any(String), cost, submissions: 1 }]);
    const trace = await inside(agent, ({ durable }) => durable.operations.traceSubmission(id));
    const head = trace?.spans.find(({ kind }) => kind === "submission");
    expect(head?.attributes["gen_ai.usage.cost"]).toBe(cost);
  });
});
