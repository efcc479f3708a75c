/** What a harness could not do. */

/** The harness has ended the operation of a turn without an answer. */
export class HarnessOperationError extends Error {
  override readonly name = "HarnessOperationError";

  constructor(
    /** The id of the operation: `harness.session().wait(operationId)` returns the same reason. */
    readonly operationId: string,
    /** What the harness gives as the reason, e.g. `"interrupted"`, or the message of the model's error. */
    readonly reason: string | undefined,
    /** The tool of a call without a result, which an earlier, cancelled turn has left in the session. */
    readonly openCall?: string,
  ) {
    const why = reason === undefined ? "." : `: ${reason}`;
    const remedy =
      openCall === undefined
        ? ""
        : ` A cancelled turn has left a call of ${openCall} without a result: call clearMessages() or clearThread().`;
    super(`The harness ended operation ${operationId} without an answer${why}${remedy}`);
  }
}

/** A conversation is not cleared yet, because a tool of it goes on after its turn was cancelled. */
export class ResetTimeoutError extends Error {
  override readonly name = "ResetTimeoutError";

  constructor(readonly thread: string) {
    super(
      `The thread ${JSON.stringify(thread)} is cleared when its tool returns. Let the tool listen to its abortSignal.`,
    );
  }
}
