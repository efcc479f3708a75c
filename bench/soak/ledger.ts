/** What the driver has asked for, and what it was answered: the soak's own books, kept outside of what is killed. */

import type { Records } from "./records.ts";

/** Something that was asked for. Until it is answered, it may or may not exist. */
export type Entry = {
  readonly kind: "submission" | "workflow";
  readonly agent: string;
  /** The idempotency key of a submission, the id of a workflow. */
  readonly id: string;
  /** Epoch milliseconds. */
  readonly askedAt: number;
  /** Set when it was accepted. */
  acceptedAt?: number;
  /** What the answers named: one submission, however often it was asked for. */
  readonly submissionIds: Set<string>;
  /** What a workflow has to come to. */
  readonly expected?: string;
  /** How often each of its effects is meant to happen, at most. */
  readonly planned: ReadonlyMap<string, number>;
  /** The thread of a submission. */
  readonly thread?: string;
  /** Set when its thread was cleared after it had been accepted: from then on its message must be gone. */
  isCleared?: boolean;
  /** Set when the platform has terminated the workflow. */
  isTerminated?: boolean;
  /** Whether a person is asked on the way. */
  readonly needsApproval?: boolean;
};

/** Whether the receiver has heard of its end. */
export function isOver(entry: Entry, records: Records): boolean {
  if (entry.acceptedAt === undefined) return false;
  if (entry.kind === "workflow") {
    return entry.isTerminated === true || records.outcomes.has(entry.id);
  }
  return [...entry.submissionIds].every((id) => records.ends.has(id));
}
