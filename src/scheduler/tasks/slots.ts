/**
 * The slots of one task: the occurrences of its schedule from `startAt` on and before `endAt`, and which of them are due.
 * Pure decisions: the next slot is computed from the last one, never from the clock.
 */

import { nextInstant } from "../calendar/next.ts";
import { countInstants, latestInstant } from "../calendar/range.ts";
import type { TaskRow } from "../rows.ts";
import type { DeclaredTask } from "./declared.ts";

/** A slot that fires so long after its time is still on time. */
const ON_TIME_MS = 60_000;
/** Slots that are caught up at once. */
const MAX_CAUGHT_UP = 1_000;
/** Missed slots that are counted at once: a schedule of seconds has millions in a year. */
const MAX_COUNTED = 10_000;

/** All slots of the task are after this time: an interval has none at its anchor or before. */
function floorOf({ schedule, startAt }: DeclaredTask, anchor: number): number {
  return schedule.kind === "interval" ? Math.max(startAt - 1, anchor) : startAt - 1;
}

/** The first slot strictly after `after`, or null. */
export function nextSlot(task: DeclaredTask, after: number, anchor: number): number | null {
  const slot = nextInstant(task.schedule, Math.max(after, floorOf(task, anchor)), anchor);
  return slot === null || slot >= task.endAt ? null : slot;
}

/** The last slot after `from` that is not after `notAfter`, or null. */
function latestSlot(
  task: DeclaredTask,
  notAfter: number,
  from: number,
  anchor: number,
): number | null {
  const last = Math.min(notAfter, task.endAt - 1);
  return latestInstant(task.schedule, last, Math.max(from, floorOf(task, anchor)), anchor);
}

/** How many slots are in (from, to]; counted up to `limit`. */
export function countSlots(
  task: DeclaredTask,
  range: { readonly from: number; readonly to: number },
  anchor: number,
  limit: number,
): number {
  const from = Math.max(range.from, floorOf(task, anchor));
  const to = Math.min(range.to, task.endAt - 1);
  return to <= from ? 0 : countInstants(task.schedule, from, to, anchor, limit);
}

/** The next `count` slots after `after`, ascending. */
export function nextSlots(
  task: DeclaredTask,
  after: number,
  anchor: number,
  count: number,
): number[] {
  const slots: number[] = [];
  let slot: number | null = after;
  while (slots.length < count) {
    slot = nextSlot(task, slot, anchor);
    if (slot === null) break;
    slots.push(slot);
  }
  return slots;
}

type DueSlot = { readonly slot: number; readonly cause: "schedule" | "catch-up" };

export type Due = {
  /** Ascending. */
  readonly slots: readonly DueSlot[];
  /** How many others have passed. */
  readonly missed: number;
  readonly nextAt: number | null;
};

/** Whether the task fires its slots. */
export function isArmed({ maxRuns }: DeclaredTask, row: TaskRow): boolean {
  return row.nextAt !== null && row.pausedAt === null && row.runs < maxRuns;
}

/** When the next slot of the task fires, or null. */
export function fireTime(task: DeclaredTask, row: TaskRow): number | null {
  return row.nextAt === null || !isArmed(task, row) ? null : row.nextAt + task.offsetMs;
}

/** The slots that fire now, by the task's `catchUp`, and the next one; undefined when none is due. */
export function dueSlots(task: DeclaredTask, row: TaskRow, now: number): Due | undefined {
  const first = row.nextAt;
  const horizon = now - task.offsetMs;
  if (first === null || first > horizon || !isArmed(task, row)) return undefined;
  const latest = latestSlot(task, horizon, first, row.anchor) ?? first;
  const later = countSlots(task, { from: first, to: horizon }, row.anchor, MAX_COUNTED - 1);
  const isLate = (slot: number) => slot !== latest || horizon - slot > ON_TIME_MS;
  const slots = chosen(task, row, { first, latest, horizon }).map(
    (slot): DueSlot => ({ slot, cause: isLate(slot) ? "catch-up" : "schedule" }),
  );
  return {
    slots,
    missed: Math.max(0, 1 + later - slots.length),
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
