/**
 * What the ledger has to do, in memory and without time of its own: the
 * reference that random sequences compare the real one with. It knows the
 * guarantees (L1-L9) and nothing of rows, wakes or promises. All of it is
 * about moments at which nothing is under way any more; between two of them
 * turns go on one at a time, in the order in which they were started.
 */

import type { SubmissionStatus, TerminalStatus } from "../../../src/submissions/states.ts";
import { Talk } from "./conversations.ts";
import {
  type Ask,
  type Entry,
  entryOf,
  gather,
  inLine,
  isOpen,
  LAST_URGENT,
  type Rules,
  replyId,
} from "./entries.ts";

const MAIN = "main";
const ISOLATED = "isolated";

/** A turn that is held; what it belongs to may have been cancelled already. */
type Turn = { readonly entry: Entry; readonly attempt: number; holds: number };

export class LedgerModel {
  /** By the order of acceptance. */
  entries: Entry[] = [];
  readonly talk = new Talk();
  /** The attempts, by the order in which they began. */
  began: string[] = [];
  /** What the app was told in this life, for each submission in its order. */
  events: string[] = [];
  /** The turns that are held, the longest held first. */
  live: Turn[] = [];
  /** Left by a crash, a reset or a rollback, and not decided about. */
  readonly orphans = new Set<Entry>();
  /** Those among them whose reset this life has seen. */
  readonly #reset = new Set<Entry>();
  /** Had joined a turn when the object crashed. */
  readonly #strays = new Set<Entry>();
  /** Have a place, and begin next. */
  readonly #starting: Entry[] = [];
  /** Threads in which somebody may wait, the longest unserved first (L4). */
  readonly #waiting = new Set<string>();
  /** Want to join the turn that runs. */
  #joining: Entry[] = [];

  constructor(readonly rules: Rules) {}

  find(id: string | undefined): Entry | undefined {
    return this.entries.find((entry) => entry.id === id);
  }

  get open(): Entry[] {
    return this.entries.filter(isOpen);
  }

  /** L3 L9. Returns what the caller is told. */
  submit(ask: Ask, now: number): object {
    const { key, thread } = ask;
    const known = key === undefined ? undefined : this.entries.find((entry) => entry.key === key);
    if (known) {
      const same = [known.plot, known.ask.thread];
      const isSame = JSON.stringify(same) === JSON.stringify([ask.plot, thread]);
      if (!isSame && ask.onConflict === "throw") return { refused: "IdempotencyConflictError" };
      const told = { submissionId: known.id, status: known.status, accepted: false };
      return isSame ? told : { ...told, conflict: true };
    }
    const gathered = gather(this.entries, entryOf(ask, this.rules, now));
    if (gathered) {
      return { submissionId: gathered.id, status: "pending", accepted: true, debounced: true };
    }
    const isBusy = this.#current(thread) || inLine(this.entries, thread).length > 0;
    if (ask.whenBusy === "reject" && isBusy) return { refused: "BusyError" };
    return this.#accept(entryOf(ask, this.rules, now), now);
  }

  /** L5. Returns what the caller is told. */
  cancel(id: string, now: number): object {
    const entry = this.find(id);
    if (!entry) return { outcome: "not_found", submissionId: id };
    if (!isOpen(entry)) return { outcome: "already_terminal", submissionId: id };
    const previousStatus = entry.status;
    const isLive = this.live.some((turn) => turn.entry === entry);
    const isSaid = isLive || (entry.attempts > 0 && this.talk.has(entry));
    const messagesApplied = isSaid && entry.ask.thread !== ISOLATED;
    this.#cancel(entry, false, now);
    this.#play(now);
    return { outcome: "cancelled", submissionId: id, previousStatus, messagesApplied };
  }

  /** L1 L3. An end that is no success is tried again, as a new submission that takes over the key. */
  retry(id: string, now: number): object | null {
    const old = this.find(id);
    if (!old) return null;
    const again = this.find(`${id}:retry`);
    const known = isOpen(old) || old.status === "completed" ? old : again;
    if (known) return { submissionId: known.id, status: known.status, accepted: false };
    const { plot, messages, rank, key } = old;
    const ask = { ...old.ask, ...UNTIMED, id: `${id}:retry`, whenBusy: "enqueue" } as const;
    const entry = {
      ...entryOf(ask, this.rules, now),
      plot,
      messages,
      rank: Math.max(rank, LAST_URGENT),
      key,
    };
    return this.#accept(entry, now, old);
  }

  /** Whether its turn has not come to its end, though it may have ended. */
  isUnderWay(entry: Entry): boolean {
    return this.#holders.includes(entry);
  }

  /** Returns whether there was one that has ended. */
  delete(id: string): boolean {
    const entry = this.find(id);
    if (!entry || isOpen(entry)) return false;
    this.entries = this.entries.filter((other) => other !== entry);
    return true;
  }

  /** A turn that is held goes on, to its next call of the model or its end. */
  release(nth: number, now: number): void {
    const [turn] = this.live.splice(nth % Math.max(1, this.live.length), 1);
    if (!turn) return;
    this.live.push(turn);
    turn.holds--;
    this.#goOn(turn, now);
    this.#play(now);
  }

  /** The main conversation is reset, and all that is open in it ends. */
  reset(now: number): void {
    const open = this.open.filter(({ ask }) => ask.thread === MAIN);
    for (const entry of open) if (entry.status === "pending") this.#settle(entry, "skipped");
    for (const entry of open) {
      if (entry.status !== "running" || entry.mergedInto !== undefined) continue;
      const isLive = this.live.some((turn) => turn.entry === entry);
      this.#stop(entry, isLive ? "aborted" : "skipped", false, now);
    }
    this.#play(now);
  }

  /** L6. Whatever was in memory is gone. */
  crash(): void {
    for (const gone of [this.orphans, this.#reset, this.#strays, this.#waiting]) gone.clear();
    this.live = [];
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
      .map(({ ask }) => ask.thread);
    for (const thread of threads.sort()) this.#waiting.add(thread);
  }

  /** The object's alarm comes, with every job due. */
  wake(now: number): void {
    this.#recoverAll(now);
    this.#start(now);
    this.#play(now);
  }

  /** When something has to be done about it at the latest, if it has to be; 0 for soon. */
  dueOf(entry: Entry): number | undefined {
    const target = this.find(entry.mergedInto);
    // One that has joined a turn waits for it, however long that is put off.
    if (target && isOpen(entry)) return this.dueOf(target);
    if (entry.isToBeUndone || entry.status === "running") return 0;
    if (entry.status !== "pending") return undefined;
    const [head] = inLine(this.entries, entry.ask.thread);
    return entry.notBefore ?? head?.dueAt ?? 0;
  }

  #accept(entry: Entry, now: number, holder?: Entry): object {
    const pending = this.entries.filter(({ status }) => status === "pending").length;
    if (pending >= this.rules.maxPending) return { refused: "BacklogFullError" };
    if (holder) holder.key = undefined;
    const { thread, whenBusy } = entry.ask;
    this.entries.push(entry);
    this.#change(entry, "pending");
    if (whenBusy === "steer" && entry.notBefore === undefined) this.#joining.push(entry);
    this.#waiting.add(thread);
    this.#start(now);
    const current = this.#current(thread);
    const interrupts = whenBusy === "interrupt" || whenBusy === "rollback";
    // One that is only about to run is not lost for it (L5).
    if (interrupts && current?.status === "running" && current !== entry) {
      this.#cancel(current, whenBusy === "rollback", now);
    }
    this.#play(now);
    return { submissionId: entry.id, status: "pending", accepted: true };
  }

  /** What keeps a thread closed, as long as it has not ended. */
  #current(thread: string): Entry | undefined {
    const [entry] = this.#holders.filter(({ ask }) => ask.thread === thread);
    return entry && isOpen(entry) ? entry : undefined;
  }

  /** Who has a place. */
  get #holders(): Entry[] {
    return [...this.orphans, ...this.live.map(({ entry }) => entry), ...this.#starting];
  }

  /** L4. Gives places to whoever is next, thread by thread. */
  #start(now: number): void {
    for (const entry of this.entries) {
      if (entry.status !== "pending" || entry.notBefore === undefined || entry.notBefore > now)
        continue;
      entry.notBefore = undefined;
      this.#waiting.add(entry.ask.thread);
    }
    for (const thread of [...this.#waiting]) {
      while (this.#hasPlace(thread)) {
        const next = this.#next(thread, now);
        if (!next) break;
        this.#starting.push(next);
      }
    }
  }

  #hasPlace(thread: string): boolean {
    const holders = this.#holders;
    if (holders.length >= this.rules.maxConcurrentTurns) return false;
    return thread === ISOLATED || !holders.some(({ ask }) => ask.thread === thread);
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

  /** Those that have got a place begin, one after the other. */
  #play(now: number): void {
    for (let entry = this.#starting.shift(); entry; entry = this.#starting.shift()) {
      const turn = { entry, attempt: entry.attempts + 1, holds: entry.plot.holds };
      this.live.push(turn);
      if (entry.status === "pending") this.#begin(turn, now);
      else this.#over(turn, now);
    }
  }

  #begin(turn: Turn, now: number): void {
    const { entry, attempt } = turn;
    const { id, plot, messages } = entry;
    entry.attempts = attempt;
    entry.isNext = false;
    entry.dueAt = undefined;
    entry.gathersUntil = undefined;
    this.#change(entry, "running");
    this.began.push(`${id}#${attempt}`);
    this.talk.add(entry, messages);
    // L6 L7: what waits in memory for the end of the turn is lost with a crash, which is followed by another attempt.
    const isLast = attempt - entry.resets >= this.#maxAttempts(entry);
    const isWritten = plot.effects || isLast;
    entry.isAnswered = isWritten && plot.answers && entry.failed >= plot.fails;
    this.#goOn(turn, now);
  }

  /** A call of the model, and what follows it. */
  #goOn(turn: Turn, now: number): void {
    // One that was cancelled is refused the call, and nothing more comes of it (L2).
    if (turn.entry.status === "running") {
      this.#join(turn.entry, now);
      if (turn.holds > 0) return;
      this.#finish(turn.entry, now);
    }
    this.#over(turn, now);
    const { id, status } = turn.entry;
    // What has joined a turn that is put off is looked at, and with it all that is left.
    const isPutOff = status === "pending" && this.open.some(({ mergedInto }) => mergedInto === id);
    if (isPutOff) this.#recoverAll(now);
  }

  /** Those that want to join a turn do so when it calls the model. */
  #join(target: Entry, now: number): void {
    const joining = this.#joining.filter(({ ask }) => ask.thread === target.ask.thread);
    this.#joining = this.#joining.filter((entry) => !joining.includes(entry));
    for (const entry of joining) {
      const { expiresAt, status } = entry;
      if (entry === target || status !== "pending" || (expiresAt ?? now + 1) <= now) continue;
      entry.attempts++;
      entry.isNext = false;
      entry.mergedInto = target.id;
      this.#change(entry, "running");
      this.talk.add(entry, entry.messages);
    }
  }

  #finish(entry: Entry, now: number): void {
    const { plot, ask } = entry;
    const hasFailed = entry.failed < plot.fails;
    if (hasFailed) entry.failed++;
    else this.talk.add(entry, [replyId(entry.id)]);
    const mayRetry =
      plot.failure === "transient" &&
      (!plot.effects || ask.afterSideEffects !== "fail") &&
      entry.attempts - entry.resets < this.#maxAttempts(entry);
    if (hasFailed && plot.failure === "reset") {
      this.orphans.add(entry);
      this.#reset.add(entry);
      return;
    }
    if (!hasFailed) {
      entry.isAnswered = plot.answers;
      this.#settle(entry, "completed");
    } else if (mayRetry) {
      entry.dueAt = now + this.rules.delayMs(entry.attempts - entry.resets);
      // Nobody is behind an isolated one.
      if (ask.thread === ISOLATED) entry.notBefore = entry.dueAt;
      entry.deferrals++;
      this.#change(entry, "pending");
    } else this.#settle(entry, "error");
    // Those whose time has come since the last look are in line before its place is free.
    this.#start(now);
  }

  /** Its place is free, and its thread goes behind the others that wait (L4). */
  #over(turn: Turn, now: number): void {
    const { thread } = turn.entry.ask;
    this.live = this.live.filter((other) => other !== turn);
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
    const turn = this.live.find((held) => held.entry === entry);
    this.#settle(entry, status, isToBeUndone);
    this.#waiting.add(entry.ask.thread);
    if (!isToBeUndone) {
      this.orphans.delete(entry);
      this.#strays.delete(entry);
      this.#start(now);
    } else {
      if (!turn && !this.#starting.includes(entry)) this.#leave(entry);
      this.#recoverAll(now);
    }
    if (turn && !entry.plot.deaf) this.#over(turn, now);
  }

  /** L5. It and those that had joined it are to leave the conversation; the thread is closed until then. */
  #leave(entry: Entry): void {
    const joined = this.entries.filter(
      (other) => other.isToBeUndone && other.mergedInto === entry.id,
    );
    for (const left of [entry, ...joined]) this.orphans.add(left);
  }

  /** L5 L6. Decides about what was left. */
  #recoverAll(now: number): void {
    for (const entry of this.#strays) {
      this.#strays.delete(entry);
      if (entry.status !== "running" || this.talk.has(entry)) continue;
      entry.mergedInto = undefined;
      this.#change(entry, "pending");
      this.#waiting.add(entry.ask.thread);
    }
    for (const entry of [...this.orphans]) {
      if (entry.isToBeUndone) this.talk.removeMessages(entry);
      else this.#recover(entry);
      entry.isToBeUndone = false;
      this.orphans.delete(entry);
      this.#waiting.add(entry.ask.thread);
      this.#start(now);
    }
  }

  #recover(entry: Entry): void {
    const { plot, ask } = entry;
    const resets = entry.resets + (this.#reset.delete(entry) ? 1 : 0);
    const isLast = entry.attempts - resets >= this.#maxAttempts(entry);
    const mayRun = (!plot.effects || ask.afterSideEffects !== "fail") && !isLast;
    if (entry.isAnswered) this.#settle(entry, "completed");
    else if (!mayRun) this.#settle(entry, "error");
    else {
      this.#change(entry, "pending");
      entry.isNext = true;
      entry.resets = resets;
    }
  }

  /** Ends it, and those that have joined its turn with it. */
  #settle(entry: Entry, status: TerminalStatus, isToBeUndone = false): void {
    const joined = this.open.filter(({ mergedInto }) => mergedInto === entry.id);
    for (const ended of [entry, ...joined]) {
      ended.isToBeUndone = isToBeUndone;
      // L7: without an answer the text of the reply is the output, also of those that have joined.
      if (status === "completed") ended.isAnswered = true;
      this.#change(ended, status);
    }
  }

  #change(entry: Entry, status: SubmissionStatus): void {
    entry.status = status;
    this.events.push(`${entry.id}:${status}`);
  }

  #maxAttempts({ ask }: Entry): number {
    return ask.maxAttempts ?? this.rules.maxAttempts;
  }
}

const UNTIMED = { delayMs: undefined, expiresMs: undefined, debounce: undefined };
