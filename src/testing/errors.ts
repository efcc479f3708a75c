/** What cannot be meant, said where it was written. */

/** A script for the scripted model that cannot be meant. */
export class InvalidScriptError extends Error {
  override readonly name = "InvalidScriptError";
  constructor(
    /** The field that is wrong, e.g. `delayMs`. */
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

/** A crash scenario that cannot be meant, or that is wrong without any crash. */
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

/** What a virtual clock was told and cannot do. */
export class VirtualClockError extends Error {
  override readonly name = "VirtualClockError";
}
