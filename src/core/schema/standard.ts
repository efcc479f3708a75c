/**
 * JSON Schemas of libraries that follow Standard JSON Schema (ArkType, Valibot and others), for the model and for the
 * agent's check. Pure.
 *
 * https://standardschema.dev/json-schema
 */

import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import { CHECK_KEYWORD, type LibraryForms, NOT_IN_JSON, notInJson } from "./impossible.ts";

type Node = Record<string, unknown>;
type Converter = StandardJSONSchemaV1.Props["jsonSchema"];
/** A schema that has a JSON Schema form. */
export type Standard = StandardSchemaV1.Props & { readonly jsonSchema: Converter };

/** The check is `{}` for an unknown library. */
export function standardForms(standard: Standard): LibraryForms {
  const { vendor, jsonSchema } = standard;
  const shown = jsonSchema.input({ target: "draft-2020-12", libraryOptions: OPTIONS[vendor] });
  if (vendor === "arktype") return { shown, check: looseArkType(shown) };
  if (vendor !== "valibot" || takesAnything(standard)) return { shown, check: {} };
  return {
    shown,
    check: jsonSchema.input({ target: "draft-2020-12", libraryOptions: VALIBOT_CHECK }),
  };
}

/** ArkType omits the flags of patterns, and accepts arrays as objects. It has no object constants. */
function looseArkType(schema: object): object {
  return JSON.parse(JSON.stringify(schema), (key, value) => {
    if (key === "pattern" && typeof value === "string") return undefined;
    return key === "type" && value === "object" ? OBJECT : value;
  }) as object;
}

/** These libraries accept an array as an object. */
const OBJECT = ["object", "array"];

/** Whether it has a fallback. Valibot's JSON Schema does not show that of the schema itself. */
function takesAnything({ validate }: Standard): boolean {
  try {
    const result = validate(Symbol("nothing that JSON has"));
    return result instanceof Promise || !result.issues;
  } catch {
    return true;
  }
}

type ArkContext = {
  readonly base: Node;
  readonly proto?: { readonly name: string };
  readonly domain?: string;
};

const ARKTYPE = {
  fallback: {
    default: ({ base }: ArkContext) => base,
    date: () => notInJson("a Date"),
    proto: ({ proto }: ArkContext) => notInJson(`an instance of ${proto?.name ?? "a class"}`),
    domain: ({ domain }: ArkContext) => notInJson(`a ${domain ?? "type of JavaScript"}`),
    unit: () => ({ not: {} }),
    // `items` would be those of the middle, and JSON Schema has no keyword for the items after them.
    arrayPostfix: ({ base: { items: _, ...base } }: ArkContext) => base,
  },
};

type ValibotSchema = Readonly<Record<string, unknown>> & { readonly type: string };
type ValibotContext = { readonly valibotSchema: ValibotSchema; readonly jsonSchema: Node };

function valibotType({ valibotSchema }: ValibotContext): Node | undefined {
  const { type, class: of, literal } = valibotSchema;
  if (typeof literal === "bigint") return notInJson("a bigint");
  if (type === "undefined" || type === "void") return { not: {} };
  if (type === "instance") return notInJson(`an instance of ${(of as { name: string }).name}`);
  const what = NOT_OF_VALIBOT[type];
  return what === undefined ? undefined : notInJson(what);
}

const VALIBOT = { errorMode: "ignore", overrideSchema: valibotType };

const VALIBOT_CHECK = {
  errorMode: "ignore",
  overrideSchema: (context: ValibotContext) => {
    const { valibotSchema } = context;
    const isOpen = hasFallback(valibotSchema) || partsOf(valibotSchema).some(hasFallback);
    if (isOpen) return {};
    if (context.jsonSchema.type === "object") return { ...context.jsonSchema, type: OBJECT };
    return valibotType(context);
  },
  // Actions after a transformation get another value.
  overrideAction: ({ jsonSchema: { type, ...node } }: { readonly jsonSchema: Node }) => ({
    ...(type !== undefined && { type: type === "integer" ? "number" : type }),
    ...Object.fromEntries(Object.entries(node).filter(([keyword]) => !CHECK_KEYWORD.test(keyword))),
  }),
};

function hasFallback(schema: unknown): boolean {
  return typeof schema === "object" && schema !== null && "fallback" in schema;
}

/** The schemas inside a schema. */
function partsOf(schema: ValibotSchema): readonly unknown[] {
  const { entries = {}, getter } = schema;
  const made = typeof getter === "function" ? (getter(undefined) as unknown) : undefined;
  return [Object.values(entries as object), made, ...INNER.map((name) => schema[name])].flat();
}

const INNER = ["items", "options", "item", "wrapped", "key", "value", "rest"];

/** As for Zod, plus two types; Zod accepts a plain value for a promise. */
const NOT_OF_VALIBOT: Readonly<Record<string, string>> = {
  ...NOT_IN_JSON,
  blob: "a Blob",
  promise: "a Promise",
};

const OPTIONS: Readonly<Record<string, Record<string, unknown>>> = {
  arktype: ARKTYPE,
  valibot: VALIBOT,
};
