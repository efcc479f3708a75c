/**
 * Schemas of any library. The agent validates with their JSON Schema; the workflow, which has the schema itself, validates
 * with the library. Pure.
 *
 * https://standardschema.dev
 */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { $ZodType } from "zod/v4/core";
import { impossibleIn, type LibraryForms, withoutImpossible } from "./impossible.ts";
import { type Standard, standardForms } from "./standard.ts";
import { zodForms } from "./zod.ts";

/** A schema of Zod, ArkType, Valibot (by `toStandardJsonSchema()`), or any other library that follows Standard Schema. */
export type AnySchema<Input = unknown, Output = Input> = StandardSchemaV1<Input, Output>;

/** The type of a validated value. */
export type OutputOf<Schema extends AnySchema> = StandardSchemaV1.InferOutput<Schema>;

/** The type of the values that the schema accepts. */
export type InputOf<Schema extends AnySchema> = StandardSchemaV1.InferInput<Schema>;

/** The JSON Schemas of the values that a schema accepts. */
export type JsonForms = {
  /** For the model, or a person. */
  readonly schema: object;
  /** For the agent's check, where it differs from `schema`. Never stricter than the schema itself. */
  readonly check?: object;
};

/**
 * The JSON Schemas of the values that a schema accepts.
 *
 * @throws Error for a schema that no JSON value can match, or of a library that has no JSON Schema form
 */
export function jsonFormsOf(schema: AnySchema): JsonForms {
  const { shown, check } = libraryFormsOf(schema);
  const impossible = impossibleIn(shown);
  if (impossible) {
    const { path, what } = impossible;
    throw new Error(
      `${path || "the schema itself"} is ${what}, which no JSON value can be. ` +
        'Use a type that JSON has, and convert it in the schema: z.coerce.date(), or "string.date.parse" of ArkType',
    );
  }
  const isSame = JSON.stringify(check) === JSON.stringify(shown);
  return { schema: withoutImpossible(shown), ...(!isSame && { check }) };
}

/** The keyword in which {@link jsonSchemaOf} stores `check`. Models never see it. */
const CHECK = "x-perdure-check";

/**
 * A schema as one JSON Schema, for RPC, which cannot pass a schema object.
 *
 * @throws Error as {@link jsonFormsOf}
 * @example
 * await stub.submitMessages([message], { output: jsonSchemaOf(z.object({ city: z.string() })) });
 */
export function jsonSchemaOf(schema: AnySchema): object {
  const { schema: shown, check } = jsonFormsOf(schema);
  return check ? { ...shown, [CHECK]: check } : shown;
}

/** The two forms in a JSON Schema, which may be one of {@link jsonSchemaOf}. */
export function formsIn(schema: object): JsonForms {
  const { [CHECK]: check, ...shown } = schema as { [CHECK]?: object };
  return check === undefined ? { schema } : { schema: shown, check };
}

/** Whether a value is a schema of a library that follows Standard Schema. */
export function isStandard(value: unknown): value is AnySchema {
  return (value as Partial<AnySchema> | null | undefined)?.["~standard"]?.version === 1;
}

/** The JSON Schemas of a schema that `zod3()` has wrapped; registered, so that two copies of this module share it. */
export const FORMS: unique symbol = Symbol.for("perdure.schemaForms");

/** What to do with a schema without a JSON Schema, by its library. */
const REMEDIES: Readonly<Record<string, string>> = {
  valibot: "wrap it in toStandardJsonSchema() of @valibot/to-json-schema",
  zod: 'import { zod3 } from "perdure/zod3", and pass zod3(schema)',
};

function libraryFormsOf(schema: AnySchema): LibraryForms {
  if (!isStandard(schema)) {
    throw new Error("it is no Standard Schema (https://standardschema.dev), e.g. of Zod");
  }
  const standard = schema["~standard"] as StandardSchemaV1.Props & Partial<Standard>;
  const { jsonSchema, vendor } = standard;
  if ("_zod" in schema) return zodForms(schema as unknown as $ZodType);
  if (jsonSchema) return standardForms({ ...standard, jsonSchema });
  const { [FORMS]: forms } = schema as { [FORMS]?: () => LibraryForms };
  if (forms) return forms();
  // Zod 4 has been read above.
  const library = vendor === "zod" ? "Zod 3" : vendor;
  const remedy =
    REMEDIES[vendor] ??
    "use its form of Standard JSON Schema (https://standardschema.dev/json-schema)";
  throw new Error(`schemas of ${library} do not say what they are in JSON: ${remedy}`);
}

/** A value that does not match its schema. `cause` is the library's own error, or the issues where there is none. */
export class SchemaMismatchError extends Error {
  override readonly name = "SchemaMismatchError";
  constructor(
    /** As the schema's library reports them. */
    readonly issues: readonly StandardSchemaV1.Issue[],
    cause: unknown = issues,
  ) {
    super(issues.map(lineOf).join("; "), { cause });
  }
}

/**
 * The validated value, with the schema's defaults and transforms.
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

/** Zod's method, whose error has more than the issues. */
type SafeParse = (value: unknown) => Promise<{
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: Error & { readonly issues: readonly StandardSchemaV1.Issue[] };
}>;

function lineOf({ path = [], message }: StandardSchemaV1.Issue): string {
  const where = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return where === "" ? message : `${where}: ${message}`;
}
