/** Tasks as the app sees them. Changes nothing. */

import { failureOf } from "../../core/failures.ts";
import { type Json, jsonOf } from "../../core/json.ts";
import { scheduledRunOf, type TaskRow } from "../rows.ts";
import type { Store } from "../store.ts";
import type { ScheduledTaskInfo } from "../types.ts";
import type { Declarations, InvalidTask } from "./declarations.ts";
import type { DeclaredTask } from "./declared.ts";
import { isArmed, nextOccurrencesOf } from "./occurrences.ts";

/** The tasks of these sorted ids, without those that are not declared. */
export function readTasks(
  { valid, invalid }: Declarations,
  store: Store,
  occurrences: number,
  taskIds: readonly string[],
): ScheduledTaskInfo[] {
  const latest = store.runs.latest(taskIds);
  const tallies = store.runs.tallies(taskIds);
  return taskIds.flatMap((id) => {
    const row = store.tasks.get(id);
    const task = valid.get(id);
    const invalidTask = invalid.get(id);
    const declared =
      task && row ? validInfo(task, row, occurrences) : invalidTask && invalidInfo(invalidTask);
    if (!declared) return [];
    const run = latest.get(id);
    const tally = tallies.get(id);
    const counts = {
      completed: (tally?.completed ?? 0) + (row?.prunedCompleted ?? 0),
      failed: (tally?.failed ?? 0) + (row?.prunedFailed ?? 0),
      skipped: (tally?.skipped ?? 0) + (row?.prunedSkipped ?? 0),
      missed: row?.missed ?? 0,
    };
    const lastRun = run && { lastRun: scheduledRunOf(run, store.owner) };
    return [{ taskId: id, ...declared, ...pauseInfo(row), ...lastRun, counts }];
  });
}

function validInfo(task: DeclaredTask, row: TaskRow, count: number) {
  const { schedule, description, metadata } = task;
  const occurrences = comingOccurrences(task, row, Math.max(1, count));
  return {
    ...(description !== undefined && { description }),
    schedule: schedule.text,
    ...(schedule.timezone !== undefined && { timezone: schedule.timezone }),
    scheduleKind: schedule.kind,
    state: stateOf(row),
    next: occurrences[0] ?? null,
    nextOccurrences: occurrences.slice(0, count),
    ...(metadata && { metadata: jsonOf(metadata) as { [name: string]: Json } }),
  };
}

function invalidInfo({ schedule, error }: InvalidTask) {
  const state = "invalid" as const;
  return { schedule, state, error: failureOf(error), next: null, nextOccurrences: [] };
}

function comingOccurrences(task: DeclaredTask, row: TaskRow, count: number): number[] {
  if (!isArmed(row)) return [];
  return [row.nextAt, ...nextOccurrencesOf(task, row.nextAt, row.anchor, count - 1)];
}

export function stateOf(row: TaskRow): ScheduledTaskInfo["state"] {
  if (row.nextAt === null) return "finished";
  return row.pausedAt === null ? "active" : "paused";
}

export function pauseInfo(row: TaskRow | undefined): Pick<ScheduledTaskInfo, "paused"> {
  if (!row || row.pausedAt === null) return {};
  const { pausedAt: at, pausedBy, pausedNote: note } = row;
  return { paused: { at, by: pausedBy ?? "hand", ...(note !== null && { note }) } };
}
