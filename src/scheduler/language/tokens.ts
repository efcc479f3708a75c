/** Cuts a schedule's text into words and commas, each with its place. */

export type Token = {
  /** In lower case. */
  readonly word: string;
  /** As it was written: the name of a zone. */
  readonly raw: string;
  /** Index of its first character in the text. */
  readonly start: number;
  readonly end: number;
};

/** White space parts words and means nothing else; a comma is a token of its own. */
export function tokensOf(text: string): Token[] {
  return Array.from(text.matchAll(/[^\s,]+|,/g), ({ 0: raw, index }) => ({
    word: raw.toLowerCase(),
    raw,
    start: index,
    end: index + raw.length,
  }));
}
