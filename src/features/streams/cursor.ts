/** Where a stream goes on: what a follower was sent, as the id of the last event. */

import { preview } from "../../core/json.ts";
import { optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";

export type FollowOptions = {
  /** The `id` of the last event that was received: the stream goes on after it, if the object still knows what came then. */
  readonly from?: string;
};

/** The id of the last event of a stream that has ended. */
export const END = "end";

const FOLLOW = optionsOf<FollowOptions>()({ from: text().optional() });

/** What was sent of a submission that is new to a follower. */
export const NOTHING = {
  /** The number of the submission. Used in threads only. */
  seq: 0,
  /** The first letter of the status, and the number of attempts. */
  status: undefined as string | undefined,
  hasMessage: false,
  reply: "",
  chunks: 0,
  isCut: false,
};

/** The part of a submission that a follower was sent. */
export type Seen = typeof NOTHING;

/** The part of a submission that was sent, as a part of an id. */
export function textOf({ reply, chunks, status = "", hasMessage }: Seen): string {
  return `${reply}.${chunks}.${status}${hasMessage ? "m" : ""}`;
}

const SEEN = /^([0-9a-f]{0,8})\.(\d{1,9})\.([a-z]\d{1,9})?(m?)$/;
const ID = /^.{1,1000}:([^:]+)$/s;

/** The reverse of {@link textOf}. */
export function seenOf(part: string, seq = 0): Seen | undefined {
  const found = SEEN.exec(part);
  if (!found) return undefined;
  const [, reply = "", chunks, status, message] = found;
  return { ...NOTHING, seq, reply, chunks: Number(chunks), status, hasMessage: message === "m" };
}

/** @throws InvalidFollowError for invalid options */
export function fromOf(verb: string, options: FollowOptions): string | undefined {
  const invalid = (_option: string, message: string) => new InvalidFollowError(message);
  return readOptions(FOLLOW, options, `options of ${verb}`, invalid).from;
}

/** @throws InvalidFollowError for what is no id of an event */
export function cursorOf(from: string | undefined): Seen {
  return from === undefined ? { ...NOTHING } : (seenOf(ID.exec(from)?.[1] ?? "") ?? refuse(from));
}

/** @throws InvalidFollowError */
export function refuse(from: string): never {
  const expected =
    "expected the id of an event of this stream. Without from, the stream begins anew";
  throw new InvalidFollowError(invalidMessage("from", preview(from), expected));
}

/** An argument of `followSubmission()`, `followThread()` or `followApproval()` is invalid. */
export class InvalidFollowError extends Error {
  override readonly name = "InvalidFollowError";
}
