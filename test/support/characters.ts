import fc from "fast-check";

const SURROGATES = { from: 0xd800, count: 0x800 };

/**
 * Every character of Unicode, as the unit of `fc.string()`. The unit "binary" has the same characters, and makes a table of all
 * of them at its first use, which takes seconds in each process of the tests.
 */
export const ANY_CHARACTER = fc
  .integer({ min: 0, max: 0x10_ffff - SURROGATES.count })
  .map(toCharacter, toNumber);

function toCharacter(number: number): string {
  return String.fromCodePoint(number < SURROGATES.from ? number : number + SURROGATES.count);
}

/** @throws TypeError for anything else than one character, as fast-check expects */
function toNumber(value: unknown): number {
  const [character, ...rest] = typeof value === "string" ? value : "";
  const code = character?.codePointAt(0);
  if (code === undefined || rest.length > 0) throw new TypeError("expected one character");
  if (code < SURROGATES.from) return code;
  if (code < SURROGATES.from + SURROGATES.count) throw new TypeError("expected no surrogate");
  return code - SURROGATES.count;
}
