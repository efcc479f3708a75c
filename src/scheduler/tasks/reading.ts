/** Tasks and runs as the app sees them (S5). Changes nothing. */

import { failureOf } from "../../core/failures.ts";
import { isArmed } from "../due.ts";
import { idempotencyKeyOf } from "../keys.ts";
import type { Run, Tally, TaskRow } from "../rows.ts";
import type { Store } from "../store.ts";
import type { ScheduledRun, ScheduledTaskInfo } from "../types.ts";
import type { Declarations, InvalidTask } from "./declarations.ts";
import type { DeclaredTask } from "./declared.ts";
import { nextSlots } from "./slots.ts";

const EMPTY: Tally = { completed: 0, failed: 0, skipped: 0 };

export type Readable = {
  readonly store: Store;
  readonly owner: string;
  readonly declared: Declarations;
};

/** All that are declared: first those that can be understood. */
export function listTasks(from: Readable, occurrences: number): ScheduledTaskInfo[] {
  const histories = historiesOf(from, null);
  const { valid, invalid } = from.declared;
  return [
    ...[...valid.values()].map((task) => infoOf(task, histories(task.taskId), occurrences)),
    ...[...invalid.values()].map((task) => invalidInfoOf(task, histories(task.taskId))),
  ].filter((info) => info !== null);
}

/** null for an id that is not declared. */
export function inspectTask(
  from: Readable,
  taskId: string,
  occurrences: number,
): ScheduledTaskInfo | null {
  const { valid, invalid } = from.declared;
  const task = valid.get(taskId);
  const history = historiesOf(from, taskId)(taskId);
  if (task) return infoOf(task, history, occurrences);
  const unknown = invalid.get(taskId);
  return unknown ? invalidInfoOf(unknown, history) : null;
}

export function scheduledRunOf(run: Run, owner: string): ScheduledRun {
  return {
    taskId: run.taskId,
    idempotencyKey: idempotencyKeyOf(owner, run),
    scheduledFor: run.slot,
    firedAt: run.firedAt,
    lagMs: run.lagMs,
    cause: run.cause,
    status: run.status,
    attempts: run.attempts,
    ...(run.endedAt !== null && { endedAt: run.endedAt }),
    ...(run.error && { error: run.error }),
    ...(run.reason !== null && { reason: run.reason }),
    ...(run.submissionId !== null && { submissionId: run.submissionId }),
  };
}

type History = {
  readonly row: TaskRow | undefined;
  readonly lastRun: ScheduledRun | undefined;
  readonly counts: ScheduledTaskInfo["counts"];
};

/** @param taskId the only task that is read, or null for all */
function historiesOf({ store, owner }: Readable, taskId: string | null) {
  const latest = store.runs.latest(taskId);
  const tallies = store.runs.tallies(taskId);
  return (id: string): History => {
    const row = store.tasks.rows.get(id);
    const run = latest.get(id);
    const kept = tallies.get(id) ?? EMPTY;
    const { forgotten = EMPTY, missed = 0 } = row ?? {};
    const counts = {
      completed: kept.completed + forgotten.completed,
      failed: kept.failed + forgotten.failed,
      skipped: kept.skipped + forgotten.skipped,
      missed,
    };
    return { row, counts, lastRun: run && scheduledRunOf(run, owner) };
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
