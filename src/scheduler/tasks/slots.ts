/**
 * The slots of one task: those of its schedule, from `startAt` on and before
 * `endAt`. An interval has none at its anchor or before, where it had not begun.
 */

import { nextInstant } from "../calendar/next.ts";
import { countInstants, latestInstant } from "../calendar/range.ts";
import type { DeclaredTask } from "./declared.ts";

/** No slot of the task is at this time, or before. */
function floorOf({ schedule, startAt }: DeclaredTask, anchor: number): number {
  return schedule.kind === "interval" ? Math.max(startAt - 1, anchor) : startAt - 1;
}

/** The first slot strictly after `after`, or null. */
export function nextSlot(task: DeclaredTask, after: number, anchor: number): number | null {
  const slot = nextInstant(task.schedule, Math.max(after, floorOf(task, anchor)), anchor);
  return slot === null || slot >= task.endAt ? null : slot;
}

/** The last slot after `from` that is not after `notAfter`, or null. */
export function latestSlot(
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

/** The slots after `after` in their order, as many as `count`. */
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
