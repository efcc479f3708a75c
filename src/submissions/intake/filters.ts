/** Checks the arguments of lists, deletions, waits and clears. */

import * as z from "zod";
import {
  count,
  instant,
  optionsOf,
  readOptions,
  someOf,
  text,
} from "../../core/options/option-schemas.ts";
import { isPlainObject } from "../../core/options/options.ts";
import { invalidSubmission, invalidValue } from "../errors.ts";
import { isTerminal, NEXT, type SubmissionStatus } from "../states.ts";
import { isIsolated, MAIN } from "../threads.ts";
import type {
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  SubmissionFilter,
  WaitForSubmissionOptions,
} from "../types.ts";

const DEFAULT_LIMIT = 100;
/** Each value is a condition of the query, and SQLite takes 100 bindings. */
const MAX_METADATA = 20;

/** An id or a name to look for. It does not have to exist. */
const id = text({ empty: true });
const STATUSES = Object.keys(NEXT) as SubmissionStatus[];
const STATUS = someOf<SubmissionStatus, SubmissionStatus | SubmissionStatus[]>(STATUSES, {
  min: 0,
}).optional();

const METADATA = z.custom<NonNullable<ListSubmissionsOptions["metadata"]>>(
  (value) => isPlainObject(value) && Object.keys(value).length <= MAX_METADATA,
  { error: `expected an object with up to ${MAX_METADATA} values to find` },
);

const FILTER = {
  status: STATUS,
  thread: id.optional(),
  metadata: METADATA.optional(),
  createdAfter: instant({ forAlarm: true }).optional(),
  createdBefore: instant({ forAlarm: true }).optional(),
};
const LIST = optionsOf<ListSubmissionsOptions>()({
  ...FILTER,
  limit: count({ max: 1_000 }).default(DEFAULT_LIMIT),
  before: id.optional(),
});
export const SUBMISSION_FILTER = optionsOf<SubmissionFilter>()(FILTER);
const DELETE = optionsOf<DeleteSubmissionsOptions>()({
  status: STATUS,
  limit: count({ max: 10_000 }).default(DEFAULT_LIMIT),
  completedBefore: instant({ forAlarm: true }).optional(),
});
const WAIT = optionsOf<WaitForSubmissionOptions>()({
  timeoutMs: z
    .custom<number>((value) => typeof value === "number" && value >= 0, {
      error: "expected milliseconds, a number from 0",
    })
    .optional(),
});

/** @throws InvalidSubmissionError */
export function checkId(field: string, value: unknown): void {
  readOptions(id, value, field, invalidSubmission);
}

/** @throws InvalidSubmissionError */
export function readList(options: ListSubmissionsOptions) {
  const { status, ...query } = readOptions(LIST, options, "listSubmissions()", invalidSubmission);
  checkMetadata(query.metadata);
  return { ...query, statuses: status };
}

/** @throws InvalidSubmissionError for a value that no metadata can have */
export function checkMetadata(metadata: SubmissionFilter["metadata"] = {}): void {
  for (const [key, value] of Object.entries(metadata)) {
    checkId("metadata", key);
    if (typeof value === "boolean" || Number.isFinite(value)) continue;
    if (typeof value === "string") checkId(`metadata.${key}`, value);
    else {
      const expected = "expected a string, a finite number, true or false";
      throw invalidValue(`metadata.${key}`, value, expected);
    }
  }
}

/** @throws InvalidSubmissionError */
export function readDeletion(options: DeleteSubmissionsOptions) {
  const { status = STATUSES, ...deletion } = readOptions(
    DELETE,
    options,
    "deleteSubmissions()",
    invalidSubmission,
  );
  return { ...deletion, ended: status.filter(isTerminal) };
}

/** @throws InvalidSubmissionError for what no thread can be called */
export function checkThread(thread: unknown): void {
  readOptions(text(), thread, "thread", invalidSubmission);
}

/** @throws InvalidSubmissionError for a thread without a name of its own */
export function checkNamedThread(thread: unknown): void {
  checkThread(thread);
  if (thread !== MAIN && !isIsolated(String(thread))) return;
  const remedy =
    "Use clearMessages() for the main conversation; an isolated turn leaves no messages";
  throw invalidValue("thread", thread, `expected a named thread. ${remedy}`);
}

/** @throws InvalidSubmissionError: an invalid wait would return at once, and the caller would loop */
export function checkWait(options: WaitForSubmissionOptions): void {
  readOptions(WAIT, options, "waitForSubmission()", invalidSubmission);
}
