/**
 * Schemas of any library: what of them the agent can check, which is their JSON
 * Schema, and the whole of it, which only the caller who has the schema can. Pure.
 *
 * https://standardschema.dev
 */

import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import { toJSONSchema } from "zod";
import type { $ZodType } from "zod/v4/core";
import { zodToJsonSchema } from "zod-to-json-schema";

/** A schema of Zod, ArkType, Valibot (by `toStandardJsonSchema()`), or any other library that follows Standard Schema. */
export type AnySchema<Input = unknown, Output = Input> = StandardSchemaV1<Input, Output>;

/** What a value is once the schema has taken it. */
export type OutputOf<Schema extends AnySchema> = StandardSchemaV1.InferOutput<Schema>;

/** What the schema takes. */
export type InputOf<Schema extends AnySchema> = StandardSchemaV1.InferInput<Schema>;

const TARGET = "draft-2020-12";

/**
 * The JSON Schema of what the schema takes.
 *
 * @throws Error that says what of it has no JSON form, or that the library needs help to tell
 */
export function jsonSchemaOf(schema: AnySchema): object {
  const standard = schema["~standard"] as StandardSchemaV1.Props &
    Partial<StandardJSONSchemaV1.Props>;
  if (standard?.version !== 1) {
    throw new Error("it is no Standard Schema (https://standardschema.dev), e.g. of Zod");
  }
  if ("_zod" in schema) {
    return toJSONSchema(schema as unknown as $ZodType, { io: "input", override: tellFlags });
  }
  if (standard.jsonSchema) return standard.jsonSchema.input({ target: TARGET });
  if (standard.vendor === "zod") {
    return zodToJsonSchema(schema as never, { $refStrategy: "none", applyRegexFlags: true });
  }
  const remedy =
    standard.vendor === "valibot"
      ? "wrap it in toStandardJsonSchema() of @valibot/to-json-schema"
      : "use the form of it that follows Standard JSON Schema (https://standardschema.dev/json-schema)";
  throw new Error(`schemas of ${standard.vendor} do not say what they are in JSON: ${remedy}`);
}

/**
 * A pattern in JSON Schema has no flags, and without them would refuse what the schema takes: the model is told of it in
 * words, and the workflow checks it.
 */
function tellFlags({ zodSchema, jsonSchema }: Overridden): void {
  const all = (zodSchema._zod.def.checks ?? []).flatMap(({ _zod }) => {
    const { format, pattern } = _zod.def as { format?: string; pattern?: RegExp };
    return format === "regex" && pattern ? [pattern] : [];
  });
  if (all.every(({ flags }) => !/[imsuv]/.test(flags))) return;
  delete jsonSchema.pattern;
  delete jsonSchema.allOf;
  const matches = `Matches ${all.map(String).join(" and ")}.`;
  jsonSchema.description = [jsonSchema.description, matches].filter(Boolean).join(" ");
}

type Overridden = Parameters<
  NonNullable<NonNullable<Parameters<typeof toJSONSchema>[1]>["override"]>
>[0];

/** What is wrong with a value, in one line. */
export class SchemaMismatchError extends Error {
  override readonly name = "SchemaMismatchError";
  constructor(
    /** As the schema's library tells them. */
    readonly issues: readonly StandardSchemaV1.Issue[],
  ) {
    super(issues.map(lineOf).join("; "));
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
  const result = await schema["~standard"].validate(value);
  if (result.issues) throw new SchemaMismatchError(result.issues);
  return result.value as OutputOf<Schema>;
}

function lineOf({ path = [], message }: StandardSchemaV1.Issue): string {
  const where = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return where === "" ? message : `${where}: ${message}`;
}
