/** JSON Schemas of Zod 4, for the model and for the agent's check. Pure. */

import { toJSONSchema } from "zod";
import type { $ZodCheck, $ZodType, $ZodTypeDef } from "zod/v4/core";
import {
  CHECK_KEYWORD,
  impossibleIn,
  type LibraryForms,
  NOT_IN_JSON,
  notInJson,
} from "./impossible.ts";

type Override = NonNullable<NonNullable<Parameters<typeof toJSONSchema>[1]>["override"]>;
type Node = Parameters<Override>[0]["jsonSchema"];

export function zodForms(schema: $ZodType): LibraryForms {
  return {
    shown: toJSONSchema(schema, { ...INPUT, override: show }),
    check: toJSONSchema(schema, { ...INPUT, override: loosen }),
  };
}

const INPUT = { io: "input", unrepresentable: "any" } as const;

/** The fields of a definition that are read here. */
type Def = $ZodTypeDef & {
  readonly coerce?: boolean;
  readonly in?: $ZodType;
  readonly innerType?: $ZodType;
  readonly valueType?: $ZodType;
  readonly options?: readonly $ZodType[];
  readonly left?: $ZodType;
  readonly right?: $ZodType;
  readonly shape?: Readonly<Record<string, $ZodType>>;
};

const defOf = (schema: $ZodType): Def => schema._zod.def as Def;

const show: Override = ({ zodSchema, jsonSchema }) => {
  const def = defOf(zodSchema as $ZodType);
  if (def.coerce && def.type === "date") {
    Object.assign(jsonSchema, { type: "string", format: "date-time" });
  } else if (def.coerce && def.type === "bigint") {
    Object.assign(jsonSchema, { type: "string", pattern: "^-?\\d+$" });
  } else if (isOpen(def)) {
    // It may convert JSON into a type that JSON does not have.
    if (impossibleIn(jsonSchema)) clear(jsonSchema);
  } else Object.assign(jsonSchema, missingIn(zodSchema as $ZodType));
  describeFlags(zodSchema as $ZodType, jsonSchema);
};

const loosen: Override = ({ zodSchema, jsonSchema }) => {
  const schema = zodSchema as $ZodType;
  const def = defOf(schema);
  if (isOpen(def)) return clear(jsonSchema);
  const { checks = [] } = def;
  const first = checks.findIndex(mayChange);
  if (first >= 0 && !checks.slice(first).every(mayChange)) {
    for (const keyword of Object.keys(jsonSchema)) {
      if (CHECK_KEYWORD.test(keyword) || keyword === "allOf") delete jsonSchema[keyword];
    }
  }
  if (!patternsOf(schema).every((pattern) => pattern?.flags === "")) {
    delete jsonSchema.pattern;
    delete jsonSchema.allOf;
  }
  if (def.type === "object" || def.type === "record") {
    const typeOf = (key: string) => def.shape?.[key] ?? def.valueType;
    const { required = [] } = jsonSchema;
    jsonSchema.required = required.filter((key) => !takesUndefined(typeOf(key)));
  }
};

/** Whether code of the app or a coercion decides what it accepts. Its JSON Schema then describes the result only. */
function isOpen({ type, coerce, in: input }: Def): boolean {
  if (coerce || ["catch", "success", "transform"].includes(type)) return true;
  return type === "pipe" && input !== undefined && defOf(input).type === "transform";
}

/** Whether a check may change the value for later checks. */
function mayChange({ _zod }: $ZodCheck<never>): boolean {
  return _zod.def.check === "overwrite" || _zod.def.check === "custom";
}

/** Formats that Zod checks by their pattern alone. */
const BY_PATTERN = "regex email uuid guid date datetime starts_with ends_with".split(" ");

/** The patterns of a string; undefined for a format that Zod does not check by its pattern. */
function patternsOf(schema: $ZodType): (RegExp | undefined)[] {
  const { checks = [] } = schema._zod.def;
  return [schema as unknown as $ZodCheck<never>, ...checks].flatMap(({ _zod }) => {
    const { check, format, pattern } = _zod.def as {
      check?: string;
      format?: string;
      pattern?: RegExp;
    };
    if (check !== "string_format") return [];
    return [BY_PATTERN.includes(format ?? "") ? pattern : undefined];
  });
}

/** Whether it may accept a missing property that its JSON Schema requires. */
function takesUndefined(schema: $ZodType | undefined): boolean {
  if (schema === undefined) return true;
  const def = defOf(schema);
  if (isOpen(def) || schema._zod.optin !== undefined || MISSING.includes(def.type)) return true;
  if (def.options) return def.options.some(takesUndefined);
  if (def.left) return takesUndefined(def.left) || takesUndefined(def.right);
  const inner = def.innerType ?? def.in;
  return inner !== undefined && takesUndefined(inner);
}

const MISSING = "any unknown undefined void custom lazy promise".split(" ");

/** The mark of a type that JSON does not have. */
function missingIn(schema: $ZodType): Node | undefined {
  const { type } = defOf(schema);
  if (type === "undefined" || type === "void") return { not: {} };
  const { values } = schema._zod.def as { values?: readonly unknown[] };
  if (type === "literal" && values?.every((value) => typeof value === "bigint"))
    return notInJson("a bigint");
  const { Class } = schema._zod.bag as { Class?: { name: string } };
  if (type === "custom" && Class) return notInJson(`an instance of ${Class.name}`);
  const what = NOT_IN_JSON[type];
  return what === undefined ? undefined : notInJson(what);
}

/** JSON Schema patterns have no flags. The description shows them to the model, and the workflow checks them. */
function describeFlags(schema: $ZodType, jsonSchema: Node): void {
  const all = (schema._zod.def.checks ?? []).flatMap(({ _zod }) => {
    const { format, pattern } = _zod.def as { format?: string; pattern?: RegExp };
    return format === "regex" && pattern ? [pattern] : [];
  });
  if (all.every(({ flags }) => !/[imsuv]/.test(flags))) return;
  delete jsonSchema.pattern;
  delete jsonSchema.allOf;
  const matches = `Matches ${all.map(String).join(" and ")}.`;
  jsonSchema.description = [jsonSchema.description, matches].filter(Boolean).join(" ");
}

function clear(node: Node): void {
  for (const keyword of Object.keys(node)) delete node[keyword];
}
