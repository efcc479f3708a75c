/** The errors of the ledger. When a call throws one, nothing was stored. */

import { type Failure, failureOf } from "../core/failures.ts";
import { preview, shorten, tooLarge } from "../core/json.ts";
import { InvalidFieldError, invalidMessage } from "../core/options/options.ts";
import type { SchemaMismatchError } from "../core/schema/schema.ts";

/** A submission that cannot be accepted as it is. */
export class InvalidSubmissionError extends InvalidFieldError {
  override readonly name = "InvalidSubmissionError";
}

/** Makes the error of `readOptions()`. */
export function invalidSubmission(field: string, message: string): InvalidSubmissionError {
  return new InvalidSubmissionError(field, message);
}

/** @param problem what is expected and the remedy, without the last full stop */
export function invalidValue(field: string, value: unknown, problem: string) {
  const message = invalidMessage(field, preview(value), problem);
  return new InvalidSubmissionError(shorten(field), message);
}

/** `submissionId` and `idempotencyKey` name two different submissions. */
export class SubmissionIdentityError extends Error {
  override readonly name = "SubmissionIdentityError";
  constructor(
    readonly submissionId: string,
    readonly idempotencyKey: string,
  ) {
    const pair = `id ${JSON.stringify(submissionId)} and key ${JSON.stringify(idempotencyKey)}`;
    super(
      `submissionId and idempotencyKey refer to different submissions: ${pair}. ` +
        "Pass one of them.",
    );
  }
}

/** The key or id is known with different messages, and `onConflict` is `"throw"`. */
export class IdempotencyConflictError extends Error {
  override readonly name = "IdempotencyConflictError";
  constructor(
    /** The submission that holds the key. */
    readonly submissionId: string,
    readonly idempotencyKey: string | undefined,
  ) {
    const how =
      idempotencyKey === undefined
        ? "with this id"
        : `under the key ${JSON.stringify(idempotencyKey)}`;
    super(
      `Submission ${JSON.stringify(submissionId)} was accepted ${how} with different messages. Use a new key for new work.`,
    );
  }
}

/** The thread has an open submission, and `whenBusy` is `"reject"`. */
export class BusyError extends Error {
  override readonly name = "BusyError";
  constructor(
    /** The submission that runs or is next. */
    readonly submissionId: string,
  ) {
    super(
      `Submission ${JSON.stringify(submissionId)} is running or pending, and whenBusy is "reject". ` +
        'Submit again later, or use "enqueue", "interrupt" or "steer".',
    );
  }
}

/** The budget is used up: no further model call is made. */
export class BudgetExceededError extends Error {
  override readonly name = "BudgetExceededError";
  constructor(
    readonly used: number,
    readonly budget: number,
  ) {
    super(
      `The submission has used ${used} of its ${budget} tokens. Raise budget.tokens, or ask for less.`,
    );
  }
}

/** The model does not report its tokens, so a budget cannot be enforced: no further model call is made. */
export class UsageNotReportedError extends Error {
  override readonly name = "UsageNotReportedError";
  constructor(
    readonly budget: number,
    /** The value that the model has reported, if that is not a number of tokens. */
    garbage?: string,
  ) {
    const reported =
      garbage === undefined
        ? "did not report its usage"
        : `reported ${garbage} as its usage; expected finite numbers from 0`;
    super(
      `The model ${reported}, so budget.tokens (${budget}) cannot be measured. ` +
        "Use a model or provider that reports usage, or leave out budget.tokens.",
    );
  }
}

/** The submission that `before` names does not exist: it was deleted, or never existed. */
export class UnknownCursorError extends Error {
  override readonly name = "UnknownCursorError";
  constructor(readonly before: string) {
    super(
      `Invalid before ${preview(before)}: there is no such submission. ` +
        "Use one that exists, or createdBefore.",
    );
  }
}

/** A list has read its maximum of submissions, and none matched. */
export class ListScanLimitError extends Error {
  override readonly name = "ListScanLimitError";
  constructor(
    /** How many were read. */
    readonly limit: number,
    /** Pass it as `before` to continue. */
    readonly next: string,
    readonly before: string | undefined,
  ) {
    const which = before === undefined ? "read" : `before ${preview(before)}`;
    super(
      `None of the ${limit} submissions ${which} matches. Pass before: ${JSON.stringify(next)} to search the older ones.`,
    );
  }
}

/** The turn's answer is too large. */
export class AnswerTooLargeError extends Error {
  override readonly name = "AnswerTooLargeError";
  constructor(
    /** Bytes of the answer, as JSON in UTF-8. */
    readonly bytes: number,
    readonly maxBytes: number,
  ) {
    super(tooLarge("answer", bytes, maxBytes));
  }
}

/** `readOutput()` has no output to return: the submission is unknown, open or failed, or its output does not match the schema. */
export class SubmissionOutputError extends Error {
  override readonly name = "SubmissionOutputError";
  constructor(
    message: string,
    /** Unset for an unknown submission. */
    readonly submissionId?: string,
    readonly status?: string,
    /** The mismatch, as the schema library reports it. */
    override readonly cause?: SchemaMismatchError,
  ) {
    super(message);
  }
}

/** A turn has reached `maxToolCalls`: the tool does not run, and the model gets this error. */
export class ToolCallLimitError extends Error {
  override readonly name = "ToolCallLimitError";
  constructor(readonly maxToolCalls: number) {
    super(
      `This turn has made ${maxToolCalls} tool calls, which is the limit. The tool was not run. Finish without more calls. ` +
        "(For the developer: raise maxToolCalls, or use safeToRepeat().)",
    );
  }
}

/** Steps of one call of a durable tool. */
export const MAX_TOOL_STEPS = 100;

/** A call of a durable tool has the maximum number of steps: the step does not run. */
export class ToolStepLimitError extends Error {
  override readonly name = "ToolStepLimitError";
  constructor() {
    super(
      `This tool call has ${MAX_TOOL_STEPS} steps, which is the limit. The step was not run. Do more in one step.`,
    );
  }
}

/** The turn made no progress for `stallTimeout`: a transient failure. */
export class TurnStalledError extends Error {
  override readonly name = "TurnStalledError";
  constructor(readonly stallTimeoutMs: number) {
    super(
      `The turn has stalled: no progress for ${stallTimeoutMs} ms. Find the call that hangs, or raise stallTimeout.`,
    );
  }
}

/** `maxPending` submissions are pending. */
export class BacklogFullError extends Error {
  override readonly name = "BacklogFullError";
  constructor(
    readonly pending: number,
    readonly maxPending: number,
  ) {
    super(
      `${pending} submissions are pending, and maxPending is ${maxPending}. ` +
        "Submit it again later under the same idempotency key, or raise maxPending.",
    );
  }
}

/** The name of a cancellation. */
export const CANCELLED = "SubmissionCancelledError";

/** The failure of a cancellation with a reason. */
export function cancellationOf(reason: unknown): Failure | undefined {
  if (reason === undefined) return undefined;
  const isPlain = typeof reason === "object" && !(reason instanceof Error);
  return { name: CANCELLED, message: isPlain ? preview(reason) : failureOf(reason).message };
}
