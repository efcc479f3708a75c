/** JSON: what it can hold, and how large it is. */

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
