/**
 * The seam between the ledger and a host: how a turn is run, and what the
 * ledger may ask of the host that runs it. The ledger knows no host, a host
 * knows no row.
 */

import type { UIMessage } from "ai";
import type { Failure } from "../core/failures.ts";
import type { AttemptPlan } from "./turns/attempt-plan.ts";
import type { SubmissionInspection, TokenUsage } from "./types.ts";

/** The agent's own conversation. */
export const MAIN = "main";
/** No conversation at all: each turn of this name stands alone. */
export const ISOLATED = "isolated";
/** What the names of pools begin with; no other thread may have such a name. */
export const POOL = `${ISOLATED}/`;

/**
 * The thread of a batch: isolated turns, of which at most `lanes` run at a
 * time, and which have a place of their own among the threads.
 */
export function poolOf(batch: string, lanes: number): string {
  return `${POOL}${lanes}/${batch}`;
}

export function isPool(thread: string): boolean {
  return thread.startsWith(POOL);
}

/** Whether its turns belong to no conversation. */
export function isIsolated(thread: string): boolean {
  return thread === ISOLATED || isPool(thread);
}

/** The thread as callers know it: which isolated turns share a limit is not theirs to see. */
export function publicThreadOf(thread: string): string {
  return isIsolated(thread) ? ISOLATED : thread;
}

/** How many turns of a thread may run at a time (L4). */
export function concurrencyOf(thread: string): number {
  if (thread === ISOLATED) return Number.POSITIVE_INFINITY;
  return isPool(thread) ? Number.parseInt(thread.slice(POOL.length), 10) : 1;
}

/** One attempt at a submission, handed to the host. */
export type Turn = {
  readonly submissionId: string;
  /** The conversation that it belongs to: {@link MAIN}, a name, or none ({@link isIsolated}). */
  readonly thread: string;
  /** To be read after {@link begin}: repetitions may have taken their place until then. */
  readonly messages: UIMessage[];
  readonly channel: string | undefined;
  /** The answer that the attempt has to end with, if any, and how it is asked for. To be read after {@link begin}. */
  readonly plan: AttemptPlan | undefined;
  /** Aborted when the submission is cancelled. */
  readonly signal: AbortSignal;
  /** Whether others have taken its place: what it would still leave in the conversation, nobody takes out again. */
  readonly isGivenUp: boolean;
  /**
   * Claims the submission. The host calls it at the moment its turn starts and
   * appends the messages only when it returns (L4, L5).
   *
   * @returns what every word about this attempt is fenced by (L2)
   * @throws TurnRefused when the submission is not to be run any more
   */
  begin(): AttemptRef;
  /**
   * Resolves when the app has been told that the turn runs. The host waits for it after {@link begin}, before it
   * appends the messages and calls the model.
   *
   * @throws TurnRefused when the turn was aborted meanwhile: nothing of it is to be said
   */
  announced(): Promise<void>;
  /**
   * Whether its messages may be in the conversation already, from an earlier attempt or the submission that it retries:
   * then they move to the end. To be read after {@link begin}.
   */
  readonly isAgain: boolean;
};

/** A submission at a certain attempt: a word about an earlier attempt changes nothing (L2). */
export type AttemptRef = { readonly seq: number; readonly attempt: number };

/** What a host tells the ledger while a turn runs, and what it has to ask. */
export interface TurnLedger {
  /**
   * A call of the model comes next. Returns messages of other submissions that
   * join this turn at this step; the host appends them to the conversation.
   *
   * @param canJoin false where they could not come before the reply any more
   * @throws TurnRefused when the attempt has been ended or given up: it must do nothing more
   * @throws BudgetExceededError when the turn has no tokens left: there must be no call
   */
  nextStep(ref: AttemptRef, canJoin?: boolean): UIMessage[];
  /** What {@link nextStep} has handed out could not be stored: those submissions wait for turns of their own. */
  detachJoined(ref: AttemptRef, messages: readonly UIMessage[]): void;
  /** A call of the model is over; the tokens that it has used, as the model reports them. */
  recordUsage(ref: AttemptRef, usage: TokenUsage | undefined): void;
  /**
   * Records the tool calls of a run of the turn: an attempt, or a recovery of one (L6).
   *
   * @param settled the ended calls in the stored replies to the turn, read at the first call of the run; leave it out for
   *   the first run of the first attempt
   */
  toolCalls(ref: AttemptRef, settled?: () => readonly SettledCall[]): ToolCalls;
  /** The turn is getting on: a part of an answer has come. */
  heartbeat(ref: AttemptRef): void;
  /** The host is busy with a turn of its own in that thread: submissions that wait for it there have not stalled. */
  busy(thread: string): void;
  /**
   * Records the answer, once (L7), to be written with the end of the turn at
   * the latest. Returns whether it was recorded now.
   *
   * @throws AnswerTooLargeError for one over 16 MiB of JSON
   */
  answer(ref: AttemptRef, output: unknown): boolean;
}

/** The tool calls of one run of a turn. */
export interface ToolCalls {
  /**
   * What the model is told when the run begins: the calls of earlier runs that the conversation does not contain. Otherwise
   * it would make them with other arguments, as new calls. The host stores it nowhere.
   */
  note(): Promise<string | undefined>;
  /**
   * Decides about a call before its tool runs.
   *
   * @param call.input as the model gave it
   * @throws TurnRefused when the attempt has been ended or given up: the tool must not run
   */
  start(call: { toolCallId: string; toolName: string; input: unknown }): Promise<ToolDecision>;
}

export type ToolDecision =
  /** Run the tool, and report its end. Without a report the call counts as interrupted. */
  | { readonly action: "run"; end(end: CallEnd): void }
  /** An earlier run of the turn has this output. */
  | { readonly action: "answer"; readonly output: unknown }
  /** The tool must not run, and the model gets this error as its result. */
  | { readonly action: "fail"; readonly error: Error };

/** How a tool call ended. */
export type CallEnd = { readonly output: unknown } | { readonly error: unknown };

/** A call with an output or an error in a stored reply. */
export type SettledCall = { readonly toolCallId: string; readonly errorText?: string | undefined };

/** The submission was cancelled, given up or taken over: there is nothing to run. */
export class TurnRefused extends Error {
  override readonly name = "TurnRefused";
  constructor() {
    super("The submission is not waiting for this turn any more, or the turn is over");
  }
}

/** How a turn ended, as the host saw it. */
export type TurnEnd =
  | ({ readonly outcome: "completed" } & TurnFacts)
  | ({
      readonly outcome: "error";
      readonly failure: Failure;
      /** What was thrown, where the host has it: tells whether another attempt may do better (L8). */
      readonly cause?: unknown;
      /** Whether a tool that the model's provider runs has run: the ledger has no record of its call. */
      readonly hasEffects?: boolean;
      /** Set where the answer is what failed: none was given, or one that was not taken. */
      readonly answer?: Unanswered;
    } & TurnFacts)
  | ({ readonly outcome: "aborted" | "skipped"; readonly failure?: Failure } & TurnFacts)
  /** Not ended: the host's own recovery goes on with it and reports its end, or nothing is known of it. */
  | {
      readonly outcome: "recovering";
      /** Whether the platform's own reset ended the attempt, which costs none (L6). */
      readonly isReset?: boolean;
    }
  /** Ended, and the host has told the ledger already. */
  | { readonly outcome: "reported" };

/** Why a turn that was to end with an answer has none. */
export type Unanswered = {
  /** One was given and not taken, none was given, or a call whose arguments are no JSON. */
  readonly answer: "invalid" | "missing" | "unreadable";
  /** What was given in its place, as a text. */
  readonly given: string | undefined;
  /** The answer that does not match, as JSON. */
  readonly refused?: string | undefined;
  /** Whether the reply was cut off, so that another model may do better. */
  readonly isCutOff?: boolean | undefined;
};

/** What became of the answer that a turn was to end with. */
export type AnswerState = {
  readonly isAnswered: boolean;
  /** Why an answer was given and not taken. */
  readonly problem: Failure | undefined;
  /** Whether that is all that is known of it: its JSON could not be read. */
  readonly isUnreadable?: boolean;
  /** Why none was given; the tool was not called, where it is not said. */
  readonly missing?: Failure | undefined;
  /** What was given, though it was not taken, as a text. */
  readonly given?: string | undefined;
  /** The same as JSON, where it is a value that does not match the schema. */
  readonly refused?: string | undefined;
  /** Whether the reply was cut off. */
  readonly isCutOff?: boolean;
};

/**
 * The end of a turn that was to end with an answer: the answer decides, not
 * how the turn went on after it, and a turn without one has failed.
 */
export function endWithAnswer(end: TurnEnd, state: AnswerState): TurnEnd {
  if (end.outcome === "recovering" || end.outcome === "reported") return end;
  const {
    isAnswered,
    problem,
    isUnreadable,
    missing = UNANSWERED,
    given,
    refused,
    isCutOff,
  } = state;
  const { requestId, messageId, finishReason } = end;
  const facts = { requestId, messageId, finishReason };
  // The text is that of those that have joined the turn.
  if (isAnswered) return { outcome: "completed", ...facts, text: end.text };
  if (end.outcome !== "completed") return end;
  const answer = !problem ? "missing" : isUnreadable ? "unreadable" : "invalid";
  const unanswered = { answer, given, refused, isCutOff } as const;
  return { outcome: "error", failure: problem ?? missing, answer: unanswered, ...facts };
}

const UNANSWERED: Failure = {
  name: "UnansweredPromptError",
  message:
    "Model ended the turn without calling the think_final_answer tool. " +
    'Use a model with working streaming tool calls, or the strategy "auto" or "json".',
};

export type TurnFacts = {
  /** The host's own id of the turn, where it is not the submission's. */
  readonly requestId?: string | undefined;
  readonly messageId?: string | undefined;
  /** Why the model's last call ended, where the host knows it. */
  readonly finishReason?: string | undefined;
  /** The text of the reply, after its last call of a tool: the output where nothing else was asked for. */
  readonly text?: string | undefined;
};

/** How many of a submission's messages are in the conversation. */
export type Applied = "none" | "partial" | "all";

/** What a turn left in the conversation. */
export type ConversationState = {
  readonly applied: Applied;
  /** Whether a tool that the model's provider runs is known to have run. */
  readonly hasEffects: boolean;
  /** The reply and its text, where all of it is there. */
  readonly messageId?: string | undefined;
  readonly text?: string | undefined;
};

/** What a turn is found again by. */
export type SubmittedTurn = Pick<Turn, "submissionId" | "thread" | "messages">;

/** A kind of agent, as far as the ledger needs to know it. */
export interface TurnHost {
  /** The object has been constructed and starts: hooks of the app's class can be wrapped now. */
  start(): void;
  /** Runs a turn to its end. A thrown error is the turn's error. */
  run(turn: Turn): Promise<TurnEnd>;
  /** Stops a turn that the host's own recovery runs, or is about to run. */
  stop(turn: SubmittedTurn, reason: string | undefined): void;
  /** What the turn has left in its conversation. */
  inspectConversation(turn: SubmittedTurn): Promise<ConversationState>;
  /** Whether the host may still be about to recover a turn of this thread that a crash interrupted. */
  isRecovering(thread: string): Promise<boolean>;
  /** Takes the turn's messages and the replies to them out of the conversation. Done twice, it is as done once. */
  removeMessages(turn: SubmittedTurn): Promise<void>;
  /** The submission whose turn has this id of the host's own, as far as the host remembers it. */
  submissionOf(requestId: string): string | undefined;
  /** Tells the app that a submission has changed its status. */
  onStatus(submission: SubmissionInspection): Promise<void>;
  /** Whether the caller runs in the context of the agent, with the request or the connection that it serves. */
  isInHostContext(): boolean;
  /** Whether the caller runs inside a turn of this host. */
  isInsideTurn(): boolean;
}
