/** The rows of `perdure_submissions`, as they are read. Only the store writes them. */

import type { UIMessage } from "ai";
import type { Failure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import type { Destination } from "../../outbox/types.ts";
import type { TurnFacts } from "../host.ts";
import type { SubmissionStatus, TerminalStatus } from "../states.ts";
import type { NextAction } from "../turns/attempt-plan.ts";
import type { AnswerSpec, SubmitMessagesOptions, TokenUsage } from "../types.ts";
import { StoredAnswer } from "./answers.ts";

/** A row as SQLite has it. */
type Row = {
  seq: number;
  submission_id: string;
  idempotency_key: string | null;
  status: SubmissionStatus;
  attempts: number;
  messages: string;
  metadata: string | null;
  thread: string;
  channel: string | null;
  answer: string | null;
  notify: string | null;
  run: string | null;
  output: string | null;
  error: string | null;
  error_name: string | null;
  request_id: string | null;
  message_id: string | null;
  usage: string | null;
  created_at: number;
  started_at: number | null;
  settled_at: number | null;
  retry: string | null;
  due_at: number | null;
  rank: number;
  not_before: number | null;
  expires_at: number | null;
  key_expires_at: number | null;
  budget: number | null;
  resets: number;
  merged_into: string | null;
  debounce_key: string | null;
  debounce_until: number | null;
  rollback_state: "pending" | "done" | null;
  batch: string | null;
  is_refused: number;
  finish_reason: string | null;
  is_retry: number;
  retried_by: string | null;
};

/** Taken from the rank of one that goes before all others, and added again when it runs. */
export const NEXT_RANK = 10_000;

/** A stored submission, with its JSON read. */
export type Submission = ReturnType<typeof toSubmission>;
/** The same without messages and answer spec, which may be large. */
export type Summary = ReturnType<typeof toSummary>;

type SummaryRow = Omit<Row, "messages" | "answer" | "is_retry" | "retried_by">;

/** Columns of a {@link Summary}, for SQL. */
export const SUMMARY = `seq, submission_id, idempotency_key, status, attempts, thread, created_at, started_at, settled_at,
  due_at, rank, not_before, expires_at, key_expires_at, budget, resets, rollback_state, is_refused, merged_into, batch,
  debounce_key, debounce_until, run, channel, request_id, message_id, finish_reason, retry, usage, error_name, error, notify,
  metadata, output`;

/** Whether it expired before its first attempt. */
export function isExpired({ expiresAt, attempts }: Submission, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now && attempts === 0;
}

/** For a column that may be empty. */
export function json(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

function parse<T>(text: string | null): T | undefined {
  return text === null ? undefined : (JSON.parse(text) as T);
}

function toSubmission(sql: SqlStorage, row: Row) {
  return {
    ...toSummary(sql, row),
    messages: JSON.parse(row.messages) as UIMessage[],
    answer: parse<AnswerSpec>(row.answer),
    /** Whether `retrySubmission()` has made it. */
    isRetry: row.is_retry === 1,
    /** The submission that `retrySubmission()` has made of it. */
    retriedBy: row.retried_by ?? undefined,
  };
}

function toSummary(sql: SqlStorage, row: SummaryRow) {
  return {
    seq: row.seq,
    submissionId: row.submission_id,
    idempotencyKey: row.idempotency_key ?? undefined,
    status: row.status,
    attempts: row.attempts,
    /** UTF-16 units of its metadata and its error as stored. */
    bytes: (row.metadata?.length ?? 0) + (row.error?.length ?? 0),
    metadata: parse<Record<string, Json>>(row.metadata),
    thread: row.thread,
    channel: row.channel ?? undefined,
    notify: parse<Destination[]>(row.notify) ?? [],
    run: row.run ?? undefined,
    retry: parse<NonNullable<SubmitMessagesOptions["retry"]>>(row.retry),
    /** When a pending one is due, if it has to wait for a time. */
    dueAt: row.due_at ?? row.not_before ?? undefined,
    /** The position in the queue: lower goes first. */
    rank: row.rank < -NEXT_RANK / 2 ? row.rank + NEXT_RANK : row.rank,
    /** Whether it goes before all others of its thread. */
    isNext: row.rank < -NEXT_RANK / 2,
    expiresAt: row.expires_at ?? undefined,
    keyExpiresAt: row.key_expires_at ?? undefined,
    /** Tokens that it may use in all. */
    budget: row.budget ?? undefined,
    /** Attempts that a reset of the platform ended. */
    resets: row.resets,
    /** The submission whose turn it has joined. */
    mergedInto: row.merged_into ?? undefined,
    debounceKey: row.debounce_key ?? undefined,
    /** The latest time that repetitions can delay it to. */
    debounceUntil: row.debounce_until ?? undefined,
    /** Whether its messages are still to be removed from the conversation. */
    isRollbackPending: row.rollback_state === "pending",
    /** The batch of prompts that it is one of. */
    batch: row.batch ?? undefined,
    /** Whether its workflow refused the answer. */
    isRefused: row.is_refused === 1,
    /** Whether an answer is recorded; `null` is one as well. */
    isAnswered: row.output !== null,
    output: row.output === null ? undefined : new StoredAnswer(sql, row.seq, row.output),
    error: row.error ?? undefined,
    errorName: row.error_name ?? undefined,
    requestId: row.request_id ?? undefined,
    messageId: row.message_id ?? undefined,
    finishReason: row.finish_reason ?? undefined,
    usage: parse<TokenUsage>(row.usage),
    createdAt: row.created_at,
    startedAt: row.started_at ?? undefined,
    settledAt: row.settled_at ?? undefined,
  };
}

/** The submissions that a query for whole rows returns. */
export function select(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Submission[] {
  return sql
    .exec<Row>(query, ...bindings)
    .toArray()
    .map((row) => toSubmission(sql, row));
}

/** The same one by one, because their messages may exceed the memory. */
export function* eachWhole(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Generator<Submission> {
  for (const row of sql.exec<Row>(query, ...bindings)) yield toSubmission(sql, row);
}

/** The submissions that a query for {@link SUMMARY} returns. */
export function summaries(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Summary[] {
  return [...each(sql, query, ...bindings)];
}

/** The same one by one, because their answers and metadata may exceed the memory. */
export function* each(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Generator<Summary> {
  for (const row of sql.exec<SummaryRow>(query, ...bindings)) yield toSummary(sql, row);
}

/** A submission as the caller saw it: the fence of a transition. */
export type Seen = Pick<Submission, "seq" | "attempts" | "status">;

/** What `accept` stores. */
export type NewSubmission = {
  readonly submissionId: string;
  /** Whether the id comes from `newId()` of the store. */
  readonly isGenerated: boolean;
  /** Whether `retrySubmission()` made it, with the messages of another one. */
  readonly isRetry: boolean;
  readonly idempotencyKey: string | undefined;
  /** JSON of the messages, whose size was checked. */
  readonly messages: string;
  readonly metadata: Record<string, unknown> | undefined;
  readonly thread: string;
  readonly channel: string | undefined;
  readonly answer: AnswerSpec | undefined;
  readonly notify: readonly Destination[] | undefined;
  readonly run: string | undefined;
  readonly retry: SubmitMessagesOptions["retry"];
  readonly rank: number;
  readonly notBefore: number | undefined;
  readonly expiresAt: number | undefined;
  readonly keyExpiresAt: number | undefined;
  readonly budget: number | undefined;
  readonly debounceKey: string | undefined;
  /** The latest time that repetitions can delay it to. */
  readonly debounceUntil: number | undefined;
  /** The batch of prompts that it is one of. */
  readonly batch: string | undefined;
};

export type SettledState = TurnFacts & {
  readonly status: TerminalStatus;
  /** What ended it. A cancellation without a reason has no message. */
  readonly failure?: (Pick<Failure, "name"> & Partial<Failure>) | undefined;
  /** The last answer that was refused, as JSON. */
  readonly refused?: string | undefined;
  /** Tokens in all, where they are known. */
  readonly usage?: TokenUsage | undefined;
  /** Whether its messages are removed from the conversation. */
  readonly isRolledBack?: boolean | undefined;
};

/** The end of an attempt that is followed by another one. */
export type FailedEnd = {
  /** When the next attempt is due; unset for as soon as the thread is free. */
  readonly dueAt: number | undefined;
  readonly follow: NextAction;
  /** What it gave for an answer. */
  readonly given: string | undefined;
  readonly failure: Failure;
  /** Tokens of this attempt, and of all so far. */
  readonly spent: TokenUsage | undefined;
  readonly usage: TokenUsage | undefined;
};
