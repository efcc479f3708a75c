/** Accepts submissions. Nothing is awaited between the checks and the write, so that no other call can interfere. */

import { isDeepStrictEqual } from "node:util";
import type { UIMessage } from "ai";
import { failureOf } from "../../core/failures.ts";
import type { Destination } from "../../outbox/destinations/index.ts";
import {
  BacklogFullError,
  BusyError,
  IdempotencyConflictError,
  SubmissionIdentityError,
} from "../errors.ts";
import type { TurnHost } from "../host.ts";
import { inspect } from "../inspection.ts";
import type { Limits } from "../options.ts";
import { isTerminal } from "../states.ts";
import { repairKeyOf } from "../store/keyed.ts";
import { NEXT_RANK, type NewSubmission, type Submission, type Summary } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import type { InternalSubmitOptions } from "../submit-options.ts";
import { publicThreadOf } from "../threads.ts";
import { repairsLeft } from "../turns/next-attempt.ts";
import type { IntakeResult, TurnEngine } from "../turns/turn-engine.ts";
import type { SubmitMessagesResult } from "../types.ts";
import { checkSize, prepare, type RequestUses } from "./request.ts";

/** What is accepted: messages, or those of a submission that has ended. */
export type Asked =
  | { readonly messages: UIMessage[]; readonly options?: InternalSubmitOptions | undefined }
  /** Its answer is refused, or it has failed. */
  | { readonly submissionId: string; readonly repair?: Repair };

/** Why a workflow refuses an answer, and who is notified of the next one. */
type Repair = {
  readonly error: string;
  readonly run: string;
  readonly notify?: ((submissionId: string) => readonly Destination[]) | undefined;
  readonly batch?: string | undefined;
};

/** Undefined where the submission that has ended is unknown, or has no repair left. */
export type Taken = IntakeResult | undefined;

/**
 * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError, BacklogFullError, and what the host
 *   refuses it with
 */
export function take(
  uses: IntakeUses,
  asked: Asked,
  find: (submissionId: string) => Submission | undefined,
): Taken {
  if ("messages" in asked) return takeMessages(uses, asked);
  const old = find(asked.submissionId);
  if (!old) return undefined;
  return asked.repair ? repair(uses, old, asked.repair) : resubmit(uses, old);
}

type StoreUses = Pick<RequestUses, "loop"> & {
  readonly store: SubmissionStore;
  readonly limits: Pick<Limits, "maxPending">;
};
export type IntakeUses = RequestUses &
  StoreUses & {
    readonly host: Pick<TurnHost, "check">;
    readonly turns: Pick<TurnEngine, "current">;
  };

/** (new) → pending, or the submission that is known under the same key or id. */
function takeMessages(
  uses: IntakeUses,
  { messages, options = {} }: Extract<Asked, { messages: unknown }>,
): IntakeResult {
  const { store } = uses;
  const { whenBusy } = options;
  const submission = prepare(uses, messages, options);
  uses.host.check?.(submission);
  const known = findKnown(uses, options);
  if (known && !isStale(known, options.run)) {
    const conflict = !asksTheSame(known, submission);
    if (conflict && options.onConflict === "throw") {
      throw new IdempotencyConflictError(known.submissionId, options.idempotencyKey);
    }
    // Without what may be large: the answers of a chunk can be more than the memory of an isolate.
    const lean = options.batch ? { ...known, messages: [], output: undefined } : known;
    return { submission: lean, accepted: false, ...(conflict && { conflict }) };
  }
  const debounced = debounce(uses, submission);
  if (debounced) return { submission: debounced, accepted: true, debounced: true };
  if (whenBusy === "reject") {
    const busy = uses.turns.current(submission.thread) ?? store.open.nextPending(submission.thread);
    if (busy) throw new BusyError(busy.submissionId);
  }
  const releaseKey = known && (() => store.releaseKey(known.seq));
  return { submission: accept(uses, submission, releaseKey), accepted: true, whenBusy };
}

/** Replaces the pending submission with the same debounce key. All destinations of both are notified of its end. */
function debounce({ store, loop }: StoreUses, submission: NewSubmission): Submission | undefined {
  const { debounceKey, notBefore = loop.clock.now(), notify = [] } = submission;
  const waiting = debounceKey === undefined ? undefined : store.open.debouncing(debounceKey);
  if (!waiting) return undefined;
  const all = new Map([...waiting.notify, ...notify].map((to) => [JSON.stringify(to), to]));
  const latest = { ...submission, notify: [...all.values()] };
  checkSize(latest);
  return store.replaceDebounced(waiting.seq, latest, notBefore);
}

/** Ended without an answer → (new) pending, with the same messages and key, or what an earlier call made. @throws BacklogFullError */
function resubmit(uses: StoreUses, old: Submission): IntakeResult {
  const { store } = uses;
  if (!isTerminal(old.status) || old.status === "completed") {
    return { submission: old, accepted: false };
  }
  const known = old.retriedBy === undefined ? undefined : store.find(old.retriedBy);
  if (known?.isRetry) return { submission: known, accepted: false };
  const again = {
    ...copyOf(old, store.newId()),
    isRetry: true,
    // The workflow that asked for the old one was notified of its end.
    batch: undefined,
    // There is nothing left to interrupt.
    rank: Math.max(old.rank, -100),
  };
  const submission = store.transaction(() => {
    const accepted = accept(uses, again, () => store.releaseKey(old.seq, again.submissionId));
    // Finished calls of its tools are not run again.
    store.toolCalls.copy(old.seq, accepted.seq);
    return accepted;
  });
  return { submission, accepted: true };
}

/**
 * completed → (new) pending: the workflow refuses the answer, and the model is shown why. A repeated call of the same run
 * returns what the first one made. Returns undefined where the submission has no repair left.
 *
 * @throws BacklogFullError
 */
function repair(
  uses: StoreUses,
  old: Submission,
  { error, run, notify, batch }: Repair,
): IntakeResult | undefined {
  const { store } = uses;
  const idempotencyKey = repairKeyOf(old.submissionId);
  const known = store.findByKey(idempotencyKey);
  if (known && !isStale(known, run)) return { submission: known, accepted: false };
  const left = repairsLeft(old.answer, store.attempts.priors(old));
  if (old.status !== "completed" || left < 1) return undefined;
  const submissionId = store.newId();
  const again = {
    ...copyOf(old, submissionId),
    idempotencyKey,
    run,
    batch,
    notify: notify?.(submissionId),
    metadata: { ...old.metadata, repairs: old.submissionId },
    // Next in its thread, as the attempts of one submission are.
    rank: old.rank - NEXT_RANK,
  };
  const submission = store.transaction(() => {
    const { seq } = accept(uses, again, () => known && store.releaseKey(known.seq));
    store.attempts.inherit(seq, old, refusedAnswer(old, error));
    return store.get(seq) as Submission;
  });
  return { submission, accepted: true };
}

/** The same work as a new submission. Its messages keep their ids: those that are in the conversation stay or move to its end. */
function copyOf(old: Submission, submissionId: string) {
  return {
    ...old,
    submissionId,
    isGenerated: true,
    isRetry: false,
    messages: JSON.stringify(old.messages),
    notBefore: undefined,
    expiresAt: undefined,
    debounceKey: undefined,
  };
}

/** @param before is written first, in the same transaction */
function accept(
  { store, loop, limits }: StoreUses,
  submission: NewSubmission,
  before?: () => void,
): Summary {
  const { pending } = store.open;
  if (pending >= limits.maxPending) throw new BacklogFullError(pending, limits.maxPending);
  const now = loop.clock.now();
  if (!before) return store.accept(submission, now);
  return store.transaction(() => {
    before();
    return store.accept(submission, now);
  });
}

function findKnown(
  { store }: StoreUses,
  { submissionId, idempotencyKey }: InternalSubmitOptions,
): Submission | undefined {
  const byId = submissionId === undefined ? undefined : store.find(submissionId);
  const byKey = idempotencyKey === undefined ? undefined : store.findByKey(idempotencyKey);
  if (submissionId !== undefined && idempotencyKey !== undefined) {
    const isSame =
      byId?.seq === byKey?.seq || (byId && byId.idempotencyKey === undefined && !byKey);
    if (!isSame) throw new SubmissionIdentityError(submissionId, idempotencyKey);
  }
  return byId ?? byKey;
}

/** UTF-16 units of the prompt that the model is reminded of: other turns may have followed in its thread. */
const MAX_PROMPT = 300;

/** The attempt whose answer was refused, as one that has failed. */
function refusedAnswer(
  { createdAt, startedAt, settledAt, output, messages }: Submission,
  error: string,
) {
  const parts = messages.at(-1)?.parts ?? [];
  const prompt = parts.map((part) => (part.type === "text" ? part.text : "")).join(" ");
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

/** Whether a stored submission asks the same, in the same thread. Message ids do not count: a caller that retries makes new ones. */
function asksTheSame(stored: Submission, repeated: NewSubmission): boolean {
  const answer = repeated.answer && JSON.parse(JSON.stringify(repeated.answer));
  const messages = JSON.parse(repeated.messages) as UIMessage[];
  const metadata = repeated.metadata && JSON.parse(JSON.stringify(repeated.metadata));
  return isDeepStrictEqual(
    [publicThreadOf(stored.thread), content(stored.messages), stored.answer, stored.metadata],
    [publicThreadOf(repeated.thread), content(messages), answer, metadata],
  );
}

function content(messages: UIMessage[]) {
  return messages.map(({ role, parts }) => ({ role, parts }));
}

/** Whether it was a failure, or a refused answer, of another run of the caller. */
function isStale({ status, run, isRefused }: Submission, asking: string | undefined): boolean {
  const hasFailed = isTerminal(status) && (status !== "completed" || isRefused);
  return asking !== undefined && run !== asking && hasFailed;
}

export function resultOf({ submission, ...result }: IntakeResult): SubmitMessagesResult {
  return { ...inspect(submission), ...result };
}
