/** Bags of options: a name that nobody knows is a mistake, and must not pass for a default. */

import { DURATION_FORMS, type Duration, millisecondsOf } from "./duration.ts";
import { shown } from "./json.ts";

/** An option that cannot be meant; thrown where an object is constructed. */
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
  throw mistake(option, value, `a whole number from 1${upTo}`);
}

/**
 * Milliseconds of a length of time.
 *
 * @throws InvalidOptionError for what is none
 */
export function durationOf(option: string, value: Duration): number {
  const ms = millisecondsOf(value);
  if (ms === undefined) throw mistake(option, value, DURATION_FORMS);
  return ms;
}

/** @throws InvalidOptionError for what is given and no function */
export function checkHook(option: string, value: unknown): void {
  if (value === undefined || typeof value === "function") return;
  throw mistake(option, value, "a function, or leave it out");
}

/** The error of an option that is `value`, and was to be what `expected` says. */
export function mistake(option: string, value: unknown, expected: string): InvalidOptionError {
  return new InvalidOptionError(option, `${option} is ${shown(value)}; expected ${expected}.`);
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
      message: `${what} is ${shown(options)}; expected an object with ${names.join(", ")}.`,
    };
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return undefined;
  const message = `${JSON.stringify(unknown)} is no option of ${what}; there are ${names.join(", ")}.`;
  return { name: unknown, message };
}
