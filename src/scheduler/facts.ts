/** What a health report knows of the tasks. Reads a bounded number of rows, and writes nothing. */

import { failureOf } from "../core/failures.ts";
import { DAY_MS } from "./calendar/civil.ts";
import type { TaskRow } from "./rows.ts";
import type { Skips } from "./runs/run-store.ts";
import type { Store } from "./store.ts";
import type { Declarations } from "./tasks/declarations.ts";
import type { DeclaredTask } from "./tasks/declared.ts";
import { fireTime, nextOccurrenceOf, nextOccurrencesOf } from "./tasks/occurrences.ts";
import { pauseInfo, stateOf } from "./tasks/reading.ts";
import type { ScheduledTaskInfo } from "./types.ts";

/** Tasks whose missed occurrences are looked for: each costs a statement. */
const MOST_CHECKED = 5;
/** Occurrences of one task that are compared with its runs. */
const MOST_OCCURRENCES = 1_000;
/** Tasks whose latest runs are read, and how many of each. Fewer occurrences since its declaration need no look. */
const MOST_SKIPPING = 50;
const LATEST_RUNS = 20;
const FEW_SKIPPED = 5;

export type TaskFacts = Pick<ScheduledTaskInfo, "taskId" | "state" | "paused"> & {
  /** Why it is invalid. */
  readonly error?: string;
  /** When its next occurrence fires; null: never. */
  readonly firesAt: number | null;
  /** Set if its schedule leaves no occurrence: whether it had one since it was declared. */
  readonly over?: { readonly hasFired: boolean; readonly schedule: string };
  /** Of its latest runs; only where an open run has made it skip several occurrences. */
  readonly latest?: Skips;
  /** Failed runs since the last one that did not fail. */
  readonly failures: number;
  readonly lastRun?: { readonly at: number; readonly error?: string };
  /** Since when the oldest run waits that is due. */
  readonly waitsSince?: number;
  /** Occurrences of the last 24 hours without a run. */
  readonly missed: readonly number[];
};

/** A task that is stored, and no longer declared. */
type OmittedTask = {
  readonly taskId: string;
  readonly since: number;
  /** Its open runs. */
  readonly open: number;
  /** Whether it would run if it were declared. */
  readonly isArmed: boolean;
};

export type SchedulerFacts = {
  readonly tasks: readonly TaskFacts[];
  readonly omitted: readonly OmittedTask[];
};

export function schedulerFacts(
  { valid, invalid }: Pick<Declarations, "valid" | "invalid">,
  omitted: readonly TaskRow[],
  store: Store,
  now: number,
): SchedulerFacts {
  const latest = store.runs.latest([...valid.keys()].sort());
  const skipping = [...valid.keys()].filter(
    (taskId) => (store.tasks.get(taskId)?.fired ?? 0) >= FEW_SKIPPED,
  );
  const skips = store.runs.latestSkips(skipping.slice(0, MOST_SKIPPING), LATEST_RUNS);
  let left = MOST_CHECKED;
  const tasks = [...valid.values()].flatMap((task): TaskFacts[] => {
    const row = store.tasks.get(task.taskId);
    if (!row) return [];
    const skipped = skips.get(task.taskId);
    const run = latest.get(task.taskId);
    const waiting = store.runs
      .open(task.taskId)
      .filter(({ status, notBefore }) => status === "waiting" && notBefore <= now);
    const isChecked = row.missed > 0 && left-- > 0;
    return [
      {
        taskId: task.taskId,
        state: stateOf(row),
        ...pauseInfo(row),
        firesAt: fireTime(task, row),
        ...overOf(task, row),
        ...(skipped && { latest: skipped }),
        failures: row.failures,
        ...(run && {
          lastRun: {
            at: run.endedAt ?? run.firedAt,
            ...(run.errorMessage && { error: run.errorMessage }),
          },
        }),
        ...(waiting.length > 0 && {
          waitsSince: Math.min(...waiting.map(({ firedAt, notBefore }) => notBefore || firedAt)),
        }),
        missed: isChecked ? missedOf(task, row, store, now) : [],
      },
    ];
  });
  const broken = Array.from(invalid.values(), ({ taskId, error }): TaskFacts => {
    const none = { firesAt: null, failures: 0, missed: [] };
    const pause = pauseInfo(store.tasks.get(taskId));
    return { taskId, state: "invalid", error: failureOf(error).message, ...pause, ...none };
  });
  return {
    tasks: [...tasks, ...broken],
    omitted: omitted.map(({ taskId, omittedAt, nextAt, pausedAt }) => ({
      taskId,
      since: omittedAt ?? now,
      open: store.runs.open(taskId).length,
      isArmed: nextAt !== null && pausedAt === null,
    })),
  };
}

/** A schedule of one date that has fired is over as intended. */
function overOf(task: DeclaredTask, row: TaskRow): Pick<TaskFacts, "over"> {
  const { rule, text, timezone } = task.schedule;
  if (row.nextAt !== null) return {};
  // A change of the schedule sets the anchor, and keeps the count.
  const hasFired = row.fired > 0 && nextOccurrenceOf(task, row.anchor, row.anchor) !== null;
  if (hasFired && rule.form === "once") return {};
  return { over: { hasFired, schedule: timezone ? `${text} in ${timezone}` : text } };
}

/** The occurrences that a run or a skipped run would have a row for. */
function missedOf(task: DeclaredTask, row: TaskRow, store: Store, now: number): number[] {
  const from = Math.max(now - DAY_MS, row.anchor);
  // The next one has not passed for the scheduler.
  const to = Math.min(now - task.offsetMs, row.nextAt ?? Number.POSITIVE_INFINITY);
  const occurrences = nextOccurrencesOf(task, from, row.anchor, MOST_OCCURRENCES).filter(
    (occurrence) => occurrence < to,
  );
  const [first] = occurrences;
  if (first === undefined) return [];
  const known = store.runs.statuses(task.taskId, { from: first, to });
  return occurrences.filter((occurrence) => !known.has(occurrence));
}
