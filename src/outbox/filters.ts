/** What lists and counts of deliveries can be asked by. Looks at the arguments alone. */

import { INSTANT_FORMS, type Instant, instantMs } from "../core/instant.ts";
import { preview } from "../core/json.ts";
import { problemOfNames } from "../core/options.ts";
import { isWellFormedText } from "../core/text.ts";
import { InvalidFilterError, MALFORMED } from "./errors.ts";
import type { DeadLetterFilter, ListDeadLettersOptions, ListDeliveriesOptions } from "./types.ts";

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
    throw new InvalidFilterError(emptyFilter(empty, verb, filter[empty]));
  }
  if (filter.since !== undefined) timeOf("since", filter.since);
}

/** @throws InvalidFilterError for an unknown name, what is no time, or a limit or cursor that there is none of */
export function checkList(options: ListDeadLettersOptions): void {
  checkFilter("listDeadLetters()", options, ["limit", "cursor"]);
  checkPage(options);
}

const STATES = ["waiting", "delivered", "discarded", "dead"] as const;

/**
 * What a list of deliveries is asked by, apart from its destination.
 *
 * @throws InvalidFilterError for an unknown name or value
 */
export function readListed(options: ListDeliveriesOptions, kinds: readonly string[]) {
  const verb = "listDeliveries()";
  const names = ["state", "submissionId", "kind", "destination"] as const;
  const problem = problemOfNames(verb, options, [...names, "limit", "cursor"]);
  if (problem) throw new InvalidFilterError(problem.message);
  const empty = names.find((name) => name in options && (options[name] ?? null) === null);
  if (empty) throw new InvalidFilterError(emptyFilter(empty, verb, options[empty]));
  const { state = STATES, submissionId, kind } = options;
  const states = [state].flat();
  const unknown = states.find((name) => !STATES.includes(name));
  if (unknown !== undefined || states.length === 0) {
    const given = states.length === 0 ? "[]" : preview(unknown);
    throw new InvalidFilterError(
      `state is ${given}; expected one or more of ${STATES.join(", ")}.`,
    );
  }
  if (kind !== undefined && !kinds.includes(kind)) {
    throw new InvalidFilterError(`kind is ${preview(kind)}; expected one of ${kinds.join(", ")}.`);
  }
  if (submissionId !== undefined) checkId(verb, submissionId, "submissionId");
  checkPage(options);
  return { states, submissionId, kind };
}

function emptyFilter(name: string, verb: string, value: unknown): string {
  return `${name} of ${verb} is ${value}; expected a value, or leave it out.`;
}

function checkPage({ limit = 1, cursor }: Pick<ListDeliveriesOptions, "limit" | "cursor">): void {
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
  throw new InvalidFilterError(`${name} is ${preview(value)}; expected ${INSTANT_FORMS}.`);
}

/** @throws InvalidFilterError for what can be no delivery id */
export function checkId(verb: string, id: unknown, name = "id"): void {
  if (typeof id === "string" && isWellFormedText(id)) return;
  const what = name === "id" ? "the delivery id" : "an id";
  const expected = typeof id === "string" ? MALFORMED : `expected ${what}, a text`;
  throw new InvalidFilterError(`${name} of ${verb} is ${preview(id)}; ${expected}.`);
}

/** @throws InvalidFilterError for what is no text that a row should hold */
export function checkReason(reason: unknown): void {
  const isText = typeof reason === "string" && reason !== "" && reason.length <= MAX_REASON;
  if (isText && isWellFormedText(reason)) return;
  const expected = isText ? MALFORMED : `expected a text of 1 to ${MAX_REASON} characters`;
  throw new InvalidFilterError(`reason is ${preview(reason)}; ${expected}, or leave it out.`);
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
