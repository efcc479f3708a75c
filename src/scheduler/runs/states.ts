/** The states of a run, and the only ways between them. */

export type RunStatus = "waiting" | "running" | "completed" | "failed" | "cancelled" | "skipped";

/** A status in which nothing is under way. */
export type EndedStatus = Exclude<RunStatus, "waiting" | "running">;

/**
 * Which status may follow which. `running → waiting` is an attempt that failed
 * before the last, `running → running` one that the object did not survive,
 * `skipped → waiting` a backfill.
 */
const NEXT = {
  waiting: ["running", "failed", "cancelled"],
  running: ["running", "waiting", "completed", "failed", "cancelled", "skipped"],
  completed: [],
  failed: [],
  cancelled: [],
  skipped: ["waiting"],
} as const satisfies Record<RunStatus, readonly RunStatus[]>;

/**
 * @throws Error for a way that is not there: a mistake of the code, which must not reach a row
 */
export function checkTransition(from: RunStatus, to: RunStatus): void {
  const ways: readonly RunStatus[] = NEXT[from];
  if (!ways.includes(to)) throw new Error(`A run that is ${from} cannot become ${to}`);
}
