/** Looks at one argument at a time, and says what is wrong with it: its name, its value, and what it has to be. */

import { LAST_ALARM } from "../../core/clock.ts";
import { DURATION_FORMS, type Duration, millisecondsOf } from "../../core/duration.ts";
import { failureOf } from "../../core/failures.ts";
import { INSTANT_FORMS, instantMs } from "../../core/instant.ts";
import { byteLength, isTooDeep, MAX_DEPTH, preview } from "../../core/json.ts";
import { problemOfNames } from "../../core/options.ts";
import { isWellFormedText } from "../../core/text.ts";
import { InvalidSubmissionError } from "../errors.ts";

/** Bytes of an id or a key: they are indexed, and travel in names. */
const MAX_ID_BYTES = 2_048;

/** @throws InvalidSubmissionError for what is no bag of options, or has an unknown name in it */
export function checkNames(what: string, options: unknown, names: readonly string[]): void {
  const problem = problemOfNames(what, options, names);
  if (problem) throw new InvalidSubmissionError(problem.name, problem.message);
}

export function checkAfterSideEffects(value: unknown): void {
  if (value === undefined || AFTER_SIDE_EFFECTS.includes(value)) return;
  throw new InvalidSubmissionError(
    "retry.afterSideEffects",
    `retry.afterSideEffects is ${preview(value)}; expected "tell", "fail", "repeat", true or false, or leave it out.`,
  );
}

const AFTER_SIDE_EFFECTS: readonly unknown[] = ["tell", "fail", "repeat", true, false];

/** @throws InvalidSubmissionError for what is given and no length of time */
export function msOf(field: string, value: Duration | undefined): number | undefined {
  if (value === undefined) return undefined;
  const ms = millisecondsOf(value);
  if (ms !== undefined && Number.isFinite(ms)) return ms;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${preview(value)}; expected ${DURATION_FORMS}, or leave it out.`,
  );
}

export function timeOf(field: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const time = instantMs(value);
  if (time !== undefined && time < LAST_ALARM) return time;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${preview(value)}; expected ${INSTANT_FORMS}, before the year 2189.`,
  );
}

export function checkNumber(
  field: string,
  value: unknown,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): void {
  if (value === undefined) return;
  if (Number.isInteger(value) && Number(value) >= least && Number(value) <= most) return;
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${String(value)}; expected a whole number ${range}, or leave it out.`,
  );
}

/** A time that an alarm can be set for, `ms` from `now`; undefined where `ms` is. */
export function timeAfter(field: string, now: number, ms: number | undefined): number | undefined {
  if (ms === undefined) return undefined;
  if (now + ms < LAST_ALARM) return now + ms;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${ms} ms, which ends after the year 2188, the last that an alarm can be set for. Use a shorter time.`,
  );
}

/** The id or name of something that is asked for, which does not have to exist. */
export function checkId(field: string, value: unknown): void {
  if (typeof value !== "string") {
    throw new InvalidSubmissionError(field, `${field} is ${preview(value)}; expected a string.`);
  }
  checkWellFormed(field, value);
}

/** A text that is stored, and found again by its characters. */
export function checkWellFormed(field: string, value: string): void {
  if (isWellFormedText(value)) return;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${preview(value)}, which contains half of a character (an unpaired surrogate). ` +
      'Cut a text between characters, e.g. [...text].slice(0, 7).join(""), or use toWellFormed().',
  );
}

export function checkText(field: string, value: unknown): void {
  if (value === undefined) return;
  if (typeof value !== "string" || value === "") {
    throw new InvalidSubmissionError(
      field,
      `${field} is ${preview(value)}; expected a non-empty string, or leave it out.`,
    );
  }
  checkWellFormed(field, value);
  const bytes = byteLength(value);
  if (bytes > MAX_ID_BYTES) {
    throw new InvalidSubmissionError(
      field,
      `${field} is ${bytes} bytes long, and at most ${MAX_ID_BYTES} are taken. Use a digest of it.`,
    );
  }
}

export function serialise(field: string, value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new InvalidSubmissionError(
      field,
      `${field} cannot be stored as JSON: ${failureOf(error).message}.`,
    );
  }
}

/** Does something for one item of a list. What is wrong with it names the item, whatever kind of error it is. */
export function ofItem<T>(verb: string, index: number, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error) error.message = `item ${index} of ${verb}: ${error.message}`;
    throw error;
  }
}

function isCyclic(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return false;
  } catch (error) {
    return error instanceof TypeError;
  }
}

/** @throws InvalidSubmissionError for a value that is nested deeper than it can be stored and read */
export function checkDepth(field: string, value: unknown): void {
  // One that contains itself has an error of its own.
  if (!isTooDeep(value) || isCyclic(value)) return;
  throw new InvalidSubmissionError(
    field,
    `${field} is nested more than ${MAX_DEPTH} levels deep. Pass a flatter value, or a text.`,
  );
}
