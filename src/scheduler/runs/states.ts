/** The states of a run, and the transitions between them. */

export type RunStatus = "waiting" | "running" | "completed" | "failed" | "cancelled" | "skipped";

export type EndedStatus = Exclude<RunStatus, "waiting" | "running">;

/**
 * The states that may follow each state. `running → waiting` is a failed attempt before the last, `running → running` an
 * attempt that the object did not survive, `skipped → waiting` a backfill.
 */
const NEXT = {
  waiting: ["running", "failed", "cancelled"],
  running: ["running", "waiting", "completed", "failed", "cancelled", "skipped"],
  completed: [],
  failed: [],
  cancelled: [],
  skipped: ["waiting"],
} as const satisfies Record<RunStatus, readonly RunStatus[]>;

/** @throws Error for a transition that does not exist: a bug of the code, which must not reach a row */
export function checkTransition(from: RunStatus, to: RunStatus): void {
  const next: readonly RunStatus[] = NEXT[from];
  if (!next.includes(to)) throw new Error(`A run that is ${from} cannot become ${to}`);
}
