/** What the verbs are asked with; bad input is echoed, and nothing is stored then. */

import { INSTANT_FORMS, type Instant, instantMs } from "../core/instant.ts";
import { InvalidOptionError, invalidOption, problemOfNames } from "../core/options.ts";

const MAX_KEY_LENGTH = 200;
const MAX_OCCURRENCES = 100;
const MAX_RUNS = 1_000;
const MAX_NOTE_LENGTH = 1_000;

/** @throws InvalidOptionError */
export function readTrigger(options: { key?: string }): string {
  checkNames("the options of trigger()", options, ["key"]);
  const { key = crypto.randomUUID() } = options;
  const isText = typeof key === "string" && key !== "" && key.length <= MAX_KEY_LENGTH;
  // SQLite gives half a surrogate pair back as something else.
  const isKey = isText && key.isWellFormed();
  if (!isKey) throw invalidOption("key", key, `a text of 1 to ${MAX_KEY_LENGTH} whole characters`);
  return key;
}

/** Epoch milliseconds. */
export type Range = { readonly from: number; readonly to: number };

/** @throws InvalidOptionError */
export function readRange(range: { from: Instant; to: Instant }): Range {
  checkNames("the range of backfill()", range ?? null, ["from", "to"]);
  const from = timeOf("from", range.from);
  const to = timeOf("to", range.to);
  if (to <= from) throw invalidOption("to", range.to, "a time after from");
  return { from, to };
}

/** @throws InvalidOptionError */
export function readOccurrences(options: { occurrences?: number }): number {
  checkNames("the options of list()", options, ["occurrences"]);
  return wholeOf("occurrences", options.occurrences ?? 1, { least: 0, most: MAX_OCCURRENCES });
}

/** @throws InvalidOptionError */
export function readPage(options: { limit?: number; before?: Instant }): {
  readonly limit: number;
  readonly before: number;
} {
  checkNames("the options of runs()", options, ["limit", "before"]);
  const { limit = 50, before } = options;
  return {
    limit: wholeOf("limit", limit, { least: 1, most: MAX_RUNS }),
    before: before === undefined ? Number.MAX_SAFE_INTEGER : timeOf("before", before),
  };
}

/** @throws InvalidOptionError */
export function readNote(note: string | undefined): string | null {
  if (note === undefined) return null;
  const isNote = typeof note === "string" && note.length <= MAX_NOTE_LENGTH;
  if (!isNote) throw invalidOption("note", note, `a text of up to ${MAX_NOTE_LENGTH} characters`);
  return note;
}

function checkNames(what: string, options: unknown, names: readonly string[]): void {
  const problem = problemOfNames(what, options, names);
  if (problem) throw new InvalidOptionError(problem.name, problem.message);
}

function timeOf(option: string, value: unknown): number {
  const ms = instantMs(value);
  if (ms === undefined) throw invalidOption(option, value, INSTANT_FORMS);
  return ms;
}

function wholeOf(
  option: string,
  value: number,
  { least, most }: { least: number; most: number },
): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw invalidOption(option, value, `a whole number from ${least} to ${most}`);
}
