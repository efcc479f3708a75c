/** Ends submissions, each once, with its outbox entries in the same transaction, or makes them pending for another attempt. */

import { type Failure, failureOf, transientOf, withProviderCause } from "../../core/failures.ts";
import { byteLength } from "../../core/json.ts";
import { Sweep } from "../../engine/sweep.ts";
import type { WorkLoop } from "../../engine/work-loop.ts";
import { deliveryIdOf } from "../../outbox/event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { AnswerTooLargeError } from "../errors.ts";
import type { TurnEnd } from "../host.ts";
import { eventOf, traceparentFor } from "../inspection.ts";
import type { Limiter } from "../limiter.ts";
import { ANSWER_BYTES, type Limits } from "../options.ts";
import type { Statuses } from "../statuses.ts";
import { endedEvent } from "../store/batches.ts";
import type { Seen, SettledState, Submission, Summary } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import { ISOLATED } from "../threads.ts";
import type { SubmissionEvent } from "../types.ts";
import type { TokenBudgets } from "./budgets.ts";
import { type FailureKind, mayRepeatEffects, nextAttempt, toolRefusalOf } from "./next-attempt.ts";

/** Prune after every 64 ends. */
const PRUNE_EVERY = 64;
/** How long after a failure deliveries are started again. */
const FLUSH_AGAIN_MS = 2_000;

type FailedTurnEnd = Extract<TurnEnd, { outcome: "error" }>;
type Ending = Omit<SettledState, "usage" | "timeline">;

export class Settlement {
  #sincePrune = 0;
  #hasUnsent = false;
  readonly #sweep: Sweep;

  constructor(
    private readonly store: SubmissionStore,
    private readonly loop: WorkLoop,
    private readonly outbox: Outbox,
    private readonly limits: Limits,
    private readonly statuses: Statuses,
    private readonly limiter: Limiter,
    private readonly budgets: TokenBudgets,
  ) {
    this.#sweep = new Sweep(() => loop.clock.random(), "perdure_submissions");
  }

  /**
   * Writes the end of a turn, or schedules the next attempt, if the submission is as it was seen.
   *
   * @returns the submission whose turn is over: it has ended, or waits for its next attempt
   */
  end(seen: Seen, reported: TurnEnd): Submission | undefined {
    const end = withCause(withinLimit(reported));
    if (end.outcome === "recovering" || end.outcome === "reported") return undefined;
    const changed = end.outcome === "error" ? this.#fail(seen, end) : undefined;
    const refused = end.outcome === "error" ? shortRefusal(end.answer?.refused) : undefined;
    const ended = changed ?? this.settle(seen, { ...end, refused, status: end.outcome });
    // The turn of a cancelled submission has stopped: only now is it known which reply it has left.
    if (!ended && end.outcome === "aborted" && end.messageId !== undefined)
      this.store.recordReply(seen, end.messageId);
    return ended;
  }

  /** A failure that is not the end: the answer was recorded before it, or another attempt follows. */
  #fail(seen: Seen, end: FailedTurnEnd): Submission | undefined {
    if (seen.status !== "running") return undefined;
    const submission = this.store.get(seen.seq);
    if (!submission) return undefined;
    if (!this.store.isAnswered(submission))
      return (
        this.#waitForLimit({ ...submission, ...seen }, end) ?? this.#retry(submission, seen, end)
      );
    const { requestId, messageId, finishReason } = end;
    return this.settle(seen, { status: "completed", requestId, messageId, finishReason });
  }

  #waitForLimit(submission: Submission, end: FailedTurnEnd): Submission | undefined {
    const record = this.budgets.recordOf(submission.seq);
    const pending = this.limiter.admissions?.waitAgain(submission, end, record);
    if (pending) this.budgets.close(submission.seq);
    return pending;
  }

  /** pending or running → terminal. Returns the row, unless it is not as it was seen. */
  settle(seen: Seen, ending: Ending): Submission | undefined {
    const { store } = this;
    const [settled] = this.#commit(() => {
      const now = this.loop.clock.now();
      const { usage, times } = this.budgets.recordOf(seen.seq);
      const timeline = times?.whole(ending.failure, now);
      const row = store.settle(seen, { ...ending, usage, timeline }, now);
      return row ? [row, ...this.#settleJoined(row, ending)] : [];
    });
    if (!settled) return undefined;
    this.budgets.close(seen.seq);
    store.answers.drop(seen.seq);
    store.open.forgetJoined(settled.submissionId);
    if (++this.#sincePrune >= PRUNE_EVERY) this.prune();
    return settled;
  }

  skipPending(thread: string, failure: Failure): void {
    const some = () =>
      this.store
        .skipPending(thread, failure, this.loop.clock.now())
        .flatMap((row) => [row, ...this.#settleJoined(row, { status: "skipped", failure })]);
    // In pages, to bound memory. They commit together, since nothing is awaited between them.
    while (this.#commit(some).length > 0);
  }

  /** Ends some of the pending submissions of a batch as `aborted`. Returns how many. */
  abortWaiting(batch: string, failure: Failure): number {
    const { batches } = this.store;
    const some = () => batches.abortWaiting(batch, failure, this.loop.clock.now());
    return this.#commit(some).length;
  }

  #settleJoined({ submissionId }: Summary, ending: Ending): Submission[] {
    return this.store.open
      .joinedTo(submissionId)
      .flatMap((joined) => this.store.settle(joined, ending, this.loop.clock.now()) ?? []);
  }

  /** Deletes some of what retention no longer keeps. Returns whether there may be more. */
  prune(): boolean {
    this.#sincePrune = 0;
    const { maxAgeMs, maxCount } = this.limits;
    const endedBefore = this.loop.clock.now() - maxAgeMs;
    return this.store.history.prune(endedBefore, maxCount, this.#sweep) > 0;
  }

  /** running → pending, where another attempt may do better and one is left. */
  #retry(submission: Submission, seen: Seen, end: FailedTurnEnd): Submission | undefined {
    const { store, limits } = this;
    const { clock } = this.loop;
    const { retry, resets, thread, answer: spec } = submission;
    const { cause, failure, hasEffects = false, answer } = end;
    const now = clock.now();
    const turn = {
      spec,
      priors: store.attempts.priors(submission),
      why: failureKindOf(end),
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
    const { times, ...tokens } = this.budgets.recordOf(seen.seq);
    const timeline = times?.end(failure, now);
    const failed = { dueAt, failure, follow, given: answer?.given, timeline, ...tokens };
    const pending = store.transaction(() => store.retryAt(seen, failed, now));
    if (!pending) return undefined;
    this.budgets.close(seen.seq);
    this.statuses.announce(pending);
    return pending;
  }

  /** Commits ends together with their outbox entries, then starts the deliveries and notifies the app. */
  #commit<Row extends Summary>(end: () => Row[]): Row[] {
    let entries = 0;
    const ended = this.store.transaction(() => {
      const rows = end();
      for (const row of rows) {
        entries += this.#enqueue(row) + this.#enqueueForBatch(row);
        entries += this.outbox.atEnd({ submissionId: row.submissionId });
      }
      return rows;
    });
    if (entries > 0) this.flush();
    for (const row of ended) this.statuses.announce(row);
    return ended;
  }

  /** Starts the deliveries of the outbox. Never fails: the next wake tries again. */
  flush(): void {
    const { clock, wake } = this.loop;
    try {
      this.outbox.flush();
      this.#hasUnsent = false;
    } catch (error) {
      console.error("[perdure] deliveries could not be started, will retry:", error);
      this.#hasUnsent = true;
      wake.request(clock.now() + FLUSH_AGAIN_MS);
    }
  }

  /** {@link flush}, where the latest one has failed. */
  flushAgain(): void {
    if (this.#hasUnsent) this.flush();
  }

  /** Returns how many entries it has put into the outbox. */
  #enqueue(submission: Summary): number {
    if (submission.notify.length === 0) return 0;
    const data = eventOf(submission);
    const type = `submission.${data.status}` as const;
    const timestamp = new Date(submission.settledAt ?? this.loop.clock.now()).toISOString();
    const event = JSON.stringify({ type, timestamp, data } satisfies SubmissionEvent);
    for (const destination of submission.notify) {
      const id = deliveryIdOf(submission.submissionId);
      const trace = destination.kind === "webhook" ? traceparentFor(submission, id) : undefined;
      this.outbox.enqueue(id, destination, event, trace);
    }
    return submission.notify.length;
  }

  /** The workflow that waits for a batch gets one event, whatever the batch's size. Returns how many entries. */
  #enqueueForBatch(submission: Summary): number {
    const { batch, status } = submission;
    if (batch === undefined) return 0;
    const waiting = this.store.batches.ended(batch, status !== "completed");
    if (!waiting) return 0;
    const event = endedEvent(batch, submission.settledAt ?? this.loop.clock.now());
    this.outbox.enqueue(crypto.randomUUID(), waiting, event);
    return 1;
  }
}

/** A text above the limit cannot be stored whole, and half of it would pass for the whole: the turn fails. */
function withinLimit(end: TurnEnd): TurnEnd {
  // No character takes more than six bytes in JSON.
  if (end.outcome !== "completed" || (end.text?.length ?? 0) * 6 < ANSWER_BYTES) return end;
  const { text, ...facts } = end;
  const bytes = byteLength(JSON.stringify(text));
  if (bytes <= ANSWER_BYTES) return end;
  const failure = failureOf(new AnswerTooLargeError(bytes, ANSWER_BYTES));
  return { ...facts, outcome: "error", failure };
}

/** UTF-16 units. */
const MAX_REFUSED = 65_536;

/** The host may have replaced the text of the error. */
function withCause(end: TurnEnd): TurnEnd {
  if (end.outcome !== "error") return end;
  const { cause } = failureOf(end.cause);
  return { ...end, failure: withProviderCause({ ...end.failure, cause }, end.cause) };
}

/** A short answer that was refused is kept, for the error of the workflow that asked. */
function shortRefusal(refused: string | undefined): string | undefined {
  return refused !== undefined && refused.length <= MAX_REFUSED ? refused : undefined;
}

/** Failures after which no other model would do better. */
const NOT_OF_THE_MODEL = ["BudgetExceededError", "TurnInterruptedError", "UsageNotReportedError"];

function failureKindOf({ answer, failure, cause }: FailedTurnEnd): FailureKind {
  if (answer) return answer;
  return NOT_OF_THE_MODEL.includes(failure.name) ? "other" : { refusal: toolRefusalOf(cause) };
}
