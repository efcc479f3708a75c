/**
 * How a submission comes in: checked, told apart from what is known already,
 * stored. All of it in one step without a pause, so that nothing comes
 * between the look and the write.
 */

import type { UIMessage } from "ai";
import type { Clock } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Destination } from "../../outbox/types.ts";
import {
  BacklogFullError,
  BusyError,
  IdempotencyConflictError,
  SubmissionIdentityError,
} from "../errors.ts";
import { inspect } from "../inspection.ts";
import type { Limits } from "../options.ts";
import { isTerminal } from "../states.ts";
import type { NewSubmission } from "../store/changes.ts";
import { NEXT_RANK, type Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import { repairsLeft } from "../turns/attempt-plan.ts";
import type { InternalSubmitOptions, SubmitMessagesResult } from "../types.ts";
import { asksTheSame, checkSize, prepare } from "./request.ts";

export type IntakeOwner = {
  readonly store: SubmissionStore;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly outbox: Pick<Outbox, "problemOf">;
  /** What runs in a thread, or is about to. */
  current(thread: string): Submission | undefined;
};

/** What came of it: a new submission, or the one that was known. */
export type Taken = {
  readonly submission: Submission;
  readonly accepted: boolean;
  /** Known, with other messages (L3). */
  readonly conflict?: boolean;
  /** Its messages have taken the place of earlier ones. */
  readonly debounced?: boolean;
};

/** Why a workflow refuses an answer, and who is told of the next one. */
export type Repair = {
  /** What is wrong with the answer, as the model is told. */
  readonly error: string;
  readonly run: string;
  readonly notify?: ((submissionId: string) => readonly Destination[]) | undefined;
  /** The batch of prompts that the next one is of. */
  readonly batch?: string | undefined;
};

export class Intake {
  constructor(private readonly owner: IntakeOwner) {}

  /**
   * (new) → pending, or what was accepted under the same key or id (L3).
   *
   * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError,
   *   BacklogFullError
   */
  take(messages: UIMessage[], options: InternalSubmitOptions): Taken {
    const { store, clock, limits, outbox } = this.owner;
    const submission = prepare(messages, options, {
      maxPayloadBytes: limits.maxPayloadBytes,
      newId: () => store.newId(),
      now: clock.now(),
      problemOf: (destination) => outbox.problemOf(destination),
    });
    const known = this.#known(options);
    if (known && !isStale(known, options.run) && !isKeyFree(known, options, clock.now())) {
      const conflict = !asksTheSame(known, submission);
      if (conflict && options.onConflict === "throw") {
        throw new IdempotencyConflictError(known.submissionId, options.idempotencyKey);
      }
      return { submission: known, accepted: false, conflict };
    }
    const gathered = this.#gather(submission);
    if (gathered) return { submission: gathered, accepted: true, debounced: true };
    const busy = options.whenBusy === "reject" ? this.#busyWith(submission) : undefined;
    if (busy) throw new BusyError(busy.submissionId);
    const releaseKey = () => known && store.releaseKey(known.seq);
    return { submission: this.#accept(submission, releaseKey), accepted: true };
  }

  /** A repetition takes the place of the one that has not run yet; whoever waited for that one waits for this. */
  #gather(submission: NewSubmission): Submission | undefined {
    const { store, clock, limits } = this.owner;
    const { debounceKey, notBefore = clock.now(), notify = [] } = submission;
    const waiting = debounceKey === undefined ? undefined : store.debounced.find(debounceKey);
    if (!waiting) return undefined;
    const told = new Map([...waiting.notify, ...notify].map((to) => [JSON.stringify(to), to]));
    const gathered = { ...submission, notify: [...told.values()] };
    checkSize(gathered, limits.maxPayloadBytes);
    return store.debounced.replace(waiting.seq, gathered, notBefore);
  }

  /** What runs in its thread, or is next there. */
  #busyWith({ thread }: NewSubmission): Submission | undefined {
    return this.owner.current(thread) ?? this.owner.store.open.nextPending(thread);
  }

  /**
   * A submission that ended without an answer → (new) pending, with the same
   * messages and key, or the one that an earlier call made.
   *
   * @throws BacklogFullError
   */
  resubmit(old: Submission): Taken {
    const { store } = this.owner;
    if (!isTerminal(old.status) || old.status === "completed") {
      return { submission: old, accepted: false };
    }
    // A caller who missed the answer can ask again (L3).
    const known = old.retriedBy === undefined ? undefined : store.find(old.retriedBy);
    if (known?.isRetry) return { submission: known, accepted: false };
    const again = {
      ...old,
      submissionId: store.newId(),
      isGenerated: true,
      isRetry: true,
      // With their ids: what is in the conversation already is moved to its end, and not said twice.
      messages: JSON.stringify(old.messages),
      notBefore: undefined,
      expiresAt: undefined,
      debounceKey: undefined,
      // The workflow that asked for the old one has been told of its end.
      batch: undefined,
      // Whom the old one was to interrupt is gone.
      rank: Math.max(old.rank, -100),
    };
    const submission = store.transaction(() => {
      const accepted = this.#accept(again, () => store.retried(old.seq, again.submissionId));
      // Its tools do not run again for what they have done already.
      store.toolCalls.copy(old.seq, accepted.seq);
      return accepted;
    });
    return { submission, accepted: true };
  }

  /**
   * completed → (new) pending: the workflow refuses the answer, and the model is shown why. The same, once more for the
   * same run, is what the first call made. Returns undefined where the submission has no repair left.
   *
   * @throws BacklogFullError
   */
  repair(old: Submission, { error, run, notify, batch }: Repair): Taken | undefined {
    const { store } = this.owner;
    const idempotencyKey = `perdure-repair:${old.submissionId}`;
    const known = store.findByKey(idempotencyKey);
    if (known && !isStale(known, run)) return { submission: known, accepted: false };
    const left = repairsLeft(old.answer, store.attempts.priors(old));
    if (old.status !== "completed" || left < 1) return undefined;
    const submissionId = store.newId();
    const again = {
      ...old,
      submissionId,
      idempotencyKey,
      run,
      batch,
      notify: notify?.(submissionId),
      isGenerated: true,
      isRetry: false,
      // With their ids: they stay where they are in the conversation.
      messages: JSON.stringify(old.messages),
      metadata: { ...old.metadata, repairs: old.submissionId },
      notBefore: undefined,
      expiresAt: undefined,
      keyExpiresAt: undefined,
      debounceKey: undefined,
      // Next in its thread, as the attempts of one submission are.
      rank: old.rank - NEXT_RANK,
    };
    const submission = store.transaction(() => {
      const { seq } = this.#accept(again, () => known && store.releaseKey(known.seq));
      store.attempts.inherit(seq, old, refusedAnswer(old, error));
      return store.get(seq) as Submission;
    });
    return { submission, accepted: true };
  }

  /** @param before what is written first, in the same transaction */
  #accept(submission: NewSubmission, before: () => void): Submission {
    const { store, clock, limits } = this.owner;
    const { pending } = store.open;
    if (pending >= limits.maxPending) throw new BacklogFullError(pending, limits.maxPending);
    return store.transaction(() => {
      before();
      return store.accept(submission, clock.now());
    });
  }

  #known({ submissionId, idempotencyKey }: InternalSubmitOptions): Submission | undefined {
    const { store } = this.owner;
    const byId = submissionId === undefined ? undefined : store.find(submissionId);
    const byKey = idempotencyKey === undefined ? undefined : store.findByKey(idempotencyKey);
    if (submissionId !== undefined && idempotencyKey !== undefined) {
      const isSame =
        byId?.seq === byKey?.seq || (byId && byId.idempotencyKey === undefined && !byKey);
      if (!isSame) throw new SubmissionIdentityError(submissionId, idempotencyKey);
    }
    return byId ?? byKey;
  }
}

/** UTF-16 units of the prompt that the model is reminded of: its thread may have gone on since. */
const MAX_PROMPT = 300;

/** The attempt whose answer was refused, as one that has failed. */
function refusedAnswer(
  { createdAt, startedAt, settledAt, output, messages }: Submission,
  error: string,
) {
  const said = messages.at(-1)?.parts ?? [];
  const prompt = said.map((part) => (part.type === "text" ? part.text : "")).join(" ");
  const about = prompt.length > MAX_PROMPT ? `${prompt.slice(0, MAX_PROMPT)} [cut]` : prompt;
  const { message } = failureOf(
    `The model's final answer to ${JSON.stringify(about)} does not match the schema: ${error}`,
  );
  return {
    startedAt: startedAt ?? createdAt,
    endedAt: settledAt ?? createdAt,
    failure: { name: "InvalidAnswerError", message },
    spent: undefined,
    follow: "repair",
    given: output?.part(0)?.text,
  } as const;
}

/** Whether an ended submission was a failure, or an answer of no use, that another run of the caller was told of (W1). */
function isStale({ status, run, isRefused }: Submission, plan: string | undefined): boolean {
  const hasFailed = isTerminal(status) && (status !== "completed" || isRefused);
  return plan !== undefined && run !== plan && hasFailed;
}

/** Whether the key has outlived what it stood for. An id never does. */
function isKeyFree(
  { keyExpiresAt }: Submission,
  { submissionId }: InternalSubmitOptions,
  now: number,
): boolean {
  return submissionId === undefined && keyExpiresAt !== undefined && keyExpiresAt <= now;
}

/** What the caller is told of it. */
export function resultOf({
  submission,
  accepted,
  conflict,
  debounced,
}: Taken): SubmitMessagesResult {
  return {
    ...inspect(submission),
    accepted,
    ...(conflict && { conflict }),
    ...(debounced && { debounced }),
  };
}
