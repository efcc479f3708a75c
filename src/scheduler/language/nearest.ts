/**
 * Finds the valid schedule nearest to an invalid text: where the parser stops, tries what it would have accepted there,
 * the cheapest correction first.
 */

import { type Candidate, Mismatch, type Token } from "./reader.ts";
import { FOREIGN } from "./vocabulary.ts";

/** The cost of a missing word, in letters. */
const INSERTING = 2;
const MAX_COST = 9;
/** Bounds the time for any text to some ten milliseconds; most take one. */
const MAX_TRIES = 300;
/** Characters parsed in all tries together. */
const MAX_READ = 20_000;
/** The most that a corrected token costs. */
const MADE = 1.5;
/** Words of which a larger part differs are not related. */
const MAX_DIFFERENCE = 0.7;
/** Candidates that are tried where a word is missing. */
const MAX_INSERTED = 6;

type Attempt = { readonly text: string; readonly cost: number };

/** Undefined where none is near. @param parse throws a Mismatch for an invalid schedule */
export function nearestTo(
  text: string,
  maxLength: number,
  parse: (text: string) => void,
): string | undefined {
  const open: Attempt[] = [{ text, cost: 0 }];
  const seen = new Set([text]);
  const most = Math.min(MAX_TRIES, Math.ceil(MAX_READ / Math.max(text.length, 1)));
  for (let tries = 0; tries < most && open.length > 0; tries += 1) {
    open.sort((one, other) => one.cost - other.cost);
    const attempt = open.shift() as Attempt;
    const mismatch = mismatchOf(attempt.text, parse);
    if (mismatch === undefined) return attempt.text;
    for (const corrected of correctionsOf(attempt.text, mismatch)) {
      const cost = attempt.cost + corrected.cost;
      if (cost > MAX_COST || corrected.text.length > maxLength || seen.has(corrected.text))
        continue;
      seen.add(corrected.text);
      open.push({ text: corrected.text, cost });
    }
  }
  return undefined;
}

/** Undefined for a valid text. */
export function mismatchOf(text: string, parse: (text: string) => void): Mismatch | undefined {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    if (error instanceof Mismatch) return error;
    throw error;
  }
}

function correctionsOf(text: string, { tokens, index, candidatesAt }: Mismatch): Attempt[] {
  const token = tokens[index];
  const before = tokens[index - 1];
  const fitting = candidatesAt(index);
  const corrections = [
    ...inserted(text, token, fitting),
    ...replacedBefore(text, before, candidatesAt(index - 1)),
  ];
  if (token === undefined) return corrections;
  return [
    ...foreign(text, token),
    ...replaced(text, token, fitting),
    ...divided(text, token, fitting),
    ...joined(text, before, token),
    ...corrections,
    dropped(text, before, token),
  ];
}

/** A word is missing before `token`, or at the end. */
function inserted(text: string, token: Token | undefined, fitting: readonly Candidate[]) {
  const at = token?.start ?? text.length;
  const head = text.slice(0, at);
  const gap = head === "" || /[\s,]$/.test(head) ? "" : " ";
  return fitting.slice(0, MAX_INSERTED).map(({ word }) => ({
    text:
      word === ","
        ? `${head.trimEnd()}, ${text.slice(at)}`
        : `${head}${gap}${word}${token ? " " : ""}${text.slice(at)}`,
    cost: INSERTING,
  }));
}

/** "everyday", "at9:00": a space is missing. */
function divided(text: string, token: Token, fitting: readonly Candidate[]): Attempt[] {
  return fitting
    .filter(({ word }) => token.word.startsWith(word) && token.word.length > word.length)
    .map(({ word }) => splice(text, token, `${word} ${token.raw.slice(word.length)}`, 1));
}

/** "week day", "9 am": a space too many. */
function joined(text: string, before: Token | undefined, token: Token): Attempt[] {
  if (before === undefined || before.word === "," || !/^[a-z]/.test(token.word)) return [];
  return [splice(text, { ...token, start: before.start }, `${before.raw}${token.raw}`, 1)];
}

function foreign(text: string, token: Token): Attempt[] {
  const ours = FOREIGN.get(token.word);
  return ours === undefined ? [] : [splice(text, token, ours, 1)];
}

function replaced(text: string, token: Token, fitting: readonly Candidate[]): Attempt[] {
  return fitting.flatMap(({ word, isMade }, rank) => {
    const distance = editDistance(token.word, word.toLowerCase());
    const longest = Math.max(token.word.length, word.length);
    if (isMade) return splice(text, token, word, Math.min(distance, MADE + rank));
    return distance > longest * MAX_DIFFERENCE ? [] : splice(text, token, word, distance);
  });
}

/** The accepted word before may be the wrong one: "every mon on 1" means a month. */
function replacedBefore(
  text: string,
  before: Token | undefined,
  fitting: readonly Candidate[],
): Attempt[] {
  if (before === undefined) return [];
  const others = fitting.filter(({ word, isMade }) => !isMade && word !== before.word);
  return replaced(text, before, others).map((attempt) => ({ ...attempt, cost: attempt.cost + 1 }));
}

/** Drops a token, and the comma before it. The longer it is, the more it costs. */
function dropped(text: string, before: Token | undefined, token: Token): Attempt {
  const start = before?.word === "," ? before.start : token.start;
  const rest = text.slice(token.end).trimStart();
  const kept = text.slice(0, start).trimEnd();
  const gap = kept === "" || rest === "" || rest.startsWith(",") ? "" : " ";
  return { text: `${kept}${gap}${rest}`, cost: 1.5 + (token.end - token.start) / 2 };
}

function splice(text: string, token: Token, word: string, cost: number): Attempt {
  const head = text.slice(0, token.start);
  return { text: `${word === "," ? head.trimEnd() : head}${word}${text.slice(token.end)}`, cost };
}

/** No name of a zone is longer. */
const LONGEST_WORD = 50;

/**
 * The optimal string alignment distance: the fewest letters to add, drop, change, or swap with their neighbour. Infinity
 * for words of more than 50 characters. https://en.wikipedia.org/wiki/Damerau–Levenshtein_distance
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
