/**
 * Where a follower of a thread is in the thread's history, as the id of the last event: all ends up to a time were sent, and all
 * open submissions up to a number. The id lists open submissions with what was sent of each. Only where more than
 * {@link MOST_LISTED} are open, ends of the later ones are found by their times.
 */

import type { Place, Places, ThreadHistory } from "../../submissions/store/threads.ts";
import { NOTHING, refuse, type Seen, seenOf, textOf } from "./cursor.ts";

/** Submissions that an id lists. */
const MOST_LISTED = 50;
/** The newest submissions of an object that are searched for ends: as many as retention keeps by default. */
const MOST_READ = 100_000;
const RADIX = 36;
/** The status of a submission that has only been accepted. */
const ACCEPTED = "p0";

const ID = /^t((?:\.[0-9a-z]{1,11}){5})((?:~[0-9a-z]{1,11}(?:\.[0-9a-z.]{2,40})?){0,50})$/;

export class ThreadPosition {
  /** Open submissions up to this number were sent. */
  #known = 0;
  /** When the newest row that was there was accepted. After a restart, later ones can have the numbers of deleted ones. */
  #latest = 0;
  /** The time and the number of the last end that was sent. */
  #end: [number, number] = [0, 0];
  /** What was sent of open submissions. Those that have only been accepted are apart, because they may be many. */
  readonly #begun = new Map<string, Seen>();
  readonly #accepted = new Map<string, Seen>();
  /** The same of an id, until they are read. */
  readonly #listed = new Map<number, Seen>();
  /** What is read next: these, and all from a number on. */
  readonly #chosen = new Set<number>();
  #from = 1;
  #newest = 0;
  #isReset = false;
  /** Nothing was sent yet. */
  #isNew = false;

  private constructor(private readonly history: ThreadHistory) {}

  /** Before the open submissions of the thread, and all that is accepted later. */
  static now(history: ThreadHistory, now: number): ThreadPosition {
    const at = new ThreadPosition(history);
    const open = history.open();
    at.#from = (history.newest()?.seq ?? 0) + 1;
    at.#known = (open[0] ?? at.#from) - 1;
    at.#end = [now, at.#from - 1];
    for (const seq of open) at.#chosen.add(seq);
    at.#isNew = true;
    return at;
  }

  /** @throws InvalidFollowError for what is no id of an event of a thread */
  static after(history: ThreadHistory, id: string): ThreadPosition {
    const [, numbers = "", listed = ""] = ID.exec(id) ?? refuse(id);
    const read = (text = "") => Number.parseInt(text, RADIX);
    const [known = 0, latest = 0, low = 0, ...end] = numbers.slice(1).split(".").map(read);
    const at = new ThreadPosition(history);
    at.#end = end as [number, number];
    for (const one of listed.split("~").slice(1)) {
      const [number, ...sent] = one.split(".");
      const seq = read(number);
      const seen = sent.length > 0 ? seenOf(sent.join("."), seq) : acceptedOf(seq);
      at.#listed.set(seq, seen ?? refuse(id));
      at.#chosen.add(seq);
    }
    const newest = history.newest()?.seq ?? 0;
    const isLater = (seq: number) => (history.newest(seq)?.createdAt ?? 0) > latest;
    const isReused = isLater(Math.max(known, ...at.#chosen));
    // What was sent was of a deleted row with the same number.
    if (isReused) for (const seq of at.#chosen) if (isLater(seq)) at.#listed.delete(seq);
    at.#known = Math.min(known, newest);
    const first = isReused ? 1 : Math.min(low, at.#known + 1);
    at.#from = Math.max(first, newest - MOST_READ);
    at.#isReset = isReused || at.#from > first;
    return at;
  }

  /** What was sent of a submission, if it is open. */
  seen(submissionId: string): Seen | undefined {
    return this.#begun.get(submissionId) ?? this.#accepted.get(submissionId);
  }

  /**
   * What may have events: these submissions, and all that is new. With `isReset`, all open ones are to be sent: the position is
   * new, or submissions were deleted that were sent as open ones.
   */
  read(changed: Iterable<string> = []): Places & { readonly isReset: boolean } {
    for (const id of changed) {
      const seq = this.seen(id)?.seq;
      if (seq !== undefined) this.#chosen.add(seq);
    }
    const newest = this.history.newest();
    this.#newest = newest?.seq ?? 0;
    this.#latest = newest?.createdAt ?? 0;
    const read = () => this.history.read(this.#chosen, this.#from, this.#end);
    let places = read();
    const found = new Set([...places.ended, ...(places.open ?? [])].map(({ seq }) => seq));
    const lost = places.open ? [...this.#chosen].filter((seq) => !found.has(seq)) : [];
    const isReset = this.#isReset || lost.length > 0;
    if (isReset) {
      this.#accepted.clear();
      for (const sent of [this.#begun, this.#listed]) forgetOpen<string | number>(sent);
      for (const seq of lost) {
        this.#chosen.delete(seq);
        this.#listed.delete(seq);
      }
      for (const seq of this.history.open()) this.#chosen.add(seq);
      this.#known = 0;
      this.#isReset = false;
      places = read();
    }
    // They may have ended in the millisecond of an end that is sent before.
    const unsent = places.ended.filter(({ seq }) => this.#chosen.has(seq));
    for (const place of [...unsent, ...(places.open ?? [])])
      this.#listed.set(place.seq, this.take(place));
    const isNew = this.#isNew;
    this.#isNew = false;
    return { ...places, isReset: isReset || isNew };
  }

  /** What was sent of a submission that was read. */
  take({ seq, submissionId }: Place): Seen {
    const isSent = seq <= this.#known;
    const unlisted = isSent ? acceptedOf(seq) : { ...NOTHING, seq };
    const seen = this.seen(submissionId) ?? this.#listed.get(seq) ?? unlisted;
    this.#listed.delete(seq);
    return seen;
  }

  /** The events of an open submission were sent, or its end is to be read again. */
  keep({ submissionId, seq, settledAt }: Place, seen: Seen): void {
    this.#accepted.delete(submissionId);
    (isOnlyAccepted(seen) ? this.#accepted : this.#begun).set(submissionId, seen);
    if (settledAt === null) this.#known = Math.max(seq, this.#known);
  }

  /** The events of an end were sent. */
  drop({ submissionId, seq, settledAt }: Place): void {
    this.#begun.delete(submissionId);
    this.#accepted.delete(submissionId);
    this.#chosen.delete(seq);
    const [at, last] = this.#end;
    if (settledAt !== null && (settledAt > at || (settledAt === at && seq > last)))
      this.#end = [settledAt, seq];
  }

  /** All that was read was sent. */
  finish(): void {
    this.#known = this.#newest;
    this.#from = this.#known + 1;
    this.#chosen.clear();
  }

  /** The id of an event of this submission. */
  idOf(submissionId?: string, seen?: Seen): string {
    const all = [...(seen ? [seen] : []), ...this.#listed.values()];
    for (const sent of [this.#begun, this.#accepted])
      for (const [id, other] of sent) {
        if (sent === this.#accepted && all.length > MOST_LISTED) break;
        if (id !== submissionId) all.push(other);
      }
    const left = all.splice(MOST_LISTED).map(({ seq }) => seq);
    const low = Math.min(this.#known + 1, this.#from, ...left);
    const numbers = [this.#known, this.#latest, low, ...this.#end];
    const listed = all.map((one) => {
      const sent = isOnlyAccepted(one) ? "" : `.${textOf(one)}`;
      return `~${one.seq.toString(RADIX)}${sent}`;
    });
    return `t.${numbers.map((number) => number.toString(RADIX)).join(".")}${listed.join("")}`;
  }
}

function acceptedOf(seq: number): Seen {
  return { ...NOTHING, seq, status: ACCEPTED };
}

function isOnlyAccepted({ status, reply }: Seen): boolean {
  return status === ACCEPTED && reply === "";
}

function forgetOpen<Key>(sent: Map<Key, Seen>): void {
  for (const [key, { status }] of sent) if (!status || /^[pr]/.test(status)) sent.delete(key);
}
