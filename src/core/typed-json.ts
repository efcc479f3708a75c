/**
 * JSON that also holds what `structuredClone()` takes and JSON does not have: dates, maps, bytes. Such a value is an object with the
 * name of its type under `perdure:type`.
 */

import type { Json } from "./json.ts";

const TYPE = "perdure:type";
/** Nesting beyond it is not recorded. */
const MAX_DEPTH = 200;

type Typed = { readonly [TYPE]: string; readonly value: Json };

const BYTES = {
  ...{ ArrayBuffer, DataView, Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array },
  ...{ Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array },
};
const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

const nameOf = (value: object) => Object.prototype.toString.call(value).slice(8, -1);

/** Undefined for undefined. What has no form at all, such as a stream, is recorded by its name only. */
export function toTypedJson(value: unknown, ancestors: readonly unknown[] = []): Json | undefined {
  if (value === undefined) return undefined;
  const typed = (type: string, content: Json): Json => ({ [TYPE]: type, value: content });
  if (typeof value === "bigint") return typed("bigint", String(value));
  if (typeof value === "number")
    return Number.isFinite(value) && !Object.is(value, -0)
      ? value
      : typed("number", Object.is(value, -0) ? "-0" : String(value));
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value !== "object") return typed("other", typeof value);
  if (ancestors.includes(value) || ancestors.length > MAX_DEPTH)
    return typed("other", "a value that contains itself");
  const inner = (one: unknown): Json => {
    const json = toTypedJson(one, [...ancestors, value]);
    return json === undefined ? typed("undefined", "") : json;
  };
  if (Array.isArray(value)) return Array.from(value, inner);
  const name = nameOf(value);
  if (value instanceof Date)
    return typed("Date", Number.isNaN(value.getTime()) ? "" : value.toISOString());
  if (value instanceof Map)
    return typed(
      "Map",
      [...value].map((entry) => entry.map(inner)),
    );
  if (value instanceof Set) return typed("Set", [...value].map(inner));
  if (value instanceof RegExp) return typed("RegExp", [value.source, value.flags]);
  if (value instanceof Error) return typed("Error", [value.name, value.message]);
  if (name in BYTES) return typed(name, bytesOf(value as ArrayBuffer | ArrayBufferView).toBase64());
  if (name !== "Object") return typed("other", name);
  const entries = Object.entries(value)
    .filter(([, one]) => one !== undefined)
    .map(([key, one]): [string, Json] => [key, inner(one)]);
  return Object.hasOwn(value, TYPE) ? typed("Object", entries) : Object.fromEntries(entries);
}

const bytesOf = (value: ArrayBuffer | ArrayBufferView) =>
  value instanceof ArrayBuffer
    ? new Uint8Array(value)
    : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);

/** @param lost makes the value of what was recorded by its name only */
export function fromTypedJson(json: Json | undefined, lost: (name: string) => unknown): unknown {
  const inner = (one: Json): unknown => fromTypedJson(one, lost);
  if (Array.isArray(json)) return json.map(inner);
  if (typeof json !== "object" || json === null) return json;
  if (typeof json[TYPE] !== "string")
    return Object.fromEntries(Object.entries(json).map(([key, one]) => [key, inner(one)]));
  const { [TYPE]: type, value } = json as Typed;
  const list = Array.isArray(value) ? value : [];
  const pairs = list.map((entry) => (Array.isArray(entry) ? entry.map(inner) : [])) as [
    never,
    never,
  ][];
  const [first = "", second = ""] = list.map(String);
  if (type === "undefined") return undefined;
  if (type === "bigint") return BigInt(String(value));
  if (type === "number") return Number(value);
  if (type === "Date") return new Date(String(value));
  if (type === "Map") return new Map(pairs);
  if (type === "Set") return new Set(list.map(inner));
  if (type === "RegExp") return new RegExp(first, second);
  if (type === "Error") return errorOf(first, second);
  if (type === "Object") return Object.fromEntries(pairs);
  if (Object.hasOwn(BYTES, type)) {
    const { buffer } = Uint8Array.fromBase64(String(value));
    return type === "ArrayBuffer" ? buffer : new BYTES[type as "DataView"](buffer);
  }
  return lost(String(value));
}

function errorOf(name: string, message: string): Error {
  const Class = Object.hasOwn(ERRORS, name) ? ERRORS[name as keyof typeof ERRORS] : Error;
  const error = new Class(message);
  if (error.name !== name) error.name = name;
  return error;
}
