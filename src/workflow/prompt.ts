/**
 * `step.prompt()`: submit, wait, validate. Each part is a step of the
 * platform, so that a replay finds it done; the ledger answers whatever the
 * platform has forgotten (W1, W2), or has no room for (O4).
 */

import { NonRetryableError } from "cloudflare:workflows";
import type { AgentWorkflowStep } from "agents/workflows";
import { toJSONSchema, type ZodObject, type z } from "zod";
import type { Json } from "../core/json.ts";
import type { Delivery, ReferencedDelivery } from "../outbox/types.ts";
import type {
  AnswerPart,
  PromptEnd,
  PromptReceipt,
  PromptRequest,
  SubmissionEnd,
  SubmissionEvent,
} from "../submissions/types.ts";
import {
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
} from "./errors.ts";
import { promptKey, promptStepName } from "./names.ts";

export type ThinkPromptOptions<Schema extends ZodObject> = {
  /** What the agent is asked. */
  prompt: string;
  /** The answer: a Zod object schema that has a JSON Schema form (W4). */
  output: Schema;
  /**
   * How long to wait for the answer, e.g. `"3 days"` or milliseconds.
   * @default "24 hours"
   */
  timeout?: WaitTimeout;
  /**
   * The conversation that the turn is part of: `"main"`, the agent's own; a
   * name, a conversation of its own; `"isolated"`, none: the agent's model,
   * prompt, tools and memory, and no trace in any conversation. Prompts in
   * different threads run side by side.
   * @default "main"
   */
  thread?: "main" | "isolated" | (string & {});
  /** Tells repeated uses of one step name apart, e.g. in a loop (W1). */
  key?: string;
  /**
   * Whether the turn is cancelled when the time is over.
   * @default true
   */
  cancelOnTimeout?: boolean;
};

/** What an agent offers to `step.prompt()`. */
export interface PromptableAgent {
  acceptPrompt(request: PromptRequest): Promise<PromptReceipt>;
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<PromptEnd | null>;
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null>;
}

/** One prompt of one run of a workflow. */
export type PromptCall<Schema extends ZodObject> = {
  readonly step: AgentWorkflowStep;
  /** Asked anew for each attempt: a stub stays broken when its agent went down. */
  readonly agent: () => PromptableAgent;
  readonly workflowName: string;
  readonly workflowId: string;
  /** Identifies this run of the workflow; a restart has another one (W1). */
  readonly run: () => Promise<string>;
  readonly name: string;
  readonly options: ThinkPromptOptions<Schema>;
};

/**
 * A call of the agent fails when a deploy or a crash takes the agent down in
 * the middle of it. It is idempotent, and the agent is back in a moment.
 */
const AGENT_CALL_RETRIES = { limit: 12, delay: 500, backoff: "exponential" } as const;

type WaitTimeout = NonNullable<Parameters<AgentWorkflowStep["waitForEvent"]>[1]["timeout"]>;

/** Runs the prompt to its answer, or throws how it failed. */
export async function runPrompt<Schema extends ZodObject>(
  call: PromptCall<Schema>,
): Promise<z.infer<Schema>> {
  const { name, options } = call;
  const schema = schemaOf(name, options);
  const identity = { ...call, stepName: name, key: options.key };
  const request = {
    idempotencyKey: await promptKey(identity),
    run: await call.run(),
    workflow: { name: call.workflowName, id: call.workflowId, stepName: name },
    prompt: options.prompt,
    schema,
    ...(options.thread !== undefined && { thread: options.thread }),
  };
  const receipt = await durably(call.step, await promptStepName(identity, "submit"), () =>
    call.agent().acceptPrompt(request),
  );
  const end = receipt.end ?? (await waitForEnd(call, receipt));
  return answerOf(await whole(call, end), options.output);
}

async function waitForEnd<Schema extends ZodObject>(
  { step, agent, name, options }: PromptCall<Schema>,
  { submissionId, eventType }: PromptReceipt,
): Promise<PromptEnd> {
  const { timeout, key, cancelOnTimeout: cancel = true } = options;
  const names = { stepName: name, key };
  try {
    const event = await step.waitForEvent(await promptStepName(names, "wait"), {
      type: eventType,
      ...(timeout !== undefined && { timeout }),
    });
    const delivery = plain(event.payload as Delivery<SubmissionEvent> | ReferencedDelivery);
    if ("event" in delivery) return delivery.event.data;
    // Only an answer makes an end that large.
    return { submissionId, status: "completed", reference: delivery.reference };
  } catch (error) {
    if (!isTimeout(error)) throw error;
    const end = await durably(step, await promptStepName(names, "expire"), () =>
      agent().expirePrompt(submissionId, { cancel }),
    );
    if (end) return end;
    throw new ThinkPromptTimeoutError(submissionId, error);
  }
}

/** Fetches an answer that came as a reference, each part in a step of its own, which its result can hold (O4). */
async function whole<Schema extends ZodObject>(
  { step, agent, name, options }: PromptCall<Schema>,
  end: PromptEnd,
): Promise<SubmissionEnd> {
  if (!("reference" in end)) return end;
  const { submissionId, status, reference } = end;
  const texts: string[] = [];
  for (let parts = 1; texts.length < parts; ) {
    const part = texts.length;
    const stepName = await promptStepName({ stepName: name, key: options.key }, `answer-${part}`);
    const read = await durably(step, stepName, () => agent().readPrompt(submissionId, part));
    if (!read) {
      const what = `The answer of ${reference.bytes} bytes, of which part ${part} was to be read,`;
      const why =
        "was deleted from the agent's ledger. Keep submissions until their workflows have ended.";
      throw new ThinkPromptError(`${what} ${why}`, submissionId, status);
    }
    texts.push(read.text);
    parts = read.parts;
  }
  return { submissionId, status, output: JSON.parse(texts.join("")) as Json };
}

function answerOf<Schema extends ZodObject>(end: SubmissionEnd, schema: Schema): z.infer<Schema> {
  const { submissionId, status, error, errorName } = end;
  if (status === "completed") {
    const parsed = schema.safeParse(end.output);
    if (parsed.success) return parsed.data;
    throw new ThinkPromptValidationError(submissionId, parsed.error);
  }
  if (status === "aborted") throw new ThinkPromptAbortedError(submissionId, error);
  if (status === "skipped") throw new ThinkPromptSkippedError(submissionId, error);
  if (errorName === "InvalidAnswerError") {
    throw new ThinkPromptValidationError(submissionId, new Error(error));
  }
  throw new ThinkPromptError(error ?? "Think prompt ended with an error", submissionId, status);
}

/** Checked before anything is stored: neither a retry nor another run could make it right. */
function schemaOf<Schema extends ZodObject>(
  name: string,
  { prompt, output, thread = "main", timeout = 1 }: ThinkPromptOptions<Schema>,
): object {
  if (!isLength(timeout)) {
    throw new NonRetryableError(
      `step.prompt(${JSON.stringify(name)}) got ${JSON.stringify(timeout)} as timeout; ` +
        'expected a positive number of milliseconds, or a text such as "30 minutes" or "3 days".',
      "InvalidPromptError",
    );
  }
  for (const [option, text] of Object.entries({ prompt, thread })) {
    if (typeof text === "string" && text.trim() !== "") continue;
    throw new NonRetryableError(
      `step.prompt(${JSON.stringify(name)}) got ${JSON.stringify(text)} as ${option}; expected a non-empty string.`,
      "InvalidPromptError",
    );
  }
  try {
    return toJSONSchema(output);
  } catch (error) {
    throw new NonRetryableError(
      `The output schema of step.prompt(${JSON.stringify(name)}) has no JSON Schema form: ` +
        `${error instanceof Error ? error.message : String(error)}. ` +
        "Use types that JSON has (no Date, bigint, transform or custom), and convert the answer afterwards.",
      "InvalidPromptError",
    );
  }
}

/** The platform takes a text that it does not understand for milliseconds. */
function isLength(timeout: unknown): boolean {
  if (typeof timeout === "number") return timeout > 0;
  const form = /^\d+(\.\d+)? (second|minute|hour|day|week|month|year)s?$/;
  return typeof timeout === "string" && form.test(timeout);
}

/** The platform tells a timeout by its name, or where an error lost that, by its message. */
function isTimeout(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === "WorkflowTimeoutError" || /timed out/i.test(error.message))
  );
}

/** `step.do()` for what the agent returns: JSON, though its type has an `unknown` that the platform's type refuses. */
function durably<T>(step: AgentWorkflowStep, name: string, work: () => Promise<T>): Promise<T> {
  const done = async () => plain(await work()) as never;
  return step.do(name, { retries: AGENT_CALL_RETRIES }, done) as Promise<T>;
}

/** A copy without the remote handle that an RPC result carries, which would outlive its call. */
function plain<T>(result: T): T {
  try {
    return structuredClone(result);
  } finally {
    (result as Partial<Disposable> | null)?.[Symbol.dispose]?.();
  }
}
