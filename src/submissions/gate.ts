/** What the feature `limits()` adds to the ledger: which turns start now, and what their model calls may use. Types only. */

import type { LanguageModel } from "ai";
import type { Failure } from "../core/failures.ts";
import type { StoredLimits, Submission } from "./store/rows.ts";
import type { SubmitMessagesOptions } from "./submit-options.ts";
import type { WaitingFor } from "./types.ts";

export interface Gate {
  /**
   * What the row keeps of the options of a submission that concern limits. Called only where one is set.
   * @throws InvalidSubmissionError
   */
  read(options: GivenLimits): StoredLimits | undefined;
  /**
   * Decides whether a pending submission starts. Undefined: it starts now, and the capacity for it is taken. The promise
   * resolves with what it waits for, with why it must not run, or with undefined: then `admit()` is called again.
   */
  admit(submission: Submission): Promise<Admission> | undefined;
  /** The submission has ended, or its attempt has: it uses nothing more. */
  released(seq: number): void;
  /**
   * The model of a step, which asks for capacity before each call.
   * @param seq undefined for a turn that is no submission: a client's
   */
  model(seq: number | undefined, model: LanguageModel): LanguageModel;
  /** Dollars of the model calls of a submission since the last call of this method; undefined where nothing has a price. */
  takeCost(seq: number): number | undefined;
}

/** As the caller gave them, maybe untyped. Only the names are checked. */
export type GivenLimits = {
  readonly [Name in "concurrency" | "rate" | "singleton"]?: SubmitMessagesOptions[Name] | undefined;
} & {
  readonly budget?:
    | { readonly tokens?: number | undefined; readonly usd?: number | undefined }
    | undefined;
};

export type Admission =
  | undefined
  | { readonly waitingFor: WaitingFor }
  /** It ends without a turn: `error`, or `skipped` or `aborted` for a singleton. */
  | { readonly status: "error" | "skipped" | "aborted"; readonly failure: Failure };

/**
 * A model call has to wait for long: the turn ends its attempt, which is not counted, and waits in the ledger. Thrown by the model
 * of {@link Gate.model}.
 */
export type LimitWait = Error & { readonly waitingFor: WaitingFor };
