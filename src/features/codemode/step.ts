/** `runCode()`: a step that waits for code in the agent's Code Mode runtime, and can undo what that has applied. */

import { NonRetryableError } from "cloudflare:workflows";
import * as z from "zod";
import type { CallsKernel } from "../../core/calls.ts";
import { failureOf } from "../../core/failures.ts";
import { type Json, preview } from "../../core/json.ts";
import { flag, oneOf, optionsOf, text } from "../../core/options/option-schemas.ts";
import type { Duration } from "../../core/options/options.ts";
import type { AnySchema, OutputOf } from "../../core/schema/schema.ts";
import { invalidStep, noteCall } from "../../core/steps.ts";
import { KEY, outputOf, readStep, TIMEOUT } from "../../workflow/options.ts";
import { callOf, type StepCall, useName } from "../../workflow/step-call.ts";
import type { ThinkWorkflowStep } from "../../workflow/think-workflow.ts";
import { type PassedWait, passWait } from "../../workflow/wait.ts";
import type { StepCalls } from "../../workflow/waits/protocol.ts";
import {
  CodemodeError,
  CodemodeInterruptedError,
  CodemodeRejectedError,
  CodemodeTimeoutError,
  CodemodeValidationError,
} from "./errors.ts";
import type { CodemodeCalls } from "./rollback.ts";
import type { CodemodeEnd, CodemodeRequest } from "./types.ts";

/** Codemode takes a million characters, of which a comment that names the step takes some. */
const MOST_CODE_BYTES = 999_000;

export type CodemodeOptions<Schema extends AnySchema | undefined = undefined> = {
  /**
   * The code, in the form that a model writes it for Code Mode: `async () => { ... }`. Its connectors are those of the
   * agent's runtime. What pauses for an approval is run again from the start, and finds its calls done: all else has to be
   * deterministic, or in `codemode.step()`.
   */
  code: string;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
  /**
   * How long to wait for its end, approvals included, e.g. `"3 days"` or milliseconds, at most 365 days.
   * @default "24 hours"
   */
  timeout?: Duration;
  /**
   * What the code returns, as a schema of any library that follows Standard Schema.
   * @default none: any JSON, or undefined
   */
  output?: Schema;
  /**
   * Whether the calls of the code are undone when the workflow fails later, or is terminated with `rollback: true`: by the
   * `revert` of their tools, the latest first, which may come again after a crash and so has to be idempotent. Also those of an execution that failed. Only what its runtime still has a
   * record of: `maxExecutions`, by default the newest 50.
   * @default false
   */
  rollback?: boolean;
  /**
   * What becomes of the calls before the one that was rejected: `"keep"` leaves them, `"rollback"` undoes them at once.
   * @default "keep"
   */
  onReject?: "keep" | "rollback";
};

/** What `runCode()` returns. */
export type CodemodeResult<Schema extends AnySchema | undefined = undefined> = {
  /** In the agent's Code Mode runtime. */
  readonly executionId: string;
  /** The value that the code returned. */
  readonly output: Schema extends AnySchema ? OutputOf<Schema> : Json | undefined;
  /** The log of the code, its last 100,000 characters. */
  readonly logs?: readonly string[];
};

const OPTIONS = optionsOf<CodemodeOptions<AnySchema | undefined>>()({
  code: text({ maxBytes: MOST_CODE_BYTES, remedy: "Let it read its data by a tool" }).refine(
    (code) => code.trim() !== "",
    { error: "expected a non-empty string" },
  ),
  key: KEY,
  timeout: TIMEOUT,
  output: z.unknown().optional(),
  rollback: flag().default(false),
  onReject: oneOf(["keep", "rollback"]).default("keep"),
});

/** The agent of a workflow, for this step. */
type CodemodeAgent = CallsKernel<StepCalls & CodemodeCalls>;

/**
 * Runs code in the agent's Code Mode runtime, waits for the approvals that its calls need, and returns what it returned.
 * Idempotent per workflow, instance, step name and key; no call that was begun is repeated after a crash. The class of the
 * agent has to install `codemode()`.
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
 * const { output } = await runCode(step, "book", {
 *   code: "async () => hotel.book({ room: 12 })",
 *   output: z.object({ booking: z.string() }),
 * });
 */
export function runCode<Schema extends AnySchema | undefined = undefined>(
  step: ThinkWorkflowStep,
  name: string,
  options: CodemodeOptions<Schema>,
): Promise<CodemodeResult<Schema>> {
  return noteCall(step, `runCode(${preview(name)})`, () => run(step, name, options));
}

async function run<Schema extends AnySchema | undefined>(
  step: ThinkWorkflowStep,
  name: string,
  options: CodemodeOptions<Schema>,
): Promise<CodemodeResult<Schema>> {
  const call = callOf<CodemodeAgent>(step, name);
  const refusal = (problem: string) =>
    invalidStep("runCode", `runCode(${preview(call.name)}): ${problem}`);
  const read = readStep(OPTIONS, options, refusal);
  const { code, onReject, timeout: timeoutMs } = read;
  const request: CodemodeRequest = { code, onReject };
  useName(call, "runCode", options.key);
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

/** Even a failed or waiting run may have applied calls. */
async function undo({ agent, name }: StepCall<CodemodeAgent>, waitId: string) {
  const done = await (await agent()).callKernel("rollbackCodemode", waitId);
  if (done !== "forgotten") return;
  // The class itself: the platform recognizes it by its name, and would retry any other error.
  throw new NonRetryableError(
    `The calls of runCode(step, "${name}") cannot be undone: the agent's Code Mode runtime has no record of them any more. ` +
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
    const output = await outputOf(schema, end.output, (error) => {
      const problem =
        `The code returned what its output does not take: ${failureOf(error).message}. It has run, and its result is kept: ` +
        "correct output and restart the workflow, or run other code under another key.";
      return new CodemodeValidationError(problem, end, error);
    });
    return {
      executionId,
      output: output as CodemodeResult<Schema>["output"],
      ...(logs && { logs }),
    };
  }
  if (status === "rejected") {
    const { by, reason, action } = end;
    throw new CodemodeRejectedError(error, { by: textOf(by), reason: textOf(reason), action }, end);
  }
  if (status === "expired") throw new CodemodeTimeoutError(error, end);
  if (failure === "interrupted") throw new CodemodeInterruptedError(error, end);
  throw new CodemodeError(error, end);
}

function textOf(value: CodemodeEnd["by"]): string | undefined {
  return value === undefined || typeof value === "string" ? value : JSON.stringify(value);
}
