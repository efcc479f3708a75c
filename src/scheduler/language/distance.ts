/** How far two words are from each other. */

/** The longest name of a zone has 32 characters. */
const LONGEST_WORD = 50;

/**
 * The fewest letters to add, drop, change, or swap with their neighbour, that
 * make one word of the other (optimal string alignment).
 * https://en.wikipedia.org/wiki/Damerau–Levenshtein_distance
 *
 * Infinity for a word of more than 50 characters, which none of the language or of its zones has.
 */
export function editDistance(one: string, other: string): number {
  if (Math.max(one.length, other.length) > LONGEST_WORD) return Number.POSITIVE_INFINITY;
  let beforeLast: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let row = 1; row <= one.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      let least = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (isSame ? 0 : 1),
      );
      const isSwap = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      if (isSwap && row > 1 && column > 1) least = Math.min(least, at(beforeLast, column - 2) + 1);
      current.push(least);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, other.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
