/**
 * The workflow's part of Code Mode: a step that waits for a wait which the agent's Code Mode runtime closes, and where asked
 * for, the rollback of what the code has applied.
 */

import { NonRetryableError } from "cloudflare:workflows";
import { type AnySchema, validated } from "../core/schema.ts";
import type { CodemodeEnd } from "../waits/kinds/codemode/types.ts";
import { callOf, type StepAgent, type StepCall } from "../workflow/step-call.ts";
import type { ThinkWorkflowStep } from "../workflow/think-workflow.ts";
import { type PassedWait, passWait } from "../workflow/wait.ts";
import {
  CodemodeError,
  CodemodeInterruptedError,
  CodemodeRejectedError,
  CodemodeTimeoutError,
  CodemodeValidationError,
} from "./errors.ts";
import type { CodemodeRollback } from "./rollback.ts";
import { type CodemodeOptions, type CodemodeResult, checkedCodemode } from "./step-options.ts";

/** What an agent offers to `codemode()`. */
interface CodemodeAgent extends StepAgent {
  rollbackCodemode(waitId: string): Promise<CodemodeRollback>;
}

/**
 * Runs code in the agent's Code Mode runtime, waits for the approvals that its calls need, and returns what it returned.
 * Idempotent per workflow, instance, step name and key; no call that was begun is repeated after a crash. The class of the
 * agent has to be made by `withCodemode()`.
 *
 * @experimental It uses `@cloudflare/codemode` and `createExecuteTool()`, which Think has deprecated.
 * @param step the step that `run()` of the workflow receives
 * @param name unique within a run, or with a different `key` each time
 * @throws CodemodeRejectedError when an action was rejected
 * @throws CodemodeTimeoutError when it had not ended within `timeout`
 * @throws CodemodeInterruptedError when the agent went down after calls had begun
 * @throws CodemodeValidationError when what it returned does not match `output`
 * @throws CodemodeError when the code failed, or the agent has no runtime
 * @example
 * const { output } = await codemode(step, "book", {
 *   code: "async () => hotel.book({ room: 12 })",
 *   output: z.object({ booking: z.string() }),
 * });
 */
export async function codemode<Schema extends AnySchema | undefined = undefined>(
  step: ThinkWorkflowStep,
  name: string,
  options: CodemodeOptions<Schema>,
): Promise<CodemodeResult<Schema>> {
  const call = callOf<CodemodeAgent>(step, name);
  const { request, timeoutMs } = checkedCodemode(call.name, options);
  call.used.use("codemode", call.name, options.key);
  const passed = await passWait(call, {
    kind: "codemode",
    key: options.key,
    request,
    timeoutMs,
    closing: {
      status: "expired",
      result: { error: `The code had not ended within ${timeoutMs} ms` },
    },
    ...(options.rollback && { rollback: (waitId) => undo(call, waitId) }),
  });
  return resultOf(passed, options.output);
}

/** Whatever has become of it: what failed, or waits for an approval, may have applied calls, too. */
async function undo({ agent, name }: StepCall<CodemodeAgent>, waitId: string) {
  const done = await (await agent()).rollbackCodemode(waitId);
  if (done !== "forgotten") return;
  // By its own name: the platform knows it by that, and would try another one again.
  throw new NonRetryableError(
    `The calls of codemode(step, "${name}") cannot be undone: the agent's Code Mode runtime has no record of them any more. ` +
      "Raise its maxExecutions.",
  );
}

async function resultOf<Schema extends AnySchema | undefined>(
  { status, result }: PassedWait,
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
