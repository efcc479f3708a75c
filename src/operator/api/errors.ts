/** Answers of the operator API other than 200. */

import { TimeoutError } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";

/** An answer with this status, and this text for the caller. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    override readonly name: string,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

export const notFound = (what: string) => new HttpError(404, "NotFound", `${what} was not found.`);
export const invalidCursor = () =>
  badRequest("Invalid parameter cursor: pass the cursor of the page before, or none.");
export const unreachable = (message: string) =>
  new HttpError(503, "Unreachable", message, { "retry-after": "5" });
export const badRequest = (message: string) => new HttpError(400, "BadRequest", message);

/**
 * Errors of calls that the caller can correct. Over RPC, an error keeps its name and not its class. Without the compatibility flag
 * `enhanced_error_serialization` its name is the beginning of its message.
 */
const REFUSED =
  /^(Invalid\w*|\w*Syntax|UnknownCursor|Replay|OutboxFull|BacklogFull|TooManyOccurrences|NotSupportedByHost)Error$/;
const CONFLICT = /^(IdempotencyConflict|Busy|WorkflowExists|SubmissionIdentity)Error$/;

const NAMED = /^(\w+Error): (.+)$/s;

const sentence = (text: string) => text.replace(/\.*$/, ".");

/** The answer for an error that a call of an agent has thrown. */
export function httpErrorOf(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  const failure = failureOf(error);
  const [, name = failure.name, message = failure.message] =
    (failure.name === "Error" && NAMED.exec(failure.message)) || [];
  if (REFUSED.test(name)) return new HttpError(400, name, message);
  if (CONFLICT.test(name)) return new HttpError(409, name, message);
  if (name === "FeatureNotInstalledError") return new HttpError(501, name, message);
  if (name === "NotDurableError") return new HttpError(503, "Unreachable", message);
  if (name === "UnknownTaskError") return new HttpError(404, "NotFound", message);
  if (error instanceof TimeoutError)
    return unreachable(`The agent did not answer: ${sentence(message)}`);
  const { retryable, overloaded, remote } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (retryable === true || overloaded === true) {
    return unreachable(`The agent could not be reached: ${sentence(message)}`);
  }
  console.error(
    JSON.stringify({ perdure: "operator:failed", name, message, remote: remote === true }),
  );
  return new HttpError(
    500,
    "InternalError",
    "The request failed. The Worker's log has the reason.",
  );
}
