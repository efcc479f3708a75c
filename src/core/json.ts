/** JSON: copies, size limits, equality, and values in messages. */

import { failureOf } from "./failures.ts";

/** A value that JSON can hold. The platform's RPC types can follow recursive interfaces, but not `unknown`. */
export type Json = string | number | boolean | null | JsonArray | JsonObject;
interface JsonArray extends Array<Json> {}
interface JsonObject {
  [key: string]: Json;
}

export function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

/**
 * A copy of a value as JSON has it; undefined for undefined.
 *
 * @param replacer as that of `JSON.stringify()`
 * @throws TypeError for a value that JSON cannot hold, such as a bigint or a cycle
 */
export function jsonOf(
  value: unknown,
  replacer?: (key: string, value: unknown) => unknown,
): Json | undefined {
  const text = JSON.stringify(value, replacer) as string | undefined;
  return text === undefined ? undefined : (JSON.parse(text) as Json);
}

/** The limit of a JSON text, and the error that the caller throws. */
export type JsonLimit = {
  readonly maxBytes: number;
  readonly refuse: (message: string) => Error;
};

/**
 * A value as JSON text of at most `maxBytes`.
 *
 * @param name what the message calls the value, e.g. `event`
 * @throws the error of `refuse`: JSON cannot hold the value, or it is too large
 */
export function jsonTextOf(name: string, value: unknown, { maxBytes, refuse }: JsonLimit): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw refuse(`Invalid ${name}: JSON cannot hold it (${failureOf(error).message}).`);
  }
  if (text === undefined) {
    throw refuse(`Invalid ${name} ${preview(value)}: expected JSON.`);
  }
  checkBytes(name, text, { maxBytes, refuse });
  return text;
}

/** @throws the error of `refuse` for a text of more than `maxBytes` in UTF-8 */
export function checkBytes(name: string, text: string, { maxBytes, refuse }: JsonLimit): void {
  // A code unit takes at most three bytes, so a short text need not be measured.
  if (text.length * 3 <= maxBytes) return;
  const bytes = byteLength(text);
  if (bytes > maxBytes) throw refuse(tooLarge(name, bytes, maxBytes));
}

/** The message about a value that is larger than storage, an event or a step can take. */
export function tooLarge(name: string, bytes: number, maxBytes: number): string {
  return (
    `Invalid ${name} of ${bytes} bytes: expected at most ${maxBytes} bytes. ` +
    "Store the content elsewhere, e.g. in R2, and pass a reference to it."
  );
}

/** What a text that is not well-formed UTF-16 contains, and the remedy. */
export const HALF_REMEDY = "half of a character (an unpaired surrogate). Use toWellFormed()";

/** The end of the message about a text that is not well-formed UTF-16. */
export const HALF_CHARACTER = `which contains ${HALF_REMEDY}.`;

/** The first key in a JSON value that is not well-formed UTF-16, or undefined. SQLite replaces unpaired surrogates. */
export function malformedKeyIn(value: unknown): string | undefined {
  let found: string | undefined;
  JSON.stringify(value, (key, inner: unknown) => {
    if (!key.isWellFormed()) found ??= key;
    return inner;
  });
  return found;
}

/** JSON with sorted keys: the same text for equal values. */
export function stableJson(value: unknown): string {
  return JSON.stringify(value, inOrder) ?? "undefined";
}

function inOrder(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The nesting limit. Recursive functions, `JSON.stringify()` too, fail with a RangeError at some thousands of levels. */
export const MAX_DEPTH = 500;

/**
 * The first place in a value that JSON cannot hold, e.g. `.items[2].due is a Date`, or undefined. Properties that are
 * undefined do not count, because JSON omits them.
 *
 * @param path of the value
 * @param ancestors the objects that it is in
 */
export function lostInJson(
  value: unknown,
  path = "",
  ancestors = new Set<unknown>(),
): string | undefined {
  const at = (problem: string) => `${shorten(path)} ${problem}`;
  if (typeof value === "number") return Number.isFinite(value) ? undefined : at(`is ${value}`);
  if (typeof value === "bigint" || typeof value === "function" || typeof value === "symbol") {
    return at(`is a ${typeof value}`);
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (ancestors.has(value)) return at("contains itself");
  if (ancestors.size === MAX_DEPTH) return at(`is nested more than ${MAX_DEPTH} levels deep`);
  const isArray = Array.isArray(value);
  const kind = Object.prototype.toString.call(value).slice("[object ".length, -1);
  if (!isArray && kind !== "Object") return at(`is a ${kind}`);
  ancestors.add(value);
  for (const [key, entry] of Object.entries(value)) {
    const inner = `${path}${isArray ? `[${key}]` : `.${key}`}`;
    const lost =
      isArray && entry === undefined
        ? `${shorten(inner)} is undefined`
        : lostInJson(entry, inner, ancestors);
    if (lost) return lost;
  }
  ancestors.delete(value);
  return undefined;
}

/** The value of a text in JSON; undefined for any other text. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether a value is nested more than {@link MAX_DEPTH} levels deep, or contains itself. */
export function isTooDeep(value: unknown): boolean {
  let level = [value];
  for (let depth = 0; depth <= MAX_DEPTH; depth++) {
    const inner = level.filter((one) => typeof one === "object" && one !== null);
    if (inner.length === 0) return false;
    level = inner.flatMap((one) => Object.values(one as object));
    // Values that are in several places would be read once for each path to them.
    if (level.length > 1_000) level = [...new Set(level)];
  }
  return true;
}

/**
 * A value as an error message shows it: as JSON where it has a JSON form, at most `most` characters. Never throws. Of an
 * instance of a class it shows the class alone: an agent has secrets in its `env`.
 */
export function preview(value: unknown, most = 100): string {
  let text: string;
  try {
    text = textOf(value);
  } catch {
    // It contains itself or something that JSON cannot hold, or it throws when it is read.
    text = typeof value === "function" ? "a function" : "an object";
  }
  return shorten(text, most);
}

/** A text as an error message shows it: at most `most` characters. */
export function shorten(text: string, most = 100): string {
  return text.length > most ? `${text.slice(0, most)}...` : text;
}

function textOf(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  // JSON writes NaN and Infinity as null.
  if (typeof value === "number") return String(value);
  // JSON writes an invalid date as null.
  if (value instanceof Date && Number.isNaN(value.getTime())) return String(value);
  return (
    classOf(value) ?? JSON.stringify(value, (_, inner) => classOf(inner) ?? inner) ?? String(value)
  );
}

/** The class of an instance that has no JSON form of its own, e.g. `an instance of Agent`. */
function classOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value) || "toJSON" in value)
    return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  // An object of another realm has a prototype of the same form.
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return undefined;
  return `an instance of ${value.constructor.name}`;
}
