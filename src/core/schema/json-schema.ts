/**
 * Validates a value against a JSON Schema from RPC or from a row. The check is never stricter than the original schema: it
 * omits keywords that schema libraries read differently. The workflow, which has the schema itself, checks the rest. Pure.
 */

import { fromJSONSchema } from "zod";
import type { $ZodIssue } from "zod/v4/core";
import { pointerSteps } from "./impossible.ts";

type JSONSchema = Exclude<Parameters<typeof fromJSONSchema>[0], boolean>;

const MAX_PROBLEMS = 20;

/**
 * The problems of a value, one line each; an empty list if it matches. An unreadable schema accepts every value.
 *
 * @param name what the lines call the value itself
 */
export function mismatchesOf(name: string, value: unknown, schema: object): string[] {
  const lines = issuesOf(value, schema).map(({ path, message }) => {
    const where = path.join(".") || name;
    return `${where}: ${message}`;
  });
  const all = [...new Set(lines)];
  const more = all.length - MAX_PROBLEMS;
  return more > 0 ? [...all.slice(0, MAX_PROBLEMS), `and ${more} more problems`] : all;
}

function issuesOf(value: unknown, schema: object): readonly Problem[] {
  try {
    const result = fromJSONSchema(checked(byCharacters(schema))).safeParse(byCharacters(value));
    return result.error?.issues.flatMap(problemsIn) ?? [];
  } catch {
    return [];
  }
}

type Problem = Pick<$ZodIssue, "path" | "message">;

/** The problems of the only member of a union whose type the value has, or else that of the union. */
function problemsIn(issue: $ZodIssue): readonly Problem[] {
  if (issue.code !== "invalid_union") return [issue];
  const isOfType = (issues: readonly $ZodIssue[]) =>
    !issues.some(({ code, path }) => code === "invalid_type" && path.length === 0);
  const [member, other] = issue.errors.filter(isOfType);
  if (!member || other) return [{ ...issue, message: "matches none of the allowed forms" }];
  return member
    .flatMap(problemsIn)
    .map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
}

/**
 * JSON in which each character is one UTF-16 code unit. JSON Schema counts the characters of a text, and the validator the
 * units. https://json-schema.org/draft/2020-12/json-schema-validation#section-6.3.1
 */
function byCharacters(json: unknown): unknown {
  const text = JSON.stringify(json) as string | undefined;
  return text && JSON.parse(text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, "\ufffd"));
}

type Node = Readonly<Record<string, unknown>>;

const TYPE = /^(null|boolean|number|integer|string|array|object)$/;

/** Whether the `type` of a JSON Schema is a name, or a list of names, that JSON Schema has. */
export function isKnownType(type: unknown): boolean {
  return [type].flat().every((name) => typeof name === "string" && TYPE.test(name));
}

/** Keywords that mean the same in all libraries. */
const SAME = ["required", "minimum", "maximum", "maxLength"] as const;

/** Types by the keywords that say nothing of values of other types. An integer is a number. */
const ALL_TYPES = ["null", "boolean", "number", "string", "array", "object"];
/** Keywords that the validator reads without a type. */
const UNTYPED = ["$ref", "$defs", "const", "enum", "anyOf", "allOf"];

/** The schema with only the keywords that a value certainly has to match: no `format`, `not`, `multipleOf` or others. */
function checked(root: unknown): JSONSchema {
  const { definitions = {}, $defs = definitions } = root as Readonly<Record<string, Node>>;
  // Members of an `allOf` would refuse each other's properties.
  const isClosed = !JSON.stringify(root).includes('"allOf"');
  const one = (schema: unknown): unknown => {
    if (typeof schema !== "object" || schema === null) return schema;
    const node = schema as Node;
    const result = { ...plain(node), ...referenced(node, root as Node), ...itemsOf(node, one) };
    const { properties, required, additionalProperties, patternProperties, allOf, anyOf, oneOf } =
      node;
    if (properties || required) result.properties = propertiesOf(node, one);
    if (isClosed && patternProperties === undefined && additionalProperties !== undefined) {
      result.additionalProperties = one(additionalProperties);
    }
    const all = (schemas: unknown) => (schemas as unknown[]).map(one);
    if (anyOf) result.anyOf = all(anyOf);
    // Checked as `anyOf`: the reduced members of a `oneOf` may overlap.
    const together = [...(allOf ? all(allOf) : []), ...(oneOf ? [{ anyOf: all(oneOf) }] : [])];
    if (together.length > 0) result.allOf = together;
    const needsType = Object.keys(result).some((keyword) => !UNTYPED.includes(keyword));
    return needsType ? { type: ALL_TYPES, ...result } : result;
  };
  return { ...(one(root) as object), $defs: eachOf($defs, one) } as JSONSchema;
}

/** The properties. A required one has a type: the validator takes a missing value for one of any type. */
function propertiesOf({ properties = {}, required = [] }: Node, one: (value: unknown) => unknown) {
  const result = eachOf(properties as Node, one);
  for (const name of required as readonly string[]) {
    result[name] = { type: ALL_TYPES, ...(result[name] as Node) };
  }
  return result;
}

/** The keywords without schemas inside. */
function plain(node: Node): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const keyword of SAME) if (keyword in node) result[keyword] = node[keyword];
  for (const keyword of ["exclusiveMinimum", "exclusiveMaximum"]) {
    if (typeof node[keyword] === "number") result[keyword] = node[keyword];
  }
  const { type, pattern, minLength } = node;
  if (isKnownType(type)) {
    const types = [type].flat() as string[];
    // The validator's integers end at 2^53.
    result.type = types.map((name) => (name === "integer" ? "number" : name));
    if (types.includes("integer") && !types.includes("number")) result.multipleOf = 1;
  }
  if (typeof pattern === "string" && isPortable(pattern)) result.pattern = pattern;
  // Libraries count UTF-16 code units.
  if (typeof minLength === "number") result.minLength = Math.ceil(minLength / 2);
  // The validator compares objects by identity.
  const isText = (value: unknown) => typeof value !== "object" || value === null;
  if ("const" in node && isText(node.const)) result.const = node.const;
  if (Array.isArray(node.enum) && node.enum.every(isText)) result.enum = node.enum;
  return result;
}

/** The `$ref` of a node, where the validator can follow it. */
function referenced({ $ref }: Node, root: Node): Node {
  if ($ref === "#") return { $ref };
  const [keyword, name, ...more] = pointerSteps(String($ref));
  const isKnown = keyword === ("$defs" in root ? "$defs" : "definitions") && more.length === 0;
  if (!isKnown || !Object.hasOwn(root[keyword] as Node, name ?? "")) return {};
  return { $ref: String($ref).replace("definitions", "$defs") };
}

/** The items of a list or a tuple. The last items of a tuple may be missing. */
function itemsOf(node: Node, one: (value: unknown) => unknown): Node {
  const isTuple = Array.isArray(node.items);
  const prefix = (isTuple ? node.items : node.prefixItems) as unknown[] | undefined;
  const rest = isTuple ? node.additionalItems : node.items;
  const { minItems, maxItems } = node;
  const sizes = { ...(!prefix && { minItems }), maxItems };
  const isSized = Object.values(sizes).some((size) => size !== undefined);
  return {
    ...(isSized && { items: true, ...sizes }),
    ...(prefix && { prefixItems: prefix.map(one) }),
    ...(rest !== undefined && { items: one(rest) }),
  };
}

function eachOf(schemas: Node, one: (value: unknown) => unknown): Record<string, unknown> {
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
