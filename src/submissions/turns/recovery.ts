/**
 * Interrupted turns: running in the ledger, but not in this object instance. A restart, a reset or a failed write has
 * left them, or a rollback has to wait for the end of a turn. Their threads stay closed until each has been decided.
 */

import { type Clock, earliest, withTimeout } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import type { TurnEnd, TurnHost } from "../host.ts";
import type { Limits } from "../options.ts";
import type { Statuses } from "../statuses.ts";
import type { Seen, Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import { isIsolated } from "../threads.ts";
import type { TokenBudgets } from "./budgets.ts";
import {
  attemptPlanOf,
  freeAttempts,
  HOST_RECOVERY_LIMIT_MS,
  MAX_FREE_RESETS,
  mayRepeatEffects,
  recover,
} from "./next-attempt.ts";
import type { Settlement } from "./settlement.ts";

/** How often interrupted turns are checked; after failures with growing delays, up to the longest. */
export const CHECK_MS = 2_000;
const MAX_CHECK_MS = 30_000;
const HOST_TIMEOUT_MS = 20_000;

/** Why a turn was interrupted, where the row does not say it. */
export type Interruption = {
  /** The end that storage has refused so far. */
  readonly unwritten?: { readonly seen: Seen; readonly end: TurnEnd } | undefined;
  readonly isReset?: boolean | undefined;
};

type InterruptedTurn = Interruption & {
  readonly thread: string;
  /** Whether an earlier object instance ran it, so that the host may recover it. */
  readonly isFromEarlierInstance: boolean;
  /** When it was interrupted, or the host last reported progress, epoch milliseconds. */
  heartbeatAt: number;
  checkAt: number;
  failures: number;
};

/** A submission that no longer occupies its thread. */
export type Released = Pick<Submission, "seq" | "thread"> & { readonly dueAt?: number | undefined };

/** The decision about an interrupted turn: the submission has changed, or what waits behind it can run. */
export type RecoveryOutcome = { readonly changed: Submission } | { readonly released: Released };

export class Recovery {
  readonly #interrupted = new Map<number, InterruptedTurn>();
  /** Submissions that joined an interrupted turn, and end with it. */
  readonly #joined = new Set<number>();

  constructor(
    private readonly store: SubmissionStore,
    private readonly clock: Clock,
    private readonly host: TurnHost,
    private readonly limits: Limits,
    private readonly statuses: Statuses,
    private readonly budgets: TokenBudgets,
    private readonly settlement: Settlement,
  ) {}

  /** Finds what an earlier object instance has left. */
  start(): void {
    const { open } = this.store;
    for (const submission of open.running()) {
      if (submission.mergedInto === undefined) this.#put(submission, {}, true);
      else this.#joined.add(submission.seq);
    }
    for (const cancelled of open.rollbacks()) this.#put(cancelled, {}, true);
  }

  /** A turn of this object instance was interrupted. */
  add(submission: Submission, interruption: Interruption = {}): void {
    const { seq, submissionId, isRollbackPending } = submission;
    this.#put(submission, interruption, this.#interrupted.get(seq)?.isFromEarlierInstance ?? false);
    if (!isRollbackPending) return;
    // Submissions that joined it are rolled back with it; others wait for the end of their own turns.
    for (const joined of this.store.open.rollbacks()) {
      if (joined.mergedInto === submissionId) this.#put(joined, {}, false);
    }
  }

  get nextCheck(): number | null {
    const times = [...this.#interrupted.values()].map(({ checkAt }) => checkAt);
    return earliest([...times, this.#joined.size > 0 ? this.clock.now() + CHECK_MS : null]);
  }

  /** The interrupted turns that have not ended: the host may continue them. */
  get running(): Submission[] {
    const found = [...this.#interrupted.keys()].map((seq) => this.store.get(seq));
    return found.filter((submission) => submission?.status === "running") as Submission[];
  }

  /** How many slots they occupy. */
  get count(): number {
    return this.#interrupted.size;
  }

  countIn(thread: string): number {
    return [...this.#interrupted.values()].filter((turn) => turn.thread === thread).length;
  }

  /** The interrupted turn of a thread. Isolated ones block nothing. */
  current(thread: string): number | undefined {
    if (isIsolated(thread)) return undefined;
    return [...this.#interrupted].find(([, turn]) => turn.thread === thread)?.[0];
  }

  has(seq: number): boolean {
    return this.#interrupted.has(seq);
  }

  heartbeat(seq: number): void {
    const turn = this.#interrupted.get(seq);
    if (turn) turn.heartbeatAt = this.clock.now();
  }

  forget(seq: number): void {
    this.#joined.delete(seq);
    this.#interrupted.delete(seq);
  }

  /**
   * Decides about interrupted turns, as far as possible now. Never fails.
   *
   * @param isWake also about those that a reset has just interrupted: their host may need a moment
   */
  async *check(isWake: boolean): AsyncGenerator<RecoveryOutcome> {
    // Joined submissions first: without their messages in the conversation they must not end with the turn.
    for (const seq of [...this.#joined]) yield* this.#checkJoined(seq);
    for (const [seq, turn] of [...this.#interrupted]) {
      const now = this.clock.now();
      if (!isWake && turn.isReset && turn.checkAt > now) continue;
      turn.checkAt = now + CHECK_MS;
      try {
        yield* this.#check(seq, turn);
      } catch (error) {
        yield* this.#failed(seq, turn, error);
      }
    }
  }

  async *#check(seq: number, turn: InterruptedTurn): AsyncGenerator<RecoveryOutcome> {
    const submission = this.store.get(seq);
    if (turn.unwritten) {
      const { seen, end } = turn.unwritten;
      yield* this.#end(seen, end);
      yield* this.#release(seen.seq, turn.thread);
    } else if (submission?.isRollbackPending) yield* this.#rollBack(submission, turn);
    else if (submission?.status === "running") yield* this.#decide(submission, turn);
    else yield* this.#release(seq, turn.thread);
  }

  *#end(seen: Seen, end: TurnEnd): Generator<RecoveryOutcome> {
    const changed = this.settlement.end(seen, end);
    if (changed) yield { changed };
  }

  /** A check has failed. It is repeated, but not forever: the submission ends when the host gives no answer for long. */
  *#failed(seq: number, turn: InterruptedTurn, error: unknown): Generator<RecoveryOutcome> {
    const { clock, store } = this;
    console.error("[perdure] an interrupted turn could not be checked, will retry:", error);
    turn.checkAt = clock.now() + Math.min(MAX_CHECK_MS, CHECK_MS * 2 ** turn.failures++);
    if (turn.unwritten || clock.now() - turn.heartbeatAt < HOST_RECOVERY_LIMIT_MS) return;
    try {
      const submission = store.get(seq);
      if (submission?.status !== "running") return;
      const message = `The turn was interrupted, and its state could not be read: ${failureOf(error).message}`;
      const failure = { name: "TurnInterruptedError", message };
      yield* this.#end(submission, { outcome: "error", failure });
    } catch (cause) {
      console.error("[perdure] an interrupted turn could not be ended, will retry:", cause);
    }
  }

  async *#decide(submission: Submission, turn: InterruptedTurn): AsyncGenerator<RecoveryOutcome> {
    const { host, store, limits, clock } = this;
    const { seq, submissionId, thread, attempts, retry, answer, resets, waits } = submission;
    const priors = store.attempts.priors(submission);
    const hasTools = attemptPlanOf(answer, priors)?.followUp === undefined;
    const conversation = await withTimeout(host.inspectConversation(submission), HOST_TIMEOUT_MS);
    const isWait = submission.waitsUntil !== undefined;
    const isFree = turn.isReset === true && resets - waits < MAX_FREE_RESETS;
    const decision = recover({
      applied: conversation.applied,
      // An attempt without tools has no effects to repeat.
      hasEffects: hasTools && (conversation.hasEffects || store.toolCalls.exist(seq)),
      isAnswered: store.isAnswered(submission),
      isReplied: answer === undefined && conversation.messageId !== undefined,
      mayRepeatEffects: mayRepeatEffects(retry, conversation.hasEffects),
      isHostRecovering: await this.#isHostRecovering(thread),
      attempts: attempts - freeAttempts(priors) - resets - (isFree || isWait ? 1 : 0),
      maxAttempts: retry?.maxAttempts ?? limits.maxAttempts,
      waitedMs: clock.now() - turn.heartbeatAt,
    });
    const { messageId, text } = conversation;
    if (decision.action === "complete")
      yield* this.#end(submission, { outcome: "completed", messageId, text });
    else if (decision.action === "fail")
      yield* this.#end(submission, { outcome: "error", ...decision });
    else if (decision.action === "startOver") {
      const { usage, times } = this.budgets.recordOf(seq);
      const timeline = times?.end(undefined, clock.now());
      const left = { isFree, isWait, usage, timeline, isNext: true };
      const pending = store.startOver(submission, clock.now(), left);
      this.budgets.close(seq);
      if (pending) this.statuses.announce(pending);
      this.expectJoined(submissionId);
      for (const joined of store.open.joinedTo(submissionId)) yield* this.#checkJoined(joined.seq);
      yield* this.#release(seq, thread);
    }
  }

  #isHostRecovering(thread: string): Promise<boolean> {
    return withTimeout(this.host.isRecovering(thread), HOST_TIMEOUT_MS);
  }

  /** Removes the messages of a cancelled submission, once no turn adds to them any more. */
  async *#rollBack(cancelled: Submission, turn: InterruptedTurn): AsyncGenerator<RecoveryOutcome> {
    const { host, store, clock } = this;
    const { seq, thread } = cancelled;
    const isOverdue = clock.now() - turn.heartbeatAt >= HOST_RECOVERY_LIMIT_MS;
    const mayRecover = turn.isFromEarlierInstance && !isOverdue;
    // Submissions that joined its turn are rolled back with it, though they were cancelled before.
    const messages = [cancelled, ...store.open.everJoinedTo(cancelled)].flatMap(
      (submission) => submission.messages,
    );
    if (mayRecover && (await this.#isHostRecovering(thread))) return;
    try {
      await withTimeout(host.removeMessages({ ...cancelled, messages }), HOST_TIMEOUT_MS);
    } catch (error) {
      // A message too many in the conversation is better than a thread that stays closed.
      if (!isOverdue) throw error;
    }
    store.open.finishRollback(seq);
    yield* this.#release(seq, thread);
  }

  /** Another attempt of a turn follows: the submissions that joined the failed one are checked. Returns whether there are any. */
  expectJoined(submissionId: string): boolean {
    const joined = this.store.open.joinedTo(submissionId);
    for (const { seq } of joined) this.#joined.add(seq);
    return joined.length > 0;
  }

  /** A submission that joined a turn ends with it if its messages are in the conversation; otherwise it waits again. */
  async *#checkJoined(seq: number): AsyncGenerator<RecoveryOutcome> {
    const { store, host } = this;
    try {
      const joined = store.get(seq);
      if (joined?.status === "running" && joined.mergedInto !== undefined) {
        const { mergedInto } = joined;
        const attempt = store.find(mergedInto)?.attempts;
        const { applied } = await withTimeout(host.inspectConversation(joined), HOST_TIMEOUT_MS);
        // A new attempt that has begun meanwhile asks its messages together with its own.
        const isSameAttempt = store.find(mergedInto)?.attempts === attempt;
        const released =
          applied === "none" && isSameAttempt ? this.detachJoined(joined) : undefined;
        if (released) yield { released };
      }
      this.#joined.delete(seq);
    } catch (error) {
      console.error("[perdure] a joined submission could not be checked, will retry:", error);
    }
  }

  /** The submission waits for a turn of its own: the turn that it joined does not have its messages. Returns it. */
  detachJoined(joined: Submission): Released | undefined {
    this.#joined.delete(joined.seq);
    const pending = this.store.startOver(joined, this.clock.now());
    if (pending) this.statuses.announce(pending);
    return pending;
  }

  #put({ seq, thread }: Submission, interruption: Interruption, isFromEarlierInstance: boolean) {
    const now = this.clock.now();
    this.#interrupted.set(seq, {
      ...interruption,
      thread,
      isFromEarlierInstance,
      heartbeatAt: now,
      checkAt: now + CHECK_MS,
      failures: 0,
    });
  }

  *#release(seq: number, thread: string): Generator<RecoveryOutcome> {
    if (this.#interrupted.delete(seq)) yield { released: { seq, thread } };
  }
}
