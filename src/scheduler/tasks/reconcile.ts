/**
 * What to change in storage so that it follows the declarations. Decides, and
 * has no state: unchanged declarations need nothing (S4).
 */

import { DAY_MS } from "../calendar/civil.ts";
import type { TaskRow } from "../rows.ts";
import type { Declarations } from "./declarations.ts";
import type { DeclaredTask } from "./declared.ts";
import { nextSlot } from "./slots.ts";

/** The pause of a task that is not declared is kept so long. */
const OMITTED_MS = 365 * DAY_MS;
/** And of so many tasks at most: those that were omitted last. */
const MAX_OMITTED = 1_000;

export type Plan = {
  readonly insert: readonly TaskRow[];
  readonly update: readonly TaskRow[];
  /** Paused tasks that are not declared any more: their runs are forgotten, and their pause is not. */
  readonly omit: readonly TaskRow[];
  /** Ids of tasks. */
  readonly delete: readonly string[];
};

/** A task of which nothing is known yet. */
const EMPTY = {
  fingerprint: "",
  nextAt: null,
  openFrom: null,
  pausedAt: null,
  pausedBy: null,
  pausedNote: null,
  fired: 0,
  runs: 0,
  failures: 0,
  missed: 0,
  forgotten: { completed: 0, failed: 0, skipped: 0 },
  omittedAt: null,
} as const satisfies Partial<TaskRow>;

/** An occurrence that another scheduler has armed. */
export type ArmedOccurrence = {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Whether it has run there: the one after it is next. */
  readonly isDone: boolean;
};

/**
 * @param now epoch milliseconds; the times of what is new or changed begin after it
 * @param adopted of new tasks: where their times go on from
 */
export function plan(
  { valid, invalid }: Declarations,
  stored: ReadonlyMap<string, TaskRow>,
  now: number,
  adopted: ReadonlyMap<string, ArmedOccurrence> = new Map(),
): Plan {
  const insert: TaskRow[] = [];
  const update: TaskRow[] = [];
  for (const task of valid.values()) {
    const row = stored.get(task.taskId);
    if (!row) insert.push(adoptedRow(newRow(task, now), task, adopted.get(task.taskId)));
    else if (row.omittedAt !== null) insert.push({ ...newRow(task, now), ...pauseOf(row) });
    else if (row.fingerprint !== task.fingerprint) update.push(rearmed(row, task, now));
    else if (row.runs >= task.maxRuns) {
      if (row.nextAt !== null) update.push({ ...row, nextAt: null });
    } else if (row.nextAt === null) {
      // It may have been finished by a `maxRuns` that has been raised since.
      const nextAt = nextSlot(task, now, row.anchor);
      if (nextAt !== null) update.push({ ...row, nextAt });
    }
  }
  // One that cannot be understood keeps its row: it may only be mistyped.
  const gone = [...stored.values()].filter(
    ({ taskId }) => !valid.has(taskId) && !invalid.has(taskId),
  );
  return { insert, update, ...omission(gone, now) };
}

/** What becomes of tasks that are not declared: a deploy may have left them out by mistake. */
function omission(gone: readonly TaskRow[], now: number): Pick<Plan, "omit" | "delete"> {
  const paused = gone
    .filter(({ pausedAt }) => pausedAt !== null)
    .toSorted((one, other) => (other.omittedAt ?? now) - (one.omittedAt ?? now));
  const kept = new Set(
    paused.slice(0, MAX_OMITTED).filter(({ omittedAt }) => now - (omittedAt ?? now) < OMITTED_MS),
  );
  return {
    omit: [...kept].filter(({ omittedAt }) => omittedAt === null).map((row) => omitted(row, now)),
    delete: gone.filter((row) => !kept.has(row)).map(({ taskId }) => taskId),
  };
}

function omitted(row: TaskRow, now: number): TaskRow {
  const { taskId } = row;
  return { ...EMPTY, taskId, anchor: now, ...pauseOf(row), omittedAt: now };
}

function pauseOf({ pausedAt, pausedBy, pausedNote }: TaskRow) {
  return { pausedAt, pausedBy, pausedNote };
}

/** Intervals count from now, or so that the first one is at a `startAt` that is to come. */
function anchorOf({ schedule, startAt }: DeclaredTask, now: number): number {
  const { rule } = schedule;
  return rule.form === "interval" && startAt > now ? startAt - rule.ms : now;
}

function newRow(task: DeclaredTask, now: number): TaskRow {
  const anchor = anchorOf(task, now);
  const { taskId, fingerprint } = task;
  return { ...EMPTY, taskId, fingerprint, anchor, nextAt: nextSlot(task, now, anchor) };
}

/** Goes on with what was armed; a time that the task does not have any more is not one of its occurrences. */
function adoptedRow(row: TaskRow, task: DeclaredTask, armed: ArmedOccurrence | undefined): TaskRow {
  if (!armed) return row;
  const { rule } = task.schedule;
  const anchor = rule.form === "interval" ? armed.at - rule.ms : row.anchor;
  if (nextSlot(task, armed.at - 1, anchor) !== armed.at) return row;
  return { ...row, anchor, nextAt: armed.isDone ? nextSlot(task, armed.at, anchor) : armed.at };
}

/** The times have changed: they start afresh. A slot that was due fires where the new times have it, too, and else is missed. */
function rearmed(row: TaskRow, task: DeclaredTask, now: number): TaskRow {
  const { fingerprint } = task;
  const { nextAt, pausedAt } = row;
  const isFinished = row.runs >= task.maxRuns;
  const wasDue = nextAt !== null && nextAt <= now && pausedAt === null && !isFinished;
  // An object that slept learns of most edits by the very wake for that slot.
  const isKept = wasDue && nextSlot(task, nextAt - 1, row.anchor) === nextAt;
  if (isKept) return { ...row, fingerprint };
  const anchor = anchorOf(task, now);
  return {
    ...row,
    fingerprint,
    anchor,
    nextAt: isFinished ? null : nextSlot(task, now, anchor),
    missed: row.missed + (wasDue ? 1 : 0),
  };
}
