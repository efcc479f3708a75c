/** What a caller submits: the options of a submission, and the answer that its turn has to give. Types only. */

import type { UIMessage } from "ai";
import type { Instant } from "../core/options/instant.ts";
import type { Duration } from "../core/options/options.ts";
import type { AnySchema } from "../core/schema/schema.ts";
import type { Destination } from "../outbox/destinations/index.ts";

/** The answer that a turn has to give, and how it is asked for. */
export type AnswerSpec = {
  /** JSON Schema of the answer. Without it, the answer is the text of the reply after its last tool call. */
  readonly schema?: object;
  /**
   * JSON Schema that checks the answer, where `schema` is stricter than the caller's own validation.
   * @default `schema`
   */
  readonly check?: object;
  /**
   * How an answer with a schema is asked for:
   * - `"tool"` makes the model call a tool with it;
   * - `"json"` asks for it as the text of the reply;
   * - `"auto"` begins with the tool, also accepts a matching text, and asks for a text where the model or its provider does not
   *   use the tool.
   *
   * @default "auto"
   */
  readonly strategy?: AnswerStrategy;
  /**
   * How often the model may repair an answer that does not match, or a text that was cut off. Each repair is an attempt.
   * @default 0
   */
  readonly repair?: number;
  /**
   * Ids of models, in order of preference. When one fails, the next is asked at once; after the last, `retry` applies. The
   * agent's `resolveModel(id)` makes a model of each, as of an id that `getModel()` returns.
   * @default the agent's own model
   */
  readonly models?: readonly string[];
  /**
   * Model calls at most in one attempt; the last one has to answer. An answer by a tool after another tool takes two.
   * @default the limit of the agent
   */
  readonly maxSteps?: number;
};

export type AnswerStrategy = "auto" | "tool" | "json";

/**
 * A JSON Schema, e.g. that of `jsonSchemaOf()`. It travels over RPC, where a schema object does not. The type of a stub drops
 * `object`, so the second form is for literals there.
 */
export type JsonSchema =
  | (object & { readonly "~standard"?: never })
  | { readonly [keyword: string]: unknown; readonly "~standard"?: never };

/** A schema of Zod, ArkType, Valibot or any Standard Schema library, or a JSON Schema. */
export type OutputSchema = AnySchema | JsonSchema;

export interface SubmitMessagesOptions<
  Schema extends OutputSchema | undefined = OutputSchema | undefined,
> {
  /**
   * Schema of the output: the submission ends with a matching `output`, or with `error`. Its JSON Schema is stored, so that it
   * applies after a restart as well.
   * @default none: `output` is the text of the reply after its last tool call
   */
  output?: Schema;
  /**
   * How an output with a schema is asked for, see {@link AnswerSpec}.
   * @default "auto"
   */
  strategy?: AnswerStrategy;
  /**
   * How often the model may repair an output that does not match, from 0 to 10.
   * @default 0
   */
  repair?: number;
  /** Your own id for the submission; by default a random one. */
  submissionId?: string;
  /** The same key is accepted once: a repetition returns the first submission, as long as that is kept. */
  idempotencyKey?: string;
  /** The turn starts at this time at the earliest. It does not block other submissions until then. */
  notBefore?: Instant;
  /**
   * A turn that has not started within this time is skipped when its turn comes. Must end after `notBefore`.
   * @default never
   */
  expiresIn?: Duration;
  /**
   * Repeated submissions become one turn, with the latest messages, metadata and `expiresIn`, all destinations, and the other
   * options of the first. Excludes `idempotencyKey`, `submissionId`, `notBefore` and a `whenBusy` other than `"enqueue"`.
   */
  debounce?: Debounce;
  /**
   * Higher priorities go first, from -100 to 100. Equal ones run in the order of acceptance.
   * @default 0
   */
  priority?: number;
  /** JSON that stays readable with the submission. */
  metadata?: Record<string, unknown>;
  /** Channel id of the turn. Only in the main thread. */
  channel?: string;
  /**
   * The conversation that the turn is part of:
   * - `"main"` is the agent's own;
   * - any other name is a conversation of its own, kept on the agent;
   * - `"isolated"` is none: the turn has the agent's model, prompt, tools and memory, and adds to no conversation.
   *
   * Turns of a thread run one after the other. Threads run in parallel.
   * @default "main"
   */
  thread?: "main" | "isolated" | (string & {});
  /**
   * What happens for a known key or id with different messages: `"return"` returns the first submission with
   * `conflict: true`, `"throw"` throws {@link IdempotencyConflictError}.
   * @default "return"
   */
  onConflict?: "return" | "throw";
  /**
   * What happens when the thread has another open submission:
   * - `"enqueue"` waits for its turn;
   * - `"reject"` throws {@link BusyError}, and nothing is stored;
   * - `"interrupt"` cancels the running turn and goes next; the partial answer stays in the conversation;
   * - `"rollback"` does the same, and removes the messages and the partial answer of the cancelled turn;
   * - `"steer"` joins the running turn at its next model call, and ends with it (`mergedInto`). If there is no further call, it
   *   goes next.
   *
   * An isolated turn accepts `"enqueue"` only.
   * @default "enqueue"
   */
  whenBusy?: WhenBusy;
  /**
   * Destinations to notify of the end, one or a list. They receive a `SubmissionEvent`. Make them with `webhook()`,
   * `queue()`, `method()`, `agent()` or `workflowEvent()` of `perdure/outbox`. The end and its notifications commit atomically.
   * `arrival.reply` of `perdure/webhooks`, and `slack()`, `discord()`, `telegram()`, `githubComment()` and `email()` of
   * `perdure/replies`, send the output as text, and one sentence for a submission without output. Undefined ones are left out.
   * @default none
   */
  notify?: Destination | readonly (Destination | undefined)[] | undefined;
  /**
   * The W3C trace context of the caller, e.g. the `traceparent` header of the request that it answers: the submission's spans
   * belong to that trace.
   * @default a trace of its own
   */
  traceparent?: string;
  /** Limits of what the turn uses, over all attempts. */
  budget?: {
    /** Tokens. When they are used up, the submission ends with {@link BudgetExceededError} before the next model call. */
    tokens?: number;
    /**
     * Dollars. The submission ends with a `BudgetExceededError` before a model call that could cost more than is left. Needs
     * `limits()` with prices.
     */
    usd?: number;
  };
  /**
   * At most `limit` submissions with this key run at a time, across all agents of the app. Others wait. Needs `limits()`.
   * @example { key: "customer-7", limit: 2 }
   */
  concurrency?: { key: string; limit: number };
  /**
   * At most so many submissions with this key start in a span of time, across all agents of the app. Others wait. Needs
   * `limits()`.
   * @example { key: "customer-7", limit: "10 per minute" }
   */
  rate?: { key: string; limit: `${string} per ${"second" | "minute" | "hour" | "day" | "month"}` };
  /**
   * What happens where another submission with the key of `concurrency` runs or waits: `"replace"` ends the older one with a
   * `SubmissionReplacedError`, `"skip"` ends this one with a `SubmissionSkippedError`.
   * @default none: it waits
   */
  singleton?: "replace" | "skip";
  /** How often the turn is attempted, and whether after side effects. */
  retry?: {
    /**
     * Attempts in all, after crashes and transient failures: a whole number from 1. Repairs and attempts with another model
     * are not counted.
     * @default 5
     */
    maxAttempts?: number;
    /**
     * What happens after a crash or a transient failure of a turn whose tools have run. `"fail"` ends the
     * submission. Otherwise the turn continues, and finished calls are answered from their records. With `"tell"`, a call
     * without a result is not run again and the model gets a tool error; with `"repeat"` it runs again.
     * @default "tell"
     */
    afterSideEffects?: "tell" | "fail" | "repeat";
  };
}

/** Options of whoever a turn runs for: they decide which limits it counts against, and when it starts. */
export type OwnerOptions = Pick<
  SubmitMessagesOptions,
  "metadata" | "priority" | "concurrency" | "rate"
>;

/** One of the submissions of `submitMany()`. */
export type SubmitItem = {
  readonly messages: UIMessage[];
  readonly options?: SubmitMessagesOptions | undefined;
};

export type WhenBusy = "enqueue" | "reject" | "interrupt" | "rollback" | "steer";

export type Debounce = {
  /** Submissions with the same key are repetitions, within a thread. */
  key: string;
  /** The turn starts when no repetition has come for this time. */
  delay: Duration;
  /** How long repetitions can delay the turn, from the first one on; by default ten times the delay. */
  maxDelay?: Duration;
};

/** Options for Perdure's own modules. */
export type InternalSubmitOptions = Omit<SubmitMessagesOptions, "notify"> & {
  /** In place of `output`, `strategy` and `repair`. */
  readonly answer?: AnswerSpec;
  /** Destinations, or what makes them once the id is known. */
  readonly notify?:
    | Destination
    | readonly (Destination | undefined)[]
    | ((submissionId: string) => readonly Destination[])
    | undefined;
  /** The run of the workflow that asks. A failure of an earlier run does not answer this one: a new submission takes its key. */
  readonly run?: string;
  /** Its batch of prompts, and how many of those run at a time. */
  readonly batch?: { readonly id: string; readonly concurrency: number };
};
