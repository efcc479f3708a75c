/** Tasks as the app sees them. Changes nothing. */

import { failureOf } from "../../core/failures.ts";
import { scheduledRunOf, type Tally, type TaskRow } from "../rows.ts";
import type { Store } from "../store.ts";
import type { ScheduledRun, ScheduledTaskInfo } from "../types.ts";
import type { Declarations, InvalidTask } from "./declarations.ts";
import type { DeclaredTask } from "./declared.ts";
import { isArmed, nextSlots } from "./slots.ts";

const EMPTY: Tally = { completed: 0, failed: 0, skipped: 0 };

/** All declared tasks, the valid ones first. */
export function listTasks(
  { valid, invalid }: Declarations,
  store: Store,
  occurrences: number,
): ScheduledTaskInfo[] {
  const histories = historiesOf(store, null);
  return [
    ...[...valid.values()].map((task) => infoOf(task, histories(task.taskId), occurrences)),
    ...[...invalid.values()].map((task) => invalidInfoOf(task, histories(task.taskId))),
  ].filter((info) => info !== null);
}

/** One task; null for an id that is not declared. */
export function inspectTask(
  { valid, invalid }: Declarations,
  store: Store,
  taskId: string,
  occurrences: number,
): ScheduledTaskInfo | null {
  const task = valid.get(taskId);
  const history = historiesOf(store, taskId)(taskId);
  if (task) return infoOf(task, history, occurrences);
  const invalidTask = invalid.get(taskId);
  return invalidTask ? invalidInfoOf(invalidTask, history) : null;
}

type History = {
  readonly row: TaskRow | undefined;
  readonly lastRun: ScheduledRun | undefined;
  readonly counts: ScheduledTaskInfo["counts"];
};

/** @param taskId the only task to read, or null for all */
function historiesOf(store: Store, taskId: string | null) {
  const latest = store.runs.latest(taskId);
  const tallies = store.runs.tallies(taskId);
  return (id: string): History => {
    const row = store.tasks.get(id);
    const run = latest.get(id);
    const { completed, failed, skipped } = tallies.get(id) ?? EMPTY;
    const counts = {
      completed: completed + (row?.prunedCompleted ?? 0),
      failed: failed + (row?.prunedFailed ?? 0),
      skipped: skipped + (row?.prunedSkipped ?? 0),
      missed: row?.missed ?? 0,
    };
    return { row, counts, lastRun: run && scheduledRunOf(run, store.owner) };
  };
}

function infoOf(
  task: DeclaredTask,
  { row, counts, lastRun }: History,
  occurrences: number,
): ScheduledTaskInfo | null {
  if (!row) return null;
  const { schedule, description, metadata } = task;
  const slots = comingSlots(task, row, Math.max(1, occurrences));
  const [next] = slots;
  return {
    taskId: task.taskId,
    ...(description !== undefined && { description }),
    schedule: schedule.text,
    ...(schedule.timezone !== undefined && { timezone: schedule.timezone }),
    scheduleKind: schedule.kind,
    state: stateOf(task, row),
    ...pausedOf(row),
    next: next ?? null,
    nextOccurrences: slots.slice(0, occurrences),
    ...(lastRun && { lastRun }),
    counts,
    ...(metadata && { metadata: JSON.parse(JSON.stringify(metadata)) }),
  };
}

function invalidInfoOf(
  { taskId, schedule, error }: InvalidTask,
  { row, counts, lastRun }: History,
): ScheduledTaskInfo {
  return {
    taskId,
    schedule,
    state: "invalid",
    ...(row && pausedOf(row)),
    error: failureOf(error),
    next: null,
    nextOccurrences: [],
    ...(lastRun && { lastRun }),
    counts,
  };
}

function comingSlots(task: DeclaredTask, row: TaskRow, count: number): number[] {
  if (row.nextAt === null || !isArmed(task, row)) return [];
  const left = Math.min(count, task.maxRuns - row.runs);
  return [row.nextAt, ...nextSlots(task, row.nextAt, row.anchor, left - 1)];
}

function stateOf(task: DeclaredTask, row: TaskRow): ScheduledTaskInfo["state"] {
  if (row.runs >= task.maxRuns || row.nextAt === null) return "finished";
  return row.pausedAt === null ? "active" : "paused";
}

function pausedOf({ pausedAt, pausedBy, pausedNote }: TaskRow): Pick<ScheduledTaskInfo, "paused"> {
  if (pausedAt === null) return {};
  const note = pausedNote === null ? {} : { note: pausedNote };
  return { paused: { at: pausedAt, by: pausedBy ?? "hand", ...note } };
}
