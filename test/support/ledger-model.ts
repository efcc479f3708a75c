/**
 * What the ledger has to do, in memory and without time of its own: the
 * reference that random sequences compare the real one with. It knows the
 * guarantees (L1-L9) and nothing of rows, wakes or promises. All of it is
 * about moments at which nothing is under way any more.
 */

import type { SubmissionStatus } from "../../src/submissions/states.ts";

/** What the turn of a submission does in each of its attempts. */
export type Plot = {
  /** It fails so often before it succeeds, */
  readonly fails: number;
  /** for good, for now, or with what a reset object says. */
  readonly failure: "permanent" | "transient" | "reset";
  /** Each attempt takes until it is released. */
  readonly holds: boolean;
  /** It goes on, though it is told to stop. */
  readonly deaf: boolean;
  /** It is to end with a structured answer, and gives it before it holds. */
  readonly answers: boolean;
  /** One of its tools has had effects. */
  readonly effects: boolean;
};

export type Ask = {
  readonly id: string;
  readonly key: string | undefined;
  readonly plot: Plot;
  readonly maxAttempts: number | undefined;
  readonly afterSideEffects: boolean;
  readonly onConflict: "return" | "throw";
};

export type Entry = {
  readonly ask: Ask;
  status: SubmissionStatus;
  attempts: number;
  /** When a deferred one is due. */
  dueAt: number | undefined;
  isAnswered: boolean;
  /** How many failed attempts were followed by another. */
  deferrals: number;
  /** How often its turn has failed. */
  failed: number;
  /** Attempts that resets have ended, which cost none. */
  resets: number;
};

export type Rules = {
  readonly maxPending: number;
  readonly maxAttempts: number;
  /** How long the attempt after the nth failure is put off. */
  readonly delayMs: (failures: number) => number;
};

/** What each submission says, all or nothing. */
export const messageIds = (id: string) => [`${id}.1`, `${id}.2`];

export const isOpen = ({ status }: Pick<Entry, "status">) =>
  status === "pending" || status === "running";

export class LedgerModel {
  /** By the order of acceptance. */
  entries: Entry[] = [];
  conversation: string[] = [];
  /** The attempts, by the order in which they began. */
  began: string[] = [];
  /** What the app was told in this life. */
  events: string[] = [];
  /** The turn that is held now; it may have been cancelled already. */
  live: Entry | undefined;
  /** Left running, by a crash or a reset. */
  readonly orphans = new Set<Entry>();
  /** Those among them whose reset this life has seen. */
  readonly #reset = new Set<Entry>();

  constructor(readonly rules: Rules) {}

  find(id: string): Entry | undefined {
    return this.entries.find(({ ask }) => ask.id === id);
  }

  get open(): Entry[] {
    return this.entries.filter(isOpen);
  }

  /** Whether something could run, and only a wake is missing. */
  isLate(now: number): boolean {
    const head = this.#head;
    return !this.live && this.orphans.size === 0 && head !== undefined && !isDeferred(head, now);
  }

  /** L3 L9. Returns what the caller is told. */
  submit(ask: Ask, now: number): object {
    const known =
      ask.key === undefined ? undefined : this.entries.find((entry) => entry.ask.key === ask.key);
    if (known) {
      const isSame = JSON.stringify(known.ask.plot) === JSON.stringify(ask.plot);
      if (!isSame && ask.onConflict === "throw") return { refused: "IdempotencyConflictError" };
      const { status, ask: first } = known;
      const told = { submissionId: first.id, status, accepted: false };
      return isSame ? told : { ...told, conflict: true };
    }
    const pending = this.entries.filter(({ status }) => status === "pending").length;
    if (pending >= this.rules.maxPending) return { refused: "BacklogFullError" };
    const entry: Entry = {
      ask,
      status: "pending",
      attempts: 0,
      dueAt: undefined,
      isAnswered: false,
      deferrals: 0,
      failed: 0,
      resets: 0,
    };
    this.entries.push(entry);
    this.#change(entry, "pending");
    this.#run(now);
    return { submissionId: ask.id, status: "pending", accepted: true };
  }

  /** L5. Returns what the caller is told. */
  cancel(id: string, now: number): object {
    const entry = this.find(id);
    if (!entry) return { outcome: "not_found", submissionId: id };
    if (!isOpen(entry)) return { outcome: "already_terminal", submissionId: id };
    const previousStatus = entry.status;
    const messagesApplied = messageIds(id).some((said) => this.conversation.includes(said));
    this.#change(entry, "aborted");
    this.orphans.delete(entry);
    if (this.live === entry && !entry.ask.plot.deaf) this.live = undefined;
    this.#run(now);
    return { outcome: "cancelled", submissionId: id, previousStatus, messagesApplied };
  }

  /** The turn that is held goes on to its end. */
  release(now: number): void {
    const entry = this.live;
    if (!entry) return;
    this.live = undefined;
    // The late end of a cancelled one changes nothing (L2).
    if (entry.status === "running") this.#finish(entry, now);
    this.#run(now);
  }

  skipPending(): void {
    for (const entry of this.entries)
      if (entry.status === "pending") this.#change(entry, "skipped");
  }

  /** L6. Whatever was in memory is gone. */
  crash(): void {
    this.live = undefined;
    this.events = [];
    this.orphans.clear();
    this.#reset.clear();
    for (const entry of this.entries) if (entry.status === "running") this.orphans.add(entry);
  }

  /** The object's alarm comes, with every job due. */
  wake(now: number): void {
    for (const entry of [...this.orphans]) {
      this.orphans.delete(entry);
      this.#recover(entry);
      this.#run(now);
    }
    this.#run(now);
  }

  get #head(): Entry | undefined {
    return this.entries.find(({ status }) => status === "pending");
  }

  #recover(entry: Entry): void {
    const { plot, afterSideEffects } = entry.ask;
    const resets = entry.resets + (this.#reset.delete(entry) ? 1 : 0);
    const isLast = entry.attempts - resets >= this.#maxAttempts(entry);
    const mayRun = (!plot.effects || afterSideEffects) && !isLast;
    if (entry.isAnswered) this.#change(entry, "completed");
    else this.#change(entry, mayRun ? "pending" : "error");
    if (entry.status === "pending") entry.resets = resets;
  }

  /** Turns, one after the other, up to one that has to wait (L4). */
  #run(now: number): void {
    while (!this.live && this.orphans.size === 0) {
      const entry = this.#head;
      if (!entry || isDeferred(entry, now)) return;
      this.#begin(entry);
      if (entry.ask.plot.holds) this.live = entry;
      else this.#finish(entry, now);
    }
  }

  #begin(entry: Entry): void {
    const { id, plot } = entry.ask;
    entry.attempts++;
    entry.dueAt = undefined;
    entry.isAnswered = plot.answers && entry.failed >= plot.fails;
    this.#change(entry, "running");
    this.began.push(`${id}#${entry.attempts}`);
    if (entry.attempts === 1) this.conversation.push(...messageIds(id));
  }

  #finish(entry: Entry, now: number): void {
    const { plot, afterSideEffects } = entry.ask;
    const hasFailed = entry.failed < plot.fails;
    if (hasFailed) entry.failed++;
    const mayRetry =
      plot.failure === "transient" &&
      (!plot.effects || afterSideEffects) &&
      entry.attempts - entry.resets < this.#maxAttempts(entry);
    if (!hasFailed) this.#change(entry, "completed");
    else if (plot.failure === "reset") {
      this.orphans.add(entry);
      this.#reset.add(entry);
    } else if (mayRetry) {
      entry.dueAt = now + this.rules.delayMs(entry.attempts - entry.resets);
      entry.deferrals++;
      this.#change(entry, "pending");
    } else this.#change(entry, "error");
  }

  #change(entry: Entry, status: SubmissionStatus): void {
    entry.status = status;
    this.events.push(`${entry.ask.id}:${status}`);
  }

  #maxAttempts({ ask }: Entry): number {
    return ask.maxAttempts ?? this.rules.maxAttempts;
  }
}

function isDeferred({ dueAt }: Entry, now: number): boolean {
  return dueAt !== undefined && dueAt > now;
}
