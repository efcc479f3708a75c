/** The ledger calls a `TurnHost` to run turns; the host calls `TurnEngine` while a turn runs. */

import type { UIMessage } from "ai";
import type { Failure } from "../core/failures.ts";
import type { AttemptRef } from "./states.ts";
import type { NewSubmission, TurnFacts } from "./store/rows.ts";
import type { CallEnd } from "./store/tool-calls.ts";
import type { Applied, AttemptPlan, Unanswered } from "./turns/next-attempt.ts";
import type { SubmissionInspection } from "./types.ts";

/** The tool by which a model gives its final answer. Think reserves the name and its variants. */
export const FINAL_ANSWER = "think_final_answer";

export function isFinalAnswer(toolName: string): boolean {
  return toolName === FINAL_ANSWER || toolName.startsWith(`${FINAL_ANSWER}_`);
}

/** One attempt at a submission, handed to the host. */
export type Turn = {
  readonly submissionId: string;
  /** The conversation that it belongs to: {@link MAIN}, a name, or none ({@link isIsolated}). */
  readonly thread: string;
  /** Read it after {@link begin}: debounced repetitions may replace the messages until then. */
  readonly messages: UIMessage[];
  readonly channel: string | undefined;
  /** The answer that the attempt has to give, if any, and how it is asked for. Read it after {@link begin}. */
  readonly plan: AttemptPlan | undefined;
  /** Aborted when the submission is cancelled. */
  readonly signal: AbortSignal;
  /** Whether the turn was given up: it must add nothing more to the conversation. */
  readonly isGivenUp: boolean;
  /**
   * Claims the submission. The host calls it when its turn starts, and appends the messages when it has returned.
   *
   * @returns the attempt; the ledger ignores calls for an earlier one
   * @throws TurnRefused when the submission must not run any more
   */
  begin(): AttemptRef;
  /**
   * Resolves when the app's status hook has returned for the latest status. Call it after {@link begin}, before the host appends
   * the messages.
   *
   * @throws TurnRefused when the turn was aborted meanwhile
   */
  announced(): Promise<void>;
  /** Whether its messages may already be in the conversation: they move to its end. Read it after {@link begin}. */
  readonly isAgain: boolean;
};

/** The tool calls of one run of a turn. */
export interface ToolCalls {
  /** The calls of earlier runs that the conversation does not contain, as a note for the model. The host does not store it. */
  note(): Promise<string | undefined>;
  /** Ids of the calls that earlier runs have recorded. */
  recordedIds(): Promise<ReadonlySet<string>>;
  /**
   * Decides about a call before its tool runs.
   *
   * @param call.input as the model gave it
   * @param call.isDurable whether the tool records its steps, so that an interrupted call runs again
   * @throws TurnRefused when the attempt has ended or was given up: the tool must not run
   */
  start(call: {
    toolCallId: string;
    toolName: string;
    input: unknown;
    isDurable?: boolean;
  }): Promise<ToolDecision>;
}

/** The recorded steps of one call of a durable tool. */
export interface CallSteps {
  /** A key that each repetition of the call has. */
  readonly idempotencyKey: string;
  /**
   * The result of a step as JSON, where null stands for undefined: the recorded one, or that of `work`, which is then on disk. A
   * step that an earlier attempt still runs is waited for.
   *
   * @throws TurnRefused when the attempt has ended or was given up: the step must not run
   * @throws ToolStepLimitError when the call has too many steps
   */
  run(name: string, work: () => Promise<string | null>): Promise<string | null>;
}

export type ToolDecision =
  /** Run the tool, and report its end. Without a report the call counts as interrupted. */
  | { readonly action: "run"; end(end: CallEnd): void; readonly steps?: CallSteps | undefined }
  /** An earlier run recorded this output. */
  | { readonly action: "answer"; readonly output: unknown }
  /** The tool must not run, and the model gets this error as its result. */
  | { readonly action: "fail"; readonly error: Error };

/** The submission was cancelled, given up or taken over: the turn must not run. */
export class TurnRefused extends Error {
  override readonly name = "TurnRefused";
  constructor() {
    super("The submission no longer waits for this turn, or the turn has ended");
  }
}

/** How a turn ended, as the host saw it. */
export type TurnEnd =
  | ({ readonly outcome: "completed" } & TurnFacts)
  | ({
      readonly outcome: "error";
      readonly failure: Failure;
      /** The error, if the host has it: decides whether another attempt may succeed. */
      readonly cause?: unknown;
      /** Whether the model's provider has run a tool, which the ledger has no record of. */
      readonly hasEffects?: boolean;
      /** Set if the answer is missing or was refused. */
      readonly answer?: Unanswered;
    } & TurnFacts)
  | ({ readonly outcome: "aborted" | "skipped"; readonly failure?: Failure } & TurnFacts)
  /** Not ended: the host's own recovery continues it and reports its end, or its state is unknown. */
  /** With `isReset`, a reset of the platform ended the attempt, which is not counted. */
  | { readonly outcome: "recovering"; readonly isReset?: boolean }
  /** Ended, and already reported to the ledger. */
  | { readonly outcome: "reported" };

/** The answer of a turn that has to give one. */
export type AnswerState = Partial<Omit<Unanswered, "answer">> & {
  readonly isAnswered: boolean;
  readonly problem: Failure | undefined;
  /** Whether it was refused because it is not JSON. */
  readonly isUnreadable?: boolean;
  /** Why there is none. By default: the tool was not called. */
  readonly missing?: Failure | undefined;
};

/** The end of a turn that has to give an answer. The answer decides, whatever came after it; a turn without one has failed. */
export function endWithAnswer(end: TurnEnd, state: AnswerState): TurnEnd {
  if (end.outcome === "recovering" || end.outcome === "reported") return end;
  const { isAnswered, problem, missing = UNANSWERED, given, refused, isCutOff } = state;
  const { requestId, messageId, finishReason } = end;
  const facts = { requestId, messageId, finishReason };
  // The text is the output of submissions that joined the turn.
  if (isAnswered) return { outcome: "completed", ...facts, text: end.text };
  if (end.outcome !== "completed") return end;
  const answer = !problem ? "missing" : state.isUnreadable ? "unreadable" : "invalid";
  const unanswered = { answer, given, refused, isCutOff } as const;
  return { outcome: "error", failure: problem ?? missing, answer: unanswered, ...facts };
}

const UNANSWERED: Failure = {
  name: "UnansweredPromptError",
  message:
    "Model ended the turn without calling the think_final_answer tool. " +
    'Use a model with working streaming tool calls, or the strategy "auto" or "json".',
};

export type ConversationState = {
  readonly applied: Applied;
  /** Whether the model's provider has run a tool. */
  readonly hasEffects: boolean;
  /** The reply and its text, if it is complete. */
  readonly messageId?: string | undefined;
  readonly text?: string | undefined;
};

/** The ids of a turn in the conversation. */
export type SubmittedTurn = Pick<Turn, "submissionId" | "thread" | "messages">;

/** What a host checks of a submission before it is stored. */
export type CheckedSubmission = Pick<NewSubmission, "thread" | "channel" | "answer">;

/** A kind of agent, as the ledger needs it. */
export interface TurnHost {
  /** @throws NotSupportedByHostError for a submission that the host cannot run; nothing is stored then */
  check?(submission: CheckedSubmission): void;
  /** The object starts. The hooks of the app's class can be wrapped now. */
  start(): void;
  /** Runs a turn to its end. A thrown error is the turn's error. */
  run(turn: Turn): Promise<TurnEnd>;
  /** Stops a turn that the host's own recovery runs, or is about to run. */
  stop(turn: SubmittedTurn, reason: string | undefined): void;
  /** The messages of the turn in its conversation. */
  inspectConversation(turn: SubmittedTurn): Promise<ConversationState>;
  /** Whether the host may still be about to recover a turn of this thread that a crash interrupted. */
  isRecovering(thread: string): Promise<boolean>;
  /** Removes the turn's messages and the replies to them from the conversation. Idempotent. */
  removeMessages(turn: SubmittedTurn): Promise<void>;
  /** The submission whose turn has this id of the host, if the host remembers it. */
  submissionOf(requestId: string): string | undefined;
  /** Tells who follows, and calls the app's status hook. */
  onStatus(submission: SubmissionInspection): Promise<void>;
  /** Whether the app has a status hook. Nothing waits for one that does nothing. */
  hasStatusHook?(): boolean;
  /** Whether the caller runs in the agent's context, with its request or connection. */
  isInHostContext(): boolean;
  /** Whether the caller runs inside a turn of this host. */
  isInsideTurn(): boolean;
}
