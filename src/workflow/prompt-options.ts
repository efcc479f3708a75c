/** The options and results of `step.prompt()` and `step.promptAll()`. */

import * as z from "zod";
import { type Json, preview } from "../core/json.ts";
import { count, flag, hook, list, oneOf, optionsOf, text } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import { isPlainObject } from "../core/options/options.ts";
import type { AnySchema, OutputOf } from "../core/schema/schema.ts";
import type { AnswerSpec } from "../submissions/submit-options.ts";
import type { TokenUsage } from "../submissions/types.ts";
import {
  formsOf,
  jsonFor,
  KEY,
  type Refuse,
  ROLLBACK,
  readStep,
  refusalOf,
  TIMEOUT,
} from "./options.ts";
import type { Rollback } from "./step-call.ts";
import type { PromptMessage, PromptRequest } from "./waits/kinds/prompt.ts";

export type ThinkPromptOptions<Schema extends AnySchema | undefined = undefined> =
  PromptSettings<Schema> & {
    /**
     * At most `limit` submissions with this key run at a time, across all agents of the app. Others wait. Needs `limits()`.
     * @default that of `runWorkflow()`
     */
    concurrency?: NonNullable<PromptRequest["concurrency"]>;
    /** The question: a text, or messages. */
    prompt: string | readonly PromptMessage[];
    /** Tells repeated uses of one step name apart, e.g. in a loop. */
    key?: string;
    /**
     * Whether the turn is cancelled when the time is over.
     * @default true
     */
    cancelOnTimeout?: boolean;
    /**
     * Another agent that is asked, by its binding in `env` and its name. Its class extends `DurableThink`, too.
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

/** The options that `prompt` and `promptAll` share. */
type PromptSettings<Schema extends AnySchema | undefined> = Pick<
  AnswerSpec,
  "strategy" | "models" | "maxSteps"
> &
  Pick<PromptRequest, "budget" | "retry"> & {
    /**
     * JSON that is stored with the submission, where keys of limits find the tenant. The step adds `workflow`.
     * @default that of `runWorkflow()`, key by key
     */
    metadata?: Readonly<Record<string, unknown>>;
    /**
     * Higher priorities go first in their thread, and within a key of a limit. From -100 to 100.
     * @default that of `runWorkflow()`, or 0
     */
    priority?: number;
    /**
     * Maximum submissions with this key that start in a span of time, across all agents of the app. Others wait. Needs
     * `limits()`.
     * @default that of `runWorkflow()`
     */
    rate?: NonNullable<PromptRequest["rate"]>;
    /**
     * The answer, as a schema of Zod, ArkType, Valibot (by
     * `toStandardJsonSchema()`) or any other library that says its JSON Schema.
     * @default none: the answer is the text of the reply
     */
    output?: Schema;
    /**
     * How long to wait for the answer, e.g. `"3 days"` or milliseconds, at most 365 days.
     * @default "24 hours"
     */
    timeout?: Duration;
    /**
     * The conversation that the turn is part of: `"main"`, the agent's own; a name, a conversation of its own;
     * `"isolated"`, none: the agent's model, prompt, tools and memory, and no trace in any conversation. Prompts in
     * different threads run side by side.
     * @default "main"
     */
    thread?: "main" | "isolated" | (string & {});
    /**
     * How often the model is shown what is wrong with its answer, and may give a better one. From 0 to 10, for the agent's
     * check and the schema's own together. What only the schema refuses, e.g. a refinement, is repaired in a submission of
     * its own, which goes on with the attempts and the usage of the one before. `timeout` covers all of them.
     * Without an `output`, it is how often a text that was cut off is asked for again.
     * @default 0
     */
    repair?: number;
  };

/** A prompt as the agent accepts it, and how long the step waits for it. */
export type CheckedPrompt = {
  readonly request: PromptRequest;
  readonly timeoutMs: number;
  readonly cancelOnTimeout: boolean;
};

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

export type PromptAllOptions<
  Item,
  Schema extends AnySchema | undefined,
  OnError extends "throw" | "return",
> = Omit<PromptSettings<Schema>, "thread" | "timeout"> & {
  /**
   * What the agent is asked about an item. It is called more than once, also
   * when the workflow is replayed, and has to give the same each time.
   */
  prompt: (item: Item, index: number) => string | readonly PromptMessage[];
  /**
   * Tells the items apart, over restarts and changes of their order: an
   * item whose key was answered before is not asked again.
   * @default the index as a text
   */
  key?: (item: Item, index: number) => string;
  /**
   * How many isolated turns of these run at a time, from 1 to 100; never more than
   * the agent's `maxConcurrentTurns`. In any other thread it is one. With a `key`, `limit` holds for all submissions with
   * that key, across all agents of the app. Needs `limits()`.
   * @default 4
   */
  concurrency?: number | NonNullable<PromptRequest["concurrency"]>;
  /**
   * - `"throw"`: the first failure cancels the rest and is thrown, with the item's `index` and `key`; of several, the
   *   first in the order of the items.
   * - `"return"`: all are waited for, and each is returned as {@link PromptAllSettled}.
   *
   * @default "throw"
   */
  onError?: OnError;
  /**
   * How long to wait for all of them, e.g. `"3 days"` or milliseconds, at most
   * 365 days. What has not ended by then is cancelled.
   * @default "24 hours"
   */
  timeout?: Duration;
  /**
   * The conversation that the turns are part of: `"isolated"`, none; `"main"`,
   * the agent's own, or a name: one after the other there, among its other turns.
   * @default "isolated"
   */
  thread?: NonNullable<PromptSettings<Schema>["thread"]>;
};

/** How one of the items has come out; plain data, so that it can be the result of a step. */
export type PromptAllSettled<Value> =
  | { status: "fulfilled"; value: Value; key: string }
  | {
      status: "rejected";
      /** The error that `step.prompt()` would have thrown. */
      reason: { name: string; message: string; submissionId: string };
      key: string;
    };

/** What {@link PromptAllOptions} make of the items, in their order. */
export type PromptAllResults<
  Schema extends AnySchema | undefined,
  OnError extends "throw" | "return",
> = OnError extends "return" ? PromptAllSettled<AnswerOf<Schema>>[] : AnswerOf<Schema>[];

/** The options that all prompts have in common. */
const SETTINGS = {
  output: z.unknown().optional(),
  timeout: TIMEOUT,
  thread: text()
    .refine((thread) => thread.trim() !== "" && !thread.startsWith("isolated/"), {
      error: 'expected a non-empty string that does not begin with "isolated/"',
    })
    .optional(),
  metadata: z
    .custom<Readonly<Record<string, unknown>>>(isPlainObject, {
      error: "expected an object",
      abort: true,
    })
    .refine((metadata) => !("workflow" in metadata), {
      error: "expected no key workflow, which the step sets",
    })
    .optional(),
  // The agent validates these.
  priority: z.custom<number>().optional(),
  rate: z.custom<NonNullable<PromptRequest["rate"]>>().optional(),
  strategy: z.unknown().optional(),
  repair: z.unknown().optional(),
  retry: z.unknown().optional(),
  models: z.unknown().optional(),
  budget: z.unknown().optional(),
  maxSteps: z.unknown().optional(),
};

/** The question of a prompt: a text, or messages. */
const ASKED = z.custom<string | readonly PromptMessage[]>(
  (asked) =>
    typeof asked === "string"
      ? asked.trim() !== ""
      : Array.isArray(asked) && asked.length > 0 && asked.every(isMessage),
  { error: "expected a non-empty string, or a list of messages with role and parts" },
);

const PROMPT = optionsOf<ThinkPromptOptions<AnySchema | undefined>>()({
  prompt: ASKED,
  key: KEY,
  agent: z.unknown().optional(),
  rollback: ROLLBACK,
  cancelOnTimeout: flag().default(true),
  // The agent validates it.
  concurrency: z.custom<NonNullable<PromptRequest["concurrency"]>>().optional(),
  ...SETTINGS,
});

/** @throws NonRetryableError for an invalid option */
export function checkedPrompt<Schema extends AnySchema | undefined>(
  name: string,
  options: ThinkPromptOptions<Schema>,
): CheckedPrompt {
  const refuse = refusalOf("prompt", name);
  const read = readStep(PROMPT, options, refuse);
  const { timeout: timeoutMs, cancelOnTimeout, concurrency } = read;
  const request = {
    ...settingsOf(read, refuse),
    ...(concurrency && { concurrency }),
    messages: messagesOf(read.prompt),
  };
  return { request, timeoutMs, cancelOnTimeout };
}

/** The options of prompts, without their messages. */
function settingsOf(
  {
    output,
    strategy,
    thread,
    budget,
    retry,
    metadata,
    priority,
    rate,
    ...rest
  }: Omit<PromptSettings<AnySchema | undefined>, "timeout">,
  refuse: Refuse,
): Omit<PromptRequest, "messages"> {
  if (output === undefined && strategy !== undefined) {
    throw refuse(
      `Invalid strategy ${preview(strategy)}: expected no strategy for a text answer. Leave it out, or pass an output.`,
    );
  }
  const { repair, models, maxSteps } = rest;
  return {
    answer: {
      ...(output !== undefined && formsOf("output", output, refuse)),
      ...(strategy !== undefined && { strategy }),
      ...(repair !== undefined && { repair }),
      ...(models !== undefined && { models }),
      ...(maxSteps !== undefined && { maxSteps }),
    },
    ...(thread !== undefined && { thread }),
    ...(budget && { budget }),
    ...(retry && { retry }),
    ...(metadata && {
      metadata: jsonFor("metadata", metadata, Number.POSITIVE_INFINITY, refuse) as {
        [name: string]: Json;
      },
    }),
    ...(priority !== undefined && { priority }),
    ...(rate && { rate }),
  };
}

/** A prompt as messages. */
function messagesOf(prompt: string | readonly PromptMessage[]): readonly PromptMessage[] {
  if (typeof prompt !== "string") return prompt;
  return [{ role: "user", parts: [{ type: "text", text: prompt }] }];
}

function isMessage(said: Partial<PromptMessage> | null): boolean {
  return typeof said?.role === "string" && Array.isArray(said.parts);
}

/** The same options, where the types of one call do not matter. */
export type AnyOptions = PromptAllOptions<unknown, AnySchema | undefined, "throw" | "return">;

const MAX_ITEMS = 10_000;

const PROMPT_ALL = optionsOf<AnyOptions>()({
  prompt: hook(),
  key: hook().optional(),
  // The agent validates that of a key.
  concurrency: z
    .union(
      [count({ max: 100 }), z.custom<NonNullable<PromptRequest["concurrency"]>>(isPlainObject)],
      {
        error: "expected a whole number from 1 to 100, or an object with key and limit",
      },
    )
    .default(4),
  onError: oneOf(["throw", "return"]).default("throw"),
  ...SETTINGS,
});

/** A batch as it can be submitted. */
export type CheckedBatch = ReturnType<typeof checkedBatch>;

/** @throws NonRetryableError for an invalid option, item or key */
export function checkedBatch(name: string, items: readonly unknown[], options: AnyOptions) {
  const refuse = refusalOf("promptAll", name);
  readStep(list(z.unknown(), { max: MAX_ITEMS }), items, refuse, "items");
  const read = readStep(PROMPT_ALL, options, refuse);
  const { prompt, key = (_, index) => String(index), concurrency, onError } = read;
  const promptOf = (index: number) =>
    messagesOf(readStep(ASKED, prompt(items[index], index), refuse, `prompt of item ${index}`));
  for (const index of items.keys()) promptOf(index);
  return {
    request: { ...settingsOf(read, refuse), concurrency },
    timeoutMs: read.timeout,
    failsFast: onError === "throw",
    schema: options.output,
    keys: checkedKeys(
      items.map((item, index) => key(item, index)),
      refuse,
    ),
    promptOf,
  };
}

function checkedKeys(keys: readonly string[], refuse: Refuse): readonly string[] {
  const indexes = new Map<string, number>();
  for (const [index, key] of keys.entries()) {
    readStep(text({ empty: true }), key, refuse, `key of item ${index}`);
    const first = indexes.get(key);
    if (first !== undefined) {
      const both = `key ${preview(key)} of the items ${first} and ${index}`;
      throw refuse(`Invalid ${both}: expected a different key for each item.`);
    }
    indexes.set(key, index);
  }
  return keys;
}
