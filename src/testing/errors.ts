/** Errors of the test kit. */

import { InvalidFieldError } from "../core/options/options.ts";

/** An invalid script for the scripted model. */
export class InvalidScriptError extends InvalidFieldError {
  override readonly name = "InvalidScriptError";
}

/** An invalid crash scenario, or one that has problems without a crash. */
export class InvalidScenarioError extends Error {
  override readonly name = "InvalidScenarioError";
  constructor(
    /** The name of the scenario. */
    readonly scenario: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(`${scenario}: ${message}`, options);
  }
}

/** An invalid call of a virtual clock. */
export class VirtualClockError extends Error {
  override readonly name = "VirtualClockError";
}
