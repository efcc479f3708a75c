/** JSON Schemas of Zod 3: what the model is shown, and what the agent may check by. Pure. */

import { zodToJsonSchema } from "zod-to-json-schema";
import { impossibleIn, notInJson } from "./impossible.ts";

type Node = Record<string, unknown>;

/** As much of a definition as is read here. */
type Def = {
  readonly typeName?: string;
  readonly coerce?: boolean;
  readonly value?: unknown;
  readonly effect?: { readonly type: string };
  readonly checks?: readonly { readonly kind: string; readonly regex?: RegExp }[];
  readonly unknownKeys?: string;
  readonly catchall?: { readonly _def: Def };
  readonly innerType?: { readonly _def: Def };
  readonly options?:
    | readonly { readonly _def: Def }[]
    | ReadonlyMap<unknown, { readonly _def: Def }>;
};

/** What the schema takes, for the model. */
export function shownForm(schema: unknown): object {
  return formOf(schema, show);
}

/** The same, where it refuses nothing that the schema takes. */
export function checkForm(schema: unknown): object {
  return formOf(schema, loosen);
}

function formOf(schema: unknown, change: (node: Node, def: Def) => Node): object {
  return zodToJsonSchema(schema as never, {
    $refStrategy: "none",
    applyRegexFlags: true,
    pipeStrategy: "input",
    postProcess: (node, def) =>
      change(literalForm(def as Def) ?? ((node ?? {}) as Node), def as Def),
  });
}

/** What the library does not tell of a literal: `null` is of type "object" to it, and a bigint is an integer. */
function literalForm({ typeName, value }: Def): Node | undefined {
  if (typeName !== "ZodLiteral") return undefined;
  if (typeof value === "bigint") return notInJson("a bigint");
  return value === null ? { type: "null" } : undefined;
}

function show(node: Node, def: Def): Node {
  if (def.coerce && def.typeName === "ZodBigInt") return { type: "string", pattern: "^-?\\d+$" };
  if (isOpen(def)) return impossibleIn(node) ? {} : node;
  const what = NOT_IN_JSON[def.typeName ?? ""];
  return what === undefined ? node : notInJson(what);
}

function loosen(node: Node, def: Def): Node {
  // The short form of a union, or of what may be null, has only the names of the types.
  const members = [...(def.options?.values() ?? []), ...(def.innerType ? [def.innerType] : [])];
  if (isOpen(def) || (!node.anyOf && members.some(({ _def }) => isOpen(_def)))) return {};
  const { checks = [] } = def;
  if (def.typeName === "ZodString") {
    const first = checks.findIndex(isChange);
    if (first >= 0 && !checks.slice(first).every(isChange)) return { type: "string" };
    if (!checks.every(isPlain))
      return { ...node, pattern: undefined, allOf: undefined, anyOf: undefined };
  }
  // Of an object that drops what it does not know, the JSON Schema refuses it.
  const drops = def.unknownKeys === "strip" && def.catchall?._def.typeName === "ZodNever";
  return drops ? { ...node, additionalProperties: undefined } : node;
}

/** Whether what it takes is up to code of the app, or to a coercion: its JSON Schema is that of the result. */
function isOpen({ typeName, coerce, effect }: Def): boolean {
  return coerce === true || typeName === "ZodCatch" || effect?.type === "preprocess";
}

function isChange({ kind }: { readonly kind: string }): boolean {
  return ["trim", "toLowerCase", "toUpperCase"].includes(kind);
}

/** Whether the check means the same in JSON Schema. */
function isPlain({ kind, regex }: { readonly kind: string; readonly regex?: RegExp }): boolean {
  if (kind === "regex") return regex?.flags === "";
  return ["min", "max", "length", "startsWith", "endsWith"].includes(kind) || isChange({ kind });
}

const NOT_IN_JSON: Readonly<Record<string, string>> = {
  ZodDate: "a Date",
  ZodBigInt: "a bigint",
  ZodSymbol: "a symbol",
  ZodMap: "a Map",
  ZodSet: "a Set",
  ZodNaN: "NaN",
  ZodFunction: "a function",
};
