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
  /** Whether its turn has an effect: it is not made again then when a kill has ended it (L6). */
  readonly hasEffect?: boolean;
  /** Whether a person is asked on the way. */
  readonly needsApproval?: boolean;
};

/** Whether the receiver has heard of its end. */
export function isOver(entry: Entry, records: Records): boolean {
  if (entry.acceptedAt === undefined) return false;
  if (entry.kind === "workflow") return records.outcomes.has(entry.id);
  return [...entry.submissionIds].every((id) => records.ends.has(id));
}
