/** Finds types in a JSON Schema that JSON does not have, e.g. a `Date`. Pure. */

type Node = { readonly [keyword: string]: unknown };

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

/** Types that JSON does not have, by their names in Zod 4 and Valibot. */
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

const MARK = "perdure: ";

/** The first place that no JSON value can match, or undefined. */
export function impossibleIn(schema: object): Impossible | undefined {
  return new Search(schema as Node).at(schema, "", true);
}

/** The schema without the union members that no JSON value can match. */
export function withoutImpossible<Schema extends object>(schema: Schema): Schema {
  const text = JSON.stringify(schema);
  if (!text.includes('"not":{}')) return schema;
  const search = new Search(schema as Node);
  return JSON.parse(text, (_, value: unknown) => {
    const node = value as Node | null;
    const { anyOf } = (typeof node === "object" && node) || {};
    if (!Array.isArray(anyOf)) return value;
    const possible = anyOf.filter((member) => !search.at(member, "", true));
    return possible.length === 0 ? value : { ...node, anyOf: possible };
  }) as Schema;
}

class Search {
  readonly #open = new Set<unknown>();

  constructor(private readonly root: Node) {}

  /** @param isRequired whether a value must be there. A type that JSON does not have is reported in any case. */
  at(schema: unknown, path: string, isRequired: boolean): Impossible | undefined {
    if (typeof schema !== "object" || schema === null) return undefined;
    const node = schema as Node;
    const { $comment, not, $ref } = node;
    const isMarked = typeof $comment === "string" && $comment.startsWith(MARK);
    if (isMarked) return { path, what: $comment.slice(MARK.length) };
    const isNever = typeof not === "object" && not !== null && Object.keys(not).length === 0;
    if (isNever) return isRequired ? { path, what: "never" } : undefined;
    if (typeof $ref === "string") return this.#resolve($ref, path, isRequired);
    return this.#searchIn(node, path, isRequired);
  }

  #resolve(ref: string, path: string, isRequired: boolean): Impossible | undefined {
    const steps = ref
      .split("/")
      .slice(1)
      .map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));
    let target: unknown = this.root;
    for (const step of steps) target = (target as Node | undefined)?.[step];
    if (this.#open.has(target)) return undefined;
    this.#open.add(target);
    const found = this.at(target, path, isRequired);
    this.#open.delete(target);
    return found;
  }

  #searchIn(node: Node, path: string, isRequired: boolean): Impossible | undefined {
    const { anyOf = node.oneOf, allOf, properties = {}, required, items, prefixItems } = node;
    const found: (Impossible | undefined)[] = [];
    if (Array.isArray(anyOf)) {
      const members = anyOf.map((member) => this.at(member, path, isRequired));
      if (members.every(Boolean)) found.push(members[0]);
    }
    for (const member of listOf(allOf)) found.push(this.at(member, path, isRequired));
    for (const [key, property] of Object.entries(properties as Node)) {
      const isNeeded = isRequired && listOf(required).includes(key);
      found.push(this.at(property, path === "" ? key : `${path}.${key}`, isNeeded));
    }
    for (const item of [
      ...listOf(prefixItems),
      ...listOf(items),
      items,
      node.additionalProperties,
    ]) {
      if (!Array.isArray(item)) found.push(this.at(item, `${path}[]`, false));
    }
    return found.find(Boolean);
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
