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
  const text = formOf(value);
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}

function formOf(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  // JSON knows neither NaN nor Infinity.
  if (typeof value === "number") return String(value);
  // As JSON it would be null.
  if (value instanceof Date && Number.isNaN(value.getTime())) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // It holds itself, or something that JSON cannot hold.
    return "an object";
  }
}
