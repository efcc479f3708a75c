/**
 * The seam between the ledger and a host: how a turn is run, and what the
 * ledger may ask of the host that runs it. The ledger knows no host, a host
 * knows no row.
 */

import type { UIMessage } from "ai";
import type { Failure } from "../core/failures.ts";
import type { AnswerSpec, SubmissionInspection, TokenUsage } from "./types.ts";

/** One attempt at a submission, handed to the host. */
export type Turn = {
  readonly submissionId: string;
  readonly messages: UIMessage[];
  readonly channel: string | undefined;
  /** The structured answer that the turn has to end with, if any. */
  readonly answer: AnswerSpec | undefined;
  /** Aborted when the submission is cancelled. */
  readonly signal: AbortSignal;
  /**
   * Claims the submission. The host calls it at the moment its turn starts and
   * appends the messages only when it returns (L4, L5).
   *
   * @returns what every word about this attempt is fenced by (L2)
   * @throws TurnRefused when the submission is not to be run any more
   */
  begin(): AttemptRef;
};

/** A submission at a certain attempt: a word about an earlier attempt changes nothing (L2). */
export type AttemptRef = { readonly seq: number; readonly attempt: number };

/** The submission was cancelled or taken over while its turn waited: there is nothing to run. */
export class TurnRefused extends Error {
  override readonly name = "TurnRefused";
  constructor() {
    super("The submission is not waiting for its turn any more");
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
      /** Whether a tool of the turn has run. */
      readonly hasEffects?: boolean;
    } & TurnFacts)
  | ({ readonly outcome: "aborted" | "skipped"; readonly failure?: Failure } & TurnFacts)
  /** Not ended: the host's own recovery goes on with it, and reports its end. */
  | { readonly outcome: "recovering" }
  /** Ended, and the host has told the ledger already. */
  | { readonly outcome: "reported" };

/** What became of the structured answer that a turn was to end with. */
export type AnswerState = {
  readonly isAnswered: boolean;
  /** Why an answer was given and not taken. */
  readonly problem: Failure | undefined;
};

/**
 * The end of a turn that was to end with an answer: the answer decides, not
 * how the turn went on after it, and a turn without one has failed.
 */
export function endWithAnswer(end: TurnEnd, { isAnswered, problem }: AnswerState): TurnEnd {
  if (end.outcome === "recovering" || end.outcome === "reported") return end;
  const { requestId, messageId, usage } = end;
  const facts = { requestId, messageId, usage };
  if (isAnswered) return { outcome: "completed", ...facts };
  if (end.outcome !== "completed") return end;
  return { outcome: "error", failure: problem ?? UNANSWERED, ...facts };
}

const UNANSWERED: Failure = {
  name: "UnansweredPromptError",
  message:
    "Model ended the turn without calling the think_final_answer tool. " +
    "Use a model with working streaming tool calls.",
};

export type TurnFacts = {
  readonly requestId?: string | undefined;
  readonly messageId?: string | undefined;
  readonly usage?: TokenUsage | undefined;
};

/** How many of a submission's messages are in the conversation. */
export type Applied = "none" | "partial" | "all";

/** What a turn left in the conversation. */
export type Trace = {
  readonly applied: Applied;
  /** Whether a tool is known to have run. */
  readonly hasEffects: boolean;
};

/** A kind of agent, as far as the ledger needs to know it. */
export interface TurnHost {
  /** The object has been constructed and starts: hooks of the app's class can be wrapped now. */
  start(): void;
  /** Runs a turn to its end. A thrown error is the turn's error. */
  run(turn: Turn): Promise<TurnEnd>;
  /** Stops a turn that the host's own recovery runs, or is about to run. */
  stop(messages: readonly UIMessage[], reason: string | undefined): void;
  /** What the turn that these messages started has left in the conversation. */
  trace(messages: readonly UIMessage[]): Promise<Trace>;
  /** Whether the host may still be about to recover a turn that a crash interrupted. */
  isRecovering(): Promise<boolean>;
  /** Tells the app that a submission has changed its status. */
  onStatus(submission: SubmissionInspection): Promise<void>;
  /** Whether the caller runs inside a turn of this host. */
  isInsideTurn(): boolean;
}
