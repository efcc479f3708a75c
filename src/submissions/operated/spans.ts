/**
 * The spans of one submission: how long it waited, and its attempts with their model and tool calls. What other modules have of
 * it is below it.
 */

import { spanIdOf } from "../../core/trace-context.ts";
import type { KeyedSpan, NewSpan, Spans, TraceSpan } from "../../engine/operated/spans.ts";
import { countedAttempts, traceOfSubmission } from "../inspection.ts";
import { isTerminal } from "../states.ts";
import type { AttemptTimeline, ModelCall } from "../store/timeline.ts";
import {
  type TracedAttempt,
  type TracedCall,
  type TracedSubmission,
  tracedAttempts,
  tracedCalls,
  tracedSubmission,
} from "../store/traced.ts";
import { publicThreadOf } from "../threads.ts";
import type { WaitedFor } from "../types.ts";

const MAX_ATTEMPTS = 200;
const INTERRUPTED = "The object was restarted or reset during the attempt";
const LOST_CALL = "The call was interrupted, and its outcome is not known";

type Attempt = {
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  readonly status: TraceSpan["status"];
  readonly error?: string | undefined;
  readonly isInterrupted?: boolean;
  /** The action after a failed attempt. */
  readonly follow?: TracedAttempt["follow"];
  readonly timeline: AttemptTimeline | undefined;
};

/** A span of an attempt. */
type Inner = { readonly attempt: number; readonly key: string; readonly span: NewSpan };

export function submissionKey(submissionId: string): string {
  return `submission:${submissionId}`;
}

/**
 * Adds the spans of a submission, parents first, because there may not be room for all.
 *
 * @param below those that other modules have of it
 */
export function addSubmission(
  sql: SqlStorage,
  spans: Spans,
  submission: TracedSubmission,
  parentSpanId: string | undefined,
  below: readonly KeyedSpan[],
): void {
  const { submissionId } = submission;
  const attempts = attemptsOf(sql, submission);
  const deliveries = below.filter(([, { kind }]) => kind === "delivery").length;
  const repairs = attempts.filter(({ follow }) => follow === "repair").length;
  const head = { ...headOf(sql, submission, deliveries, repairs), parentSpanId };
  const parent = spans.add(submissionKey(submissionId), head);
  if (parent === undefined) return;
  const ids = new Map(
    attempts.map((one) => [one.attempt, spans.add(...attemptSpan(submission, one, parent))]),
  );
  for (const wait of waitSpans(submission, attempts, parent)) spans.add(...wait);
  for (const [key, span] of below) spans.add(key, { ...span, parentSpanId: parent });
  for (const { attempt, key, span } of innerSpans(sql, spans, submission, attempts)) {
    spans.add(key, { ...span, parentSpanId: ids.get(attempt) ?? parent });
  }
}

function headOf(
  sql: SqlStorage,
  submission: TracedSubmission,
  deliveries: number,
  repairs: number,
): NewSpan {
  const { submissionId, status, mergedInto, usage, finishReason, channel } = submission;
  const { createdAt, settledAt, error, errorName, notify = [] } = submission;
  const target = mergedInto === undefined ? undefined : tracedSubmission(sql, mergedInto);
  return {
    name: "perdure.submission",
    kind: "submission",
    startedAt: createdAt,
    endedAt: settledAt,
    status: statusOf(status),
    error: error ?? errorName,
    attributes: {
      "perdure.submission.id": submissionId,
      "perdure.submission.status": status,
      "perdure.submission.attempts": countedAttempts(submission),
      "perdure.submission.repairs": repairs || undefined,
      "perdure.submission.merged_into": mergedInto,
      "perdure.thread": publicThreadOf(submission.thread),
      "perdure.channel": channel,
      "error.type": errorName,
      "gen_ai.usage.input_tokens": usage?.inputTokens,
      "gen_ai.usage.output_tokens": usage?.outputTokens,
      "gen_ai.usage.cost": usage?.cost,
      "perdure.finish_reason": finishReason,
      // A delivered one has no row, unless the outbox keeps it.
      "perdure.deliveries.untracked": isTerminal(status)
        ? Math.max(0, notify.length - deliveries)
        : undefined,
    },
    ...(target && { links: [linkTo(target)] }),
  };
}

/** A link to the span of a submission, in its own trace. */
export function linkTo(submission: TracedSubmission): { traceId: string; spanId: string } {
  const { traceId } = traceOfSubmission(submission);
  return { traceId, spanId: spanIdOf(traceId, submissionKey(submission.submissionId)) };
}

export function statusOf(status: TracedSubmission["status"]): TraceSpan["status"] {
  if (status === "completed") return "ok";
  return status === "error" ? "error" : "unset";
}

/** The failed, the interrupted and the last one, in their order. */
function attemptsOf(sql: SqlStorage, submission: TracedSubmission): Attempt[] {
  const { timeline, startedAt, settledAt, status, attempts, error, errorName } = submission;
  const failed = tracedAttempts(sql, submission, MAX_ATTEMPTS).map(
    (one): Attempt => ({ ...one, status: "error" }),
  );
  const interrupted = (timeline?.interrupted ?? []).map((one): Attempt => {
    // A model call that has to wait for a limit ends its attempt.
    const isWait = one.calls?.at(-1)?.errorName === "LimitWait";
    const ended = isWait
      ? ({ status: "unset" } as const)
      : ({ status: "error", error: INTERRUPTED, isInterrupted: true } as const);
    return { ...one, ...ended, timeline: one };
  });
  const earlier = [...failed, ...interrupted].sort((one, other) => one.attempt - other.attempt);
  const isOver = earlier.some((one) => one.attempt === attempts);
  if (status === "pending" || startedAt === undefined || isOver) return earlier;
  const last: Attempt = {
    attempt: attempts,
    startedAt,
    endedAt: settledAt,
    status: statusOf(status),
    error: error ?? errorName,
    timeline,
  };
  return [...earlier, last];
}

function attemptSpan(
  { submissionId }: TracedSubmission,
  { attempt, startedAt, endedAt, status, error, isInterrupted, timeline }: Attempt,
  parentSpanId: string,
): KeyedSpan {
  const span: NewSpan = {
    parentSpanId,
    name: "perdure.turn",
    kind: "attempt",
    startedAt,
    endedAt,
    status,
    error,
    attributes: {
      "perdure.submission.id": submissionId,
      "perdure.attempt": attempt,
      "perdure.attempt.interrupted": isInterrupted || undefined,
      // A restart has lost the times of its first model calls.
      "perdure.attempt.partial": timeline?.isPartial,
      "gen_ai.operation.name": "invoke_agent",
    },
  };
  return [`attempt:${submissionId}:${attempt}`, span];
}

/** The waiting before the first attempt, and before each other one. */
function waitSpans(
  {
    submissionId,
    createdAt,
    settledAt,
    status,
    attempts: count,
    dueAt,
    notBefore,
    waitingFor,
  }: TracedSubmission,
  attempts: readonly Attempt[],
  parentSpanId: string,
): KeyedSpan[] {
  const waits: KeyedSpan[] = [];
  let from: number | undefined = createdAt;
  const add = (before: number, startedAt: number, endedAt: number | undefined) => {
    const isLast = before === (status === "pending" ? count + 1 : count);
    const limit = isLast ? waitingFor : undefined;
    const attributes = {
      "perdure.submission.id": submissionId,
      "perdure.attempt": before,
      "perdure.due_at": endedAt === undefined ? (dueAt ?? notBefore) : undefined,
      ...limitAttributes(limit, limit && endedAt && endedAt - limit.since),
    };
    const name = before === 1 ? "perdure.wait" : "perdure.retry_wait";
    const span = { parentSpanId, name, kind: "wait", startedAt, endedAt, attributes } as const;
    waits.push([`wait:${submissionId}:${before}`, span]);
  };
  for (const { attempt, startedAt, endedAt } of attempts) {
    if (from !== undefined && startedAt > from) add(attempt, from, startedAt);
    from = endedAt;
  }
  if (from === undefined) return waits;
  if (status === "pending") add(count + 1, from, undefined);
  else if (settledAt !== undefined && settledAt > from) add(count + 1, from, settledAt);
  return waits;
}

function limitAttributes(limit: Omit<WaitedFor, "ms"> | undefined, waitedMs: number | undefined) {
  return {
    "perdure.limit.name": limit?.limit,
    "perdure.limit.key": limit?.key,
    "perdure.limit.why": limit?.why,
    "perdure.limit.wait_ms": waitedMs,
  };
}

/** Model calls and tool calls, in the order of time, so that the last ones are left out. */
function innerSpans(
  sql: SqlStorage,
  spans: Spans,
  { seq, submissionId, status }: TracedSubmission,
  attempts: readonly Attempt[],
): Inner[] {
  const { calls, count } = tracedCalls(sql, seq, Math.max(spans.room, 0));
  const models = attempts.flatMap(({ attempt, timeline }) => {
    spans.leaveOut(timeline?.omitted ?? 0);
    return (timeline?.calls ?? []).map((call, index): Inner => {
      const key = `model:${submissionId}:${attempt}:${index}`;
      return { attempt, key, span: modelSpan(call, submissionId) };
    });
  });
  // A submission that retries another one has the calls of that one, too.
  const own = calls.filter(({ attempt }) => attempt > 0);
  spans.leaveOut(count - calls.length);
  const tools = own.map((call): Inner => {
    const { attempt, ordinal } = call;
    const within = attempts.find((one) => one.attempt === attempt);
    const isRunning = status === "running" && within?.endedAt === undefined;
    const span = toolSpan(call, submissionId, isRunning ? undefined : within?.endedAt);
    return { attempt, key: `tool:${submissionId}:${ordinal}`, span };
  });
  return [...models, ...tools].sort(
    ({ span: one }, { span: other }) =>
      one.startedAt - other.startedAt ||
      (one.endedAt ?? Infinity) - (other.endedAt ?? Infinity) ||
      0,
  );
}

function modelSpan(call: ModelCall, submissionId: string): NewSpan {
  const { startedAt, endedAt, model, provider, inputTokens, outputTokens, error, errorName } = call;
  const { waited } = call;
  return {
    name: model === undefined ? "chat" : `chat ${model}`,
    kind: "model",
    startedAt,
    endedAt,
    status: error === undefined ? "ok" : "error",
    error,
    attributes: {
      "perdure.submission.id": submissionId,
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": model,
      "gen_ai.provider.name": provider,
      "error.type": error === undefined ? undefined : (errorName ?? "_OTHER"),
      "gen_ai.usage.input_tokens": inputTokens,
      "gen_ai.usage.output_tokens": outputTokens,
      ...limitAttributes(waited, waited?.ms),
    },
  };
}

/** @param attemptEnd when its attempt ended: a call without an outcome was interrupted then; undefined while it runs */
function toolSpan(
  { ordinal, toolCallId, toolName, outcome, error, startedAt, endedAt }: TracedCall,
  submissionId: string,
  attemptEnd: number | undefined,
): NewSpan {
  const isLost = outcome === null && attemptEnd !== undefined;
  const isFailed = outcome === "error" || isLost;
  return {
    name: `execute_tool ${toolName}`,
    kind: "tool",
    startedAt,
    endedAt: endedAt ?? attemptEnd,
    status: isFailed ? "error" : outcome === null ? "unset" : "ok",
    error: isLost ? LOST_CALL : (error ?? undefined),
    attributes: {
      "perdure.submission.id": submissionId,
      "perdure.tool_call": ordinal,
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": toolName,
      "gen_ai.tool.call.id": toolCallId,
    },
  };
}
