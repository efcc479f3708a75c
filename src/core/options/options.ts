/** Invalid options and their messages, and durations. Without Zod: the calendar also runs where Zod is not loaded. */

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

/* Durations. A month and a year are as long as in Workflows. */

const UNITS = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
  // Products would keep the table in bundles that do not use it.
  month: 2_592_000_000,
  year: 31_536_000_000,
} as const;

type Unit = keyof typeof UNITS;

/** Milliseconds, or a whole or decimal number and a unit: `"1 hour"`, `"1.5 days"`. A month is 30 days, a year 365. */
export type Duration = number | `${number} ${Unit}` | `${number} ${Unit}s`;

const TEXT = /^(\d+(?:\.\d+)?) ([a-z]+?)s?$/;

/** The valid forms, for error messages. */
export const DURATION_FORMS =
  'a positive number of milliseconds, or a text such as "30 seconds", "5 minutes" or "2 hours"';

/** A duration in whole milliseconds; undefined for one that is invalid or shorter than a millisecond. */
export function millisecondsOf(duration: unknown): number | undefined {
  const ms = typeof duration === "string" ? parsed(duration) : duration;
  return typeof ms === "number" && ms >= 1 ? Math.round(ms) : undefined;
}

function parsed(text: string): number {
  const [, count, unit] = TEXT.exec(text) ?? [];
  // NaN without a count, and for other units.
  return Number(count) * UNITS[unit as Unit];
}

/** Milliseconds as text, in the largest unit up to days that divides them: `"3 days"`. */
export function durationText(ms: number): string {
  const units = Object.entries(UNITS).slice(0, 4);
  const [unit, length] = units.findLast(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  const count = ms / length;
  return `${count} ${unit}${unit === "ms" || count === 1 ? "" : "s"}`;
}
