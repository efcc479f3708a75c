/**
 * Turns that are left running without anybody here who runs them: by an
 * earlier life of the object, by a reset, or with a last write that failed
 * (L6). Keeps their threads closed until each has been decided about.
 */

import type { Clock } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { withTimeout } from "../../core/timeout.ts";
import { isIsolated, type TurnEnd, type TurnHost } from "../host.ts";
import type { Limits } from "../options.ts";
import type { Seen } from "../store/changes.ts";
import type { Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import { attemptPlanOf, freeAttempts } from "./attempt-plan.ts";
import type { Spending } from "./budgets.ts";
import { HOST_RECOVERY_LIMIT_MS, MAX_FREE_RESETS, recover } from "./recovery-decision.ts";
import { mayRepeatEffects } from "./retry.ts";

/** How often what is left is looked at; after failures more rarely, down to every so often. */
export const CHECK_MS = 2_000;
const RARELY_MS = 30_000;

/** How long the host may take to answer a question, so that one that hangs holds nothing up. */
const HOST_TIMEOUT_MS = 20_000;

/** Why a turn is left to be decided about, where it is not known from the row. */
export type Left = {
  /** The end that storage has refused so far. */
  readonly unwritten?: { readonly seen: Seen; readonly end: TurnEnd } | undefined;
  /** Whether the platform's own reset ended it. */
  readonly isReset?: boolean | undefined;
};

type Entry = Left & {
  readonly thread: string;
  /** Whether an earlier life left it, so that the host may recover it. */
  readonly isOld: boolean;
  /** When it was left, or last heard of, epoch milliseconds. */
  heardAt: number;
  /** When it is looked at next. */
  dueAt: number;
  /** How often a look has failed. */
  failures: number;
};

export type RecoveryOwner = {
  readonly store: SubmissionStore;
  readonly spending: Spending;
  readonly host: TurnHost;
  readonly clock: Clock;
  readonly limits: Limits;
  /** Writes the end of a turn, unless another end was first. */
  end(seen: Seen, end: TurnEnd): void;
  /** It waits for its turn again. */
  startsOver(submission: Submission): void;
  /** It has been decided about: what waited behind it can run. */
  release(submission: { readonly seq: number; readonly thread: string }): void;
};

export class Recovery {
  readonly #left = new Map<number, Entry>();
  /** Left in the turn of another one, whose end is theirs. */
  readonly #joined = new Set<number>();
  #running: Promise<void> | undefined;
  #isAgain = false;

  constructor(private readonly owner: RecoveryOwner) {}

  /** Takes note of what an earlier life left. */
  start(): void {
    for (const submission of this.owner.store.open.running()) {
      if (submission.mergedInto === undefined) this.#put(submission, {}, true);
      else this.#joined.add(submission.seq);
    }
    for (const cancelled of this.owner.store.rollbacks.open()) this.#put(cancelled, {}, true);
  }

  /** A turn of this life is left. */
  add(submission: Submission, left: Left = {}): void {
    this.#put(submission, left, this.#left.get(submission.seq)?.isOld ?? false);
    if (!submission.isToBeUndone) return;
    // Those that had joined it leave with it; all others wait for the end of their own turns (L5).
    for (const joined of this.owner.store.rollbacks.open()) {
      if (joined.mergedInto === submission.submissionId) this.#put(joined, {}, false);
    }
  }

  /** When the next of them is to be looked at, or null when none is left. */
  get nextCheck(): number | null {
    const due = [...this.#left.values()].map(({ dueAt }) => dueAt);
    if (this.#joined.size > 0) due.push(this.owner.clock.now() + CHECK_MS);
    return due.length > 0 ? Math.min(...due) : null;
  }

  /** Those of them that have not ended: the host may go on with them. */
  get running(): Submission[] {
    const found = [...this.#left.keys()].map((seq) => this.owner.store.get(seq));
    return found.filter((left) => left?.status === "running") as Submission[];
  }

  /** How many places they take up. */
  get count(): number {
    return this.#left.size;
  }

  /** How many are left in a thread. */
  countIn(thread: string): number {
    return [...this.#left.values()].filter((left) => left.thread === thread).length;
  }

  /** What is left in a thread. Isolated ones are in nobody's way. */
  current(thread: string): number | undefined {
    if (isIsolated(thread)) return undefined;
    return [...this.#left].find(([, left]) => left.thread === thread)?.[0];
  }

  has(seq: number): boolean {
    return this.#left.has(seq);
  }

  /** The host goes on with it. */
  heard(seq: number): void {
    const left = this.#left.get(seq);
    if (left) left.heardAt = this.owner.clock.now();
  }

  /** It has ended. Returns whether it was left. */
  forget(seq: number): boolean {
    this.#joined.delete(seq);
    return this.#left.delete(seq);
  }

  /** Decides about each of them, as far as that can be done now. Never fails: one that does keeps no other one waiting. */
  run(): Promise<void> {
    this.#isAgain = true;
    this.#running ??= this.#runAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** One run after the other: two at once would decide twice about the same. */
  async #runAll(): Promise<void> {
    while (this.#isAgain) {
      this.#isAgain = false;
      // First those that had joined a turn: what was not said is no part of it, and does not end with it.
      for (const seq of [...this.#joined]) {
        await this.#part(seq).catch((error) => {
          console.error("[perdure] what a joined turn has left is looked at again:", error);
        });
      }
      for (const [seq, left] of [...this.#left]) {
        left.dueAt = this.owner.clock.now() + CHECK_MS;
        await this.#look(seq, left).catch((error) => this.#failed(seq, left, error));
      }
    }
  }

  async #look(seq: number, left: Entry): Promise<void> {
    const submission = this.owner.store.get(seq);
    if (left.unwritten) this.#write(left.unwritten, left.thread);
    else if (submission?.isToBeUndone) await this.#undo(submission, left);
    else if (submission?.status === "running") await this.#decide(submission, left);
    else this.#done(seq, left.thread);
  }

  /** Not for ever: what its host cannot tell anything about is ended. */
  #failed(seq: number, left: Entry, error: unknown): void {
    const { clock, store } = this.owner;
    console.error("[perdure] what a turn has left could not be dealt with:", error);
    left.dueAt = clock.now() + Math.min(RARELY_MS, CHECK_MS * 2 ** left.failures++);
    if (left.unwritten || clock.now() - left.heardAt < HOST_RECOVERY_LIMIT_MS) return;
    try {
      this.#giveUp(store.get(seq), error);
    } catch (cause) {
      console.error("[perdure] and could not be ended, which is tried again:", cause);
    }
  }

  #giveUp(submission: Submission | undefined, error: unknown): void {
    if (submission?.status !== "running") return;
    const { message } = failureOf(error);
    this.owner.end(submission, {
      outcome: "error",
      failure: {
        name: "TurnInterruptedError",
        message: `The turn was interrupted, and what it left cannot be told: ${message}`,
      },
    });
  }

  async #decide(orphan: Submission, { heardAt, isReset }: Entry): Promise<void> {
    const { host, store, limits, clock } = this.owner;
    const { seq, attempts, retry, answer } = orphan;
    const priors = store.attempts.priors(orphan);
    const hasTools = attemptPlanOf(answer, priors)?.followUp === undefined;
    const trace = await withTimeout(host.inspectConversation(orphan), HOST_TIMEOUT_MS);
    const isFree = isReset === true && orphan.resets < MAX_FREE_RESETS;
    const decision = recover({
      applied: trace.applied,
      // What an attempt without tools does again has no effects.
      hasEffects: hasTools && (trace.hasEffects || store.toolCalls.exist(seq)),
      isAnswered: store.isAnswered(orphan),
      isReplied: answer === undefined && trace.messageId !== undefined,
      mayRepeatEffects: mayRepeatEffects(retry, trace.hasEffects),
      isHostRecovering: await this.#isHostRecovering(orphan.thread),
      attempts: attempts - freeAttempts(priors) - orphan.resets - (isFree ? 1 : 0),
      maxAttempts: retry?.maxAttempts ?? limits.maxAttempts,
      waitedMs: clock.now() - heardAt,
    });
    const { messageId, text } = trace;
    if (decision.action === "complete")
      this.owner.end(orphan, { outcome: "completed", messageId, text });
    else if (decision.action === "fail") this.owner.end(orphan, { outcome: "error", ...decision });
    else if (decision.action === "startOver") {
      const { usage } = this.owner.spending.of(seq);
      const pending = store.startOver({ seq, attempts }, { isFree, usage, isNext: true });
      this.owner.spending.close(seq);
      if (pending) this.owner.startsOver(pending);
      for (const joined of store.open.joinedTo(orphan.submissionId)) {
        await this.#part(joined.seq);
      }
      this.#done(seq, orphan.thread);
    }
  }

  #isHostRecovering(thread: string): Promise<boolean> {
    return withTimeout(this.owner.host.isRecovering(thread), HOST_TIMEOUT_MS);
  }

  /** A cancelled one whose messages leave the conversation, once nobody adds to it any more. */
  async #undo(cancelled: Submission, { heardAt, isOld }: Entry): Promise<void> {
    const { host, store, clock } = this.owner;
    const { seq, thread } = cancelled;
    // With it goes what had joined its turn, though that was cancelled before.
    const messages = [cancelled, ...store.rollbacks.joinedTo(cancelled)].flatMap(
      (said) => said.messages,
    );
    const isOverdue = clock.now() - heardAt >= HOST_RECOVERY_LIMIT_MS;
    if (isOld && !isOverdue && (await this.#isHostRecovering(thread))) return;
    try {
      await withTimeout(host.removeMessages({ ...cancelled, messages }), HOST_TIMEOUT_MS);
    } catch (error) {
      // Better a message too many in the conversation than a thread that is closed for ever.
      if (!isOverdue) throw error;
    }
    store.rollbacks.done(seq);
    this.#done(seq, thread);
  }

  /** The turn that these have joined is attempted again: what has not been said in it is no part of it. */
  part(submissionId: string): boolean {
    const joined = this.owner.store.open.joinedTo(submissionId);
    for (const { seq } of joined) this.#joined.add(seq);
    return joined.length > 0;
  }

  /** It had joined a turn: with its messages in the conversation it ends as that does, without them it waits. */
  async #part(seq: number): Promise<void> {
    const { store, host } = this.owner;
    const joined = store.get(seq);
    if (joined?.status === "running" && joined.mergedInto !== undefined) {
      const { mergedInto } = joined;
      const attempt = store.find(mergedInto)?.attempts;
      const { applied } = await withTimeout(host.inspectConversation(joined), HOST_TIMEOUT_MS);
      // Another attempt that has begun meanwhile has asked it together with its own messages.
      const isUnsaid = applied === "none" && store.find(mergedInto)?.attempts === attempt;
      if (isUnsaid) this.detachJoined(joined);
    }
    this.#joined.delete(seq);
  }

  /** It was not said in the turn that it had joined, and waits for its own. */
  detachJoined(joined: Submission): void {
    this.#joined.delete(joined.seq);
    const pending = this.owner.store.startOver(joined);
    if (!pending) return;
    this.owner.startsOver(pending);
    this.owner.release(pending);
  }

  #write({ seen, end }: NonNullable<Left["unwritten"]>, thread: string): void {
    this.owner.end(seen, end);
    this.#done(seen.seq, thread);
  }

  #put({ seq, thread }: Submission, left: Left, isOld: boolean): void {
    const now = this.owner.clock.now();
    this.#left.set(seq, {
      ...left,
      thread,
      isOld,
      heardAt: now,
      dueAt: now + CHECK_MS,
      failures: 0,
    });
  }

  #done(seq: number, thread: string): void {
    if (this.#left.delete(seq)) this.owner.release({ seq, thread });
  }
}
