/** Compares JSON Schemas: what the old one takes, and the new one may refuse. Pure. */

import { preview, stableJson } from "../../core/json.ts";
import { pointerSteps } from "../../core/schema/impossible.ts";
import { mismatchesOf } from "../../core/schema/json-schema.ts";

export type Schema = Readonly<Record<string, unknown>>;

const MOST_DEPTH = 20;
/** Of parts of the schemas, some of which contain themselves. */
const MOST_COMPARISONS = 10_000;
const ALL_TYPES = ["null", "boolean", "number", "string", "array", "object"];
/** Keywords that refuse nothing. */
const ANNOTATIONS = new Set([
  ...["$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "title", "description"],
  ...["default", "examples", "deprecated", "readOnly", "writeOnly", "id"],
]);
/** Keywords that are compared by their meaning. */
const KNOWN = new Set([
  ...["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties", "required"],
  ...["additionalProperties", "items", "minimum", "exclusiveMinimum", "minLength", "minItems"],
  ...["maximum", "exclusiveMaximum", "maxLength", "maxItems", "minProperties", "maxProperties"],
]);

/**
 * Why the new schema may refuse a value that the old one takes; an empty list if it never does. Null is the schema that takes
 * everything.
 */
export function narrowedIn(old: unknown, now: unknown): string[] {
  if (now === null || now === undefined || stableJson(old) === stableJson(now)) return [];
  return new Comparison(old ?? {}, now).narrowed(old ?? {}, now, "", 0);
}

/** The schema that a `$ref` leads to, or the schema itself; `{}` takes everything. */
export function resolved(schema: unknown, root: unknown): Schema | false {
  let at = schema;
  for (let hops = 0; hops < MOST_DEPTH; hops++) {
    if (at === false) return false;
    if (typeof at !== "object" || at === null) return {};
    const { $ref, ...beside } = at as Schema;
    if (typeof $ref !== "string") return at as Schema;
    let found: unknown = root;
    for (const name of pointerSteps($ref)) found = (Object(found) as Schema)[name];
    at = { ...(Object(found) as Schema), ...beside };
  }
  return {};
}

class Comparison {
  #made = 0;

  constructor(
    private readonly oldRoot: unknown,
    private readonly newRoot: unknown,
  ) {}

  narrowed(oldGiven: unknown, newGiven: unknown, path: string, depth: number): string[] {
    const old = resolved(oldGiven, this.oldRoot);
    const now = resolved(newGiven, this.newRoot);
    const at = path === "" ? "the value" : path;
    if (old === false || depth > MOST_DEPTH || ++this.#made > MOST_COMPARISONS) return [];
    if (now === false) return [`${at} is not taken any more`];
    const values = valuesIn(old);
    if (values) return refusedOf(values, { ...now, $defs: defsIn(this.newRoot) }, at);
    const oldMembers = membersIn(old);
    if (oldMembers) {
      return oldMembers.flatMap((one) => this.narrowed({ ...old, ...one }, now, path, depth + 1));
    }
    const { allOf, ...rest } = now;
    const all = Array.isArray(allOf) ? allOf : [];
    const ofAll = all.flatMap((one) => this.narrowed(old, one, path, depth + 1));
    return [...ofAll, ...this.#members(old, rest, path, depth)];
  }

  #members(old: Schema, now: Schema, path: string, depth: number): string[] {
    const { anyOf: _, oneOf: __, ...rest } = now;
    const own = this.#keywords(old, rest, path, depth);
    const members = [now.anyOf ?? now.oneOf].flat().filter((one) => one !== undefined);
    if (members.length === 0) return own;
    const tried = members.map((one) => this.narrowed(old, one, path, depth + 1));
    const best = tried.sort((one, other) => one.length - other.length)[0] ?? [];
    return [...own, ...best];
  }

  #keywords(old: Schema, now: Schema, path: string, depth: number): string[] {
    const at = path === "" ? "the value" : path;
    const newValues = valuesIn(now);
    if (newValues) return [`${at} has to be one of ${preview(newValues)}`];
    const types = typesIn(now);
    const lost = typesIn(old).filter((type) => !types.includes(type));
    if (lost.length > 0)
      return [`${at} is ${[now.type].flat().join(" or ")} instead of ${lost.join(" or ")}`];
    if (isInteger(now) && !isInteger(old) && typesIn(old).includes("number")) {
      return [`${at} has to be an integer`];
    }
    return [
      ...boundsIn(old, now, at),
      ...unknownIn(old, now, at),
      ...this.#properties(old, now, path, depth),
      ...(now.items === undefined
        ? []
        : this.narrowed(old.items, now.items, `${path}[]`, depth + 1)),
    ];
  }

  #properties(old: Schema, now: Schema, path: string, depth: number): string[] {
    if (!typesIn(old).includes("object")) return [];
    const nameOf = (name: string) => (path === "" ? name : `${path}.${name}`);
    const had = Object(old.properties) as Schema;
    const has = Object(now.properties) as Schema;
    const required = (schema: Schema) => [schema.required ?? []].flat() as string[];
    const missing = required(now).filter((name) => !required(old).includes(name));
    const inner = Object.keys(has)
      .filter((name) => Object.hasOwn(had, name))
      .flatMap((name) => this.narrowed(had[name], has[name], nameOf(name), depth + 1));
    // A property that no schema names is seldom there.
    const dropped = Object.keys(had).filter((name) => !Object.hasOwn(has, name));
    const others = now.additionalProperties;
    const gone =
      others === undefined || others === true
        ? []
        : dropped.flatMap((name) => this.narrowed(had[name], others, nameOf(name), depth + 1));
    return [...missing.map((name) => `${nameOf(name)} is required`), ...inner, ...gone];
  }
}

function refusedOf(values: readonly unknown[], now: Schema, at: string): string[] {
  const refused = values.filter((value) => mismatchesOf("value", value, now).length > 0);
  return refused.length === 0
    ? []
    : [`${at} may not be ${refused.map((one) => preview(one)).join(" or ")}`];
}

function defsIn(root: unknown): unknown {
  const { $defs, definitions } = Object(root) as Schema;
  return $defs ?? definitions ?? {};
}

/** The values that a schema lists. */
function valuesIn(schema: Schema): readonly unknown[] | undefined {
  if ("const" in schema) return [schema.const];
  return Array.isArray(schema.enum) ? schema.enum : undefined;
}

function membersIn(schema: Schema): readonly Schema[] | undefined {
  const { anyOf, oneOf } = schema;
  const members = anyOf ?? oneOf;
  if (!Array.isArray(members)) return undefined;
  // Without the list itself, which each of them would have again.
  return members.map((one) => ({ anyOf: undefined, oneOf: undefined, ...(Object(one) as Schema) }));
}

function typesIn({ type, properties }: Schema): readonly string[] {
  if (type === undefined) return properties === undefined ? ALL_TYPES : ["object"];
  return [type].flat().map((one) => (one === "integer" ? "number" : String(one)));
}

function isInteger({ type }: Schema): boolean {
  return [type].flat().includes("integer") && ![type].flat().includes("number");
}

function boundsIn(old: Schema, now: Schema, at: string): string[] {
  const lower = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];
  const upper = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
  const isTighter = (keyword: string, sign: 1 | -1) => {
    const [was, is] = [old[keyword], now[keyword]];
    return typeof is === "number" && (typeof was !== "number" || (is - was) * sign > 0);
  };
  const tighter = [
    ...lower.filter((keyword) => isTighter(keyword, 1)),
    ...upper.filter((keyword) => isTighter(keyword, -1)),
  ];
  return tighter.map((keyword) => `${at} has the ${keyword} ${preview(now[keyword])}`);
}

/** Keywords whose meaning is not compared, such as `pattern`: another one may refuse something. */
function unknownIn(old: Schema, now: Schema, at: string): string[] {
  return Object.keys(now)
    .filter((keyword) => !ANNOTATIONS.has(keyword) && !KNOWN.has(keyword))
    .filter((keyword) => now[keyword] !== undefined)
    .filter((keyword) => stableJson(old[keyword]) !== stableJson(now[keyword]))
    .map((keyword) => `${at} has another ${keyword}`);
}
