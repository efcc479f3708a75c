/** "Scheduled Tasks" of index.md: declarations, what is armed, and what runs at each occurrence. */

import type { ThinkScheduledTaskContext, ThinkScheduledTasks } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import { settingsOf } from "../app.ts";
import { type Case, type Peer, refused, type Scenario, scenario } from "../harness.ts";

const page = "index.md";
/** A Saturday in London, 26 hours before its clocks go forward. */
const AT = "2031-03-29T00:00:30.000Z";

type Armed = Record<string, string>;

/** When the declared tasks of an agent are due, by their ids. */
async function armed(peer: Peer): Promise<Armed> {
  return timesOf(await peer.inside((own) => own.armedTasks()));
}

function timesOf(tasks: readonly { taskId: string; at: number }[]): Armed {
  const times = tasks.map(({ taskId, at }) => [taskId, new Date(at).toISOString()] as const);
  return Object.fromEntries(times.toSorted(([one], [other]) => one.localeCompare(other)));
}

/** Declares other tasks, and reconciles. Returns how that was refused, if it was. */
async function declare(peer: Peer, tasks: object): Promise<string> {
  peer.settings.tasks = () => tasks as ThinkScheduledTasks;
  return refused(() => peer.inside((own) => own.internal_reconcileScheduledTasks()));
}

const prompt = "work";

/** To the second: an interval begins at the time of its declaration. */
const seconds = (at: Armed) =>
  Object.fromEntries(Object.entries(at).map(([id, time]) => [id, time.slice(0, 19)]));

const WALL: [id: string, text: string, timezone: string | undefined, at: string, says: string][] = [
  ["daily", "every day at 09:00", undefined, "2031-03-29T09:00:00.000Z", "`every day at HH:mm`"],
  [
    "weekday",
    "every weekday at 09:00",
    undefined,
    "2031-03-31T08:00:00.000Z",
    "`every weekday at HH:mm`",
  ],
  [
    "weekly",
    "every week on monday,wednesday at 09:00",
    undefined,
    "2031-03-31T08:00:00.000Z",
    "`every week on monday,wednesday at HH:mm`",
  ],
  [
    "one-day",
    "every week on tuesday at 18:30",
    undefined,
    "2031-04-01T17:30:00.000Z",
    "`every week on monday,wednesday at HH:mm`",
  ],
  [
    "short-days",
    "every week on mon, fri at 07:05",
    undefined,
    "2031-03-31T06:05:00.000Z",
    "`every week on monday,wednesday at HH:mm`",
  ],
  [
    "inline",
    "every day at 08:00 in America/New_York",
    undefined,
    "2031-03-29T12:00:00.000Z",
    'schedule: "every day at 08:00 in Europe/London",',
  ],
  [
    "own-zone",
    "every day at 09:00",
    "Asia/Tokyo",
    "2031-03-30T00:00:00.000Z",
    'timezone: "America/New_York",',
  ],
  [
    "both-zones",
    "every day at 09:00 in Europe/Paris",
    "Europe/Paris",
    "2031-03-29T08:00:00.000Z",
    "Wall-clock schedules require either an inline timezone, a task `timezone`, or `getDefaultTimezone()`.",
  ],
  ["in-a-gap", "every day at 01:30", undefined, "2031-03-29T01:30:00.000Z", "`every day at HH:mm`"],
  ["midnight", "every day at 00:00", undefined, "2031-03-30T00:00:00.000Z", "`every day at HH:mm`"],
  [
    "written-wildly",
    "  Every   DAY at 10:00 ",
    undefined,
    "2031-03-29T10:00:00.000Z",
    "The DSL supports",
  ],
  [
    "alias",
    "every day at 09:00 in US/Pacific",
    "America/Los_Angeles",
    "2031-03-29T16:00:00.000Z",
    "Wall-clock schedules require",
  ],
  ["offset", "every day at 09:00", "+02:00", "2031-03-29T07:00:00.000Z", "a task `timezone`"],
];

const wallClock = scenario({
  page,
  at: AT,
  play: async (peer) => {
    peer.settings.timezone = "Europe/London";
    const seen: Armed = {};
    for (const [id, schedule, timezone] of WALL) {
      // One at a time: what is refused stops the others on the built-in side.
      await declare(peer, { [id]: { schedule, prompt, ...(timezone && { timezone }) } });
      Object.assign(seen, await armed(peer));
    }
    return seen;
  },
  cases: WALL.map(
    ([id, text, timezone, at, says]): Case<Armed> => ({
      says,
      shows: `"${text}"${timezone ? ` with the timezone ${timezone}` : ""} is armed for its first occurrence`,
      see: (seen) => seen[id] ?? "not armed",
      is: at,
    }),
  ),
});

const intervals = scenario({
  page,
  at: AT,
  play: async (peer) => {
    const refusals = await declare(peer, {
      minutes: { schedule: "every 5 minutes", prompt },
      minute: { schedule: "every 1 minute", prompt },
      hours: { schedule: "every 2 hours", prompt },
      hour: { schedule: "every 1 hour", prompt },
    });
    const usual = seconds(await armed(peer));
    await declare(peer, { long: { schedule: "every 9000 hours", prompt } });
    const long = seconds(await armed(peer));
    await declare(peer, {
      ["i".repeat(150)]: { schedule: "every day at 09:00", timezone: "UTC", prompt },
    });
    const longId = Object.values(await armed(peer));
    await declare(peer, {
      described: { schedule: "every day at 09:00", timezone: "UTC", prompt, description: "why" },
    });
    return { refusals, usual, long, longId, described: await armed(peer) };
  },
  cases: [
    {
      says: "The DSL supports `every <n> minutes`, `every <n> hours`",
      shows: "an interval is armed for one interval from now",
      see: ({ refusals, usual }) => [refusals, usual],
      is: [
        "not refused",
        {
          hour: "2031-03-29T01:00:30",
          hours: "2031-03-29T02:00:30",
          minute: "2031-03-29T00:01:30",
          minutes: "2031-03-29T00:05:30",
        },
      ],
    },
    {
      says: "The DSL supports `every <n> minutes`, `every <n> hours`",
      shows: "an interval of more than 366 days is armed",
      see: ({ long }) => long,
      is: { long: "2032-04-07T00:00:30" },
    },
    {
      says: "Code-declared recurring prompts or handlers",
      shows: "a task with an id of 150 characters is armed",
      see: ({ longId }) => longId,
      is: ["2031-03-29T09:00:00.000Z"],
    },
    {
      says: "Code-declared recurring prompts or handlers",
      shows: "a task with a field that Think does not know is armed",
      see: ({ described }) => described,
      is: { described: "2031-03-29T09:00:00.000Z" },
    },
  ],
});

const WRONG: [what: string, task: object, says: string][] = [
  [
    "a time that is none",
    { schedule: "every day at 25:00", timezone: "UTC", prompt },
    "`every day at HH:mm`",
  ],
  [
    "a text that is no schedule",
    { schedule: "at dawn", timezone: "UTC", prompt },
    "The DSL supports",
  ],
  ["a plural unit for one", { schedule: "every 1 minutes", prompt }, "`every <n> minutes`"],
  ["a singular unit for two", { schedule: "every 2 hour", prompt }, "`every <n> hours`"],
  [
    "an unknown zone",
    { schedule: "every day at 09:00", timezone: "Not/A_Zone", prompt },
    "Wall-clock schedules require",
  ],
  [
    "two different zones",
    { schedule: "every day at 09:00 in UTC", timezone: "Europe/London", prompt },
    "Wall-clock schedules require",
  ],
  [
    "no zone at all",
    { schedule: "every weekday at 09:00", prompt },
    "Wall-clock schedules require",
  ],
  [
    "a day twice",
    { schedule: "every week on monday,monday at 09:00", timezone: "UTC", prompt },
    "`every week on monday,wednesday at HH:mm`",
  ],
  [
    "a day that is none",
    { schedule: "every week on someday at 09:00", timezone: "UTC", prompt },
    "`every week on monday,wednesday at HH:mm`",
  ],
  [
    "a prompt and a handler",
    { schedule: "every 1 hour", prompt, handler: () => {} },
    "Each task must define exactly one of `prompt` or `handler`.",
  ],
  [
    "neither a prompt nor a handler",
    { schedule: "every 1 hour" },
    "Each task must define exactly one of `prompt` or `handler`.",
  ],
];

const wrong = scenario({
  page,
  at: AT,
  play: async (peer) => {
    const seen: Record<string, unknown> = {};
    for (const [what, task] of WRONG) {
      await declare(peer, { wrong: task });
      seen[what] = await armed(peer);
    }
    seen.id = [
      await declare(peer, { "no id": { schedule: "every 1 hour", prompt } }),
      await armed(peer),
    ];
    await declare(peer, {});
    const beside = await declare(peer, {
      right: { schedule: "every day at 09:00", timezone: "UTC", prompt },
      wrong: { schedule: "at dawn", prompt },
    });
    const besideArmed = await armed(peer);
    await declare(peer, { zoned: { schedule: "every 2 hours", timezone: "UTC", prompt } });
    const zoned = Object.keys(await armed(peer));
    return { zoned, seen, beside: [beside === "not refused", besideArmed] };
  },
  cases: [
    ...WRONG.map(([what, , says]) => ({
      says,
      shows: `a task with ${what} is not armed`,
      see: ({ seen }: { seen: Record<string, unknown> }) => seen[what],
      is: {},
    })),
    {
      says: "Wall-clock schedules require either an inline timezone, a task `timezone`, or `getDefaultTimezone()`.",
      shows: "an interval with a zone",
      see: ({ zoned }) => zoned,
      is: [],
      differs: { by: "A zone for an interval", perdure: ["zoned"] },
    },
    {
      says: "Code-declared recurring prompts or handlers",
      shows: "a task whose id has a space is not armed",
      see: ({ seen }) => (seen.id as unknown[])[1],
      is: {},
    },
    {
      says: "Think reconciles the declarations on startup",
      shows: "a task that is wrong beside one that is right",
      see: ({ beside }) => beside,
      is: [false, {}],
      differs: {
        by: "One wrong task",
        perdure: [true, { right: "2031-03-29T09:00:00.000Z" }],
      },
    },
  ],
});

const reconciled = scenario({
  page,
  at: AT,
  play: async (peer) => {
    peer.settings.timezone = "UTC";
    const report = { schedule: "every day at 09:00", prompt: "Daily report" };
    await peer.agent.listSubmissions();
    const none = await armed(peer);
    await declare(peer, { report });
    const first = await armed(peer);
    await declare(peer, { report: { ...report, prompt: "Another" } });
    const otherPrompt = await armed(peer);
    await declare(peer, { report: { ...report, schedule: "every day at 10:00" } });
    const otherTime = await armed(peer);
    peer.settings.timezone = "America/New_York";
    await peer.inside((own) => own.internal_reconcileScheduledTasks());
    const otherZone = await armed(peer);
    const unrelated = await peer.inside((own) => own.schedule(3_600, "applyLabels", ["later"]));
    await declare(peer, {});
    const removed = await armed(peer);
    const left = await peer.inside((own) => own.getScheduleById(unrelated.id));
    peer.settings.timezone = "UTC";
    peer.settings.tasks = async () => ({ late: { schedule: "every day at 11:00", prompt } });
    await peer.crash();
    await peer.agent.listSubmissions();
    const restarted = await armed(peer);
    const calm = await peer.another().inside((own) => own.defaults());
    return { none, first, otherPrompt, otherTime, otherZone, removed, restarted, calm, left };
  },
  cases: [
    {
      says: "| `getScheduledTasks()` | `{}` |",
      shows: "getScheduledTasks() declares nothing by default",
      see: ({ none, calm }) => [none, calm.tasks],
      is: [{}, {}],
    },
    {
      says: '| `getScheduledTasksScope()` | `"root"` |',
      shows: "getScheduledTasksScope() is root by default",
      see: ({ calm }) => calm.scope,
      is: "root",
    },
    {
      says: "| `getDefaultTimezone()` | `undefined` | Default timezone for wall-clock scheduled tasks |",
      shows: "getDefaultTimezone() is undefined by default",
      see: ({ calm }) => calm.timezone ?? "undefined",
      is: "undefined",
    },
    {
      says: "call `internal_reconcileScheduledTasks()` after updating that data.",
      shows: "internal_reconcileScheduledTasks() arms a task that is declared later",
      see: ({ first }) => first,
      is: { report: "2031-03-29T09:00:00.000Z" },
    },
    {
      says: "Static declarations reconcile on startup.",
      shows: "another prompt leaves a task armed as it was",
      see: ({ otherPrompt }) => otherPrompt,
      is: { report: "2031-03-29T09:00:00.000Z" },
    },
    {
      says: "call `internal_reconcileScheduledTasks()` after updating that data.",
      shows: "another schedule arms the task for another time",
      see: ({ otherTime }) => otherTime,
      is: { report: "2031-03-29T10:00:00.000Z" },
    },
    {
      says: "| `getDefaultTimezone()` | `undefined` | Default timezone for wall-clock scheduled tasks |",
      shows: "another default timezone arms the task for another time",
      see: ({ otherZone }) => otherZone,
      is: { report: "2031-03-29T14:00:00.000Z" },
    },
    {
      says: "Think reconciles the declarations on startup",
      shows: "a task that is not declared any more is disarmed, and schedules of the app stay",
      see: ({ removed, left }) => [removed, left?.callback],
      is: [{}, "applyLabels"],
    },
    {
      says: "Static declarations reconcile on startup.",
      shows: "a restart arms what an async getScheduledTasks() declares",
      see: ({ restarted }) => restarted,
      is: { late: "2031-03-29T11:00:00.000Z" },
    },
  ],
});

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
    await pass(peer, "2031-03-29T00:01:35Z");
    await until(() => calls === 2);
    await until(() => peer.hooks("onError").length > 0);
    const after = seconds(await armed(peer));
    await pass(peer, "2031-03-29T00:02:35Z");
    await until(() => calls === 4);
    await declare(peer, {
      unresolved: (await peer.settings.tasks?.(undefined as never))?.unresolved,
    });
    await pass(peer, "2031-03-29T01:00:45Z");
    await until(() => peer.hooks("onError").some(({ message }) => message === "no prompt"));
    const submissions = await peer.agent.listSubmissions();
    const unresolved = seconds(await armed(peer));
    return { calls, after, errors: peer.hooks("onError"), submissions, unresolved };
  },
  cases: [
    {
      says: "The next occurrence is still scheduled after the action succeeds or exhausts its retries",
      shows: "after a handler that failed to the end the next occurrence is armed",
      see: ({ after }) => after.broken,
      is: "2031-03-29T00:02:30",
    },
    {
      says: "so failed occurrences do not block future runs.",
      shows: "a handler that failed is called for the next occurrence",
      see: ({ calls }) => calls,
      is: 4,
    },
    {
      says: "retries the prompt or handler action before the failure is logged.",
      shows: "onError() is told of a handler that failed to the end, once for each occurrence",
      see: ({ errors }) => errors.filter(({ message }) => message === "the handler failed").length,
      is: 2,
    },
    {
      says: "retries the prompt or handler action before the failure is logged.",
      shows: "onError() is told of a prompt that could not be made, and nothing is submitted",
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
      is: { unresolved: "2031-03-29T02:00:30" },
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
    // Without its stub: its alarm does not come.
    await peer.clock?.set("2031-03-29T05:30:00Z");
    await peer.clock?.advance("1 second", peer.stub);
    await until(() => times.length > 0);
    return { times: times.map((time) => time.slice(0, 19)), next: seconds(await armed(peer)) };
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
      is: { hourly: "2031-03-29T06:00:30" },
    },
    {
      says: "Think runs the intended occurrence once",
      shows: "which occurrence a late alarm runs",
      see: ({ times }) => times,
      is: ["2031-03-29T01:00:30"],
      differs: { by: "Missed occurrences", perdure: ["2031-03-29T05:00:30"] },
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

const fold = scenario({
  page,
  at: "2031-10-25T02:00:00.000Z",
  play: async (peer) => {
    await declare(peer, { early: { schedule: "every day at 01:30 in Europe/London", prompt } });
    return armed(peer);
  },
  cases: [
    {
      says: "`every day at HH:mm`",
      shows: "a time that comes twice is armed for the first of them",
      see: (seen) => seen,
      is: { early: "2031-10-26T00:30:00.000Z" },
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

export const schedules: readonly Scenario<unknown>[] = [
  wallClock,
  intervals,
  wrong,
  reconciled,
  prompts,
  handlers,
  failing,
  late,
  zones,
  fold,
  children,
  kept,
];
