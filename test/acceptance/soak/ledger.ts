/** The driver's requests and their answers, which no kill can lose. */

import type { Records } from "./records.ts";
import type { Ask, Put } from "./words.ts";

/** A request. Without an answer, its work may or may not exist. */
type Request = {
  readonly agent: string;
  /** The idempotency key of a submission, or the id of a workflow, an event or an arrival. */
  readonly id: string;
  /** Epoch milliseconds. */
  readonly askedAt: number;
  /** Set when it was accepted. */
  acceptedAt?: number;
};

export type SubmissionEntry = Request & {
  readonly kind: "submission";
  readonly ask: Ask;
  /** Ids in the answers: one submission for all repetitions. */
  readonly submissionIds: Set<string>;
  /** Ids that `retrySubmission()` has returned: one for all repetitions. */
  readonly retriedIds: Set<string>;
  /** The error that refused it; then nothing may be stored. */
  refused?: string;
  isCancelled?: boolean;
  /** Set when its thread was cleared after its acceptance: its message must be deleted. */
  isCleared?: boolean;
  isDeleted?: boolean;
  /** Set when it is submitted again, which moves its messages. */
  isRetried?: boolean;
  /** Calls with its key that have no answer yet. */
  openCalls: number;
};

export type WorkflowEntry = Request & {
  readonly kind: "workflow";
  readonly expected: readonly string[];
  readonly needsApproval: boolean;
  /** The maximum number of times that each effect of its ordinary tools may happen. */
  readonly planned: ReadonlyMap<string, number>;
  /** The same of its durable tools. */
  readonly charges: ReadonlyMap<string, number>;
  isTerminated?: boolean;
};

export type PutEntry = Request & { readonly kind: "put"; readonly to: Put["to"] };

export type ArrivalEntry = Request & {
  readonly kind: "arrival";
  readonly type: "note" | "submit" | "step";
  readonly ask?: Ask;
  /** Verdicts of the answers, by the receiver of Perdure. */
  readonly verdicts: string[];
};

export type Entry = SubmissionEntry | WorkflowEntry | PutEntry | ArrivalEntry;

/** Whether the receiver has received its end. */
export function isOver(entry: Entry, records: Records): boolean {
  if (entry.acceptedAt === undefined) return false;
  switch (entry.kind) {
    case "workflow":
      return entry.isTerminated === true || records.outcomes.has(entry.id);
    case "submission":
      if (entry.isRetried && entry.retriedIds.size === 0) return false;
      return [...entry.submissionIds, ...entry.retriedIds].every((id) => records.ends.has(id));
    case "put":
      return records.puts.has(entry.id);
    case "arrival":
      if (entry.type === "step") return true;
      return (entry.type === "note" ? records.arrivals : records.arrived).has(entry.id);
  }
}
