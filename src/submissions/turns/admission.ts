/**
 * Asks the gate of `limits()` before turns start, and carries out its decisions. No host and no kernel imports it: agents without
 * `limits()` do not load it.
 */

import type { LanguageModel, OutputInterface, streamText, ToolSet } from "ai";
import type { WorkLoop } from "../../engine/work-loop.ts";
import type { Admission, Gate, LimitWait } from "../gate.ts";
import type { TurnEnd } from "../host.ts";
import type { Seen, Submission, Summary } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import type { AttemptTimes } from "../store/timeline.ts";
import { wait } from "../store/waiting.ts";
import { isIsolated } from "../threads.ts";
import type { TokenUsage, WaitingFor } from "../types.ts";
import { mayActAgain, mayRepeatEffects } from "./next-attempt.ts";

/** After this time without a decision, the gate is asked again. */
const DECISION_MS = 30_000;
/** How long a thread is paused after a failed decision. */
const PAUSE_MS = 2_000;
const LEAST_WAIT_MS = 100;
/** A change of the time that a submission waits for is stored from here on. */
const REWRITTEN_MS = 10_000;

/** Those of `streamText()` of the AI SDK. */
type StreamOptions = Parameters<
  typeof streamText<ToolSet, Record<string, unknown>, OutputInterface<string, string, never>>
>[0];

type Asked = { readonly since: number; readonly onDecided: OnDecided };

/** The thread is looked at again: now, or when the pause is over. */
type OnDecided = (pausedUntil: number) => void;

/** The parts of the ledger that a decision reads and writes. */
type AdmissionContext = {
  readonly store: SubmissionStore;
  readonly loop: WorkLoop;
  announce(submission: Summary): void;
  /** Ends a pending submission without a turn. */
  end(seen: Seen, end: TurnEnd): void;
};

/** Submissions that are next in their threads, and about which the gate decides. Each takes a slot meanwhile. */
export class Admissions {
  readonly #asked = new Map<number, Asked>();

  constructor(
    private readonly context: AdmissionContext,
    private readonly gate: Gate,
  ) {}

  /** The numbers of the submissions. */
  get asked(): number[] {
    return [...this.#asked.keys()];
  }

  /** Whether a submission cannot start yet. */
  holds(submission: Submission, onDecided: OnDecided): boolean {
    const { seq } = submission;
    if (this.#asked.has(seq)) return true;
    const admission = this.gate.admit(submission);
    if (!admission) return false;
    const { loop } = this.context;
    const asked = { since: loop.clock.now(), onDecided };
    this.#asked.set(seq, asked);
    const isOver = () => this.#asked.get(seq) !== asked;
    const work = this.#decided(submission, admission, isOver).then((pausedUntil) => {
      if (!isOver()) this.#end(seq, asked, pausedUntil);
    });
    loop.track(asked, work);
    return true;
  }

  /** Gives up decisions that do not come. */
  endStalled(): void {
    for (const [seq, asked] of this.#asked)
      if (this.context.loop.clock.now() - asked.since >= DECISION_MS) this.#end(seq, asked, 0);
  }

  /**
   * running → pending, if a turn has failed because it must wait for a limit. The attempt is not counted.
   *
   * @param submission as it is, with the attempt that has failed
   */
  waitAgain(
    submission: Submission,
    { cause, failure, hasEffects = false }: Extract<TurnEnd, { outcome: "error" }>,
    {
      usage,
      times,
    }: { readonly usage?: TokenUsage | undefined; readonly times?: AttemptTimes | undefined },
  ): Submission | undefined {
    const { store, loop } = this.context;
    const { seq, answer: spec, retry } = submission;
    const waitingFor = limitOf(cause);
    const turn = {
      spec,
      priors: store.attempts.priors(submission),
      hasEffects: hasEffects || store.toolCalls.exist(seq),
      mayRepeatEffects: mayRepeatEffects(retry, hasEffects),
    };
    if (!waitingFor || !mayActAgain(turn)) return undefined;
    const now = loop.clock.now();
    const left = { usage, timeline: times?.end(failure, now), isWait: true, isNext: true };
    const pending = store.transaction(() =>
      store.startOver(submission, now, left)
        ? wait(store, submission, waitingFor, this.#dueAt(waitingFor))
        : undefined,
    );
    if (pending) this.context.announce(pending);
    return pending;
  }

  /**
   * The settings of a step, whose model asks the gate before each call.
   *
   * @param seq undefined for a turn that is no submission: a client's
   * @param step.model the model, where the settings have none
   */
  settings<Settings extends { readonly model?: unknown }>(
    seq: number | undefined,
    step: { readonly model: LanguageModel },
    settings: Settings,
  ): Settings {
    const model = (settings.model ?? step.model) as LanguageModel;
    return { ...settings, model: this.gate.model(seq, model) };
  }

  /** The options of a `streamText()` that is no submission's. */
  options(options: StreamOptions): StreamOptions {
    const prepareStep: StreamOptions["prepareStep"] = async (event) =>
      this.settings(undefined, event, (await options.prepareStep?.(event)) ?? {});
    return { ...options, prepareStep };
  }

  #end(seq: number, asked: Asked, pausedUntil: number): void {
    this.#asked.delete(seq);
    this.context.loop.untrack(asked);
    asked.onDecided(pausedUntil);
  }

  /** Carries out a decision. Never rejects. Returns until when the thread is paused, or 0. */
  async #decided(
    submission: Submission,
    admission: Promise<Admission>,
    isOver: () => boolean,
  ): Promise<number> {
    try {
      const decision = await admission;
      return decision && !isOver() ? this.#carryOut(submission, decision) : 0;
    } catch (error) {
      console.error("[perdure] limits could not decide about a turn, will retry:", error);
      return this.context.loop.clock.now() + PAUSE_MS;
    }
  }

  /** A gate that names a time in the past must not be asked again and again at once. */
  #dueAt({ until }: WaitingFor): number {
    return Math.max(until, this.context.loop.clock.now() + LEAST_WAIT_MS);
  }

  #carryOut(submission: Submission, decision: NonNullable<Admission>): number {
    const { seq, attempts, thread, waitingFor: stored, expiresAt } = submission;
    if ("status" in decision) {
      const { status: outcome, failure } = decision;
      this.context.end({ seq, attempts, status: "pending" }, { outcome, failure });
      return 0;
    }
    const { waitingFor } = decision;
    const isExpiring = expiresAt !== undefined && attempts === 0;
    const until = this.#dueAt(waitingFor);
    const dueAt = isExpiring ? Math.min(until, expiresAt) : until;
    // An isolated one is always stored: the others of its thread do not wait for it.
    if (!isIsolated(thread) && stored && isSame(stored, waitingFor)) return dueAt;
    wait(this.context.store, submission, waitingFor, dueAt);
    this.context.loop.wake.request(dueAt);
    return 0;
  }
}

function isSame(stored: WaitingFor, { limit, key, why, until }: WaitingFor): boolean {
  const isDue = Math.abs(until - stored.until) < REWRITTEN_MS;
  return isDue && limit === stored.limit && key === stored.key && why === stored.why;
}

type Wrapping = Partial<LimitWait> & { readonly lastError?: unknown };

/** The limit that a model waits for, by its error or by one that it is wrapped in. */
function limitOf(error: unknown): WaitingFor | undefined {
  for (let at = error, depth = 0; at && depth < 8; depth++) {
    const { waitingFor, lastError, cause } = at as Wrapping;
    if (waitingFor) return waitingFor;
    at = lastError ?? cause;
  }
  return undefined;
}
