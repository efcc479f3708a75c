/** What has become of a prompt: its answer, as the schema takes it, or the error that says how it failed. */

import { type AnySchema, type OutputOf, validated } from "../core/schema.ts";
import type { PromptEnd, SubmissionEnd, TokenUsage } from "../submissions/types.ts";
import type { NOT_FOUND } from "../waits/kinds/prompt.ts";
import {
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptNotFoundError,
  ThinkPromptSkippedError,
  ThinkPromptValidationError,
} from "./errors.ts";
import type { NameOf } from "./names.ts";
import type { StepCall } from "./step-call.ts";
import { readLarge } from "./wait.ts";

const GONE: typeof NOT_FOUND = "SubmissionNotFoundError";

/** The answer: what the schema makes of it, or without a schema the text of the reply. */
export type AnswerOf<Schema extends AnySchema | undefined> = Schema extends AnySchema
  ? OutputOf<Schema>
  : string;

/** What `step.promptResult()` returns. */
export type PromptResult<Schema extends AnySchema | undefined> = {
  readonly output: AnswerOf<Schema>;
  /** Tokens of all attempts, where the model reports them. */
  readonly usage?: TokenUsage;
  /** The submission in the agent's ledger. */
  readonly submissionId: string;
  /** The assistant message that the turn wrote, if it wrote one. */
  readonly messageId?: string;
  /** Why the model's last call ended: `"stop"`, `"tool-calls"`, `"length"` and so on. */
  readonly finishReason?: string;
  /** How many times the turn was started: more than one after a crash, a failure of the model, or a repair. */
  readonly attempts: number;
};

/** The end with its answer: one that came as a reference is read from the agent. */
export async function wholeEnd(
  call: Pick<StepCall, "step" | "agent">,
  nameOf: NameOf,
  end: PromptEnd,
): Promise<SubmissionEnd> {
  if (!("reference" in end)) return end;
  const { reference, ...rest } = end;
  const { submissionId } = rest;
  const output = await readLarge(call, nameOf, { kind: "prompt", waitId: submissionId });
  if (output !== undefined) return { ...rest, output };
  const what = `The answer of ${reference.bytes} bytes was deleted from the agent's ledger before all of it was read.`;
  const remedy = "Keep submissions until their workflows have ended.";
  throw new ThinkPromptNotFoundError(submissionId, `${what} ${remedy}`);
}

/** @throws ThinkPromptError, or the one of its kinds that says how it failed */
export async function answerOf<Schema extends AnySchema | undefined>(
  end: SubmissionEnd,
  schema: Schema,
): Promise<PromptResult<Schema>> {
  const { submissionId, status, usage, messageId, finishReason, attempts, error, errorName } = end;
  if (status === "completed") {
    return {
      output: await outputOf(end, schema),
      submissionId,
      attempts,
      ...(usage && { usage }),
      ...(messageId !== undefined && { messageId }),
      ...(finishReason !== undefined && { finishReason }),
    };
  }
  if (status === "aborted") throw new ThinkPromptAbortedError(submissionId, error);
  if (status === "skipped") throw new ThinkPromptSkippedError(submissionId, error);
  if (errorName === "InvalidAnswerError") {
    throw new ThinkPromptValidationError(submissionId, await causeOf(end, schema));
  }
  if (errorName === GONE) throw new ThinkPromptNotFoundError(submissionId, error ?? GONE);
  throw new ThinkPromptError(error ?? "Think prompt ended with an error", submissionId, status);
}

/** Why the agent refused an answer, as the schema's library says it; in the agent's words if the answer was not kept. */
async function causeOf(
  { error, refusedOutput }: SubmissionEnd,
  schema: AnySchema | undefined,
): Promise<unknown> {
  if (schema !== undefined && refusedOutput !== undefined) {
    try {
      await validated(schema, refusedOutput);
    } catch (cause) {
      return cause;
    }
  }
  return new Error(error);
}

/** What is wrong with an answer that the agent accepted and the schema itself refuses; undefined for any other failure. */
export function refusalOf(
  { status }: Pick<SubmissionEnd, "status">,
  error: unknown,
): string | undefined {
  const isRefused = status === "completed" && error instanceof ThinkPromptValidationError;
  return isRefused ? error.problem.slice(0, MAX_PROBLEM) || "it does not match" : undefined;
}

/** UTF-16 units of what the model is told: a hundred of them are sent together. */
const MAX_PROBLEM = 4_000;

async function outputOf<Schema extends AnySchema | undefined>(
  { submissionId, output }: SubmissionEnd,
  schema: Schema,
): Promise<AnswerOf<Schema>> {
  if (schema === undefined) return String(output) as AnswerOf<Schema>;
  try {
    return (await validated(schema, output)) as AnswerOf<Schema>;
  } catch (error) {
    throw new ThinkPromptValidationError(submissionId, error);
  }
}
