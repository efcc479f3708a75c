/** "Scheduled Tasks" of index.md: declarations, and what is armed. */

import type { ThinkScheduledTasks } from "@cloudflare/think";
import { until } from "../../support/given.ts";
import { type Case, type Peer, refused, type Scenario, scenario } from "../harness.ts";

export const page = "index.md";
/** A Saturday in London, 26 hours before its clocks go forward. */
export const AT = "2031-03-29T00:00:30.000Z";

export type Armed = Record<string, string>;

/** When the declared tasks of an agent are due, by their ids. */
export async function armed(peer: Peer): Promise<Armed> {
  return timesOf(await peer.inside((own) => own.armedTasks()));
}

export function timesOf(tasks: readonly { taskId: string; at: number }[]): Armed {
  const times = tasks.map(({ taskId, at }) => [taskId, new Date(at).toISOString()] as const);
  return Object.fromEntries(times.toSorted(([one], [other]) => one.localeCompare(other)));
}

/** Declares other tasks, and reconciles. Returns how that was refused, if it was. */
export async function declare(peer: Peer, tasks: object): Promise<string> {
  peer.settings.tasks = () => tasks as ThinkScheduledTasks;
  return refused(() => peer.inside((own) => own.internal_reconcileScheduledTasks()));
}

const prompt = "work";

/** To the minute: an interval begins when it is declared or has run, some seconds of real time after `AT`. */
export const minutes = (at: Armed) =>
  Object.fromEntries(Object.entries(at).map(([id, time]) => [id, time.slice(0, 16)]));

/** When the tasks are due, once this task has another time than before. */
export function rearmed(peer: Peer, taskId: string, before: Armed): Promise<Armed> {
  return until(async () => {
    const now = await armed(peer);
    return now[taskId] !== undefined && now[taskId] !== before[taskId] && now;
  });
}

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
    const usual = minutes(await armed(peer));
    await declare(peer, { long: { schedule: "every 9000 hours", prompt } });
    const long = minutes(await armed(peer));
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
          hour: "2031-03-29T01:00",
          hours: "2031-03-29T02:00",
          minute: "2031-03-29T00:01",
          minutes: "2031-03-29T00:05",
        },
      ],
    },
    {
      says: "The DSL supports `every <n> minutes`, `every <n> hours`",
      shows: "an interval of more than 366 days is armed",
      see: ({ long }) => long,
      is: { long: "2032-04-07T00:00" },
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
    "an invalid time",
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
    "an invalid day",
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
    const both = await declare(peer, {
      right: { schedule: "every day at 09:00", timezone: "UTC", prompt },
      wrong: { schedule: "at dawn", prompt },
    });
    const bothArmed = await armed(peer);
    await declare(peer, { zoned: { schedule: "every 2 hours", timezone: "UTC", prompt } });
    const zoned = Object.keys(await armed(peer));
    const schedule = "every month on last friday at 17:00 in Europe/London";
    await declare(peer, { further: { schedule, prompt } });
    const further = Object.keys(await armed(peer));
    return { further, zoned, seen, both: [both === "not refused", bothArmed] };
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
      differs: { by: "Zone of an interval", perdure: ["zoned"] },
    },
    {
      says: "Code-declared recurring prompts or handlers",
      shows: "a schedule of the last Friday of each month",
      see: ({ further }) => further,
      is: [],
      differs: { by: "Further schedules", perdure: ["further"] },
    },
    {
      says: "Code-declared recurring prompts or handlers",
      shows: "a task whose id has a space is not armed",
      see: ({ seen }) => (seen.id as unknown[])[1],
      is: {},
    },
    {
      says: "Think reconciles the declarations on startup",
      shows: "an invalid task and a valid one",
      see: ({ both }) => both,
      is: [false, {}],
      differs: {
        by: "One invalid task",
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

export const schedules: readonly Scenario<unknown>[] = [
  wallClock,
  intervals,
  wrong,
  reconciled,
  fold,
];
