/** History of an object, as an observer outside of it records it: repeated inspections and events. No crash undoes it. */

import type { SubmissionStatus } from "../../submissions/states.ts";
import { isTerminal } from "../../submissions/states.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import { isoTime, type WorkInspection } from "./open-work.ts";

/** An end, by what it is the end of: later inspections must find it unchanged. */
type Ends = Map<string, string>;

export class Observer {
  readonly #ends: Ends = new Map();
  /** Ends that an inspection has returned, by submission. */
  readonly #ended = new Map<string, SubmissionStatus>();
  /** The last status of each submission that the current instance has reported. */
  readonly #reported = new Map<string, SubmissionStatus>();
  /** Deliveries that an inspection has returned. */
  readonly #deliveries = new Set<string>();
  /** Deliveries that a destination has accepted, or that were discarded. */
  readonly accepted = new Set<string>();
  readonly #problems = new Set<string>();

  /** Violations so far. */
  get problems(): readonly string[] {
    return [...this.#problems];
  }

  /** A new instance: what the last one has reported may have been undone by its crash. */
  restarted(): void {
    this.#reported.clear();
    for (const [id, status] of this.#ended) this.#reported.set(id, status);
  }

  /** The object has reported a status by its event. */
  reported(id: string, status: SubmissionStatus): void {
    const last = this.#reported.get(id);
    this.#reported.set(id, status);
    // A deleted submission can be submitted again under its id.
    if (last === undefined || !isTerminal(last) || status === "pending") return;
    this.#add(`L2 ${id}: ${last} was followed by ${status}`);
  }

  inspected({ submissions, deliveries, approvals, runs }: WorkInspection): void {
    for (const submission of submissions) this.#submission(submission);
    for (const { approvalId, status, decidedAt, payload, by } of approvals) {
      if (status === "pending") continue;
      // The step may refuse the payload of a granted one.
      const isGranted = status === "approved" || status === "refused";
      const end = [isGranted ? "granted" : status, decidedAt, payload, by];
      this.#end(`W2 approval ${approvalId}`, end);
    }
    for (const { taskId, scheduledFor, idempotencyKey, status, endedAt } of runs) {
      // A backfill runs what was skipped.
      if (endedAt === undefined || status === "skipped") continue;
      const run = `S1 the run of ${taskId} at ${isoTime(scheduledFor)} (${idempotencyKey})`;
      this.#end(run, [status, endedAt]);
    }
    for (const { id } of deliveries) this.#deliveries.add(id);
  }

  /** Deliveries that were inspected, are listed no more, and that no destination has accepted. */
  lost({ deliveries }: WorkInspection): string[] {
    const listed = new Set(deliveries.map(({ id }) => id));
    return [...this.#deliveries].filter((id) => !listed.has(id) && !this.accepted.has(id));
  }

  #submission({ submissionId, createdAt, status, ...rest }: SubmissionInspection): void {
    if (!isTerminal(status)) return;
    const { attempts, completedAt, output, error, messageId } = rest;
    const end = [status, attempts, completedAt, output, error, messageId];
    // A deleted submission can be submitted again under its id.
    this.#end(`L1 ${submissionId}`, end, String(createdAt));
    this.#ended.set(submissionId, status);
  }

  #end(what: string, end: readonly unknown[], instance = ""): void {
    const key = `${what} ${instance}`;
    const text = JSON.stringify(end);
    const known = this.#ends.get(key);
    if (known === undefined) this.#ends.set(key, text);
    else if (known !== text) this.#add(`${what} has changed after its end: ${known}, then ${text}`);
  }

  #add(problem: string): void {
    this.#problems.add(problem);
  }
}
