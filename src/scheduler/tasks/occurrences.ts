/**
 * The occurrences of one task: those of its schedule from `startAt` on and before `endAt`, and which of them are due. Pure
 * decisions: the next one is computed from the last one, never from the clock.
 */

import { nextInstant } from "../calendar/next.ts";
import { countInstants, latestInstant } from "../calendar/range.ts";
import type { TaskRow } from "../rows.ts";
import type { DeclaredTask } from "./declared.ts";
import { parseFingerprint } from "./fingerprint.ts";

/** An occurrence that fires so long after its time is still on time. */
const ON_TIME_MS = 60_000;
/** Occurrences that are caught up at once. */
const MAX_CAUGHT_UP = 1_000;
/** Missed occurrences that are counted at once: a schedule of seconds has millions in a year. */
const MAX_COUNTED = 10_000;

/** All occurrences of the task are after this time: an interval has none at its anchor or before. */
function floorOf({ schedule, startAt }: DeclaredTask, anchor: number): number {
  return schedule.kind === "interval" ? Math.max(startAt - 1, anchor) : startAt - 1;
}

/** The first occurrence strictly after `after`, or null. */
export function nextOccurrenceOf(task: DeclaredTask, after: number, anchor: number): number | null {
  const occurrence = nextInstant(task.schedule, Math.max(after, floorOf(task, anchor)), anchor);
  return occurrence === null || occurrence >= task.endAt ? null : occurrence;
}

/** The last occurrence after `from` that is not after `notAfter`, or null. */
function latestOccurrence(
  task: DeclaredTask,
  notAfter: number,
  from: number,
  anchor: number,
): number | null {
  const last = Math.min(notAfter, task.endAt - 1);
  return latestInstant(task.schedule, last, Math.max(from, floorOf(task, anchor)), anchor);
}

/** How many occurrences are in (from, to]; counted up to `limit`. */
export function countOccurrences(
  task: DeclaredTask,
  range: { readonly from: number; readonly to: number },
  anchor: number,
  limit: number,
): number {
  const from = Math.max(range.from, floorOf(task, anchor));
  const to = Math.min(range.to, task.endAt - 1);
  return to <= from ? 0 : countInstants(task.schedule, from, to, anchor, limit);
}

/** The next `count` occurrences after `after`, ascending. */
export function nextOccurrencesOf(
  task: DeclaredTask,
  after: number,
  anchor: number,
  count: number,
): number[] {
  const occurrences: number[] = [];
  let occurrence: number | null = after;
  while (occurrences.length < count) {
    occurrence = nextOccurrenceOf(task, occurrence, anchor);
    if (occurrence === null) break;
    occurrences.push(occurrence);
  }
  return occurrences;
}

/** Whether the task fires its occurrences. */
export function isArmed(row: TaskRow): row is TaskRow & { readonly nextAt: number } {
  return row.nextAt !== null && row.pausedAt === null;
}

/** When the next occurrence of the task fires, or null. */
export function fireTime(task: DeclaredTask, row: TaskRow): number | null {
  return isArmed(row) ? row.nextAt + task.offsetMs : null;
}

/**
 * Whether the row follows the declaration. After an edit, or an omission, a row with an overdue occurrence does not until that
 * has fired.
 */
export function isCurrent(task: DeclaredTask, row: TaskRow): boolean {
  return row.omittedAt === null && row.fingerprint === task.fingerprint;
}

/** Whether an occurrence has passed that has not fired, and that was not omitted. */
export function isOverdue(row: TaskRow, now: number): boolean {
  return isArmed(row) && row.nextAt <= (row.omittedAt ?? now);
}

/**
 * The occurrences that fire now, by the task's `catchUp`, ascending; how many others have passed; and the next one.
 * Undefined when none is due. After an edit or an omission, these are occurrences of the stored schedule until then, except those
 * that the new declaration leaves out by its limits and dates.
 */
export function dueOccurrences(task: DeclaredTask, row: TaskRow, now: number) {
  const first = row.nextAt;
  const horizon = now - task.offsetMs;
  if (first === null || first > horizon || !isArmed(row)) return undefined;
  const isEdited = !isCurrent(task, row);
  const past = isEdited ? storedTask(task, row, first) : task;
  const to = Math.min(horizon, row.omittedAt ?? horizon);
  const latest = latestOccurrence(past, to, first, row.anchor) ?? first;
  const later = countOccurrences(past, { from: first, to }, row.anchor, MAX_COUNTED - 1);
  const isLate = (occurrence: number) => occurrence !== latest || horizon - occurrence > ON_TIME_MS;
  const occurrences = chosen(past, row, { first, latest, horizon })
    .filter((occurrence) => !isEdited || allows(task, occurrence))
    .map((occurrence) => ({
      occurrence,
      cause: isLate(occurrence) ? ("catch-up" as const) : ("schedule" as const),
    }));
  return {
    occurrences,
    missed: Math.max(0, 1 + later - occurrences.length),
    nextAt: nextOccurrenceOf(task, latest, row.anchor),
  };
}

/** The task with the times of its row; with the next occurrence alone, where the row has only a digest of them. */
function storedTask(task: DeclaredTask, row: TaskRow, first: number): DeclaredTask {
  return { ...task, ...(parseFingerprint(row.fingerprint) ?? { endAt: first + 1 }) };
}

/** Whether the limits and dates of the task allow an occurrence at this time, whatever its rule. */
function allows(task: DeclaredTask, time: number): boolean {
  const rule = { form: "interval", ms: 1 } as const;
  const schedule = { ...task.schedule, kind: "interval", rule } as const;
  return nextOccurrenceOf({ ...task, schedule }, time - 1, time - 1) === time;
}

type Passed = { readonly first: number; readonly latest: number; readonly horizon: number };

function chosen(task: DeclaredTask, row: TaskRow, { first, latest, horizon }: Passed): number[] {
  const { catchUpMs } = task;
  if (catchUpMs === "latest") return [latest];
  // With "none" the window is 0, and what is on time is not late.
  const oldest = horizon - Math.max(catchUpMs, ON_TIME_MS);
  const most = catchUpMs === 0 ? 1 : MAX_CAUGHT_UP;
  const occurrences: number[] = [];
  for (
    let occurrence: number | null = latest;
    occurrence !== null && occurrence >= oldest && occurrences.length < most;
  ) {
    occurrences.unshift(occurrence);
    occurrence =
      occurrence === first ? null : latestOccurrence(task, occurrence - 1, first - 1, row.anchor);
  }
  return occurrences;
}
