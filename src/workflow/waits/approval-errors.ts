/** Why an approval has brought no decision. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { SchemaMismatchError } from "../../core/schema.ts";

/** There is no decision. A rejection is none of these: it is a decision. */
export class ApprovalError extends Error {
  override name = "ApprovalError";
  constructor(
    message: string,
    /** The approval at the agent: `agent.inspectApproval(approvalId)` tells more. */
    readonly approvalId: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** Nobody decided within `timeout`, and `onTimeout` is `"throw"`; the agent was asked before (W2). */
export class ApprovalTimeoutError extends ApprovalError {
  override name = "ApprovalTimeoutError";
  constructor(approvalId: string) {
    super(
      `Nobody decided about the approval ${approvalId} in time. ` +
        'Wait longer with timeout, or say with onTimeout what that means, e.g. "reject".',
      approvalId,
    );
  }
}

/** Nobody can decide any more: the workflow was terminated at its agent. */
export class ApprovalCancelledError extends ApprovalError {
  override name = "ApprovalCancelledError";
  constructor(approvalId: string) {
    super(
      `The approval ${approvalId} was cancelled. Restart the workflow to ask again.`,
      approvalId,
    );
  }
}

/** The workflow's schema has refused the payload of every approval that asked again, ten of them. */
export class ApprovalPayloadError extends ApprovalError {
  override name = "ApprovalPayloadError";
  /** As the schema's library tells them. */
  readonly issues: readonly StandardSchemaV1.Issue[];
  /** What was wrong, in one line. */
  readonly problem: string;
  constructor(approvalId: string, cause: SchemaMismatchError) {
    super(
      `The payload of the approval ${approvalId} is refused by its schema: ${cause.message}. ` +
        "To ask again, restart the workflow, or ask once more under another key. " +
        "A rule that JSON Schema can express is checked before the decision is taken.",
      approvalId,
      cause,
    );
    this.issues = cause.issues;
    this.problem = cause.message;
  }
}
