/** JSON: what it can hold, how large it is, and how it is shown. */

/**
 * A value that JSON can hold. Named, and not `unknown`, so that types survive
 * the platform's RPC; interfaces, because those are what RPC's mapped types
 * can follow without end.
 */
export type Json = string | number | boolean | null | JsonArray | JsonObject;
interface JsonArray extends Array<Json> {}
interface JsonObject {
  [key: string]: Json;
}

/** Bytes of a text in UTF-8, as storage counts them. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

/** A value that somebody gave, for a message: as JSON where it has a form, and short. */
export function shown(value: unknown): string {
  const text = typeof value === "bigint" ? `${value}n` : (JSON.stringify(value) ?? String(value));
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}
