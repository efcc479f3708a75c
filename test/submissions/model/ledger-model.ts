/**
 * A model of the ledger, in memory and without a clock. It implements the guarantees L1-L9 and knows no rows, wakes or
 * promises. It describes moments at which nothing is running. Between two of them turns go on one at a time, in the
 * order in which they were started.
 */

import type { SubmissionStatus, TerminalStatus } from "../../../src/submissions/states.ts";
import {
  Conversations,
  type Entry,
  entryOf,
  gather,
  inLine,
  isOpen,
  LAST_URGENT,
  type Request,
  type Rules,
  replyId,
} from "./entries.ts";

const MAIN = "main";
const ISOLATED = "isolated";

/** A turn that is held. Its submission may have been cancelled already. */
type HeldTurn = { readonly entry: Entry; readonly attempt: number; holds: number };

export class LedgerModel {
  /** In the order of acceptance. */
  entries: Entry[] = [];
  readonly conversations = new Conversations();
  /** The attempts, in the order in which they began. */
  began: string[] = [];
  /** The status changes that the app was notified of since the last start, in order for each submission. */
  events: string[] = [];
  /** The turns that are held, the longest held first. */
  held: HeldTurn[] = [];
  /** Interrupted by a crash, a reset or a rollback, and not recovered yet. */
  readonly orphans = new Set<Entry>();
  /** Those of them whose object was reset since the last start. */
  readonly #reset = new Set<Entry>();
  /** Had joined another turn when the object crashed. */
  readonly #strays = new Set<Entry>();
  /** Have a slot, and begin next. */
  readonly #starting: Entry[] = [];
  /** Threads in which a submission may wait. The one served longest ago is first (L4). */
  readonly #waiting = new Set<string>();
  /** To join the running turn at its next model call. */
  #joining: Entry[] = [];

  constructor(readonly rules: Rules) {}

  find(id: string | undefined): Entry | undefined {
    return this.entries.find((entry) => entry.id === id);
  }

  get open(): Entry[] {
    return this.entries.filter(isOpen);
  }

  /** L3 L9. Returns the reply to the caller. */
  submit(request: Request, now: number): object {
    const { key, thread } = request;
    const known = key === undefined ? undefined : this.entries.find((entry) => entry.key === key);
    if (known) {
      const same = [known.turn, known.request.thread];
      const isSame = JSON.stringify(same) === JSON.stringify([request.turn, thread]);
      if (!isSame && request.onConflict === "throw") return { refused: "IdempotencyConflictError" };
      const reply = { submissionId: known.id, status: known.status, accepted: false };
      return isSame ? reply : { ...reply, conflict: true };
    }
    const gathered = gather(this.entries, entryOf(request, this.rules, now));
    if (gathered) {
      return { submissionId: gathered.id, status: "pending", accepted: true, debounced: true };
    }
    const isBusy = this.#current(thread) || inLine(this.entries, thread).length > 0;
    if (request.whenBusy === "reject" && isBusy) return { refused: "BusyError" };
    return this.#accept(entryOf(request, this.rules, now), now);
  }

  /** L5. Returns the reply to the caller. */
  cancel(id: string, now: number): object {
    const entry = this.find(id);
    if (!entry) return { outcome: "not_found", submissionId: id };
    if (!isOpen(entry)) return { outcome: "already_terminal", submissionId: id };
    const previousStatus = entry.status;
    const isHeld = this.held.some((turn) => turn.entry === entry);
    const isApplied = isHeld || (entry.attempts > 0 && this.conversations.has(entry));
    const messagesApplied = isApplied && entry.request.thread !== ISOLATED;
    this.#cancel(entry, false, now);
    this.#play(now);
    return { outcome: "cancelled", submissionId: id, previousStatus, messagesApplied };
  }

  /** L1 L3. An unsuccessful submission is retried as a new one, which takes over the key. */
  retry(id: string, now: number): object | null {
    const old = this.find(id);
    if (!old) return null;
    const again = this.find(`${id}:retry`);
    const known = isOpen(old) || old.status === "completed" ? old : again;
    if (known) return { submissionId: known.id, status: known.status, accepted: false };
    const { turn, messages, rank, key, hasCalled } = old;
    const request = { ...old.request, ...UNTIMED, id: `${id}:retry`, whenBusy: "enqueue" } as const;
    const entry = {
      ...entryOf(request, this.rules, now),
      turn,
      messages,
      hasCalled,
      rank: Math.max(rank, LAST_URGENT),
      key,
    };
    return this.#accept(entry, now, old);
  }

  /** Whether its turn still runs. The submission itself may have ended. */
  isRunning(entry: Entry): boolean {
    return this.#holders.includes(entry);
  }

  /** Returns false unless it has ended. */
  delete(id: string): boolean {
    const entry = this.find(id);
    if (!entry || isOpen(entry)) return false;
    this.entries = this.entries.filter((other) => other !== entry);
    return true;
  }

  /** A held turn goes on, to its next model call or its end. */
  release(nth: number, now: number): void {
    const [turn] = this.held.splice(nth % Math.max(1, this.held.length), 1);
    if (!turn) return;
    this.held.push(turn);
    turn.holds--;
    this.#goOn(turn, now);
    this.#play(now);
  }

  /** The main conversation is reset. Everything open in it ends. */
  reset(now: number): void {
    const open = this.open.filter(({ request }) => request.thread === MAIN);
    for (const entry of open) if (entry.status === "pending") this.#settle(entry, "skipped");
    for (const entry of open) {
      if (entry.status !== "running" || entry.mergedInto !== undefined) continue;
      const isHeld = this.held.some((turn) => turn.entry === entry);
      this.#stop(entry, isHeld ? "aborted" : "skipped", false, now);
    }
    this.#play(now);
  }

  /** L6. Memory is lost. */
  crash(): void {
    for (const gone of [this.orphans, this.#reset, this.#strays, this.#waiting]) gone.clear();
    this.held = [];
    this.events = [];
    this.#joining = [];
    const running = this.entries.filter(({ status }) => status === "running");
    for (const entry of running) {
      if (entry.mergedInto === undefined) this.orphans.add(entry);
      else this.#strays.add(entry);
    }
    for (const entry of this.entries) if (entry.isToBeUndone) this.orphans.add(entry);
    const threads = this.open
      .filter(({ notBefore }) => notBefore === undefined)
      .map(({ request }) => request.thread);
    for (const thread of threads.sort()) this.#waiting.add(thread);
  }

  /** The alarm comes, with every job due. */
  wake(now: number): void {
    this.#recoverAll(now);
    this.#start(now);
    this.#play(now);
  }

  /** When the object must handle it at the latest: undefined for never, 0 for soon. */
  dueOf(entry: Entry): number | undefined {
    const target = this.find(entry.mergedInto);
    // One that has joined a turn waits for it, even while that turn is deferred.
    if (target && isOpen(entry)) return this.dueOf(target);
    if (entry.isToBeUndone || entry.status === "running") return 0;
    if (entry.status !== "pending") return undefined;
    const [head] = inLine(this.entries, entry.request.thread);
    return entry.notBefore ?? head?.dueAt ?? 0;
  }

  #accept(entry: Entry, now: number, holder?: Entry): object {
    const pending = this.entries.filter(({ status }) => status === "pending").length;
    if (pending >= this.rules.maxPending) return { refused: "BacklogFullError" };
    if (holder) holder.key = undefined;
    const { thread, whenBusy } = entry.request;
    this.entries.push(entry);
    this.#change(entry, "pending");
    if (whenBusy === "steer" && entry.notBefore === undefined) this.#joining.push(entry);
    this.#waiting.add(thread);
    this.#start(now);
    const current = this.#current(thread);
    const interrupts = whenBusy === "interrupt" || whenBusy === "rollback";
    // One that is only about to start is not aborted (L5).
    if (interrupts && current?.status === "running" && current !== entry) {
      this.#cancel(current, whenBusy === "rollback", now);
    }
    this.#play(now);
    return { submissionId: entry.id, status: "pending", accepted: true };
  }

  /** The open submission whose turn occupies the thread. */
  #current(thread: string): Entry | undefined {
    const [entry] = this.#holders.filter(({ request }) => request.thread === thread);
    return entry && isOpen(entry) ? entry : undefined;
  }

  /** Those that have a slot. */
  get #holders(): Entry[] {
    return [...this.orphans, ...this.held.map(({ entry }) => entry), ...this.#starting];
  }

  /** L4. Gives free slots to the next submissions, thread by thread. */
  #start(now: number): void {
    for (const entry of this.entries) {
      if (entry.status !== "pending" || entry.notBefore === undefined || entry.notBefore > now)
        continue;
      entry.notBefore = undefined;
      this.#waiting.add(entry.request.thread);
    }
    for (const thread of [...this.#waiting]) {
      while (this.#hasSlot(thread)) {
        const next = this.#next(thread, now);
        if (!next) break;
        this.#starting.push(next);
      }
    }
  }

  #hasSlot(thread: string): boolean {
    const holders = this.#holders;
    if (holders.length >= this.rules.maxConcurrentTurns) return false;
    return thread === ISOLATED || !holders.some(({ request }) => request.thread === thread);
  }

  #next(thread: string, now: number): Entry | undefined {
    for (const entry of inLine(this.entries, thread)) {
      const { expiresAt, dueAt, attempts } = entry;
      if (this.#starting.includes(entry)) continue;
      if (expiresAt !== undefined && expiresAt <= now && attempts === 0) {
        this.#settle(entry, "skipped");
        continue;
      }
      // L8: what is next stays next.
      return dueAt !== undefined && dueAt > now ? undefined : entry;
    }
    this.#waiting.delete(thread);
    return undefined;
  }

  /** Those that have got a slot begin, one after the other. */
  #play(now: number): void {
    for (let entry = this.#starting.shift(); entry; entry = this.#starting.shift()) {
      const turn = { entry, attempt: entry.attempts + 1, holds: entry.turn.holds };
      this.held.push(turn);
      if (entry.status === "pending") this.#begin(turn, now);
      else this.#over(turn, now);
    }
  }

  #begin(turn: HeldTurn, now: number): void {
    const { entry, attempt } = turn;
    const { id, turn: planned, messages } = entry;
    entry.attempts = attempt;
    entry.isNext = false;
    entry.dueAt = undefined;
    entry.gathersUntil = undefined;
    this.#change(entry, "running");
    this.began.push(`${id}#${attempt}`);
    this.conversations.add(entry, messages);
    entry.hasCalled ||= planned.effects;
    // L6 L7: an answer held in memory is lost in a crash, and another attempt follows. It is written at once where none may follow.
    const isLast = attempt - entry.resets >= this.#maxAttempts(entry);
    const isWritten = planned.effects || isLast;
    entry.isAnswered = isWritten && planned.answers && entry.failed >= planned.fails;
    this.#goOn(turn, now);
  }

  /** One model call and what follows it. */
  #goOn(turn: HeldTurn, now: number): void {
    // After a cancellation the call is refused, and the turn changes nothing more (L2).
    if (turn.entry.status === "running") {
      this.#join(turn.entry, now);
      if (turn.holds > 0) return;
      this.#finish(turn.entry, now);
    }
    this.#over(turn, now);
    const { id, status } = turn.entry;
    // Submissions that have joined a deferred turn are recovered, and all others with them.
    const isDeferred =
      status === "pending" && this.open.some(({ mergedInto }) => mergedInto === id);
    if (isDeferred) this.#recoverAll(now);
  }

  /** Submissions join a turn when it calls the model. */
  #join(target: Entry, now: number): void {
    const joining = this.#joining.filter(({ request }) => request.thread === target.request.thread);
    this.#joining = this.#joining.filter((entry) => !joining.includes(entry));
    for (const entry of joining) {
      const { expiresAt, status } = entry;
      if (entry === target || status !== "pending" || (expiresAt ?? now + 1) <= now) continue;
      entry.attempts++;
      entry.isNext = false;
      entry.mergedInto = target.id;
      this.#change(entry, "running");
      this.conversations.add(entry, entry.messages);
    }
  }

  #finish(entry: Entry, now: number): void {
    const { turn, request } = entry;
    const hasFailed = entry.failed < turn.fails;
    if (hasFailed) entry.failed++;
    else this.conversations.add(entry, [replyId(entry.id)]);
    const mayRetry =
      turn.failure === "transient" &&
      (!entry.hasCalled || request.afterSideEffects !== "fail") &&
      entry.attempts - entry.resets < this.#maxAttempts(entry);
    if (hasFailed && turn.failure === "reset") {
      this.orphans.add(entry);
      this.#reset.add(entry);
      return;
    }
    if (!hasFailed) {
      entry.isAnswered = turn.answers;
      this.#settle(entry, "completed");
    } else if (mayRetry) {
      entry.dueAt = now + this.rules.delayMs(entry.attempts - entry.resets);
      // No submission waits behind an isolated one.
      if (request.thread === ISOLATED) entry.notBefore = entry.dueAt;
      entry.deferrals++;
      this.#change(entry, "pending");
    } else this.#settle(entry, "error");
    // Scheduled ones that have become due get in line before the slot is free.
    this.#start(now);
  }

  /** Its slot is free, and its thread goes behind the others that wait (L4). */
  #over(turn: HeldTurn, now: number): void {
    const { thread } = turn.entry.request;
    this.held = this.held.filter((other) => other !== turn);
    const isUndoing = turn.entry.isToBeUndone;
    if (isUndoing) this.#leave(turn.entry);
    this.#waiting.delete(thread);
    this.#waiting.add(thread);
    this.#start(now);
    if (isUndoing) this.#recoverAll(now);
  }

  #cancel(entry: Entry, isToBeUndone: boolean, now: number): void {
    this.#stop(entry, "aborted", isToBeUndone, now);
  }

  #stop(entry: Entry, status: TerminalStatus, isToBeUndone: boolean, now: number): void {
    const turn = this.held.find((held) => held.entry === entry);
    this.#settle(entry, status, isToBeUndone);
    this.#waiting.add(entry.request.thread);
    if (!isToBeUndone) {
      this.orphans.delete(entry);
      this.#strays.delete(entry);
      this.#start(now);
    } else {
      if (!turn && !this.#starting.includes(entry)) this.#leave(entry);
      this.#recoverAll(now);
    }
    if (turn && !entry.turn.ignoresAbort) this.#over(turn, now);
  }

  /** L5. It and those that had joined it must leave the conversation. The thread is occupied until then. */
  #leave(entry: Entry): void {
    const joined = this.entries.filter(
      (other) => other.isToBeUndone && other.mergedInto === entry.id,
    );
    for (const left of [entry, ...joined]) this.orphans.add(left);
  }

  /** L5 L6. Recovers what was interrupted. */
  #recoverAll(now: number): void {
    for (const entry of this.#strays) {
      this.#strays.delete(entry);
      if (entry.status !== "running" || this.conversations.has(entry)) continue;
      entry.mergedInto = undefined;
      this.#change(entry, "pending");
      this.#waiting.add(entry.request.thread);
    }
    for (const entry of [...this.orphans]) {
      if (entry.isToBeUndone) this.conversations.removeMessages(entry);
      else this.#recover(entry);
      entry.isToBeUndone = false;
      this.orphans.delete(entry);
      this.#waiting.add(entry.request.thread);
      this.#start(now);
    }
  }

  #recover(entry: Entry): void {
    const { hasCalled, request } = entry;
    const resets = entry.resets + (this.#reset.delete(entry) ? 1 : 0);
    const isLast = entry.attempts - resets >= this.#maxAttempts(entry);
    const mayRun = (!hasCalled || request.afterSideEffects !== "fail") && !isLast;
    if (entry.isAnswered) this.#settle(entry, "completed");
    else if (!mayRun) this.#settle(entry, "error");
    else {
      this.#change(entry, "pending");
      entry.isNext = true;
      entry.resets = resets;
    }
  }

  /** Ends it, and those that have joined its turn. */
  #settle(entry: Entry, status: TerminalStatus, isToBeUndone = false): void {
    const joined = this.open.filter(({ mergedInto }) => mergedInto === entry.id);
    for (const ended of [entry, ...joined]) {
      ended.isToBeUndone = isToBeUndone;
      // L7: without an answer the reply's text is the output, also of those that have joined.
      if (status === "completed") ended.isAnswered = true;
      this.#change(ended, status);
    }
  }

  #change(entry: Entry, status: SubmissionStatus): void {
    entry.status = status;
    this.events.push(`${entry.id}:${status}`);
  }

  #maxAttempts({ request }: Entry): number {
    return request.maxAttempts ?? this.rules.maxAttempts;
  }
}

const UNTIMED = { delayMs: undefined, expiresMs: undefined, debounce: undefined };
