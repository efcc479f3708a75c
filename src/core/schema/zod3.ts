/** `perdure/zod3`: schemas of Zod 3, with their JSON Schemas for the model and for the agent's check. Pure. */

import { zodToJsonSchema } from "zod-to-json-schema";
import { preview } from "../json.ts";
import { impossibleIn, type LibraryForms, NOT_IN_JSON, notInJson } from "./impossible.ts";
import { type AnySchema, FORMS, isStandard } from "./schema.ts";

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

/**
 * A schema of Zod 3 for Perdure, wherever it takes a schema. Schemas of Zod 4 need no call.
 *
 * @param schema of Zod 3.24 or newer, also of `zod/v3`; it does not change
 * @throws TypeError for any other value
 * @example
 * const { city } = await step.prompt("where", { prompt, output: zod3(z.object({ city: z.string() })) });
 */
export function zod3<Schema extends AnySchema>(schema: Schema): Schema {
  if (!isStandard(schema) || schema["~standard"].vendor !== "zod" || "_zod" in schema) {
    throw new TypeError(
      `zod3() got ${preview(schema)}: expected a schema of Zod 3.24 or newer. Pass any other schema without zod3().`,
    );
  }
  const value = (): LibraryForms => ({
    shown: formOf(schema, show),
    check: formOf(schema, loosen),
  });
  return Object.create(schema, { [FORMS]: { value } }) as Schema;
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
