/**
 * Stores as JSON what the platform passes by structured clone: dates, maps, bytes, cycles. The text is a list of nodes, and the
 * first node is the value. A node is a primitive of JSON, an object with the index of each member, or a type with its parts.
 */

import { type Json, MAX_DEPTH, shorten } from "./json.ts";

const BYTES = [
  ...["ArrayBuffer", "DataView", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array"],
  ...["Uint16Array", "Int32Array", "Uint32Array", "Float16Array", "Float32Array", "Float64Array"],
  ...["BigInt64Array", "BigUint64Array"],
];
const ERRORS = [
  ...["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError"],
  "URIError",
];

/** What a value becomes, and how many bytes of it are base64 beyond the bytes themselves. */
export type Structured = { readonly nodes: Json[]; readonly surplus: number };

/** A value that no structured clone can hold, e.g. `.items[2] is a function`. */
export class NotStructuredError extends Error {}

/** @throws NotStructuredError */
export function toStructured(value: unknown): Structured {
  const encoder = new Encoder();
  encoder.add(value, "", 0);
  return { nodes: encoder.nodes, surplus: encoder.surplus };
}

class Encoder {
  readonly nodes: Json[] = [];
  surplus = 0;
  readonly #indexes = new Map<unknown, number>();

  /** Returns the index of the value's node. */
  add(value: unknown, path: string, depth: number): number {
    const known = this.#indexes.get(value);
    if (known !== undefined) return known;
    const index = this.nodes.push(null) - 1;
    if (typeof value === "object" && value !== null) this.#indexes.set(value, index);
    if (depth > MAX_DEPTH)
      throw new NotStructuredError(`${shorten(path)} is nested more than ${MAX_DEPTH} levels deep`);
    this.nodes[index] = this.#node(value, path, depth + 1);
    return index;
  }

  #node(value: unknown, path: string, depth: number): Json {
    const type = typeof value;
    if (value === null || type === "string" || type === "boolean") return value as Json;
    if (type === "number")
      return Number.isFinite(value) && !Object.is(value, -0)
        ? (value as number)
        : ["number", Object.is(value, -0) ? "-0" : String(value)];
    if (type === "undefined") return ["undefined"];
    if (type === "bigint") return ["bigint", String(value)];
    const kind = type === "object" ? kindOf(value) : type;
    const node = this.#object(value as object, kind, path, depth);
    if (node === undefined) throw new NotStructuredError(`${shorten(path)} is a ${kind}`);
    return node;
  }

  #object(value: object, kind: string, path: string, depth: number): Json | undefined {
    const each = (items: Iterable<unknown>) =>
      [...items].map((item, at) => this.add(item, `${path}[${at}]`, depth));
    if (kind === "Array") return [kind, ...each(value as unknown[])];
    if (kind === "Set") return [kind, ...each(value as Set<unknown>)];
    if (kind === "Map") return [kind, ...each([...(value as Map<unknown, unknown>)].flat())];
    if (kind === "Date") return [kind, (value as Date).getTime()].map(orNull);
    if (kind === "RegExp") return [kind, (value as RegExp).source, (value as RegExp).flags];
    if (BYTES.includes(kind)) return [kind, this.#base64(value as ArrayBuffer | ArrayBufferView)];
    if (kind === "Error") {
      const { name, message, stack = null, cause } = value as Error;
      const known = ERRORS.includes(name) ? name : kind;
      return [known, message, stack, this.add(cause, `${path}.cause`, depth)];
    }
    if (kind !== "Object") return undefined;
    // As JSON has an instance of a class.
    const { toJSON } = value as { toJSON?: () => unknown };
    const plain = typeof toJSON === "function" ? toJSON.call(value) : value;
    if (kindOf(plain) !== "Object") return this.#node(plain, path, depth);
    const members = Object.entries(plain as object).map(([key, member]) => [
      key,
      this.add(member, `${path}.${key}`, depth),
    ]);
    return Object.fromEntries(members) as Json;
  }

  #base64(value: ArrayBuffer | ArrayBufferView): string {
    const bytes = ArrayBuffer.isView(value)
      ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
      : new Uint8Array(value);
    const text = bytes.toBase64();
    this.surplus += text.length - bytes.length;
    return text;
  }
}

const orNull = (part: string | number) => (Number.isNaN(part) ? null : part);
const kindOf = (value: unknown) => Object.prototype.toString.call(value).slice(8, -1);

/** The value that {@link toStructured} was given, with the same identities and cycles. */
export function fromStructured(nodes: readonly Json[]): unknown {
  const made = new Map<number, unknown>();
  const at = (index: Json | undefined): unknown => {
    const key = Number(index);
    if (!made.has(key)) make(key, nodes[key] as Json);
    return made.get(key);
  };
  const make = (index: number, node: Json) => {
    if (typeof node !== "object" || node === null) return made.set(index, node);
    if (!Array.isArray(node)) {
      const object = {};
      made.set(index, object);
      for (const [key, member] of Object.entries(node))
        Object.defineProperty(object, key, { ...MEMBER, value: at(member) });
      return made;
    }
    const [type, ...parts] = node as [string, ...Json[]];
    if (type === "Array") {
      const list: unknown[] = [];
      made.set(index, list);
      for (const part of parts) list.push(at(part));
    } else if (type === "Map") {
      const map = new Map();
      made.set(index, map);
      for (let i = 0; i < parts.length; i += 2) map.set(at(parts[i]), at(parts[i + 1]));
    } else if (type === "Set") {
      const set = new Set();
      made.set(index, set);
      for (const part of parts) set.add(at(part));
    } else if (ERRORS.includes(type)) {
      const error = madeError(type, parts);
      made.set(index, error);
      const cause = at(parts[2]);
      if (cause !== undefined) Object.defineProperty(error, "cause", { value: cause });
    } else made.set(index, leaf(type, parts));
    return made;
  };
  return at(0);
}

/** `__proto__` is a member like others. */
const MEMBER = { enumerable: true, writable: true, configurable: true };

function madeError(type: string, [message, stack]: Json[]): Error {
  const Class = Reflect.get(globalThis, type) as ErrorConstructor;
  return Object.defineProperty(new Class(message as string), "stack", { value: stack ?? "" });
}

function leaf(type: string, [one = null, two]: Json[]): unknown {
  if (type === "undefined") return undefined;
  if (type === "number") return Number(one);
  if (type === "bigint") return BigInt(one as string);
  if (type === "Date") return new Date((one ?? Number.NaN) as number);
  if (type === "RegExp") return new RegExp(one as string, two as string);
  const { buffer } = Uint8Array.fromBase64(one as string);
  if (type === "ArrayBuffer") return buffer;
  const Class = Reflect.get(globalThis, type) as new (buffer: ArrayBuffer) => ArrayBufferView;
  return new Class(buffer as ArrayBuffer);
}
