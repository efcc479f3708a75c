/** The states of a submission. {@link NEXT} has the only ways between them. */
export type SubmissionStatus =
  | "pending"
  | "running"
  | "completed"
  | "error"
  | "aborted"
  | "skipped";

/** A final status. */
export type TerminalStatus = Exclude<SubmissionStatus, "pending" | "running">;

/** Which status may follow which. `running → pending` is an attempt that starts over. */
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

/** A submission at one attempt. The ledger ignores calls for an earlier attempt. */
export type AttemptRef = { readonly seq: number; readonly attempt: number };
