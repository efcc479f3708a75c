/**
 * Which slots of a task fire now, by its `catchUp` (S3), and which one is
 * next: computed from the last slot, never from the clock (S1). Decides, and
 * has no state.
 */

import type { TaskRow } from "./rows.ts";
import type { DeclaredTask } from "./tasks/declared.ts";
import { countSlots, latestSlot, nextSlot } from "./tasks/slots.ts";

/** An occurrence that fires so long after its time is on time still. */
const ON_TIME_MS = 60_000;
/** Occurrences that are caught up at once. */
const MAX_CAUGHT_UP = 1_000;
/** Missed occurrences that are counted at once: a schedule of seconds has millions in a year. */
const MAX_COUNTED = 10_000;

type DueSlot = { readonly slot: number; readonly cause: "schedule" | "catch-up" };

export type Due = {
  /** In their order. */
  readonly slots: readonly DueSlot[];
  /** How many passed that are not among them. */
  readonly missed: number;
  readonly nextAt: number | null;
};

/** Whether slots of the task fire at all. */
export function isArmed({ maxRuns }: DeclaredTask, row: TaskRow): boolean {
  return row.nextAt !== null && row.pausedAt === null && row.runs < maxRuns;
}

/** When the next slot of the task fires, or null. */
export function fireTime(task: DeclaredTask, row: TaskRow): number | null {
  return row.nextAt === null || !isArmed(task, row) ? null : row.nextAt + task.offsetMs;
}

/** What fires by `now`; undefined when nothing is due. */
export function dueSlots(task: DeclaredTask, row: TaskRow, now: number): Due | undefined {
  const first = row.nextAt;
  const horizon = now - task.offsetMs;
  if (first === null || first > horizon || !isArmed(task, row)) return undefined;
  const latest = latestSlot(task, horizon, first, row.anchor) ?? first;
  const passed =
    latest === first
      ? 1
      : 1 + countSlots(task, { from: first, to: horizon }, row.anchor, MAX_COUNTED - 1);
  const isLate = (slot: number) => slot !== latest || horizon - slot > ON_TIME_MS;
  const slots = chosen(task, row, { first, latest, horizon }).map(
    (slot): DueSlot => ({ slot, cause: isLate(slot) ? "catch-up" : "schedule" }),
  );
  return {
    slots,
    missed: Math.max(0, passed - slots.length),
    nextAt: nextSlot(task, latest, row.anchor),
  };
}

type Passed = { readonly first: number; readonly latest: number; readonly horizon: number };

function chosen(task: DeclaredTask, row: TaskRow, { first, latest, horizon }: Passed): number[] {
  const { catchUpMs } = task;
  if (catchUpMs === "latest") return [latest];
  // With "none" the window is 0, and what is on time is not late.
  const oldest = horizon - Math.max(catchUpMs, ON_TIME_MS);
  const most = catchUpMs === 0 ? 1 : MAX_CAUGHT_UP;
  const slots: number[] = [];
  for (let slot: number | null = latest; slot !== null && slot >= oldest && slots.length < most; ) {
    slots.unshift(slot);
    slot = slot === first ? null : latestSlot(task, slot - 1, first - 1, row.anchor);
  }
  return slots;
}
