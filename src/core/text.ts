/** Texts for storage, events and steps: split into parts, or as a digest. */

import { createHash } from "node:crypto";

/** Whether a type of texts is `string` or a pattern such as `every ${number} minutes`, and no literal: as keys they ask for none. */
// biome-ignore lint/complexity/noBannedTypes: the type of an object without properties is what is meant
export type IsWide<Text extends string> = {} extends { [Key in Text]: 1 } ? true : false;

/** Characters of a {@link digest}: 132 bits. */
export const DIGEST_LENGTH = 22;

/**
 * A SHA-256 digest of `text` in 22 characters of `[A-Za-z0-9_-]`. Use it to put any text in a step name, an event type
 * or a key.
 *
 * @param encoding the default hashes UTF-16 code units, because UTF-8 replaces each unpaired surrogate by the same character
 */
export function digest(text: string, encoding: "utf16le" | "utf8" = "utf16le"): string {
  const hash = createHash("sha256").update(Buffer.from(text, encoding));
  return hash.digest("base64url").slice(0, DIGEST_LENGTH);
}

/** The most UTF-16 code units of a part: at most 768 KiB in UTF-8, below the 1 MiB of a step result and of an event. */
export const PART_LENGTH = 256 * 1024;

/** A part of the JSON of a large value; joined in their order, the parts are all of it. */
export type Part = {
  /** At most {@link PART_LENGTH} code units, so that a step's result can hold it. */
  readonly text: string;
  /** How many parts there are. */
  readonly parts: number;
};

/** A part of a text, from 0 on; undefined behind the last one. */
export function partOf(text: string, part: number): Part | undefined {
  const parts = partsOf(text);
  const found = parts[part];
  return found === undefined ? undefined : { text: found, parts: parts.length };
}

/**
 * Splits a text into non-empty parts of at most {@link PART_LENGTH} code units. `parts.join("")` is the text again. Never
 * splits a surrogate pair, which would not survive UTF-8. The empty text has no parts.
 */
export function partsOf(text: string): string[] {
  const parts: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = start + PART_LENGTH;
    if (SURROGATE_PAIR.test(text.slice(end - 1, end + 1))) end--;
    parts.push(text.slice(start, end));
    start = end;
  }
  return parts;
}

const SURROGATE_PAIR = /^[\uD800-\uDBFF][\uDC00-\uDFFF]/;

/** The upper bound of the keys that begin with a prefix, which ends with a colon: a semicolon comes right after it. */
export function endOfPrefix(prefix: string): string {
  return `${prefix.slice(0, -1)};`;
}
