/** What lists and counts of dead letters can be asked by. Looks at the arguments alone. */

import { INSTANT_FORMS, type Instant, instantMs } from "../core/instant.ts";
import { shown } from "../core/json.ts";
import { problemOfNames } from "../core/options.ts";
import { isWellFormedText } from "../core/text.ts";
import { InvalidFilterError, MALFORMED } from "./errors.ts";
import type { DeadLetterFilter, ListDeadLettersOptions } from "./types.ts";

const FILTER = ["since", "destination"] as const;
const MAX_LIMIT = 1_000;
const MAX_REASON = 1_024;

/** @throws InvalidFilterError for an unknown name, or what is no time */
export function checkFilter(verb: string, filter: DeadLetterFilter, more: readonly string[] = []) {
  const problem = problemOfNames(verb, filter, [...FILTER, ...more]);
  if (problem) throw new InvalidFilterError(problem.message);
  // What was left out by mistake must not pass for everything.
  const empty = FILTER.find((name) => name in filter && (filter[name] ?? null) === null);
  if (empty) {
    throw new InvalidFilterError(
      `${empty} of ${verb} is ${filter[empty]}; expected a value, or leave it out.`,
    );
  }
  if (filter.since !== undefined) timeOf("since", filter.since);
}

/** @throws InvalidFilterError for an unknown name, what is no time, or a limit or cursor that there is none of */
export function checkList(options: ListDeadLettersOptions): void {
  checkFilter("listDeadLetters()", options, ["limit", "cursor"]);
  const { limit = 1, cursor } = options;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new InvalidFilterError(
      `limit is ${String(limit)}; expected a whole number from 1 to ${MAX_LIMIT}.`,
    );
  }
  if (cursor !== undefined) readCursor(cursor);
}

/** @throws InvalidFilterError for what is no point in time */
export function timeOf(name: string, value: Instant): number {
  const time = instantMs(value);
  if (time !== undefined) return time;
  throw new InvalidFilterError(`${name} is ${shown(value)}; expected ${INSTANT_FORMS}.`);
}

/** @throws InvalidFilterError for what can be no delivery id */
export function checkId(verb: string, id: unknown): void {
  if (typeof id === "string" && isWellFormedText(id)) return;
  const expected = typeof id === "string" ? MALFORMED : "expected the delivery id, a text";
  throw new InvalidFilterError(`id of ${verb} is ${shown(id)}; ${expected}.`);
}

/** @throws InvalidFilterError for what is no text that a row should hold */
export function checkReason(reason: unknown): void {
  const isText = typeof reason === "string" && reason !== "" && reason.length <= MAX_REASON;
  if (isText && isWellFormedText(reason)) return;
  const expected = isText ? MALFORMED : `expected a text of 1 to ${MAX_REASON} characters`;
  throw new InvalidFilterError(`reason is ${shown(reason)}; ${expected}, or leave it out.`);
}

/** A place among the dead letters, as a list hands it out: it holds when letters come and go. */
export function cursorOf(diedAt: number, id: string): string {
  return `${diedAt}:${id}`;
}

/** @throws InvalidFilterError for a text that no list has handed out */
export function readCursor(cursor: string): [diedAt: number, id: string] {
  const [, diedAt, id] = /^(\d{1,15}):(.+)$/s.exec(cursor) ?? [];
  if (diedAt !== undefined && id !== undefined && isWellFormedText(id)) return [Number(diedAt), id];
  throw new InvalidFilterError(
    `cursor is ${JSON.stringify(cursor)}; expected the cursor of an earlier page, as it came.`,
  );
}
