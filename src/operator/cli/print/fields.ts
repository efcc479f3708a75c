/** An item as lines of names and values, without JSON and without numbers for times. */

import { duration, plain, status, time } from "./text.ts";

const IS_TIME = /(At|^at|^since|^next|For|Until|Occurrences)$/;

export function fieldLines(item: object): string[] {
  const entries = Object.entries(item).filter(([, value]) => value !== undefined);
  const width = Math.max(...entries.map(([name]) => name.length)) + 2;
  return entries.map(([name, value]) => {
    const text = name === "status" || name === "state" ? status(value) : plain(flat(value, name));
    return `${name.padEnd(width)}${text}`;
  });
}

/** A value in one line: `by: ann, at: 2026-11-25T09:00:00Z, items: (id: 1), (id: 2)`. */
export function flat(value: unknown, name = ""): string {
  if (typeof value === "number" && IS_TIME.test(name) && value > 1e11) return time(value);
  if (typeof value === "number" && name.endsWith("Ms")) return duration(value);
  if (value === null) return "none";
  if (typeof value !== "object") return String(value);
  const inside = (part: unknown, of: string) => {
    const text = flat(part, of);
    return typeof part === "object" && part !== null && !Array.isArray(part) ? `(${text})` : text;
  };
  const parts = Array.isArray(value)
    ? value.map((part) => inside(part, name))
    : Object.entries(value).map(([of, part]) => `${of}: ${inside(part, of)}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}
