/** Which waiting runs of a task may begin now. Decides, and has no state. */

import { bySlot, type Run } from "./rows.ts";
import type { Overlap } from "./types.ts";

/**
 * In the order in which they are to begin. One at a time, unless the task
 * allows more; a run between two attempts keeps its place. Of backfills one at
 * a time in any case, and after all others.
 *
 * @param open all open runs of the task
 */
export function startable(overlap: Overlap, open: readonly Run[], now: number): Run[] {
  const backfills = open.filter(({ cause }) => cause === "backfill");
  const others = open.filter(({ cause }) => cause !== "backfill");
  if (overlap === "allow") {
    return [...others.filter(isWaiting), ...firstOf(backfills)].filter((run) => isDue(run, now));
  }
  // A backfill that has begun comes to its end before the occurrence that it has met.
  const begun = backfills.filter(hasBegun);
  const line = [firstOf(begun), firstOf(others), firstOf(backfills)];
  const isTaken = open.some(({ status }) => status === "running");
  const next = isTaken ? [] : (line.find((runs) => runs.length > 0) ?? []);
  return next.filter((run) => isDue(run, now));
}

/** When a run of the task wants to begin next, later than now; null when none does. */
export function nextStart(open: readonly Run[], now: number): number | null {
  const times = open.filter(isWaiting).map(({ notBefore }) => notBefore);
  const later = times.filter((time) => time > now);
  return later.length > 0 ? Math.min(...later) : null;
}

function firstOf(runs: readonly Run[]): Run[] {
  if (runs.some(({ status }) => status === "running")) return [];
  const sorted = runs.toSorted(bySlot);
  const first = sorted.find(hasBegun) ?? sorted[0];
  return first ? [first] : [];
}

const isWaiting = ({ status }: Run): boolean => status === "waiting";
const hasBegun = ({ attempts }: Run): boolean => attempts > 0;
const isDue = ({ notBefore }: Run, now: number): boolean => notBefore <= now;
