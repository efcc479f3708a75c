/** JSON Schemas of Zod 3, for the model and for the agent's check. Pure. */

import { zodToJsonSchema } from "zod-to-json-schema";
import { impossibleIn, type LibraryForms, NOT_IN_JSON, notInJson } from "./impossible.ts";

type Node = Record<string, unknown>;

/** The fields of a definition that are read here. */
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

export function zod3Forms(schema: unknown): LibraryForms {
  return { shown: formOf(schema, show), check: formOf(schema, loosen) };
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

/** Literals that the library converts wrongly: `null` becomes the type "object", and a bigint an integer. */
function literalForm({ typeName, value }: Def): Node | undefined {
  if (typeName !== "ZodLiteral") return undefined;
  if (typeof value === "bigint") return notInJson("a bigint");
  return value === null ? { type: "null" } : undefined;
}

function show(node: Node, def: Def): Node {
  if (def.coerce && def.typeName === "ZodBigInt") return { type: "string", pattern: "^-?\\d+$" };
  if (isOpen(def)) return impossibleIn(node) ? {} : node;
  const what = NOT_IN_JSON[def.typeName?.replace("Zod", "").toLowerCase() ?? ""];
  return what === undefined ? node : notInJson(what);
}

function loosen(node: Node, def: Def): Node {
  // The short form of a union or a nullable type has only the names of the types.
  const members = [...(def.options?.values() ?? []), ...(def.innerType ? [def.innerType] : [])];
  if (isOpen(def) || (!node.anyOf && members.some(({ _def }) => isOpen(_def)))) return {};
  const { checks = [] } = def;
  if (def.typeName === "ZodString") {
    const first = checks.findIndex(isChange);
    if (first >= 0 && !checks.slice(first).every(isChange)) return { type: "string" };
    if (!checks.every(isPlain))
      return { ...node, pattern: undefined, allOf: undefined, anyOf: undefined };
  }
  // The object drops unknown keys, but its JSON Schema refuses them.
  const drops = def.unknownKeys === "strip" && def.catchall?._def.typeName === "ZodNever";
  return drops ? { ...node, additionalProperties: undefined } : node;
}

/** Whether code of the app or a coercion decides what it accepts. Its JSON Schema then describes the result only. */
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
