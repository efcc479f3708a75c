/** How runs of one task meet: whether a new run may enter, and which waiting run starts next. Pure decisions. */

import { byOccurrence, type Run } from "../rows.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import type { Overlap } from "../types.ts";

/**
 * Decides by the task's `overlap`. While a task with `catchUp: "all"` catches up, a new run queues behind its missed ones:
 * skipped, it would be the next missed one.
 *
 * @param open the task's open runs. Backfills do not count: a new run waits for the running one, and goes before the others
 * @returns how many new runs enter, why the others are skipped, and which open runs are cancelled for the new ones
 */
export function admit(
  { overlap, catchUpMs, maxWaiting }: Pick<DeclaredTask, "overlap" | "catchUpMs" | "maxWaiting">,
  open: readonly Run[],
) {
  const none: readonly Run[] = [];
  const others = open.filter(({ cause }) => cause !== "backfill");
  if (overlap === "allow") return { room: Infinity, cancelled: none, reason: "" };
  if (overlap === "cancelPrevious") return { room: Infinity, cancelled: others, reason: "" };
  const [first] = others;
  const keepsAll = catchUpMs !== "latest" && catchUpMs > 0;
  const isCatchingUp = keepsAll && others.some(({ cause }) => cause === "catch-up");
  if (first && overlap === "skip" && !isCatchingUp) {
    const when = new Date(first.occurrence).toISOString();
    return { room: 0, cancelled: none, reason: `The run of ${when} had not ended` };
  }
  const waiting = others.filter(({ status }) => status === "waiting").length;
  // Without an open run, the first one does not wait.
  const room = Math.max(0, maxWaiting - waiting) + (first ? 0 : 1);
  const reason = `${maxWaiting} runs were waiting, and maxWaiting is ${maxWaiting}`;
  return { room, cancelled: none, reason, isFull: true };
}

/**
 * The waiting runs that may start now, in order. One run at a time, unless the task allows more; a run between two
 * attempts keeps its place. Backfills start one at a time in any case, and after all others.
 *
 * @param open all open runs of the task
 */
export function startable(overlap: Overlap, open: readonly Run[], now: number): Run[] {
  const backfills = open.filter(({ cause }) => cause === "backfill");
  const others = open.filter(({ cause }) => cause !== "backfill");
  if (overlap === "allow") {
    return [...others.filter(isWaiting), ...firstOf(backfills)].filter((run) => isDue(run, now));
  }
  // A backfill that has started ends before the occurrence that it has met.
  const started = backfills.filter(hasStarted);
  const queues = [firstOf(started), firstOf(others), firstOf(backfills)];
  const isBusy = open.some(({ status }) => status === "running");
  const next = isBusy ? [] : (queues.find((runs) => runs.length > 0) ?? []);
  return next.filter((run) => isDue(run, now));
}

/** When the next waiting run of the task may start, later than now; null when there is none. */
export function nextStart(open: readonly Run[], now: number): number | null {
  const times = open.filter(isWaiting).map(({ notBefore }) => notBefore);
  const later = times.filter((time) => time > now);
  return later.length > 0 ? Math.min(...later) : null;
}

function firstOf(runs: readonly Run[]): Run[] {
  if (runs.some(({ status }) => status === "running")) return [];
  const sorted = runs.toSorted(byOccurrence);
  const first = sorted.find(hasStarted) ?? sorted[0];
  return first ? [first] : [];
}

const isWaiting = ({ status }: Run): boolean => status === "waiting";
const hasStarted = ({ attempts }: Run): boolean => attempts > 0;
const isDue = ({ notBefore }: Run, now: number): boolean => notBefore <= now;
