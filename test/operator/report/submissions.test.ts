/** What the report finds wrong with submissions. */

import type { TurnConfig } from "@cloudflare/think";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { FINDINGS } from "../../../src/operator/catalog.generated.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { message, until } from "../../support/given.ts";
import { ended, running, submit } from "../../support/think.ts";
import { appHooks } from "../../support/think-agent.ts";
import {
  apply,
  codesIn,
  found,
  givenAgent,
  gone,
  HOUR,
  inside,
  MINUTE,
  reportOf,
} from "./support.ts";

/** Inserts a pending submission that the agent's runner knows nothing of. */
const INSERT = `INSERT INTO perdure_submissions (submission_id, status, attempts, thread, created_at, due_at, messages)
  VALUES (?, 'pending', ?, ?, ?, ?, ?)`;

/** An endpoint that answers with a page. */
class PageModel extends ScriptedModel {
  override async doStream() {
    const stream = new ReadableStream<never>({ start: (controller) => controller.close() });
    return { stream, response: { headers: { "content-type": "text/html; charset=utf-8" } } };
  }
}

describe("a healthy agent", () => {
  it("has no finding, and every verdict is true or unknown", async () => {
    const agent = givenAgent();
    const empty = await reportOf(agent);
    expect(empty.findings).toEqual([]);
    expect(empty.verdicts).toEqual({});
    const { submissionId } = await submit(agent, { text: "hi" });
    await ended(agent, submissionId);
    const report = await reportOf(agent);
    expect(report.findings).toEqual([]);
    expect(report.verdicts).toMatchObject({ starts: true, succeeds: true });
    expect(report.counts.submissions).toMatchObject({ completed: 1, pending: 0, running: 0 });
    expect(report.hourly.completed).toEqual([...Array(23).fill(0), 1]);
    expect(report.hourly.failed).toEqual(Array(24).fill(0));
    // Over RPC, as the operator API asks for it.
    expect(await capabilitiesOf(agent).operations.healthReport()).toMatchObject({ findings: [] });
  });
});

describe("findings of submissions", () => {
  it("backlog: many pending turns of one thread are found, and cancelling them fixes it", async () => {
    const agent = givenAgent();
    const hanging = await submit(agent, { id: crypto.randomUUID(), hangTimes: 1 });
    await running(agent, hanging.submissionId);
    for (let i = 0; i < 25; i++) await submit(agent, { text: "later" });
    expect(codesIn(await reportOf(agent))).not.toContain("backlog");
    const later = { later: 3 * MINUTE };
    const finding = await found(agent, "backlog", later);
    expect(finding.title).toMatch(/^25 submissions in 1 thread wait .* since \d\d:\d\d UTC\.$/);
    expect(finding.evidence.count).toBe(25);
    expect(finding.cause).toContain('"main"');
    expect(finding.fix.action).toBeUndefined();
    await apply(agent, { do: "cancel", filter: { status: "pending", thread: "main" } });
    await gone(agent, "backlog", later);
    await agent.cancelSubmission(hanging.submissionId);
  });

  it("backlog-near-limit: a backlog near its limit is a warning, a full one an error", async () => {
    const agent = givenAgent({ maxPending: 5 });
    const notBefore = "2100-01-01T00:00:00Z";
    for (let i = 0; i < 4; i++) await submit(agent, "later", { notBefore });
    expect(await found(agent, "backlog-near-limit")).toMatchObject({
      severity: "warning",
      title: "4 submissions are pending, and at most 5 may be.",
    });
    await submit(agent, "later", { notBefore });
    const full = await found(agent, "backlog-near-limit");
    expect(full).toMatchObject({ severity: "error", evidence: { count: 5 } });
    expect(full.fix.action).toBeUndefined();
    await apply(agent, { do: "cancel", filter: { status: "pending" } });
    await gone(agent, "backlog-near-limit");
  });

  it("work-does-not-start: a ready submission in a free thread is found", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    await inside(agent, (_, { storage }) => {
      const at = Date.now() - 5 * MINUTE;
      const messages = JSON.stringify([message("forgotten")]);
      storage.sql.exec(INSERT, "forgotten", 0, "main", at, null, messages);
    });
    expect(await found(agent, "work-does-not-start")).toMatchObject({
      severity: "error",
      evidence: { count: 1, ids: ["forgotten"] },
    });
    const { verdicts } = await reportOf(agent);
    expect(verdicts.starts).toBe(false);
  });

  it("turn-hangs: a turn without progress is found, and cancelling it fixes it", async () => {
    const agent = givenAgent();
    const { submissionId } = await submit(agent, { id: crypto.randomUUID(), hangTimes: 1 });
    await running(agent, submissionId);
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const finding = await found(agent, "turn-hangs", { later: 2 * MINUTE });
    expect(finding).toMatchObject({
      severity: "warning",
      evidence: { count: 1, ids: [submissionId] },
      fix: { action: { do: "cancel", submissionId } },
    });
    expect(await found(agent, "turn-hangs", { later: HOUR })).toMatchObject({ severity: "error" });
    await apply(agent, finding.fix.action);
    await gone(agent, "turn-hangs", { later: 2 * MINUTE });
  });

  it("thread-stuck: turns behind a retry of a later hour are found, and cancelling it fixes it", async () => {
    const agent = givenAgent();
    const busy = {
      id: crypto.randomUUID(),
      fail: "wait",
      status: 429,
      headers: { "retry-after": "3600" },
    };
    const head = await submit(agent, busy);
    await until(async () => (await agent.inspectSubmission(head.submissionId))?.dueAt);
    const behind = await submit(agent, "next");
    const finding = await found(agent, "thread-stuck");
    expect(finding.evidence.ids).toEqual([head.submissionId, behind.submissionId]);
    expect(finding.evidence.lastError).toContain("wait");
    await apply(agent, finding.fix.action);
    await gone(agent, "thread-stuck");
    expect(await ended(agent, behind.submissionId)).toMatchObject({ status: "completed" });
  });

  it("model-rate-limited: a model that answers 429 is found while it is retried, and after the last attempt", async () => {
    const agent = givenAgent();
    const fail = "Rate limit reached for requests";
    const refused = {
      id: crypto.randomUUID(),
      fail,
      status: 429,
      headers: { "retry-after": "3600" },
    };
    const first = await submit(agent, refused);
    await until(async () => (await agent.inspectSubmission(first.submissionId))?.dueAt);
    const waiting = await found(agent, "model-rate-limited");
    expect(waiting).toMatchObject({
      severity: "warning",
      evidence: { count: 1, ids: [first.submissionId], lastError: expect.stringContaining(fail) },
    });
    await agent.cancelSubmission(first.submissionId);
    await gone(agent, "model-rate-limited");
    const again = { id: crypto.randomUUID(), fail, failTimes: 1, status: 429 };
    const { submissionId } = await submit(agent, again, { retry: { maxAttempts: 1 } });
    await ended(agent, submissionId);
    const finding = await found(agent, "model-rate-limited");
    expect(finding).toMatchObject({ severity: "error", evidence: { ids: [submissionId] } });
    expect(codesIn(await reportOf(agent))).toEqual(["model-rate-limited"]);
    await apply(agent, finding.fix.action);
    await gone(agent, "model-rate-limited");
  });

  it("model-no-credit: an account without credit is found, and those that ended with it can be retried", async () => {
    const agent = givenAgent();
    const fail = "Your credit balance is too low to access the API";
    const refused = { id: crypto.randomUUID(), fail, failTimes: 1, status: 400 };
    const { submissionId } = await submit(agent, refused);
    await ended(agent, submissionId);
    const finding = await found(agent, "model-no-credit");
    expect(finding).toMatchObject({ severity: "error", evidence: { ids: [submissionId] } });
    expect(finding.fix.text).toContain("add credit");
    expect(codesIn(await reportOf(agent))).toEqual(["model-no-credit"]);
    await apply(agent, finding.fix.action);
    await gone(agent, "model-no-credit");
  });

  it("work-does-not-start: turns that wait behind a retry of their own thread are no finding, until it is late", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    await inside(agent, (_, { storage }) => {
      const { sql } = storage;
      const now = Date.now();
      sql.exec(INSERT, "retried", 1, "main", now - HOUR, now + MINUTE, "[]");
      sql.exec(INSERT, "behind", 0, "main", now - HOUR, null, "[]");
    });
    expect(codesIn(await reportOf(agent))).not.toContain("work-does-not-start");
    // The retry is due for a minute: it starts within that time.
    expect(codesIn(await reportOf(agent, { later: 2 * MINUTE }))).not.toContain(
      "work-does-not-start",
    );
    const finding = await found(agent, "work-does-not-start", { later: 4 * MINUTE });
    expect(finding.evidence.ids).toEqual(["retried", "behind"]);
  });

  it("thread-stuck, work-does-not-start: a wait for a limit and the turns behind it are no finding, until it is late", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    await inside(agent, (_, { storage }) => {
      const { sql } = storage;
      const now = Date.now();
      sql.exec(INSERT, "limited", 0, "main", now - HOUR, now + 10 * MINUTE, "[]");
      sql.exec(INSERT, "begun", 1, "other", now - HOUR, now + 10 * MINUTE, "[]");
      sql.exec("UPDATE perdure_submissions SET waiting_for = '{}'");
      for (const thread of ["main", "other"])
        sql.exec(INSERT, `behind-${thread}`, 0, thread, now - HOUR, null, "[]");
    });
    // Planted rows have no wake.
    expect(codesIn(await reportOf(agent))).toEqual(["work-without-alarm"]);
    const finding = await found(agent, "work-does-not-start", { later: 13 * MINUTE });
    expect(finding.evidence.ids).toContain("limited");
  });

  it("model-rate-limited: one submission that is retried after a 529 is an information", async () => {
    const agent = givenAgent();
    const refused = {
      id: crypto.randomUUID(),
      fail: "Overloaded",
      status: 529,
      headers: { "retry-after": "60" },
    };
    const { submissionId } = await submit(agent, refused);
    await until(async () => (await agent.inspectSubmission(submissionId))?.dueAt);
    expect(await found(agent, "model-rate-limited")).toMatchObject({ severity: "info" });
    expect((await reportOf(agent)).verdicts.succeeds).not.toBe(false);
    await agent.cancelSubmission(submissionId);
  });

  it("poison-turn: a turn that the object has crashed in is found, and cancelling it fixes it", async () => {
    const agent = givenAgent();
    const hanging = await submit(agent, { id: crypto.randomUUID(), hangTimes: 9 });
    await running(agent, hanging.submissionId);
    // Three attempts of it were started, and none has failed: the object has crashed in each.
    const query = "UPDATE perdure_submissions SET attempts = attempts + 3 WHERE submission_id = ?";
    await inside(agent, (_, { storage }) => void storage.sql.exec(query, hanging.submissionId));
    const finding = await found(agent, "poison-turn");
    expect(finding).toMatchObject({ evidence: { count: 3, ids: [hanging.submissionId] } });
    expect(finding.title).toContain("interrupted 3 times");
    await apply(agent, finding.fix.action);
    await gone(agent, "poison-turn");
  });

  it("budget-used-up: submissions whose budget is used up are found, without a retry", async () => {
    const agent = givenAgent();
    const { submissionId } = await submit(
      agent,
      { text: "hi", tool: { name: "charge", input: {} } },
      { budget: { tokens: 1 } },
    );
    await ended(agent, submissionId);
    const finding = await found(agent, "budget-used-up");
    expect(finding.evidence).toMatchObject({ count: 1, ids: [submissionId] });
    expect(finding.fix.action).toBeUndefined();
    expect(codesIn(await reportOf(agent))).toEqual(["budget-used-up"]);
  });

  it("failing-submissions: failures are grouped by their cause, and a retry that succeeds fixes it", async () => {
    const agent = givenAgent();
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) {
      const script = { id: crypto.randomUUID(), fail: `broken ${i}`, failTimes: 1 };
      ids.push((await submit(agent, script, { retry: { maxAttempts: 1 } })).submissionId);
    }
    for (const id of ids) await ended(agent, id);
    const finding = await found(agent, "failing-submissions");
    expect(finding).toMatchObject({
      severity: "error",
      evidence: { count: 3, lastError: expect.stringContaining("broken 2") },
    });
    expect(finding.evidence.ids.toSorted()).toEqual(ids.toSorted());
    const report = await reportOf(agent);
    expect(codesIn(report)).toEqual(["failing-submissions"]);
    expect(report.verdicts.succeeds).toBe(false);
    expect(report.hourly.failed.at(-1)).toBe(3);
    await apply(agent, finding.fix.action);
    await gone(agent, "failing-submissions");
    expect(FINDINGS["failing-submissions"]).toBe("succeeds");
  });

  it.each<[string, object, TurnConfig, RegExp]>([
    ["InvalidModelResponseError", { text: "hi" }, { model: new PageModel() }, /text\/html/],
    [
      "MaxStepsReachedError",
      { tool: { name: "charge", input: { account: "a" } } },
      { maxSteps: 1 },
      /step/,
    ],
    ["IncompleteReplyError", { text: "a part", finish: "interrupted" }, {}, /interrupted/],
  ])(
    "failing-submissions: %s is the cause of turns without an answer",
    async (name, script, config, cause) => {
      const agent = givenAgent();
      appHooks.set(agent.name ?? "", { beforeTurn: () => config });
      const options = { retry: { maxAttempts: 1 } };
      const { submissionId } = await submit(agent, { id: crypto.randomUUID(), ...script }, options);
      await ended(agent, submissionId);
      const finding = await found(agent, "failing-submissions");
      expect(finding.title).toContain(name);
      expect(finding.cause).toMatch(cause);
      expect(finding.evidence.ids).toEqual([submissionId]);
      expect((await reportOf(agent)).verdicts.succeeds).toBe(false);
    },
  );
});
