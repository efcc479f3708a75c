/** What lists, deletions and waits can be asked by. Looks at the arguments alone. */

import { preview } from "../../core/json.ts";
import { isPlainObject } from "../../core/options.ts";
import { InvalidSubmissionError } from "../errors.ts";
import { isIsolated, MAIN } from "../host.ts";
import { isTerminal, NEXT, type SubmissionStatus } from "../states.ts";
import type {
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  WaitForSubmissionOptions,
} from "../types.ts";
import { checkId, checkNames, timeOf } from "./checks.ts";

type Filter = Pick<ListSubmissionsOptions, "status" | "limit">;

const DEFAULT_LIMIT = 100;
const MOST_LISTED = 1_000;
/** Each is a condition of the query, of which SQLite takes 100 bindings. */
const MOST_METADATA = 20;
const MOST_DELETED = 10_000;
const LIST_NAMES = [
  "status",
  "limit",
  "before",
  "thread",
  "metadata",
  "createdAfter",
  "createdBefore",
] as const satisfies readonly (keyof ListSubmissionsOptions)[];
const DELETE_NAMES = [
  "status",
  "limit",
  "completedBefore",
] as const satisfies readonly (keyof DeleteSubmissionsOptions)[];

/** @throws InvalidSubmissionError for an unknown name, status or time */
export function readList(options: ListSubmissionsOptions) {
  checkNames("listSubmissions()", options, LIST_NAMES);
  const { before, thread, metadata } = options;
  if (before !== undefined) checkId("before", before);
  if (thread !== undefined) checkId("thread", thread);
  checkMetadata(metadata);
  timeOf("createdAfter", options.createdAfter);
  timeOf("createdBefore", options.createdBefore);
  return readFilter(options, MOST_LISTED);
}

/** Half of a character would be compared as another one, and find nothing. */
function checkMetadata(metadata: unknown): void {
  if (metadata === undefined) return;
  if (!isPlainObject(metadata) || Object.keys(metadata).length > MOST_METADATA) {
    throw new InvalidSubmissionError(
      "metadata",
      `metadata is ${preview(metadata)}; expected an object with up to ${MOST_METADATA} values to find.`,
    );
  }
  for (const [key, value] of Object.entries(metadata)) {
    checkId("metadata", key);
    if (typeof value === "string") checkId(`metadata.${key}`, value);
    else if (typeof value !== "boolean" && !Number.isFinite(value)) {
      throw new InvalidSubmissionError(
        `metadata.${key}`,
        `metadata.${key} is ${preview(value)}; expected a text, a finite number, true or false.`,
      );
    }
  }
}

/** @throws InvalidSubmissionError for an unknown name, status or time */
export function readDeletion(options: DeleteSubmissionsOptions) {
  checkNames("deleteSubmissions()", options, DELETE_NAMES);
  const completedBefore = timeOf("completedBefore", options.completedBefore);
  const { statuses = Object.keys(NEXT) as SubmissionStatus[], limit } = readFilter(
    options,
    MOST_DELETED,
  );
  return { ended: statuses.filter(isTerminal), limit, completedBefore };
}

/** @throws InvalidSubmissionError for a thread that has no name of its own */
export function checkNamedThread(thread: unknown): void {
  checkId("thread", thread);
  if (thread !== MAIN && !isIsolated(String(thread))) return;
  throw new InvalidSubmissionError(
    "thread",
    `thread is ${JSON.stringify(thread)}; only a named thread is cleared here. ` +
      "Use clearMessages() for the agent's own conversation; an isolated turn leaves nothing.",
  );
}

/** @throws InvalidSubmissionError for no length of time: such a wait would return at once, and be asked again at once */
export function checkWait(options: WaitForSubmissionOptions): void {
  checkNames("waitForSubmission()", options, ["timeoutMs"]);
  const { timeoutMs } = options;
  if (timeoutMs === undefined || (typeof timeoutMs === "number" && timeoutMs >= 0)) return;
  throw new InvalidSubmissionError(
    "timeoutMs",
    `timeoutMs is ${preview(timeoutMs)}; expected milliseconds, a number from 0, or leave it out.`,
  );
}

/**
 * The statuses and the limit of a list or a deletion.
 *
 * @param most the highest limit
 * @throws InvalidSubmissionError for a status that there is none of, or a limit that is no whole number from 1 to `most`
 */
function readFilter(
  { status, limit = DEFAULT_LIMIT }: Filter,
  most: number,
): { statuses: SubmissionStatus[] | undefined; limit: number } {
  const statuses = status === undefined ? undefined : [status].flat();
  const unknown = statuses?.findIndex(
    (name) => typeof name !== "string" || !Object.hasOwn(NEXT, name),
  );
  if (unknown !== undefined && unknown >= 0) {
    throw new InvalidSubmissionError(
      "status",
      `${preview(statuses?.[unknown])} is no status of a submission; one of ${Object.keys(NEXT).join(", ")}.`,
    );
  }
  if (!Number.isInteger(limit) || limit < 1 || limit > most) {
    throw new InvalidSubmissionError(
      "limit",
      `limit is ${preview(limit)}; expected a whole number from 1 to ${most}. Call again for the rest.`,
    );
  }
  return { statuses, limit };
}
