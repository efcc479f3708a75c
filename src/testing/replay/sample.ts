/** A value that a JSON Schema takes, for a step that the record does not have: the code behind it is looked at as well. */

import type { Json } from "../../core/json.ts";
import { resolved, type Schema } from "./schemas.ts";

const MOST_DEPTH = 8;

export function sampleOf(schema: unknown, root: unknown = schema, depth = 0): Json {
  const at = resolved(schema, root);
  if (depth > MOST_DEPTH || typeof at !== "object") return null;
  if ("const" in at) return at.const as Json;
  if ("default" in at) return at.default as Json;
  const inner = (one: unknown) => sampleOf(one, root, depth + 1);
  const [first] = [at.enum, at.examples].flatMap((values) => (Array.isArray(values) ? values : []));
  if (first !== undefined) return first as Json;
  const [member] = [at.anyOf, at.oneOf].flatMap((all) => (Array.isArray(all) ? all : []));
  if (member !== undefined) return inner(member);
  const [type] = [at.type].flat();
  if (type === "object" || at.properties !== undefined) return objectOf(at, inner);
  if (type === "array") return Array.from({ length: numberIn(at.minItems) }, () => inner(at.items));
  if (type === "string") return "x".repeat(Math.min(1_000, numberIn(at.minLength)));
  if (type === "number" || type === "integer") return numberOf(at);
  if (type === "boolean") return false;
  return null;
}

function objectOf(at: Schema, inner: (one: unknown) => Json): Json {
  const required = Array.isArray(at.required) ? (at.required as string[]) : [];
  const properties = Object(at.properties) as Readonly<Record<string, unknown>>;
  return Object.fromEntries(required.map((name) => [name, inner(properties[name])]));
}

function numberOf({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): number {
  const least = typeof exclusiveMinimum === "number" ? exclusiveMinimum + 1 : minimum;
  if (typeof least === "number" && least > 0) return Math.ceil(least);
  const most = typeof exclusiveMaximum === "number" ? exclusiveMaximum - 1 : maximum;
  return typeof most === "number" && most < 0 ? Math.floor(most) : 0;
}

function numberIn(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.min(value, 1_000) : 0;
}
