/** Errors of the test kit. */

/** An invalid script for the scripted model. */
export class InvalidScriptError extends Error {
  override readonly name = "InvalidScriptError";
  constructor(
    /** The invalid field, e.g. `delayMs`. */
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
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
