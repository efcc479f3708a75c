/** What a caller reads of submissions: inspections, results, ends and their events, and filters. Types only. */

import type { Json } from "../core/json.ts";
import type { Instant } from "../core/options/instant.ts";
import type { AnySchema, InputOf } from "../core/schema/schema.ts";
import type { SubmissionStatus, TerminalStatus } from "./states.ts";
import type { OutputSchema } from "./submit-options.ts";

/**
 * The type of `output`: the input of the schema, any JSON for a JSON Schema, the text of the reply without one. `readOutput()`
 * returns the output of the schema, with its defaults and transforms.
 */
export type SubmissionOutput<Schema extends OutputSchema | undefined> = Schema extends AnySchema
  ? unknown extends InputOf<Schema>
    ? Json
    : InputOf<Schema>
  : Schema extends undefined
    ? string
    : Json;

/** The id of a submission, with the type of its output. Any string is one, with any JSON as output. */
export type SubmissionRef<Output = Json> = string & { readonly "~output"?: Output };

/** The type of the output of the submission with this id: any JSON where the id does not know it. */
export type OutputOfRef<Ref extends string> =
  Ref extends SubmissionRef<infer Output> ? (unknown extends Output ? Json : Output) : Json;

type Common<Output> = {
  submissionId: SubmissionRef<Output>;
  /** The id of its turn in hooks and events. Equals `submissionId` for each attempt. */
  requestId: string;
  idempotencyKey?: string;
  metadata?: Record<string, Json>;
  /** When it was accepted, epoch milliseconds. */
  createdAt: number;
  /** How many times its turn has been started. */
  attempts: number;
  /** The conversation that it is part of. */
  thread: string;
  /** The submission whose turn it has joined. It ends with it. */
  mergedInto?: string;
  /** Tokens so far, of all attempts, where the model reports them. Without a budget, not those of interrupted calls. */
  usage?: TokenUsage;
  /** The failed attempts before the last one, oldest first. */
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

/** Keys of other states can be read without narrowing, and are undefined. */
type Absent<Keys extends string> = { [Key in Keys]?: never };

type KeyOfEnd =
  | "completedAt"
  | "messageId"
  | "finishReason"
  | "isPartial"
  | "error"
  | "errorName"
  | "output";

type Pending<Output> = Common<Output> & {
  status: "pending";
  /** When it is due; unset while it waits for its turn. */
  dueAt?: number;
  /** The limit that it waits for, with `limits()`. */
  waitingFor?: WaitingFor;
} & Absent<"startedAt" | KeyOfEnd>;

type Running<Output> = Common<Output> & {
  status: "running";
  startedAt: number;
} & Absent<"dueAt" | "waitingFor" | KeyOfEnd>;

type Ended<Output> = Common<Output> &
  Absent<"dueAt" | "waitingFor"> & {
    /** Unset when it ended before its turn started. */
    startedAt?: number;
    completedAt: number;
    /** Id of the assistant message that the turn wrote, if it wrote one. */
    messageId?: string;
    /**
     * Finish reason of the model's last call: `"stop"`, `"tool-calls"`, `"length"`, `"content-filter"`, `"error"`,
     * `"interrupted"` or `"other"`. Unset when no call ended, or a crash came after it.
     */
    finishReason?: string;
  };

type Completed<Output> = Ended<Output> & {
  status: "completed";
  /** The answer that a schema asked for, or the text of the reply after its last call of a tool. */
  output: Output;
  /** Set if the text is incomplete: it ended by `"length"`, `"content-filter"` or `"other"`. Never set for an output. */
  isPartial?: true;
} & Absent<"error" | "errorName">;

type Failed<Output> = Ended<Output> & {
  status: "error" | "aborted" | "skipped";
  /** The error or the reason, for a person. */
  error?: string;
  /** Its stable name. */
  errorName?: string;
} & Absent<"output" | "isPartial">;

/** A submission as it is now. */
export type SubmissionInspection<Output = Json> =
  | Pending<Output>
  | Running<Output>
  | Completed<Output>
  | Failed<Output>;

export type SubmitMessagesResult<Output = Json> = SubmissionInspection<Output> & {
  /** False when the key or id was known already: nothing was stored. */
  accepted: boolean;
  /** True when the key or id was known with different messages. */
  conflict?: boolean;
  /** True when the messages have replaced earlier ones with the same `debounce.key`. */
  debounced?: boolean;
};

/**
 * The result of `submitMessages()`. The compiler replaces type parameters by `any` when it compares an override with overloads, and
 * the result is `any` then: an override with Think's own types compiles, although Think's result has fewer fields.
 */
export type Submitted<Schema extends OutputSchema | undefined> = unknown extends Schema
  ? Schema
  : SubmitMessagesResult<SubmissionOutput<Schema>>;

export type TokenUsage = {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  totalTokens?: number | undefined;
  /** Dollars, by the `prices` of `limits()`. Unset where no model that was called has a price. */
  cost?: number | undefined;
};

/** What {@link cancelSubmission} did. */
export type CancelSubmissionResult =
  /** No submission has this id. */
  | { outcome: "not_found"; submissionId: string }
  /** It had ended before; nothing changed. */
  | { outcome: "already_terminal"; submissionId: string; submission: SubmissionInspection }
  | {
      /** It is `aborted` now. */
      outcome: "cancelled";
      submissionId: string;
      previousStatus: "pending" | "running";
      /** Whether any of its messages had reached the conversation. */
      messagesApplied: boolean;
      submission: SubmissionInspection;
    };

export interface ListSubmissionsOptions {
  /**
   * Open ones are found by an index. Any other filter reads the newest 100,000 submissions at most: where none of them
   * matches and there are more, the list throws a `ListScanLimitError`, whose `next` continues it.
   */
  status?: SubmissionStatus | SubmissionStatus[];
  /**
   * At most this many, newest first, up to 1,000. A page has fewer if it would exceed 16 MiB, or read 100,000 submissions.
   * @default 100
   */
  limit?: number;
  /** The next page: only what was accepted before this submission, the last one of the page before. */
  before?: string;
  /** Only those of this conversation; `"isolated"` includes the prompts of `step.promptAll()`. */
  thread?: string;
  /** Only those whose metadata has these values. */
  metadata?: Record<string, string | number | boolean>;
  /** Only those accepted at or after this time. */
  createdAfter?: Instant;
  /** Only those accepted before this time. */
  createdBefore?: Instant;
}

/** Which submissions. All of them by default. */
export type SubmissionFilter = Omit<ListSubmissionsOptions, "limit" | "before">;

/** Counts of the open submissions. */
export type SubmissionStats = {
  /** Submissions that wait for their turn, their next attempt or their time. */
  pending: number;
  running: number;
  /** When the one that waits longest was accepted; unset when none waits. */
  oldestPendingAt?: number;
};

export interface DeleteSubmissionsOptions {
  /** Only terminal ones are ever deleted. */
  status?: SubmissionStatus | SubmissionStatus[];
  completedBefore?: Instant;
  /** @default 100 */
  limit?: number;
}

export interface WaitForSubmissionOptions {
  /** Return the submission as it is after so many milliseconds, even if it has not ended. */
  timeoutMs?: number;
}

/** How a submission ended, as its destinations receive it. */
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
  /** Tokens of all attempts, where the model reports them. */
  readonly usage?: TokenUsage;
  /** The assistant message that the turn wrote, if it wrote one. */
  readonly messageId?: string;
  /** Finish reason of the model's last call: `"stop"`, `"length"`, `"content-filter"` and so on. */
  readonly finishReason?: string;
  /** Set if the output is an incomplete text: it ended by `"length"`, `"content-filter"` or `"other"`. */
  readonly isPartial?: true;
};

/** How a prompt ended, in a form that the result of a workflow's step can hold. */
export type PromptEnd =
  | SubmissionEnd
  | (Omit<SubmissionEnd, "output" | "refusedOutput" | "error" | "errorName"> & {
      readonly status: "completed";
      /** Stands for a large answer, which can be read from the agent in parts. */
      readonly reference: {
        /** The size of the answer as JSON in UTF-8. */
        readonly bytes: number;
      };
    });

/** The event of an end: the body of a webhook, or the event for another destination. */
export type SubmissionEvent = {
  readonly type: `submission.${TerminalStatus}`;
  /** When it ended, ISO 8601. */
  readonly timestamp: string;
  readonly data: SubmissionEnd & Pick<Common<Json>, "thread" | "metadata" | "idempotencyKey">;
};

/** What a pending submission waits for. */
export type WaitingFor = {
  /** The name of the limit: the app's, or `concurrency`, `rate` or `singleton` of the submission itself. */
  readonly limit: string;
  /** The key of the limit; "" where it has none. */
  readonly key: string;
  /** When it is looked at again, epoch milliseconds. */
  readonly until: number;
  /** Since when it has waited for this limit, epoch milliseconds. */
  readonly since: number;
  /** Why: `full`, `paused`, `closed`, or `unreachable`. */
  readonly why: "full" | "paused" | "closed" | "unreachable";
  /** Why an operator has paused the key. */
  readonly reason?: string;
};

/** What a model call has waited for in memory before it was sent, and for how many milliseconds. */
export type WaitedFor = Pick<WaitingFor, "limit" | "key" | "why"> & { readonly ms: number };
