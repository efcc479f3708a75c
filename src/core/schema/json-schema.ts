/**
 * Validates a value against a JSON Schema from RPC or from a row. The check is never stricter than the original schema: it
 * omits keywords that schema libraries read differently. The workflow, which has the schema itself, checks the rest. Pure.
 */

import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema";
import { pointerSteps } from "./impossible.ts";

const MAX_PROBLEMS = 20;

/**
 * The problems of a value, one line each; an empty list if it matches. An unreadable schema accepts every value.
 *
 * @param name what the lines call the value itself
 */
export function mismatchesOf(name: string, value: unknown, schema: object): string[] {
  const errors = errorsOf(value, schema);
  const causes = errors.filter(({ keyword }) => !OUTER.has(keyword));
  const lines = (causes.length > 0 ? causes : errors).map((error) => lineOf(name, error));
  const all = [...new Set(lines)];
  const more = all.length - MAX_PROBLEMS;
  return more > 0 ? [...all.slice(0, MAX_PROBLEMS), `and ${more} more problems`] : all;
}

/** Keywords whose errors only say that something inside them did not match. */
const OUTER = new Set(["properties", "items", "prefixItems", "allOf", "$ref", "false"]);

function errorsOf(value: unknown, schema: object): readonly OutputUnit[] {
  try {
    const isClosed = !JSON.stringify(schema).includes('"allOf"');
    return new Validator(checked(schema, isClosed), "2020-12", false).validate(value).errors;
  } catch {
    return [];
  }
}

function lineOf(name: string, { instanceLocation, keyword, error }: OutputUnit): string {
  const where = pointerSteps(instanceLocation).join(".") || name;
  const what = keyword === "anyOf" ? "matches none of the allowed forms" : error.replace(/\.$/, "");
  return `${where}: ${what}`;
}

type Node = Readonly<Record<string, unknown>>;

const TYPE = /^(null|boolean|number|integer|string|array|object)$/;

/** Whether the `type` of a JSON Schema is a name, or a list of names, that JSON Schema has. */
export function isKnownType(type: unknown): boolean {
  return [type].flat().every((name) => typeof name === "string" && TYPE.test(name));
}

/** Keywords that mean the same in all libraries. */
const SAME = [
  "$ref",
  "const",
  "enum",
  "required",
  "minimum",
  "maximum",
  "maxItems",
  "maxLength",
] as const;

/**
 * The schema with only the keywords that a value certainly has to match: no `format`, `not`, `multipleOf` or others.
 *
 * @param isClosed whether `additionalProperties` counts: members of an `allOf` would refuse each other's properties
 */
function checked(schema: unknown, isClosed: boolean): Schema {
  if (typeof schema !== "object" || schema === null) return schema as Schema;
  const node = schema as Node;
  const one = (value: unknown) => checked(value, isClosed);
  const all = (value: unknown) => (value as unknown[]).map(one);
  const result: Record<string, unknown> = {};
  for (const keyword of SAME) if (keyword in node) result[keyword] = node[keyword];
  if (isKnownType(node.type)) result.type = node.type;
  for (const keyword of ["exclusiveMinimum", "exclusiveMaximum"]) {
    if (typeof node[keyword] === "number") result[keyword] = node[keyword];
  }
  for (const keyword of ["properties", "$defs", "definitions"]) {
    if (node[keyword]) result[keyword] = eachOf(node[keyword] as Node, one);
  }
  const { pattern, minLength, additionalProperties, patternProperties, allOf, anyOf, oneOf } = node;
  if (typeof pattern === "string" && isPortable(pattern)) result.pattern = pattern;
  // Libraries count UTF-16 code units; the validator counts characters.
  if (typeof minLength === "number") result.minLength = Math.ceil(minLength / 2);
  if (isClosed && patternProperties === undefined && additionalProperties !== undefined) {
    result.additionalProperties = one(additionalProperties);
  }
  if (anyOf) result.anyOf = all(anyOf);
  // Checked as `anyOf`: the reduced members of a `oneOf` may overlap.
  const together = [...(allOf ? all(allOf) : []), ...(oneOf ? [{ anyOf: all(oneOf) }] : [])];
  if (together.length > 0) result.allOf = together;
  return { ...result, ...itemsOf(node, one) } as Schema;
}

/** The items of a list or a tuple. The last items of a tuple may be missing. */
function itemsOf(node: Node, one: (value: unknown) => unknown): Node {
  const isTuple = Array.isArray(node.items);
  const prefix = (isTuple ? node.items : node.prefixItems) as unknown[] | undefined;
  const rest = isTuple ? node.additionalItems : node.items;
  return {
    ...(prefix
      ? { prefixItems: prefix.map(one) }
      : "minItems" in node && { minItems: node.minItems }),
    ...(rest !== undefined && { items: one(rest) }),
  };
}

function eachOf(schemas: Node, one: (value: unknown) => unknown): Node {
  return Object.fromEntries(Object.entries(schemas).map(([key, value]) => [key, one(value)]));
}

/**
 * Whether a pattern matches the same texts by characters (the validator) and by UTF-16 code units (the libraries): it
 * compiles with the `u` flag, and every part that can match half of a character is repeated with `*`.
 */
function isPortable(pattern: string): boolean {
  if (!/^[ -~]*$/.test(pattern) || /\\[uxpPkc\d]/.test(pattern)) return false;
  try {
    new RegExp(pattern, "u");
  } catch {
    return false;
  }
  const plain = pattern
    .replace(/\\[^WDS]/g, "a")
    .replace(/\[[^^\]][^\]]*\]/g, (set) => (/\\[WDS]/.test(set) ? "." : "a"));
  return !/(\.|\\[WDS]|\[\^[^\]]*\])(?!\*)/.test(plain);
}
