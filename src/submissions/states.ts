/** The states of a submission, and the only ways between them. */

export type SubmissionStatus =
  | "pending"
  | "running"
  | "completed"
  | "error"
  | "aborted"
  | "skipped";

/** A final status. */
export type TerminalStatus = Exclude<SubmissionStatus, "pending" | "running">;

/**
 * Which status may follow which. `running → pending` is a recovered attempt
 * that starts over; everything else moves forward once.
 */
export const NEXT = {
  pending: ["running", "aborted", "skipped", "error"],
  running: ["pending", "completed", "error", "aborted", "skipped"],
  completed: [],
  error: [],
  aborted: [],
  skipped: [],
} as const satisfies Record<SubmissionStatus, readonly SubmissionStatus[]>;

export function isTerminal(status: SubmissionStatus): status is TerminalStatus {
  return NEXT[status].length === 0;
}
