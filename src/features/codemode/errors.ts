/** How a step of Code Mode can fail. */

import type { CodemodeCall } from "./types.ts";

/** The facts of an execution without a result. */
export type CodemodeDetails = {
  /** In the agent's Code Mode runtime; none where nothing was begun, or its time was over. */
  readonly executionId?: string | undefined;
  /** The last lines of the code's log. */
  readonly logs?: readonly string[] | undefined;
  /** Calls that were begun, the latest 100; those that are `applied` have had their effect, others maybe. */
  readonly calls?: readonly CodemodeCall[] | undefined;
};

/** The code failed, or could not be run. */
export class CodemodeError extends Error {
  override name = "CodemodeError";
  readonly executionId: string | undefined;
  readonly logs: readonly string[];
  readonly calls: readonly CodemodeCall[];
  constructor(
    message: string,
    { executionId, logs = [], calls = [] }: CodemodeDetails = {},
    cause?: unknown,
  ) {
    super(message, { cause });
    this.executionId = executionId;
    this.logs = logs;
    this.calls = calls;
  }
}

/** An action of the code was rejected; what was applied before it stays, unless `onReject` says otherwise. */
export class CodemodeRejectedError extends CodemodeError {
  override name = "CodemodeRejectedError";
  constructor(
    message: string,
    /** Who rejected it, and why, as far as that is known. */
    readonly rejection: {
      readonly by?: string | undefined;
      readonly reason?: string | undefined;
      readonly action?: { readonly connector: string; readonly method: string } | undefined;
    },
    details: CodemodeDetails,
  ) {
    super(message, details);
  }
}

/** The agent went down while the code ran, and had begun calls that must not be repeated. */
export class CodemodeInterruptedError extends CodemodeError {
  override name = "CodemodeInterruptedError";
}

/** The execution had not ended within its `timeout`; an action that waited was rejected. */
export class CodemodeTimeoutError extends CodemodeError {
  override name = "CodemodeTimeoutError";
}

/** The result of the code does not match `output`. */
export class CodemodeValidationError extends CodemodeError {
  override name = "CodemodeValidationError";
}
