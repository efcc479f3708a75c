/** "Scheduled Tasks" of index.md: what runs at each occurrence. */

import type { ThinkScheduledTaskContext, ThinkScheduledTasks } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import { settingsOf } from "../app.ts";
import { type Peer, type Scenario, scenario } from "../harness.ts";
import { AT, armed, declare, minutes, page, rearmed, timesOf } from "./schedules.ts";

/** Lets the time pass to an occurrence, which runs. */
async function pass(peer: Peer, at: string): Promise<void> {
  await peer.clock?.set(at, peer.stub);
}

const prompts = scenario({
  page,
  at: AT,
  play: async (peer) => {
    peer.settings.tasks = () => ({
      report: {
        schedule: "every day at 09:00 in UTC",
        prompt: "Compile the report.",
        metadata: { team: "sales" },
      },
    });
    await peer.agent.listSubmissions();
    await pass(peer, "2031-03-29T09:00:05Z");
    const [first] = await until(async () => {
      const found = await peer.agent.listSubmissions();
      return found[0]?.status === "completed" && found;
    });
    const next = await armed(peer);
    const transcript = await peer.transcript();
    await pass(peer, "2031-03-30T09:00:05Z");
    const both = await until(async () => {
      const found = await peer.agent.listSubmissions();
      return found.length === 2 && found[0]?.status === "completed" && found;
    });
    const keys = new Set(both.map(({ idempotencyKey }) => idempotencyKey)).size;
    return { first, next, transcript, keys, turn: peer.hooks("beforeTurn")[0] };
  },
  cases: [
    {
      says: "Prompt tasks create a durable submission with `submitMessages()`.",
      shows: "the occurrence of a prompt task is a submission that completes",
      see: ({ first, transcript }) => [first?.status, transcript],
      is: ["completed", ["user: Compile the report.", "assistant: You said: Compile the report."]],
    },
    {
      says: "Prompt tasks create a durable submission with `submitMessages()`.",
      shows: "the submission of a prompt task has the task's metadata, and what Think adds",
      see: ({ first }) => {
        const { ownerKey, ...metadata } = first?.metadata ?? {};
        return [metadata, typeof ownerKey];
      },
      is: [
        {
          team: "sales",
          source: "scheduled-task",
          taskId: "report",
          scheduledFor: "<time>",
          schedule: "every day at 09:00",
        },
        "string",
      ],
    },
    {
      says: "re-arms the next occurrence after each run.",
      shows: "after an occurrence the next one is armed",
      see: ({ next }) => next,
      is: { report: "2031-03-30T09:00:00.000Z" },
    },
    {
      says: "use `idempotencyKey` or `occurrenceKey` for your own durable idempotency.",
      shows: "each occurrence of a prompt task has a key of its own",
      see: ({ keys }) => keys,
      is: 2,
    },
    {
      says: "Prompt tasks create a durable submission with `submitMessages()`.",
      shows: "the turn of a prompt task has the trigger of a submission",
      see: ({ turn }) => turn?.trigger,
      is: "submission",
    },
  ],
});

const handlers = scenario({
  page,
  at: AT,
  play: async (peer) => {
    const contexts: ThinkScheduledTaskContext[] = [];
    peer.settings.tasks = () => ({
      digest: {
        schedule: "every day at 09:00",
        timezone: "America/New_York",
        metadata: { workflowName: "customer-digest" },
        retry: { maxAttempts: 3, baseDelayMs: 1, maxDelayMs: 1 },
        handler: async (context) => {
          contexts.push(context);
          if (contexts.length === 1) throw new Error("once more");
        },
      },
    });
    await peer.agent.listSubmissions();
    await pass(peer, "2031-03-29T13:00:05Z");
    await until(() => contexts.length === 2);
    const afterRetry = await until(async () => {
      const found = await armed(peer);
      return found.digest?.startsWith("2031-03-30") && found;
    });
    await pass(peer, "2031-03-30T13:00:05Z");
    await until(() => contexts.length === 3);
    return {
      contexts,
      afterRetry,
      submissions: await peer.agent.listSubmissions(),
      errors: peer.hooks("onError"),
    };
  },
  cases: [
    {
      says: "Handler tasks receive `{ taskId, scheduledFor, scheduledForDate, occurrenceKey, idempotencyKey, schedule, scheduleKind, timezone, metadata }`",
      shows: "a handler receives the documented context",
      see: ({ contexts: [first] }) => {
        const {
          taskId,
          scheduledFor,
          scheduledForDate,
          schedule,
          scheduleKind,
          timezone,
          metadata,
        } = first as ThinkScheduledTaskContext;
        return {
          taskId,
          scheduledFor,
          scheduledForDate,
          schedule,
          scheduleKind,
          timezone,
          metadata,
        };
      },
      is: {
        taskId: "digest",
        scheduledFor: "<time>",
        scheduledForDate: "2031-03-29T13:00:00.000Z",
        schedule: "every day at 09:00",
        scheduleKind: "wall-clock",
        timezone: "America/New_York",
        metadata: { workflowName: "customer-digest" },
      },
    },
    {
      says: "use `idempotencyKey` or `occurrenceKey` for your own durable idempotency.",
      shows: "the occurrenceKey is made of the task and its time",
      see: ({ contexts: [first] }) =>
        first?.occurrenceKey === `digest:${Date.parse("2031-03-29T13:00:00Z")}`,
      is: true,
    },
    {
      says: "id: idempotencyKey,",
      shows: "whether the idempotencyKey is valid as the id of a Workflow",
      see: ({ contexts: [first] }) => /^[A-Za-z0-9_-]{1,100}$/.test(first?.idempotencyKey ?? ""),
      is: false,
      differs: { by: "Keys of occurrences", perdure: true },
    },
    {
      says: "The task `retry` option retries the prompt or handler action before the failure is logged.",
      shows: "a handler that fails once is called again for the same occurrence",
      see: ({ contexts: [first, second], errors }) => [
        first?.idempotencyKey === second?.idempotencyKey,
        first?.scheduledFor === second?.scheduledFor,
        errors.length,
      ],
      is: [true, true, 0],
    },
    {
      says: "re-arms the next occurrence after each run.",
      shows: "after a handler the next occurrence is armed, in the task's zone",
      see: ({ afterRetry }) => afterRetry,
      is: { digest: "2031-03-30T13:00:00.000Z" },
    },
    {
      says: "use `idempotencyKey` or `occurrenceKey` for your own durable idempotency.",
      shows: "the next occurrence has another key",
      see: ({ contexts }) => contexts[2]?.idempotencyKey !== contexts[0]?.idempotencyKey,
      is: true,
    },
    {
      says: "are intended for app-owned work such as creating a Workflow run or writing a run ledger.",
      shows: "a handler task submits nothing",
      see: ({ submissions }) => submissions.length,
      is: 0,
    },
  ],
});

const failing = scenario({
  page,
  at: AT,
  play: async (peer) => {
    let calls = 0;
    peer.settings.tasks = () => ({
      broken: {
        schedule: "every 1 minute",
        retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 1 },
        handler: async () => {
          calls += 1;
          throw new Error("the handler failed");
        },
      },
      unresolved: {
        schedule: "every 1 hour",
        retry: { maxAttempts: 1 },
        prompt: () => {
          throw new Error("no prompt");
        },
      },
    });
    await peer.agent.listSubmissions();
    const first = await armed(peer);
    await pass(peer, "2031-03-29T00:01:40Z");
    await until(() => calls === 2);
    await until(() => peer.hooks("onError").length > 0);
    const after = minutes(await rearmed(peer, "broken", first));
    await pass(peer, "2031-03-29T00:02:55Z");
    await until(() => calls === 4);
    await declare(peer, {
      unresolved: (await peer.settings.tasks?.(undefined as never))?.unresolved,
    });
    await pass(peer, "2031-03-29T01:00:45Z");
    await until(() => peer.hooks("onError").some(({ message }) => message === "no prompt"));
    const submissions = await peer.agent.listSubmissions();
    const unresolved = minutes(await rearmed(peer, "unresolved", first));
    return { calls, after, errors: peer.hooks("onError"), submissions, unresolved };
  },
  cases: [
    {
      says: "The next occurrence is still scheduled after the action succeeds or exhausts its retries",
      shows: "after a handler that failed to the end the next occurrence is armed",
      see: ({ after }) => after.broken,
      is: "2031-03-29T00:02",
    },
    {
      says: "so failed occurrences do not block future runs.",
      shows: "a handler that failed is called for the next occurrence",
      see: ({ calls }) => calls,
      is: 4,
    },
    {
      says: "retries the prompt or handler action before the failure is logged.",
      shows:
        "onError() gets the error of a handler that failed all its attempts, once for each occurrence",
      see: ({ errors }) => errors.filter(({ message }) => message === "the handler failed").length,
      is: 2,
    },
    {
      says: "retries the prompt or handler action before the failure is logged.",
      shows:
        "onError() gets the error of a prompt that could not be made, and nothing is submitted",
      see: ({ errors, submissions }) => [
        errors.filter(({ message }) => message === "no prompt").length,
        submissions.length,
      ],
      is: [1, 0],
    },
    {
      says: "The next occurrence is still scheduled after the action succeeds or exhausts its retries",
      shows: "after a prompt that could not be made the next occurrence is armed",
      see: ({ unresolved }) => unresolved,
      is: { unresolved: "2031-03-29T02:00" },
    },
  ],
});

const late = scenario({
  page,
  at: AT,
  play: async (peer) => {
    const times: string[] = [];
    peer.settings.tasks = () => ({
      hourly: {
        schedule: "every 1 hour",
        handler: async ({ scheduledForDate }) => void times.push(scheduledForDate.toISOString()),
      },
    });
    await peer.agent.listSubmissions();
    const first = await armed(peer);
    // Without its stub: its alarm does not come.
    await peer.clock?.set("2031-03-29T05:30:00Z");
    await peer.clock?.advance("1 second", peer.stub);
    await until(() => times.length > 0);
    const next = minutes(await rearmed(peer, "hourly", first));
    return { times: times.map((time) => time.slice(0, 16)), next };
  },
  cases: [
    {
      says: "If an alarm is late, Think runs the intended occurrence once and schedules the next future occurrence; it does not backfill missed runs.",
      shows: "a late alarm runs one occurrence, and no missed ones",
      see: ({ times }) => times.length,
      is: 1,
    },
    {
      says: "schedules the next future occurrence",
      shows: "after a late alarm the next future occurrence of the interval is armed",
      see: ({ next }) => next,
      is: { hourly: "2031-03-29T06:00" },
    },
    {
      says: "Think runs the intended occurrence once",
      shows: "which occurrence a late alarm runs",
      see: ({ times }) => times,
      is: ["2031-03-29T01:00"],
      differs: { by: "Missed occurrences", perdure: ["2031-03-29T05:00"] },
    },
  ],
});

const zones = scenario({
  page,
  at: "2031-03-29T02:00:00.000Z",
  play: async (peer) => {
    const times: string[] = [];
    peer.settings.timezone = "Europe/London";
    peer.settings.tasks = () => ({
      early: {
        schedule: "every day at 01:30",
        handler: async ({ scheduledForDate }) => void times.push(scheduledForDate.toISOString()),
      },
    });
    await peer.agent.listSubmissions();
    const inGap = await armed(peer);
    await pass(peer, "2031-03-30T01:00:05Z");
    await until(() => times.length === 1);
    const after = await until(async () => {
      const found = await armed(peer);
      return found.early !== inGap.early && found;
    });
    return { inGap, times, after };
  },
  cases: [
    {
      says: "`every day at HH:mm`",
      shows: "a time that the change of the clocks skips is armed for the first instant after it",
      see: ({ inGap }) => inGap,
      is: { early: "2031-03-30T01:00:00.000Z" },
    },
    {
      says: "schedules the next future occurrence",
      shows: "after a skipped time the next occurrence is at its own time again",
      see: ({ times, after }) => [times, after],
      is: [["2031-03-30T01:00:00.000Z"], { early: "2031-03-31T00:30:00.000Z" }],
    },
  ],
});

const kept = scenario({
  page: "programmatic-submissions.md",
  at: AT,
  play: async (peer) => {
    await peer.agent.listSubmissions();
    const submitted = await peer.inside((own) =>
      own.runTurn({ mode: "submit", input: "remember", submissionId: "old" }),
    );
    await peer.clock?.advance("5 seconds", peer.stub);
    const end = await peer.ended(submitted.submissionId);
    await peer.clock?.advance("32 days", peer.stub);
    await peer.agent.submitMessages(
      [{ id: "m", role: "user", parts: [{ type: "text", text: "new" }] }],
      {
        submissionId: "new",
      },
    );
    await peer.clock?.advance("2 days", peer.stub);
    const old = await peer.agent.inspectSubmission("old");
    return { end, old: old?.status ?? "gone" };
  },
  cases: [
    {
      says: "Completed submission records are retained until you delete them",
      shows: "a completed submission after 34 days",
      see: ({ old }) => old,
      is: "completed",
      differs: { by: "Retention", perdure: "gone" },
    },
  ],
});

const children = scenario({
  page,
  at: AT,
  play: async (peer) => {
    const runs: string[] = [];
    const settle = (of: string, scope: "root" | "all") => {
      const tasks = (): ThinkScheduledTasks => ({
        nightly: {
          schedule: "every day at 03:00 in UTC",
          handler: async () => void runs.push(of),
        },
      });
      settingsOf.set(peer.id(of), { tasks, scope });
    };
    settle("root only", "root");
    settle("alpha", "all");
    settle("beta", "all");
    const call = (of: string, method: string, ...args: unknown[]) =>
      peer.inside((own) => own.onChild(peer.id(of), method, ...args));
    const tasksOf = async (of: string) => timesOf((await call(of, "armedTasks")) as never);
    const rootOnly = await tasksOf("root only");
    const alpha = await tasksOf("alpha");
    await tasksOf("beta");
    await pass(peer, "2031-03-29T03:00:05Z");
    await until(() => runs.length === 2);
    const next = await until(async () => {
      const found = await tasksOf("alpha");
      return found.nightly !== alpha.nightly && found;
    });
    settingsOf.set(peer.id("alpha"), { scope: "all" });
    await call("alpha", "internal_reconcileScheduledTasks");
    const removed = [await tasksOf("alpha"), await tasksOf("beta")];
    await peer.inside((own) => own.deleteChild(peer.id("beta")));
    const alarm = await peer.inside((_, { storage }) => storage.getAlarm());
    return { rootOnly, alpha, runs: runs.sort(), next, removed, isQuiet: alarm === null };
  },
  cases: [
    {
      says: "Declared tasks are armed on the **root agent only**.",
      shows: "a sub-agent arms none of the tasks that its class declares",
      see: ({ rootOnly }) => rootOnly,
      is: {},
    },
    {
      says: '`getScheduledTasksScope()` to return `"all"` when a class genuinely declares different tasks per sub-agent',
      shows: "a sub-agent with the scope all arms its tasks",
      see: ({ alpha }) => alpha,
      is: { nightly: "2031-03-29T03:00:00.000Z" },
    },
    {
      says: "each sub-agent then owns an independent schedule.",
      shows: "an occurrence runs in each sub-agent with the scope all, and in no other",
      see: ({ runs }) => runs,
      is: ["alpha", "beta"],
    },
    {
      says: "re-arms the next occurrence after each run.",
      shows: "a sub-agent arms its next occurrence",
      see: ({ next }) => next,
      is: { nightly: "2031-03-30T03:00:00.000Z" },
    },
    {
      says: "each sub-agent then owns an independent schedule.",
      shows: "a task that one sub-agent declares no more stays armed in another",
      see: ({ removed }) => removed,
      is: [{}, { nightly: "2031-03-30T03:00:00.000Z" }],
    },
    {
      says: "each sub-agent then owns an independent schedule.",
      shows: "deleteSubAgent() leaves no alarm for the tasks of the sub-agent",
      see: ({ isQuiet }) => isQuiet,
      is: true,
    },
  ],
});

export const occurrences: readonly Scenario<unknown>[] = [
  prompts,
  handlers,
  failing,
  late,
  zones,
  kept,
  children,
];
