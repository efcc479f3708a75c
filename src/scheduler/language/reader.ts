/** Reads the tokens of a text, and records what was accepted at each: messages list it, and nearest.ts corrects by it. */

export type Token = {
  /** In lower case. */
  readonly word: string;
  /** As it was written. */
  readonly raw: string;
  /** Index of its first character in the text. */
  readonly start: number;
  readonly end: number;
};

/** Corrections of the token at a place, best first. Called only for an invalid text. */
export type Candidates = (found: string) => readonly string[];

/** A word of the language, or a correction of the token (`isMade`). */
export type Candidate = { readonly word: string; readonly isMade: boolean };

type Asked = {
  readonly expected: readonly string[];
  readonly candidates: (found: string) => readonly Candidate[];
};

/** The text is invalid. Never leaves this folder: callers get a ScheduleSyntaxError. */
export class Mismatch extends Error {
  constructor(
    readonly tokens: readonly Token[],
    /** Of the first token that does not fit; the number of tokens where the text ends too early. */
    readonly index: number,
    readonly expected: string,
    /** The words that are accepted at a token. */
    readonly candidatesAt: (index: number) => readonly Candidate[],
  ) {
    super(expected);
  }
}

export class Reader {
  readonly tokens: readonly Token[];
  index = 0;
  readonly #asked: Asked[][] = [];

  constructor(text: string) {
    this.tokens = tokensOf(text);
  }

  get token(): Token | undefined {
    return this.tokens[this.index];
  }

  get atEnd(): boolean {
    return this.index >= this.tokens.length;
  }

  /** Takes the next token if it is one of `words`. Messages have `expected` in place of them. */
  accept<Word extends string>(
    words: readonly Word[],
    expected: readonly string[] = words.map(quoted),
  ): Word | undefined {
    const found = words.find((word) => word === this.token?.word);
    if (found !== undefined) this.index += 1;
    else this.#ask({ expected, candidates: () => words.map((word) => ({ word, isMade: false })) });
    return found;
  }

  /** @throws Mismatch if the next token is not one of `words` */
  expect<Word extends string>(words: readonly Word[], expected?: readonly string[]): Word {
    return this.accept(words, expected) ?? this.#stop(this.index);
  }

  /** Takes the next token if `read` accepts it. @throws Mismatch where `read` returns undefined */
  value<T>(expected: string, candidates: Candidates, read: (token: Token) => T | undefined): T {
    const value = this.token && read(this.token);
    if (value === undefined) return this.fail(expected, candidates);
    this.index += 1;
    return value;
  }

  /** @throws Mismatch, always: the next token is nothing that was accepted here, nor this */
  fail(expected: string, candidates: Candidates): never {
    this.#ask(made(expected, candidates));
    return this.#stop(this.index);
  }

  /** @throws Mismatch, always: the token at `index` was accepted, and its value is invalid */
  refuse(index: number, expected: string, candidates: Candidates): never {
    this.#asked[index] = [made(expected, candidates)];
    return this.#stop(index);
  }

  #ask(asked: Asked): void {
    this.#asked[this.index] ??= [];
    this.#asked[this.index]?.push(asked);
  }

  #stop(index: number): never {
    const asked = this.#asked;
    const { tokens } = this;
    const expected = listed([...new Set((asked[index] ?? []).flatMap(({ expected }) => expected))]);
    throw new Mismatch(tokens, index, expected, (at) => {
      const found = tokens[at]?.word ?? "";
      return (asked[at] ?? []).flatMap(({ candidates }) => candidates(found));
    });
  }
}

/** A list with commas. @throws Mismatch where two items have the same key */
export function listOf<T>(
  reader: Reader,
  read: (reader: Reader) => T,
  keyOf: (item: T) => unknown = (item) => item,
): T[] {
  const items = new Map<unknown, T>();
  do {
    const { index } = reader;
    const item = read(reader);
    if (items.has(keyOf(item))) {
      const again = JSON.stringify(reader.tokens[index]?.raw);
      reader.refuse(index, `each only once (${again} is repeated)`, () => []);
    }
    items.set(keyOf(item), item);
  } while (reader.accept([","]));
  return [...items.values()];
}

function made(expected: string, candidates: Candidates): Asked {
  const words = (found: string) => candidates(found).map((word) => ({ word, isMade: true }));
  return { expected: [expected], candidates: words };
}

function quoted(word: string): string {
  return word === "," ? "a comma" : `"${word}"`;
}

/** `a, b or c`, or with `last` "and" `a, b and c`. */
export function listed(parts: readonly string[], last = "or"): string {
  if (parts.length < 2) return parts.join("");
  return `${parts.slice(0, -1).join(", ")} ${last} ${parts.at(-1)}`;
}

/** White space separates tokens; a comma is a token of its own. */
function tokensOf(text: string): Token[] {
  return Array.from(text.matchAll(/[^\s,]+|,/g), ({ 0: raw, index }) => ({
    word: raw.toLowerCase(),
    raw,
    start: index,
    end: index + raw.length,
  }));
}
