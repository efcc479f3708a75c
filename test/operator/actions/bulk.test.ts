/** Actions on all that a filter selects: pages, dry runs, failures, crashes, and what they write. */

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { operate } from "../../../src/operator/actions/operate.ts";
import { operatedOf } from "../../../src/operator/operated.ts";
import type { Action, OperateRequest, OperateResult } from "../../../src/operator/protocol.ts";
import { method } from "../../../src/outbox/index.ts";
import { givenThink, message, refusal, until } from "../../support/given.ts";
import { limitMs, sizeOf } from "../../support/sizes.ts";
import { appHooks, type ThinkAgent, thinkOptions } from "../../support/think-agent.ts";

type Agent = ReturnType<typeof givenThink>;

const by = "ada";
const reason = "clean up";
const later = new Date(Date.now() + 3_600_000);

function act(
  agent: Agent,
  action: Action,
  more: Partial<OperateRequest> = {},
): Promise<OperateResult> {
  return capabilitiesOf(agent).operations.operate({ action, by, reason, ...more });
}

/** All pages of a bulk action. */
async function actOnAll(agent: Agent, action: Action): Promise<OperateResult[]> {
  const pages: OperateResult[] = [];
  let cursor: string | undefined;
  do {
    const page = await act(agent, action, cursor === undefined ? {} : { cursor });
    pages.push(page);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return pages;
}

const sum = (pages: readonly OperateResult[]) => pages.reduce((all, { count }) => all + count, 0);

function inside<T>(
  agent: Agent,
  work: (object: ThinkAgent, storage: DurableObjectStorage) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(agent as unknown as DurableObjectStub, (object, { storage }) =>
    work(object as unknown as ThinkAgent, storage),
  );
}

/** Scheduled submissions, with ids `<prefix>0` on. */
async function givenScheduled(agent: Agent, count: number, options: object = {}): Promise<void> {
  for (let from = 0; from < count; from += 500) {
    const chunk = Array.from({ length: Math.min(500, count - from) }, (_, index) => ({
      messages: [message("hello")],
      options: { notBefore: later, submissionId: `s${from + index}`, ...options },
    }));
    await agent.submitMany(chunk);
  }
}

/** How many submissions have each status. */
function statuses(agent: Agent): Promise<Record<string, number>> {
  return inside(agent, (_, { sql }) => {
    const query = "SELECT status, COUNT(*) FROM perdure_submissions GROUP BY status";
    return Object.fromEntries(Array.from(sql.exec(query).raw<[string, number]>()));
  });
}

describe("cancelling by a filter", () => {
  it("cancels what the dry run has counted, in pages, and nothing else", async () => {
    const agent = givenThink();
    await givenScheduled(agent, 250, { metadata: { user: "a" } });
    const other = { notBefore: later, metadata: { user: "b" } };
    await agent.submitMessages([message("stays")], other);
    const action = { do: "cancel", filter: { metadata: { user: "a" } } } as const;
    const dry = await act(agent, action, { dryRun: true });
    expect(dry).toMatchObject({ outcome: "done", count: 250, failed: [] });
    expect(dry.rows).toHaveLength(20);
    const pages = await actOnAll(agent, action);
    expect(pages.map(({ count }) => count)).toEqual([100, 100, 50]);
    expect(await statuses(agent)).toEqual({ aborted: 250, pending: 1 });
    expect(await act(agent, action)).toMatchObject({ outcome: "unchanged", count: 0, failed: [] });
    const { items } = await capabilitiesOf(agent).operations.listActions();
    expect(items.map(({ count }) => count)).toEqual([0, 50, 100, 100]);
    expect(items[1]).toMatchObject({ by, reason, action, outcome: "done" });
  });

  it("two operators at once cancel each submission once", async () => {
    const agent = givenThink();
    await givenScheduled(agent, 250);
    const action = { do: "cancel", filter: {} } as const;
    const [one, other] = await Promise.all([actOnAll(agent, action), actOnAll(agent, action)]);
    expect(sum(one) + sum(other)).toBe(250);
    expect([...one, ...other].flatMap(({ failed }) => failed)).toEqual([]);
    expect(await statuses(agent)).toEqual({ aborted: 250 });
  });

  it("continues after a crash, and the log says which page was not finished", async () => {
    const name = `think-${crypto.randomUUID()}`;
    let cancelled = 0;
    appHooks.set(name, {
      async onStatus({ status }, agent) {
        if (status === "aborted" && ++cancelled === 130) agent.die();
      },
    });
    await givenScheduled(givenThink(name), 250);
    const action = { do: "cancel", filter: {} } as const;
    const first = await act(givenThink(name), action);
    expect(first.count).toBe(100);
    const { cursor } = first;
    await refusal(act(givenThink(name), action, cursor === undefined ? {} : { cursor }));
    const before = await until(() =>
      capabilitiesOf(givenThink(name))
        .operations.listActions()
        .catch(() => undefined),
    );
    expect(before.items.map(({ outcome }) => outcome)).toEqual(["started", "done"]);
    const dry = await act(givenThink(name), action, { dryRun: true });
    const pages = await actOnAll(givenThink(name), action);
    expect(sum(pages)).toBe(dry.count);
    expect(dry.count).toBeLessThanOrEqual(150);
    expect(await statuses(givenThink(name))).toEqual({ aborted: 250 });
    const after = await capabilitiesOf(givenThink(name)).operations.listActions();
    expect(after.items.at(-2)?.outcome).toBe("started");
  });

  it("stops a page when its time is over, and continues with the next item", async () => {
    const agent = givenThink();
    await givenScheduled(agent, 10);
    const counts = await inside(agent, async (object) => {
      let now = 0;
      const operated = {
        ...operatedOf(object[CAPABILITIES]),
        // Each look at the clock takes two seconds.
        clock: { now: () => (now += 2_000), random: () => 0 },
      };
      const found: number[] = [];
      let cursor: string | undefined;
      do {
        const request = { action: { do: "cancel", filter: {} } as const, by, reason };
        const page = await operate(operated, {
          ...request,
          ...(cursor !== undefined && { cursor }),
        });
        found.push(page.count);
        cursor = page.cursor;
      } while (cursor !== undefined);
      return found;
    });
    expect(counts).toEqual([3, 3, 3, 1]);
    expect(await statuses(agent)).toEqual({ aborted: 10 });
  });

  it("cancels thousands of submissions in pages, as many as the dry run has counted", {
    timeout: limitMs(120_000),
  }, async () => {
    const size = sizeOf("BULK_ITEMS", 2_000);
    const name = `think-${crypto.randomUUID()}`;
    thinkOptions.set(name, { maxPending: 2 * size });
    const agent = givenThink(name);
    await givenScheduled(agent, size);
    const action = { do: "cancel", filter: { status: "pending" } } as const;
    expect(await act(agent, action, { dryRun: true })).toMatchObject({ count: size });
    const pages = await actOnAll(agent, action);
    expect(sum(pages)).toBe(size);
    expect(pages.every(({ count }) => count <= 100)).toBe(true);
    expect(await statuses(agent)).toEqual({ aborted: size });
  });
});

describe("retrying by a filter", () => {
  it("retries each failed submission once, the oldest first, and no retry of a retry", async () => {
    const agent = givenThink();
    for (let turn = 0; turn < 5; turn++) {
      const failing = message({ fail: "no" });
      const { submissionId } = await agent.submitMessages([failing], { submissionId: `f${turn}` });
      await agent.waitForSubmission(submissionId);
    }
    const done = await agent.submitMessages([message("hello")]);
    await agent.waitForSubmission(done.submissionId);
    const action: Action = { do: "retry", filter: { status: ["error", "completed"] } };
    const createdBefore = Date.now() + 1;
    const bounded: Action = { do: "retry", filter: { ...action.filter, createdBefore } };
    expect(await act(agent, bounded, { dryRun: true })).toMatchObject({ count: 5 });
    const [one, other] = await Promise.all([actOnAll(agent, bounded), actOnAll(agent, bounded)]);
    expect(sum(one) + sum(other)).toBe(5);
    const all = await agent.listSubmissions();
    expect(all).toHaveLength(11);
    const order = await inside(agent, (_, { sql }) => {
      const query = `SELECT old.submission_id FROM perdure_submissions AS old
        JOIN perdure_submissions AS new ON new.submission_id = old.retried_by ORDER BY new.seq`;
      return Array.from(sql.exec(query).raw<[string]>(), ([id]) => id);
    });
    expect(order).toEqual(["f0", "f1", "f2", "f3", "f4"]);
    await until(async () => {
      const { pending, running } = await agent.submissionStats();
      return pending + running === 0;
    });
    // The five retries have failed, too. They were not retried before.
    expect(await act(agent, action, { dryRun: true })).toMatchObject({ count: 5 });
  });

  it("lists what fails, and does the rest", async () => {
    const name = `think-${crypto.randomUUID()}`;
    thinkOptions.set(name, { maxPending: 3 });
    const agent = givenThink(name);
    for (let turn = 0; turn < 5; turn++) {
      const { submissionId } = await agent.submitMessages([message({ fail: "no" })]);
      await agent.waitForSubmission(submissionId);
    }
    await agent.submitMessages([message("later")], { notBefore: later });
    await agent.submitMessages([message("later")], { notBefore: later });
    // A turn that runs, so that all retries wait.
    await agent.submitMessages([message({ answer: "slow", delayMs: 600_000 } as never)]);
    await until(async () => (await agent.submissionStats()).running === 1);
    const page = await act(agent, { do: "retry", filter: {} });
    expect(page).toMatchObject({ outcome: "done", count: 1 });
    expect(page.failed).toHaveLength(4);
    expect(page.failed[0]?.error).toMatch(/maxPending|pending/);
    const { items } = await capabilitiesOf(agent).operations.listActions();
    expect(items[0]?.error).toMatch(/^4 failed\. The first one: /);
  });
});

describe("dead letters by a filter", () => {
  it("redrives and deletes them in pages", async () => {
    const agent = givenThink();
    const notify = [method("onEnd", { policy: { maxAttempts: 1 } })];
    await inside(agent, (object, storage) => {
      storage.transactionSync(() => {
        for (let each = 0; each < 230; each++) {
          object.outbox.put(notify[0] as never, { type: "t", data: { each } });
        }
      });
    });
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 230);
    const redrive = { do: "redrive", filter: { destination: method("onEnd") } } as const;
    expect(await act(agent, redrive, { dryRun: true })).toMatchObject({ count: 230 });
    const since = Date.now();
    const pages = await actOnAll(agent, redrive);
    expect(sum(pages)).toBe(230);
    await until(
      async () => (await capabilitiesOf(agent).outbox.countDeadLetters({ since })) === 230,
    );
    const remove = { do: "delete-dead-letter", filter: { since } } as const;
    expect(await act(agent, remove, { dryRun: true })).toMatchObject({ count: 230 });
    expect((await actOnAll(agent, remove)).map(({ count }) => count)).toEqual([100, 100, 30]);
    expect(await capabilitiesOf(agent).outbox.countDeadLetters()).toBe(0);
    expect(await act(agent, remove)).toMatchObject({ outcome: "unchanged", count: 0 });
  });
});

describe("what it writes", () => {
  it("a dry run writes nothing, and an agent that no operator acts on has no table", async () => {
    const agent = givenThink();
    await givenScheduled(agent, 20);
    const tables = () =>
      inside(agent, (_, { sql }) => {
        const query = "SELECT name FROM sqlite_master WHERE name = 'perdure_actions'";
        return sql.exec(query).toArray().length;
      });
    const actions: Action[] = [
      { do: "cancel", filter: {} },
      { do: "retry", filter: {} },
      { do: "redrive", filter: {} },
      { do: "delete-dead-letter", filter: {} },
      { do: "replay", filter: {} },
      { do: "cancel", submissionId: "s1" },
      { do: "retry", submissionId: "s1" },
      { do: "redrive", deliveryId: "none" },
      { do: "delete-dead-letter", deliveryId: "none" },
      { do: "disable-endpoint", url: "https://example.com" },
      { do: "enable-endpoint", url: "https://example.com" },
      { do: "replay", source: "github", id: "none" },
      { do: "approve", approvalId: "none" },
      { do: "pause-task", taskId: "none" },
      { do: "backfill", taskId: "none", from: 0, to: 1 },
      { do: "pause-workflow", workflowId: "none" },
      { do: "clear-thread", thread: "t" },
    ];
    const written = await inside(agent, async (object) => {
      // The log of deliveries makes its table at its first use.
      await object.inbound.list();
      object.meter.reset();
      for (const action of actions)
        await object.operations.operate({ action, by, reason, dryRun: true });
      await object.operations.listActions();
      await object.operations.listThreads();
      await object.operations.listWorkflows();
      return object.meter.read();
    });
    expect(written).toMatchObject({ rowsWritten: 0, setAlarms: 0, keysWritten: 0 });
    expect(await tables()).toBe(0);
    await act(agent, { do: "cancel", submissionId: "none" });
    expect(await tables()).toBe(1);
  });
});
