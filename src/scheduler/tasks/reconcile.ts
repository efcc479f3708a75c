/** Which rows to change so that they follow the declarations. Pure decisions: unchanged declarations change no row. */

import { DAY_MS } from "../calendar/civil.ts";
import { EMPTY_TASK, type TaskRow } from "../rows.ts";
import type { Declarations } from "./declarations.ts";
import type { DeclaredTask } from "./declared.ts";
import { isArmed, isCurrent, isOverdue, nextOccurrenceOf } from "./occurrences.ts";

/** How long an omitted task is kept that is paused or has open runs. */
const OMITTED_MS = 365 * DAY_MS;
/** Omitted tasks that are kept: first those that are paused or have open runs, then the newest. */
const MAX_OMITTED = 1_000;

/** An occurrence that another scheduler has armed. */
export type ArmedOccurrence = {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Whether it has run there: then the one after it is next. */
  readonly isDone: boolean;
};

/** What the rows do not tell of omitted tasks. */
export type Retention = {
  /** How long a task is kept that is not paused and has no open runs, in milliseconds. */
  readonly ageMs: number;
  readonly hasOpenRuns: (taskId: string) => boolean;
};

/**
 * @param now epoch milliseconds; the occurrences of new or changed tasks are after it
 * @param adopted what another scheduler had armed, by task: a new task continues there
 * @returns rows to insert and to update, rows of tasks that are no longer declared, which pauses them, and ids of tasks to
 *   delete with their runs, because they were omitted too long ago
 */
export function planChanges(
  { valid, invalid }: Pick<Declarations, "valid" | "invalid">,
  stored: ReadonlyMap<string, TaskRow>,
  now: number,
  retention: Retention,
  adopted: ReadonlyMap<string, ArmedOccurrence> = new Map(),
) {
  const insert: TaskRow[] = [];
  const update: TaskRow[] = [];
  for (const task of valid.values()) {
    const row = stored.get(task.taskId);
    if (!row) insert.push(adoptedRow(newRow(task, now), task, adopted.get(task.taskId)));
    else if (!isCurrent(task, row)) {
      // An overdue occurrence fires first, and its transaction stores the change.
      if (isOverdue(row, now)) continue;
      update.push(row.omittedAt === null ? rearmed(row, task, now) : resumed(row, task, now));
    }
  }
  // An invalid task keeps its row: it may only be mistyped.
  const gone = [...stored.values()].filter(
    ({ taskId }) => !valid.has(taskId) && !invalid.has(taskId),
  );
  return { insert, update, ...omission(gone, now, retention) };
}

/** A deploy may omit a task by mistake: its row, runs and trigger keys stay for a time. */
function omission(gone: readonly TaskRow[], now: number, { ageMs, hasOpenRuns }: Retention) {
  const isHeld = ({ taskId, pausedAt }: TaskRow) => pausedAt !== null || hasOpenRuns(taskId);
  const keptMs = (row: TaskRow) => (isHeld(row) ? OMITTED_MS : Math.min(ageMs, OMITTED_MS));
  const newest = gone
    .filter((row) => now - (row.omittedAt ?? now) < keptMs(row))
    .toSorted(
      (one, other) =>
        Number(isHeld(other)) - Number(isHeld(one)) ||
        (other.omittedAt ?? now) - (one.omittedAt ?? now),
    );
  const kept = new Set(newest.slice(0, MAX_OMITTED));
  return {
    omit: [...kept]
      .filter(({ omittedAt }) => omittedAt === null)
      .map((row) => ({ ...row, omittedAt: now })),
    delete: gone.filter((row) => !kept.has(row)).map(({ taskId }) => taskId),
  };
}

/** The row of a task that is declared again: occurrences that passed meanwhile do not fire. */
function resumed(row: TaskRow, task: DeclaredTask, now: number): TaskRow {
  const declared = { ...row, omittedAt: null };
  const { nextAt, anchor } = row;
  if (row.fingerprint !== task.fingerprint)
    return rearmed({ ...declared, nextAt: null }, task, now);
  const after = nextAt === null ? now : Math.max(now - task.offsetMs, nextAt - 1);
  return { ...declared, nextAt: nextOccurrenceOf(task, after, anchor) };
}

/** Intervals count from now, or so that the first occurrence is at a future `startAt`. */
function anchorOf({ schedule, startAt }: DeclaredTask, now: number): number {
  const { rule } = schedule;
  return rule.form === "interval" && startAt > now ? startAt - rule.ms : now;
}

function newRow(task: DeclaredTask, now: number): TaskRow {
  const anchor = anchorOf(task, now);
  const { taskId, fingerprint } = task;
  return {
    ...EMPTY_TASK,
    taskId,
    fingerprint,
    anchor,
    nextAt: nextOccurrenceOf(task, now, anchor),
  };
}

/** Continues with the armed occurrence, if the task's schedule still has it. */
function adoptedRow(row: TaskRow, task: DeclaredTask, armed: ArmedOccurrence | undefined): TaskRow {
  if (!armed) return row;
  const { rule } = task.schedule;
  const anchor = rule.form === "interval" ? armed.at - rule.ms : row.anchor;
  if (nextOccurrenceOf(task, armed.at - 1, anchor) !== armed.at) return row;
  return {
    ...row,
    anchor,
    nextAt: armed.isDone ? nextOccurrenceOf(task, armed.at, anchor) : armed.at,
  };
}

/** The row of a task whose schedule was edited: the occurrences start after `now`, or after the jitter that has passed. */
export function rearmed(row: TaskRow, task: DeclaredTask, now: number): TaskRow {
  const { nextAt } = row;
  const isDue = nextAt !== null && nextAt <= now && isArmed(row);
  // A sleeping object reads most edits when the wake for an occurrence starts it: an interval that has it keeps its grid.
  const isOnGrid = isDue && nextOccurrenceOf(task, nextAt - 1, row.anchor) === nextAt;
  const anchor = isOnGrid ? row.anchor : anchorOf(task, now);
  return {
    ...row,
    fingerprint: task.fingerprint,
    omittedAt: null,
    anchor,
    nextAt: nextOccurrenceOf(task, now, anchor),
  };
}
