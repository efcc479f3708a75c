/**
 * Validates a value against a JSON Schema from RPC or from a row. The check is never stricter than the original schema: it
 * reads only keywords that mean the same in all schema libraries, so no `format`, `not` or `multipleOf`. The workflow, which
 * has the schema itself, checks the rest. Pure.
 */

import { stableJson } from "../json.ts";
import { isPlainObject } from "../options/options.ts";
import { pointerSteps } from "./impossible.ts";

/** The most problems that are reported of one value. */
const MAX_PROBLEMS = 20;

type Node = Readonly<Record<string, unknown>>;

/**
 * The problems of a value, one line each; an empty list if it matches. An unreadable schema accepts every value.
 *
 * @param name what the lines call the value itself
 */
export function mismatchesOf(name: string, value: unknown, schema: object): string[] {
  if (value === undefined) return [];
  let found: string[];
  try {
    found = [...new Set(problemsBy(schema, name)(schema, value, ""))];
  } catch {
    return [];
  }
  const more = found.length - MAX_PROBLEMS;
  return more > 0 ? [...found.slice(0, MAX_PROBLEMS), `and ${more} more problems`] : found;
}

const TYPE = /^(null|boolean|number|integer|string|array|object)$/;

/** Whether the `type` of a JSON Schema is a name, or a list of names, that JSON Schema has. */
export function isKnownType(type: unknown): boolean {
  return [type].flat().every((name) => typeof name === "string" && TYPE.test(name));
}

/**
 * Returns the function that lists the problems of a value at a path.
 *
 * @param root the schema that a `$ref` is part of
 */
function problemsBy(root: object, name: string) {
  // Members of an `allOf` would refuse each other's properties.
  const isClosed = !JSON.stringify(root).includes('"allOf"');
  /** References that are followed at a path, so that one that leads to itself ends. */
  const open = new Set<string>();

  function find(schema: unknown, value: unknown, path: string): string[] {
    const place = path || name;
    if (schema === false) return [`${place}: is not allowed`];
    if (!isPlainObject(schema)) return [];
    const { anyOf, oneOf, allOf = [], $ref } = schema;
    return [
      ...ownProblems(schema, value).map((problem) => `${place}: ${problem}`),
      ...(typeof $ref === "string" ? findReferenced($ref, value, path) : []),
      // The members of a `oneOf` may overlap where a keyword is not read.
      ...[anyOf, oneOf].flatMap((members) => findAny(members, value, path)),
      ...(allOf as unknown[]).flatMap((member) => find(member, value, path)),
      ...(Array.isArray(value) ? findInList(schema, value, path) : []),
      ...(isPlainObject(value) ? findInObject(schema, value, path) : []),
    ];
  }

  function findReferenced($ref: string, value: unknown, path: string): string[] {
    const followed = JSON.stringify([$ref, path]);
    if (!$ref.startsWith("#") || open.has(followed)) return [];
    let target: unknown = root;
    for (const step of pointerSteps($ref)) target = (target as Node | undefined)?.[step];
    open.add(followed);
    const problems = find(target, value, path);
    open.delete(followed);
    return problems;
  }

  function findAny(members: unknown, value: unknown, path: string): string[] {
    if (!Array.isArray(members)) return [];
    const problems = members.map((member) => find(member, value, path));
    if (problems.some(({ length }) => length === 0)) return [];
    return [`${path || name}: matches none of the allowed forms`, ...problems.flat()];
  }

  function findInList(schema: Node, value: readonly unknown[], path: string): string[] {
    const isTuple = Array.isArray(schema.items);
    const first = (isTuple ? schema.items : (schema.prefixItems ?? [])) as readonly unknown[];
    const rest = isTuple ? schema.additionalItems : schema.items;
    return value.flatMap((item, index) =>
      find(index < first.length ? first[index] : rest, item, join(path, index)),
    );
  }

  function findInObject(schema: Node, value: Node, path: string): string[] {
    const { properties = {}, additionalProperties, patternProperties, anyOf, oneOf, $ref } = schema;
    const known = properties as Node;
    const isOpen = !isClosed || [patternProperties, anyOf, oneOf, $ref].some(Boolean);
    return Object.entries(value).flatMap(([key, item]) => {
      if (Object.hasOwn(known, key)) return find(known[key], item, join(path, key));
      if (isOpen) return [];
      if (additionalProperties === false) {
        return [`${path || name}: unknown property ${JSON.stringify(key)}`];
      }
      return find(additionalProperties, item, join(path, key));
    });
  }

  return find;
}

function join(path: string, key: string | number): string {
  return path === "" ? String(key) : `${path}.${key}`;
}

/** What is wrong with a value, without a look at what it contains. */
function ownProblems(schema: Node, value: unknown): string[] {
  const { type, enum: values } = schema;
  const problems: (string | false | undefined)[] = [
    type !== undefined && isKnownType(type) && problemOfType([type].flat() as string[], value),
    "const" in schema && problemOfValue([schema.const], value),
    Array.isArray(values) && problemOfValue(values, value),
  ];
  if (typeof value === "string") problems.push(...problemsOfText(schema, value));
  if (typeof value === "number") {
    problems.push(
      ...LIMITS.map(([keyword, isWithin, what]) => {
        const limit = schema[keyword];
        if (typeof limit !== "number" || isWithin(value, limit)) return undefined;
        return `expected ${what} ${limit}, got ${value}`;
      }),
    );
  }
  if (Array.isArray(value)) {
    const { minItems, maxItems, prefixItems, items } = schema;
    // The last items of a tuple may be missing.
    const isTuple = prefixItems !== undefined || Array.isArray(items);
    problems.push(!isTuple && tooFew(value.length, minItems, "items"));
    problems.push(tooMany(value.length, maxItems, "items"));
  }
  if (isPlainObject(value) && Array.isArray(schema.required)) {
    const missing = schema.required.filter((key) => !Object.hasOwn(value, key as string));
    problems.push(...missing.map((key) => `missing property ${JSON.stringify(key)}`));
  }
  return problems.filter((problem) => typeof problem === "string");
}

function problemOfType(types: readonly string[], value: unknown): string | undefined {
  const actual = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const isOne = types.some(
    (type) => type === actual || (type === "integer" && Number.isInteger(value)),
  );
  return isOne ? undefined : `expected ${types.join(" or ")}, got ${actual}`;
}

function problemOfValue(values: readonly unknown[], value: unknown): string | undefined {
  const texts = values.map(stableJson);
  if (texts.includes(stableJson(value))) return undefined;
  return `expected ${texts.length === 1 ? "" : "one of "}${texts.join(", ")}`;
}

type Limit = readonly [
  keyword: string,
  isWithin: (value: number, limit: number) => boolean,
  what: string,
];

const LIMITS: readonly Limit[] = [
  ["minimum", (value, limit) => value >= limit, "at least"],
  ["maximum", (value, limit) => value <= limit, "at most"],
  ["exclusiveMinimum", (value, limit) => value > limit, "more than"],
  ["exclusiveMaximum", (value, limit) => value < limit, "less than"],
];

/** JSON Schema counts characters, libraries count UTF-16 code units: a text that either accepts has no problem. */
function problemsOfText({ minLength, maxLength, pattern }: Node, value: string) {
  const matches = (text: string, flags: string) => {
    try {
      return new RegExp(text, flags).test(value);
    } catch {
      return true;
    }
  };
  return [
    tooFew(value.length, minLength, "characters"),
    value.length > Number(maxLength) && tooMany([...value].length, maxLength, "characters"),
    typeof pattern === "string" &&
      !["", "u"].some((flags) => matches(pattern, flags)) &&
      `expected a text that matches ${pattern}`,
  ];
}

function tooFew(length: number, least: unknown, what: string): string | undefined {
  if (typeof least !== "number" || length >= least) return undefined;
  return `expected at least ${least} ${what}, got ${length}`;
}

function tooMany(length: number, most: unknown, what: string): string | undefined {
  if (typeof most !== "number" || length <= most) return undefined;
  return `expected at most ${most} ${what}, got ${length}`;
}
