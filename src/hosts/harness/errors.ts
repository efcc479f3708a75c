/** The error of a turn that a harness has ended without an answer. */

/** The harness has ended the operation of a turn without an answer. */
export class HarnessOperationError extends Error {
  override readonly name = "HarnessOperationError";

  constructor(
    /** The id of the operation: `harness.session().wait(operationId)` returns the same reason. */
    readonly operationId: string,
    /** What the harness gives as the reason, e.g. `"interrupted"`, or the message of the model's error. */
    readonly reason: string | undefined,
  ) {
    const why = reason === undefined ? "." : `: ${reason}`;
    super(`The harness ended operation ${operationId} without an answer${why}`);
  }
}
