/** The driver's requests and their answers, which no kill can lose. */

import type { Records } from "./records.ts";

/** One request. Without an answer, its work may or may not exist. */
export type Entry = {
  readonly kind: "submission" | "workflow";
  readonly agent: string;
  /** The idempotency key of a submission, the id of a workflow. */
  readonly id: string;
  /** Epoch milliseconds. */
  readonly askedAt: number;
  /** Set when it was accepted. */
  acceptedAt?: number;
  /** The ids in the answers: one submission for all repetitions. */
  readonly submissionIds: Set<string>;
  /** The expected outcome of a workflow. */
  readonly expected?: string;
  /** The most times that each of its effects may happen. */
  readonly planned: ReadonlyMap<string, number>;
  /** The thread of a submission. */
  readonly thread?: string;
  /** Set when its thread was cleared after its acceptance: then its message must be deleted. */
  isCleared?: boolean;
  /** Set when the workflow was terminated by the platform. */
  isTerminated?: boolean;
  /** Whether it needs an approval. */
  readonly needsApproval?: boolean;
};

/** Whether the receiver received its end. */
export function isOver(entry: Entry, records: Records): boolean {
  if (entry.acceptedAt === undefined) return false;
  if (entry.kind === "workflow") {
    return entry.isTerminated === true || records.outcomes.has(entry.id);
  }
  return [...entry.submissionIds].every((id) => records.ends.has(id));
}
