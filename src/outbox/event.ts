/** What can be put: looks at an event and at its id alone. */

import { jsonTextOf, preview } from "../core/json.ts";
import { problemOfNames } from "../core/options.ts";
import { isWellFormedText } from "../core/text.ts";
import { InvalidEventError, MALFORMED } from "./errors.ts";

/** It travels in a header, where a character may take twelve, and is an index in the receiver. */
const MAX_ID_LENGTH = 256;

/**
 * The delivery id that was given, or a new one.
 *
 * @throws InvalidEventError for what is none
 */
export function deliveryId(options: unknown): string {
  const problem = problemOfNames("put()", options, ["id"]);
  if (problem) throw new InvalidEventError(problem.message);
  const { id = crypto.randomUUID() } = (options ?? {}) as { id?: unknown };
  const isText = typeof id === "string" && id !== "" && id.length <= MAX_ID_LENGTH;
  if (isText && isWellFormedText(id)) return id;
  const expected = isText ? MALFORMED : `expected a text of 1 to ${MAX_ID_LENGTH} characters`;
  throw new InvalidEventError(`id is ${preview(id)}; ${expected}, or leave it out.`);
}

/**
 * The event as JSON.
 *
 * @throws InvalidEventError for what JSON cannot hold, or what is larger than `most` bytes
 */
export function payloadOf(event: unknown, most: number): string {
  const refuse = (message: string) => new InvalidEventError(message);
  return jsonTextOf("event", event, { maxBytes: most, refuse });
}
