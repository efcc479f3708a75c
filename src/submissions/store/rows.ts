/** The rows of `perdure_submissions`, as they are read, with their states and threads. Only the store writes them. */

import type { UIMessage } from "ai";
import { type Failure, readFailure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { rowOf } from "../../core/sql.ts";
import type { Destination } from "../../outbox/destinations/index.ts";
import type { SubmissionStatus, TerminalStatus } from "../states.ts";
import type { AnswerSpec, SubmitMessagesOptions } from "../submit-options.ts";
import type { NextAction } from "../turns/next-attempt.ts";
import type { TokenUsage, WaitingFor } from "../types.ts";
import { StoredAnswer } from "./answers.ts";
import type { AttemptTimeline, Timeline } from "./timeline.ts";

/** The columns that are read as they are: NULL is undefined, and JSON is parsed. */
type Columns = {
  seq: number;
  submissionId: string;
  idempotencyKey: string | undefined;
  status: SubmissionStatus;
  attempts: number;
  metadata: Record<string, Json> | undefined;
  thread: string;
  channel: string | undefined;
  run: string | undefined;
  retry: SubmitMessagesOptions["retry"];
  expiresAt: number | undefined;
  /** Tokens that it may use in all. */
  budget: number | undefined;
  /** Attempts that a reset of the platform or a wait for a limit ended. */
  resets: number;
  /** Those that a wait for a limit ended. */
  waits: number;
  mergedInto: string | undefined;
  debounceKey: string | undefined;
  /** The latest time that repetitions can delay it to. */
  debounceUntil: number | undefined;
  batch: string | undefined;
  error: string | undefined;
  errorName: string | undefined;
  requestId: string | undefined;
  messageId: string | undefined;
  finishReason: string | undefined;
  traceParent: string | undefined;
  usage: TokenUsage | undefined;
  /** The limit that a pending one waits for, or that the last attempt has waited for. */
  waitingFor: WaitingFor | undefined;
  createdAt: number;
  startedAt: number | undefined;
  settledAt: number | undefined;
};

/** Columns that are read in another form. */
type SummaryRow = Columns & {
  notify: Destination[] | undefined;
  output: string | undefined;
  dueAt: number | undefined;
  rank: number;
  notBefore: number | undefined;
  rollbackState: "pending" | "done" | undefined;
  isRefused: number;
};

type Row = SummaryRow & {
  messages: UIMessage[];
  answer: AnswerSpec | undefined;
  timeline: Timeline | undefined;
  isRetry: number;
  /** The submission that `retrySubmission()` has made of it. */
  retriedBy: string | undefined;
  /** What `limits()` keeps of its options. */
  limits: StoredLimits | undefined;
};

const JSON_COLUMNS = [
  ...["metadata", "notify", "retry", "usage", "timeline", "answer", "messages"],
  ...["limits", "waiting_for"],
];

/** Taken from the rank of one that goes before all others, and added again when it runs. */
export const NEXT_RANK = 10_000;

/** A stored submission, with its JSON read. */
export type Submission = ReturnType<typeof toSubmission>;
/** A {@link Row} without messages and answer spec, which may be large. */
export type Summary = ReturnType<typeof toSummary>;

export const SUMMARY = `seq, submission_id, idempotency_key, status, attempts, thread, created_at, started_at, settled_at,
  due_at, rank, not_before, expires_at, budget, resets, waits, rollback_state, is_refused, merged_into, batch,
  debounce_key, debounce_until, run, channel, request_id, message_id, finish_reason, trace_parent, retry, usage, error_name, error, notify,
  metadata, output, iif(due_at > 0, waiting_for, NULL) AS waiting_for`;

/** Whether it expired before its first attempt. */
export function isExpired({ expiresAt, attempts }: Submission, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now && attempts === 0;
}

export function json(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

/** The error without its cause. */
export function readRow<Read extends { error?: string | undefined }>(
  columns: Record<string, SqlStorageValue>,
): Read {
  const row = rowOf<Read>(columns, JSON_COLUMNS);
  return row.error === undefined ? row : { ...row, error: readFailure(row.error).message };
}

function toSubmission(sql: SqlStorage, row: Row) {
  const { messages, answer, timeline, retriedBy, limits, waits } = row;
  /** Whether `retrySubmission()` has made it. */
  const isRetry = row.isRetry === 1;
  const large = { messages, answer, timeline, limits };
  return { ...toSummary(sql, row), ...large, retriedBy, waits, isRetry };
}

function toSummary(sql: SqlStorage, row: SummaryRow) {
  const { output, dueAt, rank, notBefore, rollbackState, ...columns } = row;
  /** Whether it goes before all others of its thread. */
  const isNext = rank < -NEXT_RANK / 2;
  return {
    ...(columns satisfies Columns),
    notify: row.notify ?? [],
    /** When a pending one is due, if it has to wait for a time. */
    dueAt: dueAt ?? notBefore,
    /** Until when a model call of a running one waits in memory for a limit. */
    waitsUntil: columns.status === "running" ? dueAt : undefined,
    /** The position in the queue: lower goes first. */
    rank: isNext ? rank + NEXT_RANK : rank,
    isNext,
    /** Whether its messages are still to be removed from the conversation. */
    isRollbackPending: rollbackState === "pending",
    /** Whether its workflow refused the answer. */
    isRefused: row.isRefused === 1,
    /** Whether an answer is recorded; `null` is one as well. */
    isAnswered: output !== undefined,
    output: output === undefined ? undefined : new StoredAnswer(sql, row.seq, output),
  };
}

/** A submission that has just been stored, without a read. Its other columns are empty. */
export function acceptedRow(
  sql: SqlStorage,
  { messages, answer, isGenerated, isRetry, ...given }: NewSubmission,
  seq: number,
  createdAt: number,
): Summary {
  const metadata = given.metadata && JSON.parse(JSON.stringify(given.metadata));
  const counts = { attempts: 0, resets: 0, waits: 0, isRefused: 0 };
  const row = { ...given, ...counts, seq, createdAt, metadata, status: "pending" as const };
  return toSummary(sql, row as unknown as SummaryRow);
}

/** The submissions that a query for whole rows returns, one by one, because their messages may exceed the memory. */
export function* eachWhole(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Generator<Submission> {
  for (const row of sql.exec(query, ...bindings)) yield toSubmission(sql, readRow<Row>(row));
}

export function select(sql: SqlStorage, query: string, ...bindings: SqlStorageValue[]) {
  return [...eachWhole(sql, query, ...bindings)];
}

/** The submissions that a query for {@link SUMMARY} returns, one by one. */
export function* each(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Generator<Summary> {
  for (const row of sql.exec(query, ...bindings)) yield toSummary(sql, readRow<SummaryRow>(row));
}

export function summaries(sql: SqlStorage, query: string, ...bindings: SqlStorageValue[]) {
  return [...each(sql, query, ...bindings)];
}

/** A submission as the caller saw it: the fence of a transition. */
export type Seen = Pick<Submission, "seq" | "attempts" | "status">;

export type NewSubmission = Omit<
  Pick<Submission, NewColumn>,
  "messages" | "metadata" | "notify"
> & {
  /** Whether the id comes from `newId()` of the store. */
  readonly isGenerated: boolean;
  /** JSON of the messages, whose size was checked. */
  readonly messages: string;
  readonly metadata: Record<string, unknown> | undefined;
  readonly notify: readonly Destination[] | undefined;
  readonly notBefore: number | undefined;
};

const GIVEN = [
  ...(["submissionId", "isRetry", "idempotencyKey", "thread", "channel", "traceParent"] as const),
  ...(["run", "retry", "rank", "expiresAt", "budget", "debounceKey"] as const),
  ...(["debounceUntil", "batch", "notify", "metadata", "answer", "messages", "limits"] as const),
] as const;
type NewColumn = (typeof GIVEN)[number];
export const NEW_COLUMNS = [...GIVEN, "isGenerated", "notBefore"] as const;

export type SettledState = TurnFacts & {
  readonly status: TerminalStatus;
  /** The error or the reason. A cancellation without a reason has no message. */
  readonly failure?: (Pick<Failure, "name"> & Partial<Failure>) | undefined;
  readonly refused?: string | undefined;
  readonly usage?: TokenUsage | undefined;
  readonly timeline?: Timeline | undefined;
  readonly isRolledBack?: boolean | undefined;
};

/** The end of an attempt that is followed by another one. */
export type FailedEnd = {
  /** When the next attempt is due; unset for as soon as the thread is free. */
  readonly dueAt: number | undefined;
  readonly follow: NextAction;
  /** The rejected answer. */
  readonly given: string | undefined;
  readonly failure: Failure;
  /** Tokens of this attempt, and of all so far. */
  readonly spent: TokenUsage | undefined;
  readonly usage: TokenUsage | undefined;
  readonly timeline?: AttemptTimeline | undefined;
};

/*
 * A generated id begins with the number of its row, so that no index has to hold it. Those that a caller has chosen are in an index
 * of their own, whatever their form.
 */

const GENERATED = /^([0-9a-z]{1,11})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const RADIX = 36;

export function generatedId(seq: number, uuid: string): string {
  return `${seq.toString(RADIX)}-${uuid}`;
}

export function seqIn(submissionId: string): number | null {
  const [, number] = GENERATED.exec(submissionId) ?? [];
  const seq = number === undefined ? Number.NaN : Number.parseInt(number, RADIX);
  return Number.isSafeInteger(seq) ? seq : null;
}

/** SQL for the number of the row with an id, or NULL: by the number in it, or by the index of those that callers have chosen. */
function seqOf(id: string, seq: string): string {
  return `COALESCE((SELECT seq FROM perdure_submissions WHERE seq = ${seq} AND submission_id = ${id}),
    (SELECT seq FROM perdure_submissions WHERE submission_id = ${id} AND is_generated = 0))`;
}

/** Row lookup for one bound id, see {@link bindId}. */
export const SEQ_OF_ID = seqOf("?", "?");

/** In the order of {@link SEQ_OF_ID}. */
export function bindId(submissionId: string): [number | null, string, string] {
  return [seqIn(submissionId), submissionId, submissionId];
}

/** Row lookup for each `value` of json_each(), a list made by {@link bindIds}. */
export const SEQ_OF_EACH = seqOf("value ->> 0", "value ->> 1");

export function bindIds(submissionIds: readonly string[]): string {
  return JSON.stringify(submissionIds.map((id) => [id, seqIn(id)]));
}

export type StoredLimits = {
  readonly [name: string]: Json;
  /** A budget in dollars: the usage is written after each model call. */
  readonly usd?: number;
};

export type TurnFacts = {
  /** The host's own id of the turn, where it is not the submission's. */
  readonly requestId?: string | undefined;
  readonly messageId?: string | undefined;
  /** Why the model's last call ended, where the host knows it. */
  readonly finishReason?: string | undefined;
  /** The text of the reply after its last tool call: the output, unless a schema was given. */
  readonly text?: string | undefined;
};
