/**
 * Long texts in parts that storage and steps take. Knows nothing of what the
 * text is, nor of where the parts go; `parts.join("")` is the text again.
 */

/**
 * The most UTF-16 code units of a part: 768 KiB in UTF-8 at worst, below the
 * 1 MiB of a step result and of an event.
 */
export const PART_LENGTH = 256 * 1024;

/**
 * The text in parts of at most {@link PART_LENGTH} code units, of which none is
 * empty; no part of the empty text. A pair of surrogates is never split: half
 * of one would not survive UTF-8.
 */
export function partsOf(text: string): string[] {
  const parts: string[] = [];
  for (let start = 0; start < text.length; ) {
    const end = borderAt(text, start + PART_LENGTH);
    parts.push(text.slice(start, end));
    start = end;
  }
  return parts;
}

/** The last border between characters that is not after `end`. */
function borderAt(text: string, end: number): number {
  if (end >= text.length) return text.length;
  const isSplit =
    isWithin(text.charCodeAt(end - 1), 0xd800) && isWithin(text.charCodeAt(end), 0xdc00);
  return isSplit ? end - 1 : end;
}

/** Whether the code unit is one of the 1024 from `first` on. */
function isWithin(unit: number, first: number): boolean {
  return unit >= first && unit < first + 0x400;
}
