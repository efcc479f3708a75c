/** Finds types in a JSON Schema that JSON does not have, e.g. a `Date`. Pure. */

type Node = { readonly [keyword: string]: unknown };

/** A schema as JSON Schemas: for the model, and for the agent's check, which is never stricter than the schema. */
export type LibraryForms = { readonly shown: object; readonly check: object };

/** The place in a schema of a type that JSON does not have, and the type. */
export type Impossible = { readonly path: string; readonly what: string };

/**
 * A JSON Schema that marks a type that JSON does not have.
 *
 * @param what the type, e.g. `"a Date"`
 */
export function notInJson(what: string): { not: Record<string, never>; $comment: string } {
  return { not: {}, $comment: `${MARK}${what}` };
}

/** Types that JSON does not have, by their names in Zod and Valibot. */
export const NOT_IN_JSON: Readonly<Record<string, string>> = {
  date: "a Date",
  bigint: "a bigint",
  symbol: "a symbol",
  map: "a Map",
  set: "a Set",
  nan: "NaN",
  function: "a function",
  file: "a File",
};

/** Keywords of the checks of a string, a number or a list. */
export const CHECK_KEYWORD =
  /^(format|pattern|minLength|maxLength|minItems|maxItems|minimum|maximum|exclusiveMinimum|exclusiveMaximum)$/;

const MARK = "perdure: ";

/** The first place that no JSON value can match, or undefined. */
export function impossibleIn(schema: object): Impossible | undefined {
  return searchIn(schema as Node)(schema, "", true);
}

/** The schema without the union members that no JSON value can match. */
export function withoutImpossible<Schema extends object>(schema: Schema): Schema {
  const text = JSON.stringify(schema);
  if (!text.includes('"not":{}')) return schema;
  const find = searchIn(schema as Node);
  return JSON.parse(text, (_, value: unknown) => {
    const node = value as Node | null;
    const { anyOf } = (typeof node === "object" && node) || {};
    if (!Array.isArray(anyOf)) return value;
    const possible = anyOf.filter((member) => !find(member, "", true));
    return possible.length === 0 ? value : { ...node, anyOf: possible };
  }) as Schema;
}

/** Returns a function that finds the first place in a part of the schema `root` that no JSON value can match. */
function searchIn(root: Node) {
  /** Targets of the `$ref`s around the current place: a schema may contain itself. */
  const open = new Set<unknown>();

  /** @param isRequired whether a value must be there. A type that JSON does not have is reported in any case. */
  function find(schema: unknown, path: string, isRequired: boolean): Impossible | undefined {
    if (typeof schema !== "object" || schema === null) return undefined;
    const node = schema as Node;
    const { $comment, not, $ref } = node;
    const isMarked = typeof $comment === "string" && $comment.startsWith(MARK);
    if (isMarked) return { path, what: $comment.slice(MARK.length) };
    const isNever = typeof not === "object" && not !== null && Object.keys(not).length === 0;
    if (isNever) return isRequired ? { path, what: "never" } : undefined;
    if (typeof $ref !== "string") return findInside(node, path, isRequired);
    let target: unknown = root;
    for (const step of pointerSteps($ref)) target = (target as Node | undefined)?.[step];
    if (open.has(target)) return undefined;
    open.add(target);
    const found = find(target, path, isRequired);
    open.delete(target);
    return found;
  }

  function findInside(node: Node, path: string, isRequired: boolean): Impossible | undefined {
    const { anyOf = node.oneOf, allOf, properties = {}, required, items, prefixItems } = node;
    const found: (Impossible | undefined)[] = [];
    const members = listOf(anyOf).map((member) => find(member, path, isRequired));
    if (members.every(Boolean)) found.push(members[0]);
    for (const member of listOf(allOf)) found.push(find(member, path, isRequired));
    for (const [key, property] of Object.entries(properties as Node)) {
      const isNeeded = isRequired && listOf(required).includes(key);
      found.push(find(property, path === "" ? key : `${path}.${key}`, isNeeded));
    }
    for (const item of [listOf(prefixItems), items, node.additionalProperties].flat()) {
      found.push(find(item, `${path}[]`, false));
    }
    return found.find(Boolean);
  }

  return find;
}

/** The keys of a JSON pointer, e.g. of a `$ref` or of a place in a value. https://www.rfc-editor.org/rfc/rfc6901 */
export function pointerSteps(pointer: string): string[] {
  const parts = pointer.split("/").slice(1);
  return parts.map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
