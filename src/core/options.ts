/**
 * Invalid options and their messages. Modules validate with the schemas of option-schemas.ts; this file has no Zod, for
 * those that also run where Zod is not loaded.
 */

import { preview } from "./json.ts";

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

/**
 * A whole number from 1. Infinity is one here: it says that there is no limit.
 *
 * @throws InvalidOptionError for anything else
 */
export function countOf(option: string, value: number, most = Number.POSITIVE_INFINITY): number {
  const isWhole = Number.isInteger(value) || value === Number.POSITIVE_INFINITY;
  if (isWhole && value >= 1 && value <= most) return value;
  const upTo = most === Number.POSITIVE_INFINITY ? ", or Infinity" : ` to ${most}`;
  throw invalidOption(option, value, `a whole number from 1${upTo}`);
}

/** @throws InvalidOptionError for what is given and no function */
export function checkHook(option: string, value: unknown): void {
  if (value === undefined || typeof value === "function") return;
  throw invalidOption(option, value, "a function");
}

/** The error of an invalid option. `expected` says what it must be, e.g. `a function`. */
export function invalidOption(option: string, value: unknown, expected: string) {
  return new InvalidOptionError(
    option,
    invalidMessage(option, preview(value), `expected ${expected}`),
  );
}

/**
 * The message of every invalid value: `Invalid retry.maxAttempts 0: expected a whole number from 1 to 100.`
 *
 * @param given the value as text: its `preview()`, or its size, e.g. `of 3000 bytes`
 * @param problem what was expected, and the remedy where there is one, without the last full stop
 */
export function invalidMessage(option: string, given: string, problem: string): string {
  return `Invalid ${option} ${given}: ${problem}.`;
}

/** @param where the object that has the option: `retry`, or `options of list()` */
export function unknownOptionMessage(name: string, where: string, valid: string): string {
  return `Unknown option ${JSON.stringify(name)} in ${where}. Valid options: ${valid}.`;
}

/** Whether it is an object with fields, and not a list, a date or the like. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return Object.prototype.toString.call(value) === "[object Object]";
}

/** What is wrong with a bag of options, or undefined: it is none, or has a name that is not among `names`. */
export function problemOfNames(
  what: string,
  options: unknown,
  names: readonly string[],
): { readonly name: string; readonly message: string } | undefined {
  if (options === undefined) return undefined;
  if (!isPlainObject(options)) {
    return {
      name: what,
      message: invalidMessage(
        what,
        preview(options),
        `expected an object with ${names.join(", ")}`,
      ),
    };
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return undefined;
  return { name: unknown, message: unknownOptionMessage(unknown, what, names.join(", ")) };
}
