/** `step.prompt()`: asks the agent, waits for the end, and validates the answer. Each part is a step of the platform. */

import { preview } from "../core/json.ts";
import { type AnySchema, validated } from "../core/schema/schema.ts";
import type { PromptEnd, SubmissionEnd } from "../submissions/types.ts";
import { onAgent } from "./agent-stub.ts";
import {
  namingStep,
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptNotFoundError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
} from "./errors.ts";
import type { NameOf } from "./names.ts";
import { outputOf } from "./options.ts";
import {
  type AnswerOf,
  checkedPrompt,
  type PromptResult,
  type ThinkPromptOptions,
} from "./prompt-options.ts";
import { type CallOf, compensated, type StepCall, useName } from "./step-call.ts";
import { thinkKeyOf, thinkPromptEnd } from "./think-prompt.ts";
import {
  askUntilTaken,
  endOfWait,
  namesOf,
  openWait,
  readLarge,
  type Timed,
  type WaitAsk,
} from "./wait.ts";
import type { NOT_FOUND, ThinkPromptReceipt } from "./waits/kinds/prompt.ts";
import type { WaitReceipt } from "./waits/protocol.ts";

const GONE: typeof NOT_FOUND = "SubmissionNotFoundError";

export interface PromptSteps {
  /**
   * Asks the agent and waits for its answer: what `output` takes, or without one the text of the reply. Idempotent per
   * workflow, instance, step name and key; what it returns matches `output`.
   *
   * @throws ThinkPromptTimeoutError when no answer came within `timeout`
   * @throws ThinkPromptAbortedError when the submission was cancelled
   * @throws ThinkPromptSkippedError when the agent's turns were reset first
   * @throws ThinkPromptValidationError when the answer does not match `output`
   * @throws ThinkPromptNotFoundError when the agent no longer has the submission; it is not run again
   * @throws ThinkPromptError when the turn failed
   */
  prompt<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: ThinkPromptOptions<Schema>,
  ): Promise<AnswerOf<Schema>>;

  /** {@link prompt}, with what the answer has cost, and where in the ledger it is. */
  promptResult<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: ThinkPromptOptions<Schema>,
  ): Promise<PromptResult<Schema>>;
}

const promptResult =
  (callOf: CallOf, env: object): PromptSteps["promptResult"] =>
  async (name, options) =>
    runPrompt(onAgent(env, callOf(name), options?.agent), options);

export const STEPS = {
  promptResult,
  prompt:
    (callOf: CallOf, env: object): PromptSteps["prompt"] =>
    async (name, options) =>
      (await promptResult(callOf, env)(name, options)).output,
};

/** Runs the prompt to its answer, or throws how it failed. */
async function runPrompt<Schema extends AnySchema | undefined>(
  call: StepCall,
  options: ThinkPromptOptions<Schema>,
): Promise<PromptResult<Schema>> {
  const { step, name } = call;
  try {
    const { request, timeoutMs, cancelOnTimeout } = checkedPrompt(name, options);
    const { key, output, rollback } = options;
    useName(call, "prompt", key);
    const ask: WaitAsk = {
      kind: "prompt",
      key,
      request: { ...request, thinkKey: thinkKeyOf(call, key) },
      timeoutMs,
      closing: cancelOnTimeout ? { status: "expired", result: null } : undefined,
    };
    const repairs = request.answer.repair ?? 0;
    const answer = await answered(call, ask, { schema: output as Schema, repairs });
    return await compensated(step, namesOf(call, ask)("done"), answer, rollback);
  } catch (error) {
    throw namingStep(error, name, `step.prompt(${preview(name)})`);
  }
}

type Receipt = Timed<WaitReceipt<PromptEnd>>;
/** A prompt that Think has accepted, and that has ended. Its answer is not repaired. */
type ThinkEnd = Timed<{ readonly end: PromptEnd }>;

type EndedPrompt = SubmissionEnd & {
  readonly waitId: string;
  readonly askedAt: number;
  readonly isThinks: boolean;
};

/** The answer. One that only the schema refuses goes back to the model, as often as `repair` says. */
function answered<Schema extends AnySchema | undefined>(
  call: StepCall,
  first: WaitAsk,
  { schema, repairs }: { schema: Schema; repairs: number },
): Promise<PromptResult<Schema>> {
  return askUntilTaken<EndedPrompt, PromptResult<Schema>>(call, first, {
    async pass(ask) {
      const receipt = ask.again
        ? await openWait<WaitReceipt<PromptEnd>>(call, ask)
        : await submitted(call, ask);
      if (!receipt) return null;
      const end = await endOf(call, ask, receipt);
      const isThinks = !("eventType" in receipt);
      return { ...end, waitId: end.submissionId, askedAt: receipt.at, isThinks };
    },
    take: (end) => answerOf(end, schema),
    problemIn: (error, end) => refusalOf(end, error),
    isRefusal: (error) => error instanceof ThinkPromptValidationError,
    requestOf: (problem, { isThinks }) => !isThinks && { problem },
    repairs,
  });
}

async function endOf(call: StepCall, ask: WaitAsk, receipt: Receipt | ThinkEnd) {
  const end = "eventType" in receipt ? await endOfWait(call, ask, receipt) : receipt.end;
  if (end) return wholeEnd(call, namesOf(call, ask), end);
  const { waitId } = receipt as Receipt;
  throw new ThinkPromptTimeoutError(waitId, undefined, ask.timeoutMs);
}

/** Submits the prompt, or finds it submitted: by this run, by an earlier one, or by Think, whose prompt is waited for. */
async function submitted(call: StepCall, ask: WaitAsk): Promise<Receipt | ThinkEnd> {
  const given = await openWait<WaitReceipt<PromptEnd> | ThinkPromptReceipt>(call, ask);
  if (given && "eventType" in given) return given;
  if (given) {
    const end = await thinkPromptEnd(call, ask, given);
    if (end) return { end, at: given.at };
  }
  const request = { ...(ask.request as object), thinkKey: undefined };
  const again = await openWait<WaitReceipt<PromptEnd>>(call, { ...ask, request }, "resubmit");
  if (again && "eventType" in again) return again;
  throw new Error(
    `The agent has not accepted the prompt of the step ${preview(call.name)} again. Restart the workflow.`,
  );
}

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
  throw new ThinkPromptNotFoundError(
    submissionId,
    `The answer of ${reference.bytes} bytes was deleted from the agent's ledger before all of it was read. ` +
      "Keep submissions until their workflows have ended.",
  );
}

/** @throws ThinkPromptError, or the one of its kinds that says how it failed */
export async function answerOf<Schema extends AnySchema | undefined>(
  end: SubmissionEnd,
  schema: Schema,
): Promise<PromptResult<Schema>> {
  const { submissionId, status, usage, messageId, finishReason, attempts, error, errorName } = end;
  if (status === "completed") {
    const output = await outputOf(
      schema,
      schema === undefined ? String(end.output) : end.output,
      (cause) => new ThinkPromptValidationError(submissionId, cause),
    );
    return {
      output: output as AnswerOf<Schema>,
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
  const message =
    error ??
    `Think prompt ended with status ${status} and no message. Read agent.inspectSubmission(${JSON.stringify(submissionId)}).`;
  throw new ThinkPromptError(message, submissionId, status);
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

/** UTF-16 units of a problem that is sent to the model: a hundred of them are sent together. */
const MAX_PROBLEM = 4_000;

/** What is wrong with an answer that the agent accepted and the schema itself refuses; undefined for any other failure. */
export function refusalOf(
  { status }: Pick<SubmissionEnd, "status">,
  error: unknown,
): string | undefined {
  const isRefused = status === "completed" && error instanceof ThinkPromptValidationError;
  return isRefused ? error.problem.slice(0, MAX_PROBLEM) || "it does not match" : undefined;
}
