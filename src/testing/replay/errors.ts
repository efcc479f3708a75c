/** Errors of replays. */

import { InvalidFieldError } from "../../core/options/options.ts";

/** An invalid history, class or option of `replayWorkflow()`. */
export class InvalidHistoryError extends InvalidFieldError {
  override readonly name = "InvalidHistoryError";
}
