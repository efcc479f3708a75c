/** The errors of the operator's verbs. */

import { InvalidFieldError } from "../core/options/options.ts";

/** A request of an operator, or options of a list, that are invalid. Nothing was stored, and nothing was done. */
export class InvalidOperationError extends InvalidFieldError {
  override readonly name = "InvalidOperationError";
}

export const invalidOperation = (field: string, message: string) =>
  new InvalidOperationError(field, message);
