/** What can be asked of `step.prompt()`, checked before anything is stored. Pure. */

import { preview } from "../core/json.ts";
import { type AnySchema, type JsonForms, jsonFormsOf } from "../core/schema.ts";
import type { AnswerSpec, AnswerStrategy } from "../submissions/types.ts";
import type { PromptMessage, PromptRequest } from "../waits/kinds/prompt.ts";
import type { PromptResult } from "./prompt-answer.ts";
import {
  checkRollback,
  checkText,
  invalidStep,
  type Rollback,
  timeoutMsOf,
  type WaitTimeout,
} from "./step-call.ts";

export type ThinkPromptOptions<Schema extends AnySchema | undefined = undefined> =
  PromptSettings<Schema> & {
    /** What the agent is asked: a text, or messages. */
    prompt: string | readonly PromptMessage[];
    /** Tells repeated uses of one step name apart, e.g. in a loop (W1). */
    key?: string;
    /**
     * Whether the turn is cancelled when the time is over.
     * @default true
     */
    cancelOnTimeout?: boolean;
    /**
     * Another agent that is asked, by its binding in `env` and its name. Its
     * class extends `DurableThink`, too.
     * @default the agent that started the workflow
     */
    agent?: PromptTarget;
    /**
     * Undoes what came of the answer, when the workflow fails later or is terminated with `rollback: true`. May be called
     * again when it throws; `this.agent` can be used in it, and no step.
     * @default none
     */
    rollback?: Rollback<PromptResult<Schema>>;
  };

/** An agent that is bound in `env`. */
export type PromptTarget = {
  /** The binding of its namespace. */
  readonly binding: string;
  readonly name: string;
};

/** What all prompts have in common, one or many. */
export type PromptSettings<Schema extends AnySchema | undefined> = {
  /**
   * The answer, as a schema of Zod, ArkType, Valibot (by
   * `toStandardJsonSchema()`) or any other library that says its JSON Schema (W4).
   * @default none: the answer is the text of the reply
   */
  output?: Schema;
  /**
   * How long to wait for the answer, e.g. `"3 days"` or milliseconds, at most 365 days.
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
  /**
   * How an answer with a schema is asked for: `"tool"`, by a forced call of a
   * tool; `"json"`, as the text of the reply; `"auto"`, by the tool, and as
   * text where the model or its provider does without it.
   * @default "auto"
   */
  strategy?: AnswerStrategy;
  /**
   * How often the model is shown what is wrong with its answer, and may give a better one. From 0 to 10, for the agent's
   * check and the schema's own together. What only the schema refuses, e.g. a refinement, is repaired in a submission of
   * its own, which goes on with the attempts and the usage of the one before. `timeout` covers all of them.
   * Without an `output`, it is how often a text that was cut off is asked for again.
   * @default 0
   */
  repair?: number;
  /**
   * How often the turn is attempted after crashes and failures of the model, and when not (L6, L8).
   * @default what the agent is constructed with: 5 attempts in all, none after a tool has run
   */
  retry?: NonNullable<PromptRequest["retry"]>;
  /**
   * Ids of models, the first choice first: each is asked when the one before it has failed. The agent's
   * `resolveModel(id)` makes a model of each, as of an id that `getModel()` returns.
   * @default the agent's own model
   */
  models?: readonly string[];
  /** Tokens that the turn may use, over all its attempts. */
  budget?: NonNullable<PromptRequest["budget"]>;
  /** Calls of the model at most, in one attempt. One that answers by a tool after it has used another takes two. */
  maxSteps?: number;
};

/** A prompt as the agent takes it, and how long it is waited for. */
export type CheckedPrompt = {
  readonly request: Pick<PromptRequest, "messages"> & CheckedSettings["request"];
  readonly timeoutMs: number;
  readonly cancelOnTimeout: boolean;
};

export type CheckedSettings = {
  readonly request: Pick<PromptRequest, "answer" | "thread" | "budget" | "retry">;
  readonly timeoutMs: number;
};

const NAMES = [
  "output",
  "timeout",
  "thread",
  "strategy",
  "repair",
  "retry",
  "models",
  "budget",
  "maxSteps",
] as const satisfies readonly (keyof PromptSettings<AnySchema>)[];

const PROMPT_NAMES = ["prompt", "key", "agent", "rollback", "cancelOnTimeout"];

/** @throws NonRetryableError for what cannot be meant: neither a retry nor another run could make it right */
export function checkedPrompt<Schema extends AnySchema | undefined>(
  name: string,
  {
    prompt,
    key,
    agent: _agent,
    rollback,
    cancelOnTimeout = true,
    ...settings
  }: ThinkPromptOptions<Schema>,
): CheckedPrompt {
  checkText("prompt", name, "key", key);
  if (typeof cancelOnTimeout !== "boolean") {
    const got = `got ${preview(cancelOnTimeout)} as cancelOnTimeout`;
    throw invalidStep("prompt", name, `${got}; expected true or false.`);
  }
  checkRollback("prompt", name, rollback);
  const checked = checkedSettings("prompt", name, settings, PROMPT_NAMES);
  return {
    ...checked,
    cancelOnTimeout,
    request: { ...checked.request, messages: messagesOf("prompt", name, prompt) },
  };
}

/**
 * @param others what the step can be told beside these, for the message about what is neither
 * @throws NonRetryableError
 */
export function checkedSettings(
  kind: string,
  name: string,
  settings: PromptSettings<AnySchema | undefined>,
  others: readonly string[],
): CheckedSettings {
  const unknown = Object.keys(settings).find(
    (option) => !(NAMES as readonly string[]).includes(option),
  );
  if (unknown !== undefined) {
    const known = [...others, ...NAMES].map((option) => `"${option}"`).join(", ");
    throw invalidStep(kind, name, `got an unknown option ${preview(unknown)}; there are ${known}.`);
  }
  const { thread, timeout, budget, retry } = settings;
  const isThread = typeof thread === "string" && thread.trim() !== "";
  if (thread !== undefined && (!isThread || thread.startsWith("isolated/"))) {
    const expected = 'a non-empty string that does not begin with "isolated/"';
    throw invalidStep(kind, name, `got ${preview(thread)} as thread; expected ${expected}.`);
  }
  checkText(kind, name, "thread", thread);
  return {
    request: {
      answer: answerSpecOf(kind, name, settings),
      ...(thread !== undefined && { thread }),
      ...(budget && { budget }),
      ...(retry && { retry }),
    },
    timeoutMs: timeoutMsOf(kind, name, timeout),
  };
}

/** @throws NonRetryableError for what is neither a text nor messages */
export function messagesOf(
  kind: string,
  name: string,
  prompt: unknown,
  what = "prompt",
): PromptMessage[] {
  const isText = typeof prompt === "string" && prompt.trim() !== "";
  if (isText) return [{ role: "user", parts: [{ type: "text", text: prompt }] }];
  if (Array.isArray(prompt) && prompt.length > 0 && prompt.every(isMessage)) return prompt;
  throw invalidStep(
    kind,
    name,
    `got ${preview(prompt)} as ${what}; expected a non-empty string, or a list of messages with role and parts.`,
  );
}

function isMessage(said: Partial<PromptMessage> | null): said is PromptMessage {
  return typeof said?.role === "string" && Array.isArray(said.parts);
}

function answerSpecOf(
  kind: string,
  name: string,
  { output, strategy, repair, models, maxSteps }: PromptSettings<AnySchema | undefined>,
): AnswerSpec {
  if (output === undefined && strategy !== undefined) {
    const problem = `got ${preview(strategy)} as strategy without an output schema`;
    throw invalidStep(
      kind,
      name,
      `${problem}, which a text does not need. Leave it out, or give it an output.`,
    );
  }
  return {
    ...(output !== undefined && schemaOf(kind, name, output)),
    ...(strategy !== undefined && { strategy }),
    ...(repair !== undefined && { repair }),
    ...(models !== undefined && { models }),
    ...(maxSteps !== undefined && { maxSteps }),
  };
}

function schemaOf(kind: string, name: string, output: AnySchema): JsonForms {
  try {
    return jsonFormsOf(output);
  } catch (error) {
    throw invalidStep(
      kind,
      name,
      `got an output schema that has no JSON Schema form: ${error instanceof Error ? error.message : String(error)}. ` +
        "Use a type that JSON has, and convert it in the schema or afterwards: e.g. z.coerce.date(), " +
        '"string.date.parse" of ArkType, or v.pipe(v.string(), v.transform(...)) of Valibot.',
    );
  }
}
