/**
 * Schemas of any library: what of them the agent can check, which is their JSON
 * Schema, and the whole of it, which only the caller who has the schema can. Pure.
 *
 * https://standardschema.dev
 */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { $ZodType } from "zod/v4/core";
import { impossibleIn, withoutImpossible } from "./schema/impossible.ts";
import type { Standard } from "./schema/standard.ts";
import * as library from "./schema/standard.ts";
import * as zod from "./schema/zod.ts";
import * as zod3 from "./schema/zod3.ts";

/** A schema of Zod, ArkType, Valibot (by `toStandardJsonSchema()`), or any other library that follows Standard Schema. */
export type AnySchema<Input = unknown, Output = Input> = StandardSchemaV1<Input, Output>;

/** What a value is once the schema has taken it. */
export type OutputOf<Schema extends AnySchema> = StandardSchemaV1.InferOutput<Schema>;

/** What the schema takes. */
export type InputOf<Schema extends AnySchema> = StandardSchemaV1.InferInput<Schema>;

/** The JSON Schemas of what a schema takes. */
export type JsonForms = {
  /** What the model, or a person, is shown. */
  readonly schema: object;
  /** What the agent checks by, where it is not `schema`: it refuses nothing that the schema itself takes. */
  readonly check?: object;
};

/**
 * The JSON Schemas of what the schema takes.
 *
 * @throws Error that says where no JSON value can match, or that the library needs help to tell
 */
export function jsonFormsOf(schema: AnySchema): JsonForms {
  const { shownForm, checkForm } = converterOf(schema);
  const shown = shownForm();
  const impossible = impossibleIn(shown);
  if (impossible) {
    const { path, what } = impossible;
    throw new Error(`${path || "the schema itself"} is ${what}, which no JSON value can be`);
  }
  const check = checkForm();
  const isSame = JSON.stringify(check) === JSON.stringify(shown);
  return { schema: withoutImpossible(shown), ...(!isSame && { check }) };
}

/** Where {@link jsonSchemaOf} keeps `check`: a keyword of our own, which the model is never shown. */
const CHECK = "x-perdure-check";

/**
 * A schema as one JSON Schema, to pass over RPC, where a schema object does not travel.
 *
 * @throws Error as {@link jsonFormsOf}
 * @example
 * await stub.submitMessages([message], { output: jsonSchemaOf(z.object({ city: z.string() })) });
 */
export function jsonSchemaOf(schema: AnySchema): object {
  const { schema: shown, check } = jsonFormsOf(schema);
  return check ? { ...shown, [CHECK]: check } : shown;
}

/** The two forms in a JSON Schema that may be of {@link jsonSchemaOf}. */
export function formsIn(schema: object): JsonForms {
  const { [CHECK]: check, ...shown } = schema as { [CHECK]?: object };
  return check === undefined ? { schema } : { schema: shown, check };
}

type Converter = { shownForm(): object; checkForm(): object };

function converterOf(schema: AnySchema): Converter {
  const standard = schema["~standard"] as StandardSchemaV1.Props & Partial<Standard>;
  if (standard?.version !== 1) {
    throw new Error("it is no Standard Schema (https://standardschema.dev), e.g. of Zod");
  }
  const { jsonSchema } = standard;
  if ("_zod" in schema) return using(zod, schema as unknown as $ZodType);
  if (jsonSchema) return using(library, { ...standard, jsonSchema });
  if (standard.vendor === "zod") return using(zod3, schema);
  const remedy =
    standard.vendor === "valibot"
      ? "wrap it in toStandardJsonSchema() of @valibot/to-json-schema"
      : "use the form of it that follows Standard JSON Schema (https://standardschema.dev/json-schema)";
  throw new Error(`schemas of ${standard.vendor} do not say what they are in JSON: ${remedy}`);
}

function using<Schema>(
  { shownForm, checkForm }: Record<"shownForm" | "checkForm", (schema: Schema) => object>,
  schema: Schema,
): Converter {
  return { shownForm: () => shownForm(schema), checkForm: () => checkForm(schema) };
}

/** What is wrong with a value, in one line. Its cause is the library's own error, or the issues where there is none. */
export class SchemaMismatchError extends Error {
  override readonly name = "SchemaMismatchError";
  constructor(
    /** As the schema's library tells them. */
    readonly issues: readonly StandardSchemaV1.Issue[],
    cause: unknown = issues,
  ) {
    super(issues.map(lineOf).join("; "), { cause });
  }
}

/**
 * The value as the schema takes it: with its defaults and transforms.
 *
 * @throws SchemaMismatchError for a value that does not match
 */
export async function validated<Schema extends AnySchema>(
  schema: Schema,
  value: unknown,
): Promise<OutputOf<Schema>> {
  const { safeParseAsync } = schema as { safeParseAsync?: SafeParse };
  const { vendor } = schema["~standard"];
  if (vendor === "zod" && typeof safeParseAsync === "function") {
    const { success, data, error } = await safeParseAsync.call(schema, value);
    if (!success) throw new SchemaMismatchError(error?.issues ?? [], error);
    return data as OutputOf<Schema>;
  }
  const result = await schema["~standard"].validate(value);
  if (result.issues) throw new SchemaMismatchError(result.issues);
  return result.value as OutputOf<Schema>;
}

/** How Zod validates, with an error of its own. */
type SafeParse = (value: unknown) => Promise<{
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: Error & { readonly issues: readonly StandardSchemaV1.Issue[] };
}>;

function lineOf({ path = [], message }: StandardSchemaV1.Issue): string {
  const where = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return where === "" ? message : `${where}: ${message}`;
}
