/** Errors of invalid calls. When a call throws one, nothing was stored. */

import { checkBytes, type Json } from "../../core/json.ts";
import { oneOf, readOptions } from "../../core/options/option-schemas.ts";
import { InvalidFieldError } from "../../core/options/options.ts";
import type { Closing, WaitStatus } from "./protocol.ts";

/** Bytes of a request or of a result, as JSON: a row takes 2 MB. */
export const MOST_BYTES = 1_500_000;

/** A request, a result or a decision that cannot be taken. Nothing was stored. */
export class InvalidWaitError extends InvalidFieldError {
  override readonly name = "InvalidWaitError";
}

/** The error of a step whose kind the agent's class does not have. */
export function missingKind(kind: string): InvalidWaitError {
  const problem = `The agent takes no step of the kind "${kind}". Deploy the agent in the version of its workflows.`;
  return new InvalidWaitError("kind", problem);
}

/** An invalid list or decision of approvals. Nothing was stored, and the approval is as it was. */
export class InvalidApprovalError extends InvalidFieldError {
  override readonly name = "InvalidApprovalError";
}

/** @throws InvalidWaitError for a request that is too large */
export function checkRequest(kind: string, request: Json): void {
  const refuse = (message: string) => new InvalidWaitError("request", message);
  const name = `request of a step of kind ${kind}`;
  checkBytes(name, JSON.stringify(request), { maxBytes: MOST_BYTES, refuse });
}

const STATUS = oneOf<WaitStatus>(["completed", "rejected", "failed", "expired", "cancelled"]);

/** @throws InvalidWaitError for an unknown status, or a result that is too large */
export function checkClosing({ status, result }: Closing): void {
  const refuse = (message: string) => new InvalidWaitError("result", message);
  readOptions(STATUS, status, "status", (field, message) => new InvalidWaitError(field, message));
  // JSON has no text for undefined, which is no result.
  checkBytes("result of a step", JSON.stringify(result) ?? "", { maxBytes: MOST_BYTES, refuse });
}
