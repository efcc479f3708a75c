/** The output that a submission is to have: which schemas a caller can ask for it by. Looks at the arguments alone. */

import { RpcStub } from "cloudflare:workers";
import { lostInJson, preview } from "../../core/json.ts";
import { type AnySchema, formsIn, type JsonForms, jsonFormsOf } from "../../core/schema.ts";
import { InvalidSubmissionError } from "../errors.ts";
import type { AnswerSpec, InternalSubmitOptions, SubmitMessagesOptions } from "../types.ts";
import { checkAnswer } from "./answer-spec.ts";

/** What an object must have one of to be taken for a JSON Schema, and not for an example of one. */
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
  "and read the output with readOutput(schema, submission).";

/**
 * Options of the public verbs as the ledger takes them: the schema as JSON Schema.
 *
 * @throws InvalidSubmissionError naming the option
 */
export function internalOptions(
  options: SubmitMessagesOptions | undefined = {},
): InternalSubmitOptions {
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
  checkAnswer(answer);
  return { ...others, answer };
}

function checkAlone(option: string, value: unknown): void {
  if (value === undefined) return;
  throw new InvalidSubmissionError(
    option,
    `${option} is ${preview(value)} without an output schema, and is about how that is asked for. ` +
      "Leave it out, or give the submission an output.",
  );
}

function formsOf(output: unknown): JsonForms {
  const isObject = (typeof output === "object" && output !== null) || typeof output === "function";
  if (!isObject || Array.isArray(output)) refuse(`output is ${preview(output)}; ${EXPECTED}`);
  // A stub has any property that is asked for.
  if (isStub(output)) refuse(`output is a function that came over RPC. ${RPC_REMEDY}`);
  if (!("~standard" in output)) return formsIn(jsonSchema(output));
  const standard = (output as AnySchema)["~standard"];
  if (isStub(standard) || isStub(standard?.validate)) {
    refuse(`output is a schema of ${preview(standard.vendor)} that came over RPC. ${RPC_REMEDY}`);
  }
  try {
    return jsonFormsOf(output as AnySchema);
  } catch (error) {
    return refuse(
      `output has no JSON Schema form: ${error instanceof Error ? error.message : String(error)}. ` +
        "Use types that JSON has (no Date, bigint or custom), and convert the output afterwards.",
    );
  }
}

/** A JSON Schema as the caller has written it. */
function jsonSchema(schema: object): object {
  if (typeof schema === "function") refuse(`output is a function; ${EXPECTED}`);
  const lost = lostInJson(schema);
  if (lost !== undefined) refuse(`output${lost}, which no JSON Schema has. ${RPC_REMEDY}`);
  if (KEYWORDS.some((keyword) => Object.hasOwn(schema, keyword))) return schema;
  return refuse(
    `output is ${preview(schema)}, which has none of the keywords of a JSON Schema (such as "type"); ${EXPECTED}`,
  );
}

const EXPECTED =
  "expected a schema of Zod, ArkType, Valibot or any Standard Schema library, or a JSON Schema, or leave it out for the text of the reply.";

function isStub(value: unknown): boolean {
  return value instanceof RpcStub;
}

function refuse(message: string): never {
  throw new InvalidSubmissionError("output", message);
}
