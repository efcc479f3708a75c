/** The errors of the operator's verbs. */

/** A request of an operator, or options of a list, that are invalid. Nothing was stored, and nothing was done. */
export class InvalidOperationError extends Error {
  override readonly name = "InvalidOperationError";
  constructor(
    /** The invalid field, e.g. `reason` or `metadata.user`. */
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

export const invalidOperation = (field: string, message: string) =>
  new InvalidOperationError(field, message);
