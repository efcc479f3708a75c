/** What the store is told with a transition: what is accepted, how an attempt or a submission has ended. */

import type { Failure } from "../../core/failures.ts";
import type { Destination } from "../../outbox/types.ts";
import type { TurnFacts } from "../host.ts";
import type { TerminalStatus } from "../states.ts";
import type { NextAction } from "../turns/attempt-plan.ts";
import type { AnswerSpec, SubmitMessagesOptions, TokenUsage } from "../types.ts";
import type { Submission } from "./rows.ts";

/** What a caller knows of a submission that it wants to end: the fence of the end (L2). */
export type Seen = Pick<Submission, "seq" | "attempts" | "status">;

/** What `accept` stores. */
export type NewSubmission = {
  readonly submissionId: string;
  /** Whether `newId()` of the store has given the id, and nothing was stored since. */
  readonly isGenerated: boolean;
  /** Whether `retrySubmission()` has made it of another one, whose messages it has. */
  readonly isRetry: boolean;
  readonly idempotencyKey: string | undefined;
  /** JSON of the messages, serialised once by the caller who checked its size. */
  readonly messages: string;
  readonly metadata: Record<string, unknown> | undefined;
  readonly thread: string;
  readonly channel: string | undefined;
  readonly answer: AnswerSpec | undefined;
  readonly notify: readonly Destination[] | undefined;
  readonly run: string | undefined;
  readonly retry: SubmitMessagesOptions["retry"];
  readonly rank: number;
  readonly notBefore: number | undefined;
  readonly expiresAt: number | undefined;
  readonly keyExpiresAt: number | undefined;
  readonly budget: number | undefined;
  readonly debounceKey: string | undefined;
  /** The latest time that repetitions may put it off to. */
  readonly debounceUntil: number | undefined;
  /** The batch of prompts that it is one of. */
  readonly batch: string | undefined;
};

export type SettledState = TurnFacts & {
  readonly status: TerminalStatus;
  /** What ended it. One without a message was aborted as it was told to. */
  readonly failure?: (Pick<Failure, "name"> & Partial<Failure>) | undefined;
  /** The answer that was refused, and that nothing follows on, as JSON. */
  readonly refused?: string | undefined;
  /** Tokens in all, where they are known. */
  readonly usage?: TokenUsage | undefined;
  /** Whether its messages have to leave the conversation again. */
  readonly isToBeUndone?: boolean | undefined;
};

/** What an attempt that is followed by another one has come to. */
export type FailedEnd = {
  /** When that is made; unset for one that is made as soon as its thread is free. */
  readonly dueAt: number | undefined;
  readonly follow: NextAction;
  /** What it gave for an answer. */
  readonly given: string | undefined;
  readonly failure: Failure;
  /** Tokens of this attempt, and of all so far. */
  readonly spent: TokenUsage | undefined;
  readonly usage: TokenUsage | undefined;
};
