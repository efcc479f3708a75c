/** Invalid options and their messages. Without Zod: the calendar also runs where Zod is not loaded. */

import { preview, shorten } from "../json.ts";

/** An invalid option. Thrown by the call that has it, before anything is stored. */
export class InvalidOptionError extends Error {
  override readonly name = "InvalidOptionError";
  constructor(
    /** The option, e.g. `retention.maxAge`. */
    readonly option: string,
    message: string,
  ) {
    super(message);
  }
}

/** An invalid argument or option of one kind of call. Nothing was stored. */
export abstract class InvalidFieldError extends Error {
  constructor(
    /** The invalid field, e.g. `arrival.id`. */
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

/** Makes the error of an invalid option from its path and the message. */
export type MakeError = (option: string, message: string) => Error;

export const invalidAt: MakeError = (option, message) => new InvalidOptionError(option, message);

/** @throws InvalidOptionError for anything but a whole number from 1 to `most` */
export function countOf(option: string, value: number, most: number): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw invalidOption(option, value, `a whole number from 1 to ${most}`);
}

/** The error of an invalid option. `expected` says what it must be, e.g. `a function`. */
export function invalidOption(option: string, value: unknown, expected: string) {
  return new InvalidOptionError(
    shorten(option),
    invalidMessage(option, preview(value), `expected ${expected}`),
  );
}

/**
 * The message of every invalid value: `Invalid limit 0: expected a whole number from 1 to 1000.`
 *
 * @param given the value as text: its `preview()`, or its size, e.g. `of 3000 bytes`
 * @param problem what was expected, and the remedy where there is one, without the last full stop
 */
export function invalidMessage(option: string, given: string, problem: string): string {
  return `Invalid ${shorten(option)} ${given}: ${problem}.`;
}

/** @param where the object that has the option: `retry`, or `options of list()` */
export function unknownOptionMessage(name: string, where: string, valid: string): string {
  return `Unknown option ${preview(name)} in ${where}. Valid options: ${valid}.`;
}

/** Whether it is an object with fields, and not a list, a date or the like. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return Object.prototype.toString.call(value) === "[object Object]";
}

/** The value. @throws InvalidOptionError if it is no object with fields */
export function objectOf<T>(option: string, value: T): T {
  if (isPlainObject(value)) return value;
  throw invalidOption(option, value, "an object");
}

/**
 * Checks the names of options. Undefined has none.
 *
 * @throws InvalidOptionError, or the error of `makeError`, for a value that is no object, or a name that is not in `names`
 */
export function checkNames(
  what: string,
  options: unknown,
  names: readonly string[],
  makeError: MakeError = invalidAt,
): void {
  if (options === undefined) return;
  const valid = names.join(", ");
  if (!isPlainObject(options)) {
    const message = invalidMessage(what, preview(options), `expected an object with ${valid}`);
    throw makeError(what, message);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw makeError(shorten(unknown), unknownOptionMessage(unknown, what, valid));
  }
}
