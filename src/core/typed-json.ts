/**
 * JSON that also holds what `structuredClone()` takes and JSON does not have: dates, maps, bytes, cycles. Such a value is an object
 * with the name of its type under `perdure:type`. An object that comes again is its number, in the order of the text.
 */

import { type Json, MAX_DEPTH, shorten } from "./json.ts";

const TYPE = "perdure:type";

type Typed = { readonly [TYPE]: string; readonly value: Json };

const ERRORS = [
  ...["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError"],
  "URIError",
];
/** Nothing else in stored JSON may name a class to construct. */
const BYTES =
  /^(ArrayBuffer|DataView|((Ui|I)nt(8|16|32)|Uint8Clamped|Big(Ui|I)nt64|Float(16|32|64))Array)$/;
const KINDS = /^(Object|Array|Map|Set|Date|RegExp|Error)$/;

const kindOf = (value: unknown) => Object.prototype.toString.call(value).slice(8, -1);
const typed = (type: string, value: Json): Json => ({ [TYPE]: type, value });

/** A value as JSON. */
export type TypedJson = {
  readonly json: Json;
  /** Parts that no structured clone can hold, e.g. `.items[2] is a function`. Recorded by the names of their types only. */
  readonly lost: readonly string[];
  /** Bytes of base64 beyond the bytes that it stands for. */
  readonly surplus: number;
};

export function toTypedJson(value: unknown): TypedJson {
  const encoder = new Encoder();
  return { json: encoder.encode(value, "", 0), lost: encoder.lost, surplus: encoder.surplus };
}

class Encoder {
  readonly lost: string[] = [];
  surplus = 0;
  readonly #numbers = new Map<object, number>();

  encode(value: unknown, path: string, depth: number): Json {
    if (typeof value !== "object" || value === null) return this.#primitive(value, path);
    const number = this.#numbers.get(value);
    if (number !== undefined) return typed("same", number);
    const kind = kindOf(value);
    if (depth > MAX_DEPTH)
      return this.#lose(path, `nested more than ${MAX_DEPTH} levels deep`, kind);
    if (!KINDS.test(kind) && !BYTES.test(kind)) return this.#lose(path, `a ${kind}`, kind);
    const { toJSON } = value as { toJSON?: () => unknown };
    // As JSON has an instance of a class.
    const isOwn = kind === "Object" && typeof toJSON === "function";
    const plain = isOwn ? toJSON.call(value) : value;
    if (kindOf(plain) !== kind) return this.encode(plain, path, depth + 1);
    this.#numbers.set(value, this.#numbers.size);
    return this.#object(plain as object, kind, path, depth + 1);
  }

  #primitive(value: unknown, path: string): Json {
    const type = typeof value;
    if (value === null || type === "string" || type === "boolean") return value as Json;
    if (type === "undefined") return typed(type, "");
    if (type === "bigint") return typed(type, String(value));
    if (type !== "number") return this.#lose(path, `a ${type}`, type);
    if (Object.is(value, -0)) return typed(type, "-0");
    return Number.isFinite(value) ? (value as number) : typed(type, String(value));
  }

  #object(value: object, kind: string, path: string, depth: number): Json {
    const items = (all: Iterable<unknown>, within = path): Json[] =>
      Array.from(all, (item, at) => this.encode(item, `${within}[${at}]`, depth));
    if (kind === "Array") return items(value as unknown[]);
    if (kind === "Set") return typed(kind, items(value as Set<unknown>));
    if (kind === "Map")
      return typed(
        kind,
        Array.from(value as Map<unknown, unknown>, (entry, at) => items(entry, `${path}[${at}]`)),
      );
    if (kind === "Date") {
      const time = value as Date;
      return typed(kind, Number.isNaN(time.getTime()) ? "" : time.toISOString());
    }
    if (kind === "RegExp") return typed(kind, [(value as RegExp).source, (value as RegExp).flags]);
    if (kind === "Error") {
      const { name, message, stack = null, cause } = value as Error;
      const causes = cause === undefined ? [] : [this.encode(cause, `${path}.cause`, depth)];
      return typed(kind, [ERRORS.includes(name) ? name : kind, message, stack, ...causes]);
    }
    if (kind !== "Object") return typed(kind, this.#base64(value as ArrayBuffer | ArrayBufferView));
    const members = Object.entries(value).map(([key, member]): [string, Json] => [
      key,
      this.encode(member, `${path}.${key}`, depth),
    ]);
    return Object.hasOwn(value, TYPE) ? typed(kind, members) : Object.fromEntries(members);
  }

  #base64(value: ArrayBuffer | ArrayBufferView): string {
    const bytes = ArrayBuffer.isView(value)
      ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
      : new Uint8Array(value);
    const text = bytes.toBase64();
    this.surplus += text.length - bytes.length;
    return text;
  }

  #lose(path: string, problem: string, kind: string): Json {
    this.lost.push(`${shorten(path)} is ${problem}`);
    return typed("other", kind);
  }
}

/**
 * The value that {@link toTypedJson} was given, with the same identities and cycles.
 *
 * @param replace makes the value of what was recorded by its name only
 */
export function fromTypedJson(json: Json | undefined, replace: (name: string) => unknown): unknown {
  return new Decoder(replace).decode(json);
}

class Decoder {
  readonly #made: unknown[] = [];
  readonly #replace: (name: string) => unknown;

  constructor(replace: (name: string) => unknown) {
    this.#replace = replace;
  }

  decode(json: Json | undefined): unknown {
    if (typeof json !== "object" || json === null) return json;
    if (Array.isArray(json)) return this.#items(json);
    if (typeof json[TYPE] !== "string") return this.#members(Object.entries(json));
    const { [TYPE]: type, value } = json as Typed;
    if (type === "undefined") return undefined;
    if (type === "bigint") return BigInt(String(value));
    if (type === "number") return Number(value);
    if (type === "same") return this.#made[Number(value)];
    const list = Array.isArray(value) ? value : [];
    const pairs = list.map((pair) => (Array.isArray(pair) ? pair : [])) as [Json, Json][];
    if (type === "Object") return this.#members(pairs as [string, Json][]);
    if (type === "Map") {
      const map = this.#keep(new Map());
      for (const [key, member] of pairs) map.set(this.decode(key), this.decode(member));
      return map;
    }
    if (type === "Set") {
      const set = this.#keep(new Set());
      for (const item of list) set.add(this.decode(item));
      return set;
    }
    if (type === "Error") return this.#error(list);
    if (type === "Date") return this.#keep(new Date(String(value)));
    if (type === "RegExp") return this.#keep(new RegExp(String(list[0]), String(list[1])));
    if (BYTES.test(type)) return this.#keep(bytesOf(type, String(value)));
    return this.#replace(String(value));
  }

  /** Numbered before its parts, which may contain it. */
  #keep<T>(made: T): T {
    this.#made.push(made);
    return made;
  }

  #items(json: readonly Json[]): unknown[] {
    const list: unknown[] = this.#keep([]);
    for (const item of json) list.push(this.decode(item));
    return list;
  }

  #members(entries: readonly (readonly [string, Json])[]): object {
    const object = this.#keep({});
    // `__proto__` is a member like others.
    const member = { enumerable: true, writable: true, configurable: true };
    for (const [key, one] of entries)
      Object.defineProperty(object, key, { ...member, value: this.decode(one) });
    return object;
  }

  #error([name = "", message = "", stack, ...causes]: readonly Json[]): Error {
    const known = ERRORS.includes(String(name)) ? String(name) : "Error";
    const Class = Reflect.get(globalThis, known) as ErrorConstructor;
    const error = this.#keep(new Class(String(message)));
    if (typeof stack === "string") Object.defineProperty(error, "stack", { value: stack });
    if (known !== name) error.name = String(name);
    for (const cause of causes)
      Object.defineProperty(error, "cause", { value: this.decode(cause) });
    return error;
  }
}

function bytesOf(type: string, base64: string): unknown {
  const { buffer } = Uint8Array.fromBase64(base64);
  if (type === "ArrayBuffer") return buffer;
  const Class = Reflect.get(globalThis, type) as new (buffer: ArrayBuffer) => ArrayBufferView;
  return new Class(buffer);
}
