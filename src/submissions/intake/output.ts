/** Reads the output schema that a caller passes. Looks at the arguments alone. */

import { RpcStub } from "cloudflare:workers";
import { failureOf } from "../../core/failures.ts";
import { lostInJson } from "../../core/json.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { isKnownType } from "../../core/schema/json-schema.ts";
import { type AnySchema, formsIn, type JsonForms, jsonFormsOf } from "../../core/schema/schema.ts";
import { InvalidSubmissionError, invalidValue } from "../errors.ts";
import type { AnswerSpec, InternalSubmitOptions } from "../submit-options.ts";

/** An object with one of these keywords is a JSON Schema, and not an example value. */
const KEYWORDS = [
  ...["$schema", "$ref", "$defs", "type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if"],
  ...["properties", "required", "additionalProperties", "patternProperties", "propertyNames"],
  ...["minProperties", "maxProperties", "dependentRequired", "dependentSchemas"],
  ...["items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"],
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  ...["minLength", "maxLength", "pattern", "format"],
];

const RPC_REMEDY =
  "A schema object does not travel over RPC. Pass its JSON Schema, jsonSchemaOf(schema) of perdure/submissions, " +
  "and read the output with readOutput(schema, submission)";

/** Options as they are stored. */
export type StoredOptions = Omit<InternalSubmitOptions, "output" | "strategy" | "repair">;

/** The schema as JSON Schema. @throws InvalidSubmissionError naming the option */
export function storedOptions(options: InternalSubmitOptions): StoredOptions {
  const { output, strategy, repair, ...others } = options;
  if (output === undefined) {
    checkAlone("strategy", strategy);
    checkAlone("repair", repair);
    return others;
  }
  const answer: AnswerSpec = {
    ...formsOf(output),
    ...(strategy !== undefined && { strategy }),
    ...(repair !== undefined && { repair }),
  };
  return { ...others, answer };
}

function checkAlone(option: string, value: unknown): void {
  if (value === undefined) return;
  throw invalidValue(option, value, "it needs an output. Add output, or leave it out");
}

function formsOf(output: unknown): JsonForms {
  const isObject = (typeof output === "object" && output !== null) || typeof output === "function";
  if (!isObject || Array.isArray(output)) return refuse(output, EXPECTED);
  // A stub seems to have every property.
  if (isStub(output)) {
    const given = "(a function that came over RPC)";
    throw new InvalidSubmissionError("output", invalidMessage("output", given, RPC_REMEDY));
  }
  if (!("~standard" in output)) return formsIn(jsonSchema(output));
  const standard = (output as AnySchema)["~standard"];
  if (isStub(standard) || isStub(standard?.validate)) {
    return refuse(output, `the schema came over RPC. ${RPC_REMEDY}`);
  }
  try {
    return jsonFormsOf(output as AnySchema);
  } catch (error) {
    return refuse(output, `it has no JSON Schema form: ${failureOf(error).message}`);
  }
}

/** A JSON Schema as the caller has written it. */
function jsonSchema(schema: object): object {
  if (typeof schema === "function") return refuse(schema, EXPECTED);
  const lost = lostInJson(schema);
  if (lost !== undefined) return refuse(schema, `output${lost}, not a JSON Schema. ${RPC_REMEDY}`);
  const { type } = schema as { readonly type?: unknown };
  if (type !== undefined && !isKnownType(type)) return refuse(schema, TYPES);
  if (KEYWORDS.some((keyword) => Object.hasOwn(schema, keyword))) return schema;
  return refuse(schema, `it has no keyword of a JSON Schema (such as "type"); ${EXPECTED}`);
}

const TYPES =
  "expected null, boolean, number, integer, string, array or object as its type, or a list of these";
const EXPECTED =
  "expected a schema of Zod, ArkType, Valibot or any Standard Schema library, or a JSON Schema";

function isStub(value: unknown): boolean {
  return value instanceof RpcStub;
}

function refuse(output: unknown, problem: string): never {
  throw invalidValue("output", output, problem);
}
