/** Events and their delivery ids: what `put()` accepts, and which ids belong to a submission. */

import { byteLength, jsonTextOf } from "../core/json.ts";
import { optionsOf, readOptions, text } from "../core/options/option-schemas.ts";
import { digest } from "../core/text.ts";
import { InvalidEventError } from "./errors.ts";

/** It travels in a header, where a character may take twelve, and is an index in the receiver. */
const MAX_ID_LENGTH = 256;
/** Each delivery in flight has its event in memory, of which an object has 128 MB. */
const MAX_BYTES = 16 * 1_048_576;
const PUT_OPTIONS = optionsOf<{ readonly id?: string }>()({
  id: text({ maxLength: MAX_ID_LENGTH }).optional(),
});

/** @throws InvalidEventError for an invalid delivery id */
export function deliveryId(options: unknown): string {
  const error = (_: string, message: string) => new InvalidEventError(message);
  const { id } = readOptions(PUT_OPTIONS, options, "options of put()", error);
  return id ?? crypto.randomUUID();
}

/** @throws InvalidEventError for an event that JSON cannot hold, or of more than 16 MiB */
export function payloadOf(event: unknown): string {
  const refuse = (message: string) => new InvalidEventError(message);
  return jsonTextOf("event", event, { maxBytes: MAX_BYTES, refuse });
}

/** Delivery ids of alerts. */
export const ALERT_PREFIX = "alert:";
const PREFIX = "submission:";
const DIGEST = "sha256:";
/** Of a submission's id that is part of a delivery id, which travels in headers. */
const MAX_SUBMISSION_ID_BYTES = 200;
const UUID_LENGTH = 36;

/**
 * A new delivery id for an event of a submission. It begins with the submission's id, so that the primary key finds the
 * submission's deliveries. It ends with a UUID, because a receiver may listen to several agents.
 */
export function deliveryIdOf(submissionId: string): string {
  return `${prefixOf(submissionId)}${crypto.randomUUID()}`;
}

/** Lower bound, upper bound and length of the delivery ids of a submission. */
export function idRangeOf(submissionId: string): [from: string, to: string, length: number] {
  const from = prefixOf(submissionId);
  return [from, `${from}~`, [...from].length + UUID_LENGTH];
}

/** The submission that a delivery id belongs to, where it contains the submission's id. */
export function submissionOf(id: string): string | undefined {
  if (!id.startsWith(PREFIX) || id.startsWith(PREFIX + DIGEST)) return undefined;
  return id.slice(PREFIX.length, -UUID_LENGTH - 1);
}

function prefixOf(submissionId: string): string {
  const isShort = byteLength(submissionId) <= MAX_SUBMISSION_ID_BYTES;
  return `${PREFIX}${isShort ? submissionId : DIGEST + digest(submissionId)}/`;
}
