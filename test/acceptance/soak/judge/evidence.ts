/** Findings, and the evidence that they are judged by: requests, answers, what was received outside, and public verbs. */

import type { Beat } from "../beats.ts";
import type { Follower } from "../followers.ts";
import type { Entry } from "../ledger.ts";
import type { Records } from "../records.ts";
import { type Look, THREADS } from "../words.ts";

export const KINDS = [
  ...(["wrong answer", "lost", "stuck", "duplicate", "effects run twice", "forgotten"] as const),
  ...(["order", "came back", "alarm", "failed", "follower"] as const),
] as const;

export type Finding = {
  readonly kind: (typeof KINDS)[number];
  /** The subject: a key, a workflow, an occurrence or an agent. */
  readonly id: string;
  /** The known facts. */
  readonly what: string;
};

export type Evidence = {
  readonly entries: readonly Entry[];
  readonly records: Records;
  readonly looks: readonly Look[];
  /** The platform's status of each workflow. */
  readonly platform: Readonly<Record<string, string>>;
  /** Options that accepted an unpaired surrogate. */
  readonly acceptedMalformed: Iterable<string>;
  /** Keys that were submitted together with an invalid submission. */
  readonly refusedKeys: readonly string[];
  /** Answers that nothing explains. */
  readonly problems: readonly { readonly id: string; readonly what: string }[];
  readonly followers: readonly Follower[];
  readonly beats: readonly Beat[];
  /** Subjects that had not ended when the time of the soak was over. */
  readonly unsettled: readonly string[];
};

export type Row = Look["submissions"][number];

const OPEN = ["pending", "running"];
const THREAD_NAMES: readonly string[] = THREADS;

export function isOpen({ status }: Pick<Row, "status">): boolean {
  return OPEN.includes(status);
}

/** Whether the messages of a thread are read at the end. */
export function isRead(thread: string): boolean {
  return THREAD_NAMES.includes(thread);
}

export function time(at: number): string {
  return new Date(at).toISOString().slice(5, 23);
}
