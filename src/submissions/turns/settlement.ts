/**
 * How a submission ends: once, with the word to everybody who waits for it in
 * the same transaction (O1). Or not yet, when the failure was transient and an
 * attempt is left (L8). Lets go of what has ended long ago (L9).
 */

import type { Clock } from "../../core/clock.ts";
import { type Failure, failureOf, transientOf } from "../../core/failures.ts";
import { byteLength } from "../../core/json.ts";
import { Sweep } from "../../core/sweep.ts";
import { deliveryIdOf } from "../../outbox/listing.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { AnswerTooLargeError } from "../errors.ts";
import { ISOLATED, type TurnEnd } from "../host.ts";
import { eventOf } from "../inspection.ts";
import { ANSWER_BYTES, type Limits } from "../options.ts";
import { endedEvent } from "../store/batches.ts";
import type { Seen, SettledState } from "../store/changes.ts";
import type { SubmissionRecords } from "../store/history.ts";
import type { Submission, Summary } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import type { SubmissionEvent } from "../types.ts";
import type { Spending } from "./budgets.ts";
import { toolRefusalOf } from "./refusals.ts";
import { type FailureKind, mayRepeatEffects, nextAttempt } from "./retry.ts";

/** Ends between two looks at what retention lets go. */
const PRUNE_EVERY = 64;
/** How long after a failure deliveries are started again. */
const FLUSH_AGAIN_MS = 2_000;

type FailedEnd = Extract<TurnEnd, { outcome: "error" }>;
/** An end without what it has cost, which only this file knows. */
type Ending = Omit<SettledState, "usage">;

export type SettlementOwner = {
  readonly store: SubmissionStore;
  readonly spending: Spending;
  readonly records: SubmissionRecords;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly limits: Limits;
  /** When the ledger's wake comes, or null. */
  readonly nextWake: () => number | null;
  /** Makes sure of a wake at that time. */
  readonly wakeAt: (time: number) => void;
  /** Tells that a submission has changed. */
  announce(submission: Summary): void;
  /** Another attempt of it is made later. */
  putOff(submission: Submission): void;
  /** Its turn is over, for now or for good: what waited behind it can run. */
  release(submission: Submission): void;
};

export class Settlement {
  #sincePrune = 0;
  /** Whether the latest {@link flush} has failed. */
  #isUnsent = false;
  readonly #sweep = new Sweep(() => this.owner.clock.random());

  constructor(private readonly owner: SettlementOwner) {}

  /** The turn has ended: writes its end, or makes another attempt of it later. */
  end(seen: Seen, reported: TurnEnd): void {
    const end = withinLimit(reported);
    if (end.outcome === "recovering" || end.outcome === "reported") return;
    const changed = end.outcome === "error" ? this.#fail(seen, end) : undefined;
    const refused = end.outcome === "error" ? keptRefusal(end.answer?.refused) : undefined;
    const ended = changed ?? this.settle(seen, { ...end, refused, status: end.outcome });
    if (ended) this.owner.release(ended);
    // The turn of a cancelled one has stopped as it was told to: what of a reply it has left is known only now (L7).
    else if (end.outcome === "aborted" && end.messageId !== undefined) {
      this.owner.store.replied(seen, end.messageId);
    }
  }

  /** A failure that is not the end: the answer was there before it (L7), or another attempt follows (L8). */
  #fail(seen: Seen, end: FailedEnd): Submission | undefined {
    if (seen.status !== "running") return undefined;
    const { store } = this.owner;
    const submission = store.get(seen.seq);
    if (!submission) return undefined;
    if (!store.isAnswered(submission)) return this.#retry(submission, seen, end);
    const { requestId, messageId, finishReason } = end;
    return this.settle(seen, { status: "completed", requestId, messageId, finishReason });
  }

  /** pending or running → terminal. Returns the row, unless it is not as it was seen (L2). */
  settle(seen: Seen, ending: Ending): Submission | undefined {
    const { store, spending, clock } = this.owner;
    const [settled] = this.#telling(() => {
      const { usage } = spending.of(seen.seq);
      const row = store.settle(seen, { ...ending, usage }, clock.now());
      return row ? [row, ...this.#withIt(row, ending)] : [];
    });
    if (settled) spending.close(seen.seq);
    if (settled) store.answers.drop(seen.seq);
    if (settled) store.open.forgetJoined(settled.submissionId);
    if (settled && ++this.#sincePrune >= PRUNE_EVERY) this.prune();
    return settled;
  }

  /** Ends whatever waits for its turn in a thread as `skipped`. */
  skipPending(thread: string, failure: Failure): void {
    const { store, clock } = this.owner;
    const some = () =>
      store
        .skipPending(thread, failure, clock.now())
        .flatMap((row) => [row, ...this.#withIt(row, { status: "skipped", failure })]);
    // In pages, of which each is all that has to be held: they commit together, since nothing is awaited between them.
    while (this.#telling(some).length > 0);
  }

  /** Ends some of what waits in a batch as `aborted`, and returns how many that were. */
  abortWaiting(batch: string, failure: Failure): number {
    const { store, clock } = this.owner;
    return this.#telling(() => store.batches.abortWaiting(batch, failure, clock.now())).length;
  }

  /** Those that have joined its turn end as it does. */
  #withIt({ submissionId }: Summary, ending: Ending): Submission[] {
    const { store, clock } = this.owner;
    return store.open
      .joinedTo(submissionId)
      .flatMap((joined) => store.settle(joined, ending, clock.now()) ?? []);
  }

  /** Lets go of what retention no longer keeps. Returns whether there may be more. */
  prune(): boolean {
    this.#sincePrune = 0;
    const { records, clock, limits } = this.owner;
    return records.prune(clock.now() - limits.maxAgeMs, limits.maxCount, this.#sweep) > 0;
  }

  /** running → pending, where the failure lets another attempt do better and one is left (L8, W4). */
  #retry(submission: Submission, seen: Seen, end: FailedEnd): Submission | undefined {
    const { store, spending, clock, limits } = this.owner;
    const { retry, resets, thread, answer: spec } = submission;
    const { cause, failure, hasEffects = false, answer } = end;
    const now = clock.now();
    const turn = {
      spec,
      priors: store.attempts.priors(submission),
      why: whyOf(end),
      transient: transientOf(cause, now),
      hasEffects: hasEffects || store.toolCalls.exist(seen.seq),
      mayRepeatEffects: mayRepeatEffects(retry, hasEffects),
      isRemembered: thread !== ISOLATED,
      attempts: seen.attempts - resets,
      maxAttempts: retry?.maxAttempts ?? limits.maxAttempts,
    };
    const next = nextAttempt(turn, limits.backoff, clock.random());
    if (!next) return undefined;
    const { follow, delayMs } = next;
    const dueAt = follow === "again" ? now + delayMs : undefined;
    const failed = { dueAt, failure, follow, given: answer?.given, ...spending.of(seen.seq) };
    const pending = store.transaction(() => store.retryAt(seen, failed, now));
    if (pending) spending.close(seen.seq);
    if (pending) {
      this.owner.announce(pending);
      this.owner.putOff(pending);
    }
    return pending;
  }

  /** The ends and their entries in the outbox commit together; everybody is told afterwards. */
  #telling<Row extends Summary>(end: () => Row[]): Row[] {
    const { store, announce } = this.owner;
    let entries = 0;
    const ended = store.transaction(() => {
      const rows = end();
      for (const row of rows) entries += this.#put(row) + this.#putBatch(row);
      return rows;
    });
    if (entries > 0) this.flush();
    for (const row of ended) announce(row);
    return ended;
  }

  /** Begins to deliver what has been put into the outbox. Never fails: what cannot be now is tried again at the next wake. */
  flush(): void {
    const { outbox, clock, nextWake, wakeAt } = this.owner;
    try {
      outbox.flush(nextWake());
      this.#isUnsent = false;
    } catch (error) {
      console.error("[perdure] deliveries could not be started, and are tried again:", error);
      this.#isUnsent = true;
      wakeAt(clock.now() + FLUSH_AGAIN_MS);
    }
  }

  /** {@link flush}, where it has failed. */
  flushAgain(): void {
    if (this.#isUnsent) this.flush();
  }

  /** Returns how many entries. */
  #put(submission: Summary): number {
    if (submission.notify.length === 0) return 0;
    const data = eventOf(submission);
    const type = `submission.${data.status}` as const;
    const timestamp = new Date(submission.settledAt ?? this.owner.clock.now()).toISOString();
    const event = JSON.stringify({ type, timestamp, data } satisfies SubmissionEvent);
    for (const destination of submission.notify) {
      this.owner.outbox.enqueue(deliveryIdOf(submission.submissionId), destination, event);
    }
    return submission.notify.length;
  }

  /** A workflow that waits for a batch is told once, whatever the batch's size. Returns how many entries. */
  #putBatch(submission: Summary): number {
    const { batch, status } = submission;
    if (batch === undefined) return 0;
    const waiting = this.owner.store.batches.ended(batch, status !== "completed");
    if (!waiting) return 0;
    const event = endedEvent(batch, submission.settledAt ?? this.owner.clock.now());
    this.owner.outbox.enqueue(crypto.randomUUID(), waiting, event);
    return 1;
  }
}

/** A text is the output, which has a limit: one above it cannot be stored, and half of one would pass for the whole. */
function withinLimit(end: TurnEnd): TurnEnd {
  // No character takes more than six bytes in JSON.
  if (end.outcome !== "completed" || (end.text?.length ?? 0) * 6 < ANSWER_BYTES) return end;
  const { text, ...facts } = end;
  const bytes = byteLength(JSON.stringify(text));
  if (bytes <= ANSWER_BYTES) return end;
  const failure = failureOf(new AnswerTooLargeError(bytes, ANSWER_BYTES));
  return { ...facts, outcome: "error", failure };
}

/** A refused answer is kept for the error of the workflow that asked, where it is short. */
function keptRefusal(refused: string | undefined): string | undefined {
  return refused !== undefined && refused.length <= MAX_REFUSED ? refused : undefined;
}

/** UTF-16 units. */
const MAX_REFUSED = 65_536;

/** Failures that no other model would do better after. */
const NOT_OF_THE_MODEL = ["BudgetExceededError", "TurnInterruptedError", "UsageNotReportedError"];

function whyOf({ answer, failure, cause }: FailedEnd): FailureKind {
  if (answer) return answer;
  return NOT_OF_THE_MODEL.includes(failure.name) ? "other" : { refusal: toolRefusalOf(cause) };
}
