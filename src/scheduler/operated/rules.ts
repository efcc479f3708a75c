/** What can be wrong with scheduled tasks. One function for each cause. */

import type * as operated from "../../engine/operated/part.ts";
import { at, line, plural } from "../../engine/operated/text.ts";
import type { SchedulerFacts, TaskFacts } from "../facts.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** A task fires within seconds; an alarm that fails once is retried within a minute. */
const LATE_MS = 2 * 60_000;
/** So many failed runs in a row are no accident. */
const MANY_FAILURES = 3;
/** A pause by hand that was forgotten. */
const LONG_PAUSE_MS = 7 * 86_400_000;
/** Ids in the evidence of one finding, and names in its title. */
const MAX_IDS = 10;
const MAX_NAMED = 3;
/** Omitted tasks with a finding each. */
const MAX_OMITTED = 20;
/** A run that was long once makes its task skip a few. */
const MANY_SKIPPED = 5;

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
/** What a rule says of a task. The rest of a finding is the same for all of them. */
type Found = Pick<Finding, "code" | "severity" | "title" | "cause"> &
  Partial<Pick<Finding["evidence"], "count">> & {
    readonly since?: number | undefined;
    readonly lastError?: string | undefined;
    readonly fix: string;
    readonly action?: Action;
  };
/** One task each: an action needs its id, and an agent has few. */
type Rule = (task: TaskFacts, now: number) => Found | undefined;

const nameOf = ({ taskId }: TaskFacts) => JSON.stringify(line(taskId));

const taskPaused: Rule = (task, now) => {
  const { taskId, paused, lastRun, failures } = task;
  if (!paused || task.state === "finished") return undefined;
  const { at: since, by, note } = paused;
  const isFailure = by === "failure";
  const isLong = now - since >= LONG_PAUSE_MS;
  const why = isFailure ? ` because ${plural(failures, "run")} in a row failed` : " by hand";
  return {
    code: "task-paused",
    severity: isFailure ? "error" : isLong ? "warning" : "info",
    title: `The task ${nameOf(task)} is paused since ${at(since, now)}${why}${note ? `: ${line(note)}` : ""}.`,
    count: isFailure ? failures : 1,
    since,
    lastError: lastRun?.error,
    cause: isFailure
      ? `Its option pauseOnFailure has paused it. The latest error is: ${line(lastRun?.error ?? "not known")}`
      : "The task was paused by hand; it does not fire until it is resumed.",
    fix: isFailure
      ? "First correct what the error names, then resume it."
      : isLong
        ? "Resume it, or remove it from getScheduledTasks() if it is no longer needed."
        : "Resume it if it is to run again.",
    action: { do: "resume-task", taskId },
  };
};

const taskInvalid: Rule = (task) => {
  if (task.state !== "invalid") return undefined;
  const { error = "" } = task;
  return {
    code: "task-invalid",
    severity: "error",
    title: `The task ${nameOf(task)} is invalid and does not run: ${line(error)}`,
    lastError: error,
    cause: "Its declaration in getScheduledTasks() has an option or a schedule that is not valid.",
    fix: 'Correct it and deploy. "npx perdure explain" checks a schedule.',
  };
};

const taskFailing: Rule = (task, now) => {
  const { taskId, failures, lastRun, state } = task;
  if (failures === 0 || state === "invalid" || task.paused?.by === "failure") return undefined;
  const since = lastRun?.at;
  const when = since === undefined ? "" : `, the last at ${at(since, now)}`;
  return {
    code: "task-failing",
    severity: failures >= MANY_FAILURES ? "error" : "warning",
    title: `The latest ${plural(failures, "run")} of the task ${nameOf(task)} failed${when}.`,
    count: failures,
    since,
    lastError: lastRun?.error,
    cause: `The latest error is: ${line(lastRun?.error ?? "not known")}`,
    fix: "First correct what the error names, then run it now.",
    action: { do: "trigger-task", taskId },
  };
};

const taskLate: Rule = (task, now) => {
  const { taskId, firesAt, waitsSince } = task;
  const since = Math.min(firesAt ?? Number.POSITIVE_INFINITY, waitsSince ?? now);
  if (now - since < LATE_MS) return undefined;
  const isWaiting = since === waitsSince;
  return {
    code: "task-late",
    severity: "error",
    title: `The task ${nameOf(task)} is due since ${at(since, now)} and has not started.`,
    since,
    cause: isWaiting
      ? "Its run waits for an earlier run that has not ended."
      : "The agent has lost its wake, or could not store the run; its log has lines that begin with [perdure].",
    fix: isWaiting
      ? 'Cancel the submission of the earlier run, or set the option overlap to "skip" or "allow".'
      : "Run it now. If it does not start, deploy the Worker again.",
    ...(!isWaiting && { action: { do: "trigger-task", taskId } as const }),
  };
};

const taskMissed: Rule = (task, now) => {
  const { taskId, missed } = task;
  const [first] = missed;
  const last = missed.at(-1);
  if (first === undefined || last === undefined) return undefined;
  return {
    code: "task-missed",
    severity: "warning",
    title: `${plural(missed.length, "occurrence")} of the task ${nameOf(task)} since ${at(first, now)} did not run.`,
    count: missed.length,
    since: first,
    cause:
      "The agent could not run then, or the task was paused, and its option catchUp runs only some of what passed.",
    fix: "Run them now if they still matter.",
    action: { do: "backfill", taskId, from: first, to: last + 1 },
  };
};

const taskSkips: Rule = (task, now) => {
  const { state, latest } = task;
  if (state !== "active" || !latest) return undefined;
  const { count, skipped, completed, since } = latest;
  if (skipped < MANY_SKIPPED || skipped <= completed) return undefined;
  return {
    code: "task-skips",
    severity: "warning",
    title: `The task ${nameOf(task)} skipped ${skipped} of its latest ${count} runs since ${at(since, now)}, and completed ${completed}.`,
    count: skipped,
    since,
    cause: "Its earlier run had not ended: a run takes longer than the time between occurrences.",
    fix: 'Shorten its run or its timeout, schedule it less often, or set the option overlap to "queue" or "allow".',
  };
};

const taskNeverRuns: Rule = (task) => {
  const { over } = task;
  if (!over) return undefined;
  const { hasFired, schedule } = over;
  return {
    code: "task-never-runs",
    severity: hasFired ? "info" : "warning",
    title: `The task ${nameOf(task)} has no occurrence from now on${hasFired ? "" : ", and has never run with its schedule"}.`,
    cause: `Its schedule ${JSON.stringify(line(schedule))}, startAt, endAt and except leave no time, e.g. because it has passed.`,
    fix: "Correct its schedule and deploy, or remove the task.",
  };
};

const RULES: readonly Rule[] = [
  taskPaused,
  taskInvalid,
  taskFailing,
  taskLate,
  taskMissed,
  taskSkips,
  taskNeverRuns,
];

const CAUSE_OF_OMISSION =
  "The deployed code no longer declares it in getScheduledTasks(), which pauses it.";

/** A deploy that omits a task by mistake is not told from one that removes it: only accepted runs are an error. */
function taskOmitted({ omitted }: SchedulerFacts, now: number): Finding[] {
  const waiting = omitted.filter(({ open }) => open > 0);
  const idle = omitted.filter(({ open, isArmed }) => open === 0 && isArmed);
  const found = waiting.slice(0, MAX_OMITTED).map(
    ({ taskId, since, open }): Finding => ({
      code: "task-omitted",
      about: taskId,
      severity: "error",
      title: `The task ${JSON.stringify(line(taskId))} is not declared since ${at(since, now)}, and ${plural(open, "accepted run waits", "accepted runs wait")}.`,
      evidence: { count: open, since, ids: [taskId] },
      cause: CAUSE_OF_OMISSION,
      fix: {
        text: "Declare it again and deploy: its runs continue. If they are no longer needed, remove it.",
        action: { do: "remove-task", taskId },
      },
      link: { view: "tasks" },
    }),
  );
  if (idle.length === 0) return found;
  const ids = idle.map(({ taskId }) => taskId);
  const since = Math.min(...idle.map((task) => task.since));
  const names = ids.slice(0, MAX_NAMED).map((id) => JSON.stringify(line(id)));
  const more = ids.length > MAX_NAMED ? ` and ${ids.length - MAX_NAMED} more` : "";
  return [
    ...found,
    {
      code: "task-omitted",
      severity: "info",
      title: `${plural(ids.length, "task is", "tasks are")} no longer declared, the first since ${at(since, now)}: ${names.join(", ")}${more}.`,
      evidence: { count: ids.length, since, ids: ids.slice(0, MAX_IDS) },
      cause: CAUSE_OF_OMISSION,
      fix: {
        text: "Nothing after a removal on purpose: it is deleted with its history, after 30 days by default. Otherwise declare it again.",
      },
      link: { view: "tasks" },
    },
  ];
}

const TASK_RULES = RULES.map(
  (rule) =>
    ({ tasks }: SchedulerFacts, now: number): Finding[] =>
      tasks.flatMap((task) => {
        const found = rule(task, now);
        if (!found) return [];
        const { count = 1, since, lastError, fix, action, ...rest } = found;
        const { taskId } = task;
        const times = since !== undefined && { since };
        return {
          ...rest,
          about: taskId,
          evidence: { count, ...times, ids: [taskId], ...(lastError && { lastError }) },
          fix: { text: fix, ...(action && { action }) },
          link: { view: "tasks", id: taskId },
        };
      }),
);

export const SCHEDULER_RULES = [...TASK_RULES, taskOmitted];
