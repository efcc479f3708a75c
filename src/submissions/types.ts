/** The words of the ledger: what is submitted, what is reported, and what can be asked. */

import type { UIMessage } from "ai";
import type { Duration } from "../core/duration.ts";
import type { Instant } from "../core/instant.ts";
import type { Json } from "../core/json.ts";
import type { AnySchema, InputOf } from "../core/schema.ts";
import type { Destination } from "../outbox/types.ts";
import type { SubmissionStatus, TerminalStatus } from "./states.ts";

/** An answer that the turn has to end with, and how it is asked for. */
export type AnswerSpec = {
  /** JSON Schema of the answer. Without it the answer is the text of the reply, after its last call of a tool. */
  readonly schema?: object;
  /**
   * JSON Schema that an answer is checked by, where `schema` refuses answers that its author takes.
   * @default `schema`
   */
  readonly check?: object;
  /**
   * How an answer with a schema is asked for:
   * - `"tool"` makes the model call a tool with it;
   * - `"json"` asks for it as the text of the reply;
   * - `"auto"` begins with the tool, takes a text that is the answer, too, and
   *   asks for a text where the model or its provider does without the tool.
   *
   * @default "auto"
   */
  readonly strategy?: AnswerStrategy;
  /**
   * How often the model is shown what is wrong with its answer (or that its text was cut off), and may give a
   * better one; each time is an attempt of the submission (W4).
   * @default 0
   */
  readonly repair?: number;
  /** Ids of models, the first choice first; each is asked at once when the one before it has failed, then `retry` holds. */
  readonly models?: readonly string[];
  /** Calls of the model at most, in one attempt, of which the last one has to answer; the agent's own where it is left out. */
  readonly maxSteps?: number;
};

export type AnswerStrategy = "auto" | "tool" | "json";

/** A JSON Schema, e.g. that of `jsonSchemaOf()`. It travels over RPC, where a schema object does not. */
export type JsonSchema = object & { readonly "~standard"?: never };

/** What an output is asked for by: a schema of Zod, ArkType, Valibot or any Standard Schema library, or a JSON Schema. */
export type OutputSchema = AnySchema | JsonSchema;

/**
 * The type of `output`: what the schema takes, any JSON for a JSON Schema, the text of the reply without one. What the schema
 * makes of it, with its defaults and transforms, is what `readOutput()` returns.
 */
export type SubmissionOutput<Schema extends OutputSchema | undefined> = Schema extends AnySchema
  ? unknown extends InputOf<Schema>
    ? Json
    : InputOf<Schema>
  : Schema extends undefined
    ? string
    : Json;

/** The id of a submission, a string, that knows the type of its output. Any string is one, of an output that is any JSON. */
export type SubmissionRef<Output = Json> = string & { readonly "~output"?: Output };

/** The type of the output of the submission with this id: any JSON where the id does not know it. */
export type OutputOfRef<Ref extends string> =
  Ref extends SubmissionRef<infer Output> ? (unknown extends Output ? Json : Output) : Json;

export type SubmitMessagesOptions<
  Schema extends OutputSchema | undefined = OutputSchema | undefined,
> = {
  /**
   * What the turn has to answer: the submission ends with an `output` that matches, or as `error`. Its JSON Schema is stored
   * with the submission, and checks the output after a restart, too.
   * @default none: `output` is the text of the reply, after its last call of a tool
   */
  output?: Schema;
  /**
   * How an output with a schema is asked for, see {@link AnswerSpec}.
   * @default "auto"
   */
  strategy?: AnswerStrategy;
  /**
   * How often the model is shown what is wrong with its output, and may give a better one, from 0 to 10.
   * @default 0
   */
  repair?: number;
  /**
   * Your own id for the submission.
   * @default a random one
   */
  submissionId?: string;
  /** The same key is accepted once: a repetition returns the first submission (L3). */
  idempotencyKey?: string;
  /**
   * How long the key stands for this submission, from now on; after that it is
   * free for another one.
   * @default as long as the submission is kept
   */
  idempotencyKeyTtl?: Duration;
  /** Not before this time; it waits outside the line until then, and keeps nobody up. */
  notBefore?: Instant;
  /**
   * Not later than so long from now: a turn that has not started by then is
   * skipped, when it comes to it. Has to be later than `notBefore`.
   * @default never
   */
  expiresIn?: Duration;
  /**
   * Repetitions within a while become one turn: the latest messages, metadata
   * and `expiresIn`, once nothing has come for the delay; all that were to be
   * notified are; other options are those of the first. Not together with `idempotencyKey`,
   * `submissionId`, `notBefore` or a `whenBusy` other than `"enqueue"`.
   */
  debounce?: Debounce;
  /**
   * Higher ones go first, from -100 to 100; among equals the order is that of acceptance (L4).
   * @default 0
   */
  priority?: number;
  /** Anything JSON that should stay readable with the submission. */
  metadata?: Record<string, unknown>;
  /** Channel id that the turn belongs to; only of the main thread. */
  channel?: string;
  /**
   * The conversation that the turn is part of:
   * - `"main"` is the agent's own;
   * - any other name is a conversation of its own, kept on the agent;
   * - `"isolated"` is none: the turn has the agent's model, prompt, tools and
   *   memory, and leaves no trace in any conversation.
   *
   * Within a thread turns go one after the other, threads side by side (L4).
   * @default "main"
   */
  thread?: "main" | "isolated" | (string & {});
  /**
   * What a known key or id with different messages does: `"return"` hands out
   * the first submission with `conflict: true`, `"throw"` throws
   * {@link IdempotencyConflictError} (L3).
   * @default "return"
   */
  onConflict?: "return" | "throw";
  /**
   * What happens when another submission of the thread is running or in line:
   * - `"enqueue"` waits for its turn;
   * - `"reject"` throws {@link BusyError}, and nothing is stored;
   * - `"interrupt"` cancels the running turn, whose partial answer stays in the
   *   conversation, and goes next, before whatever else waits;
   * - `"rollback"` does the same, and takes the messages and the partial answer
   *   of the cancelled turn out of the conversation;
   * - `"steer"` joins the running turn at its next call of the model, and ends
   *   with it (`mergedInto`); where that turn makes no more calls, it goes next.
   *
   * An isolated turn has nothing to wait for, and takes `"enqueue"` only.
   * @default "enqueue"
   */
  whenBusy?: WhenBusy;
  /**
   * Who is told of the end, as it is stored (O1): one destination or a list. `webhook()`, `queue()`, `method()`, `agent()`
   * and `workflowEvent()` of `perdure/outbox` make them. They receive a {@link SubmissionEvent}.
   * @default nobody
   */
  notify?: Destination | readonly Destination[];
  /** What the turn may use; more is not asked of the model. */
  budget?: {
    /**
     * Tokens of all its calls of the model, over all attempts. Used up, the
     * submission ends with {@link BudgetExceededError} before the next call.
     */
    tokens: number;
  };
  /** How often the turn is attempted, and when not (L6, L8). */
  retry?: {
    /**
     * Attempts in all, of crashes and of transient failures. Those that ask a prompt's answer
     * in another way, or another model for it, are not counted.
     * @default 5
     */
    maxAttempts?: number;
    /**
     * After a crash or a transient failure of a turn whose tools have run, `"fail"` (or `false`) ends the submission. Otherwise
     * the turn continues, and finished calls are answered from their records. A call that has no result is not run again, and
     * a tool error tells the model (`"tell"`), or it runs again (`"repeat"`, or `true`).
     * @default "tell"
     */
    afterSideEffects?: "tell" | "fail" | "repeat" | boolean;
  };
};

export type WhenBusy = "enqueue" | "reject" | "interrupt" | "rollback" | "steer";

export type Debounce = {
  /** What makes it a repetition, within its thread. */
  key: string;
  /** How long nothing may have come before the turn starts. */
  delay: Duration;
  /**
   * How long repetitions can put it off, from the first one on.
   * @default ten times the delay
   */
  maxDelay?: Duration;
};

/** Options that rooms of Perdure pass along with a submission of their own. */
export type InternalSubmitOptions = Omit<
  SubmitMessagesOptions,
  "notify" | "output" | "strategy" | "repair"
> & {
  readonly answer?: AnswerSpec;
  /** Destinations, or what makes them once the id is known. */
  readonly notify?:
    | Destination
    | readonly Destination[]
    | ((submissionId: string) => readonly Destination[])
    | undefined;
  /**
   * The run of the caller that asks. A failure that an earlier run was told
   * of does not answer this one: its key is given to a new submission (W1).
   */
  readonly run?: string;
  /** The batch of prompts that it is one of, and how many of those may run at a time. */
  readonly batch?: { readonly id: string; readonly concurrency: number };
};

type Common<Output> = {
  submissionId: SubmissionRef<Output>;
  /** The id of its turn, in hooks and events as well. It equals `submissionId`, for each attempt. */
  requestId: string;
  idempotencyKey?: string;
  metadata?: Record<string, Json>;
  /** When it was accepted, epoch milliseconds. */
  createdAt: number;
  /** How many times its turn has been started. */
  attempts: number;
  /** The conversation that it is part of. */
  thread: string;
  /** The submission whose turn it has joined, and with which it ends. */
  mergedInto?: string;
  /** Tokens so far, of all attempts, where the model reports them (L7). */
  usage?: TokenUsage;
  /** The attempts that failed and were followed by another one, oldest first. */
  failedAttempts?: FailedAttempt[];
};

/** An attempt that did not end the submission. */
export type FailedAttempt = {
  /** 1 for the first. */
  attempt: number;
  startedAt: number;
  endedAt: number;
  error: string;
  errorName: string;
  /** Tokens of this attempt alone; those of the last one are what is left of the total. */
  usage?: TokenUsage;
};

/** Keys that a state does not have can be read without narrowing, and are undefined. */
type Absent<Keys extends string> = { [Key in Keys]?: never };

type KeyOfEnd = "completedAt" | "messageId" | "finishReason" | "error" | "errorName" | "output";

type Pending<Output> = Common<Output> & {
  status: "pending";
  /** When the next attempt is made; unset when its turn is simply not there yet. */
  dueAt?: number;
} & Absent<"startedAt" | KeyOfEnd>;

type Running<Output> = Common<Output> & {
  status: "running";
  startedAt: number;
} & Absent<"dueAt" | KeyOfEnd>;

type Ended<Output> = Common<Output> &
  Absent<"dueAt"> & {
    /** Unset when it ended before its turn started. */
    startedAt?: number;
    completedAt: number;
    /** Id of the assistant message that the turn wrote, if it wrote one (L7). */
    messageId?: string;
    /**
     * Why the model's last call ended: `"stop"`, `"tool-calls"`, `"length"`, `"content-filter"`, `"error"`, `"other"`,
     * or `"unknown"` when its stream ended without a reason. Unset when no call ended, or a crash came after it.
     */
    finishReason?: string;
  };

type Completed<Output> = Ended<Output> & {
  status: "completed";
  /** What was asked for by a schema, or the text of the reply after its last call of a tool (L7). */
  output: Output;
} & Absent<"error" | "errorName">;

type Failed<Output> = Ended<Output> & {
  status: "error" | "aborted" | "skipped";
  /** What ended it, for a person. */
  error?: string;
  /** The stable name of what ended it. */
  errorName?: string;
} & Absent<"output">;

/** A submission as it is now. */
export type SubmissionInspection<Output = Json> =
  | Pending<Output>
  | Running<Output>
  | Completed<Output>
  | Failed<Output>;

export type SubmitMessagesResult<Output = Json> = SubmissionInspection<Output> & {
  /** False when the key or id was known already: nothing was stored. */
  accepted: boolean;
  /** True when the key or id was known with different messages (L3). */
  conflict?: boolean;
  /** True when the messages have taken the place of earlier ones with the same `debounce.key`. */
  debounced?: boolean;
};

export type TokenUsage = {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  totalTokens?: number | undefined;
};

/** What {@link cancelSubmission} did (L5). */
export type CancelSubmissionResult =
  | {
      /** No submission has this id. */
      outcome: "not_found";
      submissionId: string;
    }
  | {
      /** It had ended before; nothing changed. */
      outcome: "already_terminal";
      submissionId: string;
      submission: SubmissionInspection;
    }
  | {
      /** It is `aborted` now. */
      outcome: "cancelled";
      submissionId: string;
      previousStatus: "pending" | "running";
      /** Whether any of its messages had reached the conversation. */
      messagesApplied: boolean;
      submission: SubmissionInspection;
    };

export type ListSubmissionsOptions = {
  status?: SubmissionStatus | SubmissionStatus[];
  /**
   * At most this many, newest first, up to 1,000. Fewer where they are large: a page ends before their metadata and
   * answers are more than 16 MiB together. Fewer as well where 100,000 submissions have been read for them.
   * @default 100
   */
  limit?: number;
  /**
   * The next page: only what was accepted before this submission, the last one
   * of the page before. A page that is empty is behind the last one.
   */
  before?: string;
  /** Only those of this conversation; `"isolated"` includes the prompts of `step.promptAll()`. */
  thread?: string;
  /** Only those whose metadata has these values. */
  metadata?: Record<string, string | number | boolean>;
  /** Only those accepted at or after this time. */
  createdAfter?: Instant;
  /** Only those accepted before this time. */
  createdBefore?: Instant;
};

/** What is open in the ledger. */
export type SubmissionStats = {
  /** Those that wait, for their turn, their next attempt or their time. */
  pending: number;
  running: number;
  /** When the one that waits longest was accepted; unset when none waits. */
  oldestPendingAt?: number;
};

export type DeleteSubmissionsOptions = {
  /** Only terminal ones are ever deleted. */
  status?: SubmissionStatus | SubmissionStatus[];
  completedBefore?: Instant;
  /** @default 100 */
  limit?: number;
};

export type WaitForSubmissionOptions = {
  /** Return the submission as it is after so many milliseconds, even if it has not ended. */
  timeoutMs?: number;
};

/** How a submission ended, as its destinations are told. */
export type SubmissionEnd = {
  readonly submissionId: string;
  readonly status: TerminalStatus;
  readonly output?: Json;
  /** The output that did not match the schema, if it has at most 65,536 characters as JSON. */
  readonly refusedOutput?: Json;
  readonly error?: string;
  readonly errorName?: string;
  /** How many times its turn was started. */
  readonly attempts: number;
  /** Tokens of all attempts, where the model reports them (L7). */
  readonly usage?: TokenUsage;
  /** The assistant message that the turn wrote, if it wrote one (L7). */
  readonly messageId?: string;
  /** Why the model's last call ended: `"stop"`, `"length"`, `"content-filter"` and so on. */
  readonly finishReason?: string;
};

/** How a prompt ended, in a form that the result of a workflow's step can hold (O4). */
export type PromptEnd =
  | SubmissionEnd
  | (Omit<SubmissionEnd, "output" | "refusedOutput" | "error" | "errorName"> & {
      readonly status: "completed";
      /** In place of a large answer: the agent has it, to be read in parts. */
      readonly reference: {
        /** Of the answer as JSON in UTF-8. */
        readonly bytes: number;
      };
    });

/** A part of an answer's JSON; joined in their order, they are the whole (O4). */
export type AnswerPart = {
  /** At most 256 Ki UTF-16 code units, so that a step's result can hold it. */
  readonly text: string;
  /** How many parts there are. */
  readonly parts: number;
};

/** What `notify` tells of an end: the body of a webhook, the event of a delivery to anybody else. */
export type SubmissionEvent = {
  readonly type: `submission.${TerminalStatus}`;
  /** When it ended, ISO 8601. */
  readonly timestamp: string;
  readonly data: SubmissionEnd & Pick<Common<Json>, "thread" | "metadata" | "idempotencyKey">;
};

/** What `step.prompt()` asks of the agent. */
export type PromptRequest = {
  /** The prompt's identity: workflow, instance, step and key (W1). */
  readonly idempotencyKey: string;
  /** The key that Think's own `step.prompt()` has for it; unset where Think's submission is not to answer it. */
  readonly thinkKey?: string | undefined;
  /** The run of the workflow that asks; a restart begins a new one (W1). */
  readonly run: string;
  readonly workflow: { readonly name: string; readonly id: string; readonly stepName: string };
  /** What the agent is asked; a message without an id gets one. */
  readonly messages: readonly PromptMessage[];
  readonly answer: AnswerSpec;
  /** The conversation that the turn is part of; `"main"` where it is left out. */
  readonly thread?: string | undefined;
  readonly budget?: SubmitMessagesOptions["budget"];
  readonly retry?: SubmitMessagesOptions["retry"];
};

/** A message of a prompt. */
export type PromptMessage = Omit<UIMessage, "id"> & { readonly id?: string };

/** What the agent answers: which event to wait for, unless it has ended already. */
export type PromptReceipt = {
  readonly submissionId: string;
  readonly eventType: string;
  /** Comes with the event. Nobody else knows it, so an event without it is not the agent's (W3). */
  readonly proof: string | undefined;
  /** Set when there is nothing to wait for. */
  readonly end?: PromptEnd;
};

/** What the agent answers for a prompt that Think itself accepted: Think's event ends it, and the ledger has nothing of it. */
export type ThinkPromptReceipt = {
  readonly submissionId: string;
  /** Whether Think has sent its event, or is about to. */
  readonly hasEnded: boolean;
};
