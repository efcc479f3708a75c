/** What the report finds wrong with submissions that do not fail, and with the storage. */

import { describe, expect, it } from "vitest";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { type Agent, ended, submit } from "../../support/think.ts";
import { appHooks } from "../../support/think-agent.ts";
import { codesIn, found, givenAgent, gone, HOUR, inside, reportOf } from "./support.ts";

/** Inserts ended submissions, the newest last. */
function fill(agent: Agent, count: number, columns: object = {}): Promise<void> {
  const all = { output: '"fine"', ...columns };
  const names = Object.keys(all);
  const query = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    INSERT INTO perdure_submissions
      (submission_id, status, attempts, created_at, started_at, settled_at, messages, ${names.join(", ")})
    SELECT 'filled-' || hex(randomblob(8)), 'completed', 1, ?1, ?1, ?1, '[]', ${names.map((_, index) => `?${index + 2}`).join(", ")} FROM n`;
  return inside(agent, (_, { storage }) => {
    storage.sql.exec(query, Date.now(), ...Object.values(all));
  });
}

describe("findings of answers", () => {
  it("answers-empty: submissions that complete with an empty answer and no tool call are found", async () => {
    const agent = givenAgent();
    const say = async (script: object) => {
      const { submissionId } = await submit(agent, { id: crypto.randomUUID(), ...script });
      expect(await ended(agent, submissionId)).toMatchObject({ status: "completed", output: "" });
      return submissionId;
    };
    // An agent that works by its tools alone.
    for (let i = 0; i < 5; i++) {
      await say({ text: "", tool: { name: "charge", input: { account: crypto.randomUUID() } } });
    }
    for (let i = 0; i < 4; i++) await say({ text: "" });
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const last = await say({ text: "" });
    const finding = await found(agent, "answers-empty");
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 5 } });
    expect(finding.title).toMatch(/^5 of the latest 10 completed submissions have an empty answer/);
    expect(finding.evidence.ids[0]).toBe(last);
    expect(finding.cause).toContain('finish reason "stop"');
    expect((await reportOf(agent)).verdicts.succeeds).toBe(false);
    const nextDay = codesIn(await reportOf(agent, { later: 25 * HOUR }));
    expect(nextDay).not.toContain("answers-empty");
    // Fewer than one of ten.
    await fill(agent, 50);
    await gone(agent, "answers-empty");
  });

  it("answers-empty: a turn that ends with a call of a client's tool, or without a model, is not empty", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    await fill(agent, 10, { output: '""', finish_reason: "tool-calls" });
    await fill(agent, 10, { output: '""', finish_reason: null });
    expect(codesIn(await reportOf(agent))).toEqual([]);
  });

  it("answers-partial: submissions that complete with a part of their answer are found, and count once", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    await fill(agent, 10);
    await fill(agent, 4, { finish_reason: "length" });
    // An empty answer is a finding of its own.
    await fill(agent, 4, { finish_reason: "length", output: '""' });
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await fill(agent, 1, { finish_reason: "content-filter" });
    const finding = await found(agent, "answers-partial");
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 5 } });
    expect(finding.title).toMatch(
      /^5 of the latest 19 completed submissions have a partial answer/,
    );
    expect(finding.cause).toContain('finish reason "content-filter"');
    expect((await reportOf(agent)).verdicts.succeeds).toBe(false);
    expect(codesIn(await reportOf(agent, { later: 25 * HOUR }))).not.toContain("answers-partial");
    // Fewer than one of ten.
    await fill(agent, 50);
    await gone(agent, "answers-partial");
  });

  it("answers-repaired: answers that need repairs again and again are found, with their tokens", async () => {
    const agent = givenAgent();
    const output = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    const repaired = async () => {
      const script = { id: crypto.randomUUID(), answers: [{ n: "one" }, { n: 1 }] };
      const { submissionId } = await submit(agent, script, { output, repair: 2 });
      expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
      return submissionId;
    };
    for (let i = 0; i < 4; i++) await repaired();
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await repaired();
    const finding = await found(agent, "answers-repaired");
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 5 } });
    expect(finding.title).toMatch(/5 times more .* in 5 of the latest 5 .*; [1-9]\d* tokens/);
    expect(finding.evidence.lastError).toContain("n");
    // Other submissions have no schema, and do not count.
    await fill(agent, 100);
    await found(agent, "answers-repaired");
    await fill(agent, 20, { answer: JSON.stringify({ schema: output }) });
    await gone(agent, "answers-repaired");
  });

  it("model-slow: a model is found whose p95 is three times that of its calls before", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    const callOf = (durationMs: number, model = "large") =>
      JSON.stringify({
        calls: [{ model, startedAt: Date.now() - durationMs, endedAt: Date.now() }],
      });
    await fill(agent, 40, { timeline: callOf(1_900) });
    await fill(agent, 20, { timeline: callOf(900, "small") });
    await fill(agent, 18, { timeline: callOf(1_900) });
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await fill(agent, 2, { timeline: callOf(6_000) });
    const finding = await found(agent, "model-slow");
    expect(finding).toMatchObject({ severity: "warning", about: "large", evidence: { count: 2 } });
    expect(finding.title).toMatch(/p95 of its latest 20 calls is 6\.0 s, and was 1\.9 s\.$/);
    await fill(agent, 20, { timeline: callOf(2_000) });
    await gone(agent, "model-slow");
  });

  it("tool-fails: a tool that fails in more than a fifth of its calls is found with its error", async () => {
    const agent = givenAgent();
    let isBroken = true;
    appHooks.set(agent.name ?? "", {
      onTool: async () => {
        if (isBroken) throw new Error("no bank today");
      },
    });
    const pay = async () => {
      const input = { account: crypto.randomUUID() };
      const tool = { name: "charge", input };
      const { submissionId } = await submit(agent, {
        id: crypto.randomUUID(),
        tool,
        text: "sorry",
      });
      await ended(agent, submissionId);
    };
    for (let i = 0; i < 4; i++) await pay();
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await pay();
    const finding = await found(agent, "tool-fails");
    expect(finding).toMatchObject({
      severity: "warning",
      title: expect.stringContaining('The tool "charge" failed in 5 of its latest 5 calls since '),
      evidence: { count: 5, lastError: "no bank today" },
    });
    isBroken = false;
    for (let i = 0; i < 19; i++) await pay();
    await found(agent, "tool-fails");
    await pay();
    await gone(agent, "tool-fails");
  });
});

describe("findings of retries", () => {
  it("retries-grow: submissions that are retried more and more are found before they fail", async () => {
    const agent = givenAgent({ retry: { baseDelay: 1, maxDelay: 1 } });
    await agent.submissionStats();
    await fill(agent, 30);
    const retried = async () => {
      const script = { id: crypto.randomUUID(), fail: "overloaded", failTimes: 2, status: 503 };
      const { submissionId } = await submit(agent, script);
      expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
    };
    for (let i = 0; i < 4; i++) await retried();
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await retried();
    const finding = await found(agent, "retries-grow");
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 5 } });
    expect(finding.title).toBe(
      "5 of the latest 20 submissions were retried, 10 times; of the 15 before them, 0 were.",
    );
    expect(finding.evidence.lastError).toContain("overloaded");
    // It is over.
    expect(codesIn(await reportOf(agent, { later: 2 * HOUR }))).not.toContain("retries-grow");
    await fill(agent, 20);
    await gone(agent, "retries-grow");
  });

  it("retries-grow: attempts that deploys interrupted are no retries", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    await fill(agent, 20, { resets: 2 });
    await inside(agent, (_, { storage }) => {
      storage.sql.exec("UPDATE perdure_submissions SET attempts = 3");
    });
    expect(codesIn(await reportOf(agent))).toEqual([]);
  });
});

describe("findings of the storage", () => {
  it("storage-grows: many submissions are found where retention is off", async () => {
    const keepsAll = { retention: { maxAge: Infinity, maxCount: Infinity } };
    for (const [options, codes] of [
      [keepsAll, ["storage-grows"]],
      [{ retention: { maxAge: Infinity } }, []],
      [{}, []],
    ] as const) {
      const agent = givenAgent(options);
      await agent.submissionStats();
      await fill(agent, 1, { seq: 1 });
      await fill(agent, 1, { seq: 99_999 });
      expect(codesIn(await reportOf(agent))).toEqual([]);
      await fill(agent, 1);
      expect(codesIn(await reportOf(agent))).toEqual(codes);
    }
  });

  it("storage-grows: a database near the platform's limit is a warning, and then an error", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    const severityAt = (bytes: number) =>
      inside(agent, async (object) => {
        const { sql } = object[CAPABILITIES].storage;
        Object.defineProperty(sql, "databaseSize", { value: bytes, configurable: true });
        const { findings } = await object.operations.healthReport();
        Reflect.deleteProperty(sql, "databaseSize");
        return findings.map(({ severity, title }) => [severity, title]);
      });
    expect(await severityAt(7.9e9)).toEqual([]);
    const title = expect.stringMatching(/^The agent stores 8\.0 GB, of at most 10/);
    expect(await severityAt(8e9)).toEqual([["warning", title]]);
    expect(await severityAt(9.5e9)).toEqual([["error", expect.any(String)]]);
  });
});
