/** Texts for storage, events and steps: well-formed, split into parts, or as a digest. */

import { createHash } from "node:crypto";

/** Whether a text is well-formed UTF-16. SQLite replaces an unpaired surrogate, so such a text is never found again. */
export function isWellFormedText(value: string): boolean {
  return value.isWellFormed();
}

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

/**
 * Splits a text into non-empty parts of at most {@link PART_LENGTH} code units. `parts.join("")` is the text again. Never
 * splits a surrogate pair, which would not survive UTF-8. The empty text has no parts.
 */
export function partsOf(text: string): string[] {
  const parts: string[] = [];
  for (let start = 0; start < text.length; ) {
    const end = endAt(text, start + PART_LENGTH);
    parts.push(text.slice(start, end));
    start = end;
  }
  return parts;
}

/** The last end of a character at or before `end`. */
function endAt(text: string, end: number): number {
  if (end >= text.length) return text.length;
  const isSplit =
    isWithin(text.charCodeAt(end - 1), 0xd800) && isWithin(text.charCodeAt(end), 0xdc00);
  return isSplit ? end - 1 : end;
}

/** Whether the code unit is one of the 1024 from `first` on. */
function isWithin(unit: number, first: number): boolean {
  return unit >= first && unit < first + 0x400;
}
