/** Options of steps. An invalid one ends the workflow at the call, before anything is stored: no retry could make it valid. */

import type { NonRetryableError } from "cloudflare:workflows";
import type { z } from "zod";
import { TimeoutError, withTimeout } from "../core/clock.ts";
import { failureOf } from "../core/failures.ts";
import {
  checkBytes,
  HALF_CHARACTER,
  type Json,
  lostInJson,
  malformedKeyIn,
  preview,
} from "../core/json.ts";
import { duration, hook, readOptions, text } from "../core/options/option-schemas.ts";
import {
  type AnySchema,
  type JsonForms,
  jsonFormsOf,
  SchemaMismatchError,
  validated,
} from "../core/schema/schema.ts";
import { invalidStep } from "../core/steps.ts";

/** Makes the error of an invalid option from a whole sentence. */
export type Refuse = (problem: string) => NonRetryableError;

/** @param kind the method of the step, e.g. `"prompt"` */
export function refusalOf(kind: string, name: string): Refuse {
  return (problem) => invalidStep(kind, `step.${kind}(${preview(name)}): ${problem}`);
}

/** @throws the error of `refuse` for the first invalid option */
export function readStep<Out>(
  schema: z.ZodType<Out>,
  value: unknown,
  refuse: Refuse,
  name = "options",
): Out {
  return readOptions(schema, value, name, (_, message) => refuse(message));
}

export const TIMEOUT = duration({ max: "365 days" }).default(86_400_000);
export const KEY = text({ empty: true }).optional();
export const ROLLBACK = hook().optional();

/** A value as JSON, which the agent stores. Refuses one that JSON would change. */
export function jsonFor(name: string, value: unknown, maxBytes: number, refuse: Refuse): Json {
  const lost = value === undefined ? " is undefined" : lostInJson(value);
  if (lost) throw refuse(`Invalid ${name}: ${name}${lost}, which JSON cannot hold.`);
  const malformed = malformedKeyIn(value);
  if (malformed !== undefined)
    throw refuse(`Invalid key ${preview(malformed)} in ${name}, ${HALF_CHARACTER}`);
  const json = JSON.stringify(value);
  checkBytes(name, json, { maxBytes, refuse });
  return JSON.parse(json) as Json;
}

/** The time that a schema has, whose refinements and transforms can wait for anything. */
const SCHEMA_TIMEOUT_MS = 30_000;

/**
 * What a schema makes of a value; without a schema, the value.
 *
 * @param errorOf makes the error of a value that does not match
 */
export async function outputOf(
  schema: AnySchema | undefined,
  value: unknown,
  errorOf: (cause: unknown) => Error,
): Promise<unknown> {
  if (schema === undefined) return value;
  try {
    return await withTimeout(validated(schema, value), SCHEMA_TIMEOUT_MS);
  } catch (error) {
    const isLate = error instanceof TimeoutError;
    const late = `The schema has returned no result within ${SCHEMA_TIMEOUT_MS / 1_000} seconds`;
    throw errorOf(isLate ? new Error(late, { cause: error }) : error);
  }
}

/**
 * {@link outputOf} for what people or providers have sent.
 *
 * @param errorOf makes the error of a value that does not match
 */
export function takenBy(
  schema: AnySchema | undefined,
  value: unknown,
  errorOf: (cause: SchemaMismatchError) => Error,
): Promise<unknown> {
  return outputOf(schema, value, (error) =>
    errorOf(
      error instanceof SchemaMismatchError
        ? error
        : // A transform of the app may throw what it likes.
          new SchemaMismatchError([{ message: failureOf(error).message }], error),
    ),
  );
}

/** Bytes of a schema as JSON. */
const MOST_SCHEMA_BYTES = 200_000;

/** The JSON Schema forms of the schema of what people or providers send. */
export function sizedForms(schema: AnySchema, refuse: Refuse) {
  const forms = formsOf("schema", schema, refuse) as { schema: Json; check?: Json };
  checkBytes("schema", JSON.stringify(forms), { maxBytes: MOST_SCHEMA_BYTES, refuse });
  return forms;
}

/** The JSON Schema forms of a schema, for the agent. */
export function formsOf(name: string, schema: AnySchema, refuse: Refuse): JsonForms {
  try {
    return jsonFormsOf(schema);
  } catch (error) {
    throw refuse(`Invalid ${name}: it has no JSON Schema form: ${failureOf(error).message}.`);
  }
}
