/**
 * `step.codemode()`: a gate that the agent's Code Mode runtime closes, and
 * where asked for, the rollback of what it has applied.
 */

import { NonRetryableError } from "cloudflare:workflows";
import type { CodemodeEnd } from "../../gates/codemode/types.ts";
import { type AnySchema, validated } from "../schema.ts";
import type { StepCall } from "../step-call.ts";
import {
  CodemodeError,
  CodemodeInterruptedError,
  CodemodeRejectedError,
  CodemodeTimeoutError,
  CodemodeValidationError,
} from "./codemode-errors.ts";
import { type CodemodeOptions, type CodemodeResult, checkedCodemode } from "./codemode-options.ts";
import { type GatedAgent, type PassedGate, passGate } from "./gate.ts";

/** What an agent offers to `step.codemode()`. */
export interface CodemodeAgent extends GatedAgent {
  rollbackCodemode(gateId: string): Promise<"rolled-back" | "nothing" | "forgotten">;
}

/** Runs the code to its result, or throws how it failed. */
export async function runCodemode<Schema extends AnySchema | undefined>(
  call: StepCall<CodemodeAgent>,
  options: CodemodeOptions<Schema>,
): Promise<CodemodeResult<Schema>> {
  const { request, timeoutMs } = checkedCodemode(call.name, options);
  const passed = await passGate(call, {
    kind: "codemode",
    key: options.key,
    request,
    timeoutMs,
    closing: {
      status: "expired",
      result: { error: `The code had not ended within ${timeoutMs} ms` },
    },
    ...(options.rollback && { rollback: (gateId) => undo(call, gateId) }),
  });
  return resultOf(passed, options.output);
}

/** Whatever has become of it: what failed, or waits for an approval, may have applied calls, too. */
async function undo({ agent, name }: StepCall<CodemodeAgent>, gateId: string) {
  const done = await (await agent()).rollbackCodemode(gateId);
  if (done !== "forgotten") return;
  // By its own name: the platform knows it by that, and would try another one again.
  throw new NonRetryableError(
    `The calls of step.codemode("${name}") cannot be undone: the agent's Code Mode runtime has no record of them any more. ` +
      "Raise its maxExecutions.",
  );
}

async function resultOf<Schema extends AnySchema | undefined>(
  { status, result }: PassedGate,
  schema: Schema,
): Promise<CodemodeResult<Schema>> {
  const end = result as CodemodeEnd;
  const { error = "The code was not run to its end", executionId, logs, failure } = end;
  if (status === "completed" && executionId !== undefined) {
    const output = (await outputOf(end, schema)) as CodemodeResult<Schema>["output"];
    return { executionId, output, ...(logs && { logs }) };
  }
  if (status === "rejected") {
    const { by, reason, action } = end;
    throw new CodemodeRejectedError(error, { by: text(by), reason: text(reason), action }, end);
  }
  if (status === "expired") throw new CodemodeTimeoutError(error, end);
  if (failure === "interrupted") throw new CodemodeInterruptedError(error, end);
  throw new CodemodeError(error, end);
}

async function outputOf(end: CodemodeEnd, schema: AnySchema | undefined): Promise<unknown> {
  if (schema === undefined) return end.output;
  try {
    return await validated(schema, end.output);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new CodemodeValidationError(
      `The code returned what its output does not take: ${problem}. It has run, and its result is kept: correct output and ` +
        "restart the workflow, or run other code under another key.",
      end,
      error,
    );
  }
}

function text(value: CodemodeEnd["by"]): string | undefined {
  return value === undefined || typeof value === "string" ? value : JSON.stringify(value);
}
