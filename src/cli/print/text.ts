/** Texts for a terminal: data cannot control it, and colours are left out where they are not wanted. */

import { styleText } from "node:util";

// Control characters, line separators, and the marks that change the direction of text.
const CONTROL = /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** A text in one line, with its control characters as escapes: `\x1b[31m` does not colour, and a newline does not add a line. */
export function plain(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.replace(CONTROL, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
  });
}

/** JSON with escapes for what a terminal could take for a command. Parsed, it is the same. */
export function jsonText(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(CONTROL, (character) =>
    // The line breaks between the parts; those of texts are escaped already.
    character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export function short(value: unknown, length: number): string {
  const text = plain(value);
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

type Style = Parameters<typeof styleText>[0];

export function paint(style: Style, text: string): string {
  const isWanted = process.stdout.isTTY === true && !process.env.NO_COLOR;
  return isWanted ? styleText(style, text) : text;
}

const GOOD = /^(completed|complete|approved|accepted|delivered|active|healthy|done)$/;
const BAD = /^(error|errored|dead|disabled|failing|failed|refused|invalid|not-found)$/;

export function status(word: unknown): string {
  const text = plain(word);
  return GOOD.test(text) ? paint("green", text) : BAD.test(text) ? paint("red", text) : text;
}

/** ISO 8601 in UTC, without milliseconds. */
export function time(at: unknown): string {
  if (typeof at !== "number" || Math.abs(at) > 8.64e15) return "";
  return new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
}
