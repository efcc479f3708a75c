/**
 * A model of the outbox: what it promises, played on plain lists, one entry
 * and one attempt after the other. Written from the guarantees and the words
 * of its types; it shares no code with the outbox, and knows no SQL.
 */

/** What a destination does with one attempt. Those that a place does not know are a failure there. */
export type Answer = "take" | "fail" | "refuse" | "gone" | "later" | "hang" | "kill";
export const PLACES = ["plain", "ordered", "hasty", "queue", "hook"] as const;
export type Place = (typeof PLACES)[number];

export type Rules = {
  readonly [P in Place]: {
    readonly maxAttempts: number;
    readonly maxAgeMs: number;
    /** Larger ones come as a reference. */
    readonly takesLarge: boolean;
  };
} & {
  /** After so many failures. */
  readonly delayMs: (failures: number) => number;
  /** After so many attempts in a row that a crash may have interrupted. */
  readonly lostDelayMs: (lost: number) => number;
  /** So many of them, and it is given up. */
  readonly maxLost: number;
  readonly retryAfterMs: number;
};

export type NewEvent = {
  readonly id: string;
  readonly place: Place;
  readonly isLarge: boolean;
  /** What the attempts are answered; the last answer for all others. */
  readonly plot: readonly Answer[];
};

export type Entry = Omit<NewEvent, "plot"> & {
  readonly seq: number;
  /** The number of the attempt that comes next. */
  attempt: number;
  /** Attempts before it was redriven. */
  before: number;
  /** When it was put or redriven. */
  since: number;
  dueAt: number;
  /** Put or begun, and not known to have failed since: a crash may have come in its attempt. */
  isFresh: boolean;
  /** Attempts in a row that a crash may have interrupted. */
  lost: number;
  /** It was tried alone when the object died. */
  wasAlone: boolean;
};
export type Letter = Entry & { readonly diedAt: number };
export type Trouble = { since: number; heldUntil: number | null; isDisabled: boolean };

/** What is known of an endpoint, of letters and entries, after a crash in the middle of something. */
export type Found = {
  readonly waiting: readonly Entry[];
  readonly dead: readonly Letter[];
  readonly trouble: Trouble | undefined;
  readonly calls: readonly Call[];
};
export type Call = {
  readonly id: string;
  readonly place: Place;
  readonly attempt: number;
  readonly answer: Answer;
  readonly isLarge: boolean;
  readonly isWhole: boolean;
};

export class OutboxModel {
  waiting: Entry[] = [];
  dead: Letter[] = [];
  trouble: Trouble | undefined;
  calls: Call[] = [];
  /** How often each of them has come about, as the app is told. */
  readonly deaths = new Map<string, number>();
  /** When the present life began, or null between two. */
  bornAt: number | null = null;
  /** Places of which the present life has met the one that the last life may have attempted. */
  doubted = new Set<Place>();
  /** The one that was tried alone when the last life ended: no other was under way. */
  loner: string | undefined;
  /** All that was accepted, whatever became of it, and what somebody has forgotten on purpose. */
  readonly accepted = new Set<string>();
  readonly forgotten = new Set<string>();
  readonly #plots = new Map<string, { answers: readonly Answer[]; used: number }>();
  #seq = 0;
  /** From now on everything is taken. */
  isCalm = false;

  constructor(
    readonly rules: Rules,
    private readonly clock: () => number,
  ) {}

  start(): void {
    this.bornAt ??= this.clock();
  }

  crash(): void {
    this.bornAt = null;
    this.doubted = new Set();
    this.loner = undefined;
  }

  isOpen(id: string): boolean {
    return [...this.waiting, ...this.dead].some((entry) => entry.id === id);
  }

  /** Several in a transaction, which commits or does not. */
  put(events: readonly NewEvent[], commits: boolean): void {
    this.start();
    const now = this.clock();
    for (const { id, place, isLarge } of commits ? events : []) {
      if (this.isOpen(id)) continue;
      this.accepted.add(id);
      this.forgotten.delete(id);
      const fresh = { attempt: 1, before: 0, since: now, dueAt: now, isFresh: true, lost: 0 };
      this.waiting.push({ id, place, isLarge, seq: ++this.#seq, wasAlone: false, ...fresh });
    }
    this.flush();
  }

  /** How the attempts of one that is about to be put are answered. */
  plan(id: string, answers: readonly Answer[]): void {
    this.#plots.set(id, { answers, used: 0 });
  }

  /** What the next attempt of this one is answered. */
  answer(id: string, place: Place): Answer {
    if (this.isCalm) return "take";
    const plot = this.#plots.get(id);
    const answer = plot?.answers[Math.min(plot.used++, plot.answers.length - 1)] ?? "take";
    return answerAt(place, answer);
  }

  /** All that is due is attempted, until nothing is. */
  flush(): void {
    this.start();
    for (const place of PLACES) {
      for (let entry = this.#next(place); entry; entry = this.#next(place)) this.#attempt(entry);
    }
  }

  /** When an entry can be attempted. */
  readyAt(entry: Entry): number {
    const held = entry.place === "hook" ? (this.trouble?.heldUntil ?? 0) : 0;
    const ahead = this.waiting.filter(
      ({ place, seq }) => place === "ordered" && entry.place === place && seq < entry.seq,
    );
    return Math.max(entry.dueAt, held, ...ahead.map(({ dueAt }) => dueAt));
  }

  #next(place: Place): Entry | undefined {
    const due = this.waiting.filter(
      (entry) => entry.place === place && this.readyAt(entry) <= this.clock(),
    );
    return due.toSorted((a, b) => a.seq - b.seq)[0];
  }

  #attempt(entry: Entry): void {
    const { id, place, isLarge } = entry;
    const { takesLarge } = this.rules[place];
    const isFirst = entry.attempt === entry.before + 1 && entry.lost === 0;
    const isOld = entry.isFresh && entry.dueAt < (this.bornAt ?? 0);
    const isOthers = this.loner !== undefined && this.loner !== id;
    const isDoubtful = isOld && !isOthers && !(isFirst && this.doubted.has(place));
    if (isDoubtful) this.doubted.add(place);
    const isClosed = place === "hook" && this.trouble?.isDisabled;
    if (isClosed) {
      this.#bury(entry, isDoubtful ? entry.attempt : entry.attempt - 1);
      return;
    }
    if (isDoubtful) {
      this.#lose(entry);
      return;
    }
    const answer = this.answer(id, place);
    const isWhole = takesLarge || !isLarge;
    this.calls.push({ id, place, attempt: entry.attempt, answer, isLarge, isWhole });
    if (answer === "take") {
      this.#remove(entry);
      if (place === "hook" && !this.trouble?.isDisabled) this.trouble = undefined;
    } else this.#failed(entry, answer);
  }

  /** A crash may have interrupted its attempt: the next one comes later, and it counts if it was made alone. */
  #lose(entry: Entry): void {
    const { maxAttempts, maxAgeMs } = this.rules[entry.place];
    const wasAlone = this.loner === entry.id;
    const attempts = entry.attempt - entry.before;
    const counted = wasAlone || entry.place === "hook" || entry.lost < 2;
    const lost = entry.lost + (counted ? 1 : 0);
    const dueAt = gathered(this.clock(), this.rules.lostDelayMs(lost));
    const isTried = wasAlone && (attempts >= maxAttempts || lost >= this.rules.maxLost);
    const isLate = lost >= 2 && dueAt - entry.since > maxAgeMs;
    const before = entry.before + (wasAlone ? 0 : 1);
    if (isTried || isLate) this.#bury(entry, entry.attempt);
    else Object.assign(entry, { attempt: entry.attempt + 1, before, dueAt, lost, isFresh: false });
  }

  #failed(entry: Entry, answer: Answer): void {
    const { place, attempt, before, since } = entry;
    const { maxAttempts, maxAgeMs } = this.rules[place];
    const now = this.clock();
    const failures = attempt - before;
    const wait = answer === "later" ? this.rules.retryAfterMs : 0;
    const asked = now + wait;
    const dueAt = Math.max(asked, gathered(now, this.rules.delayMs(failures)));
    const isForGood = answer === "refuse" || answer === "gone";
    const isOver = isForGood || failures >= maxAttempts || dueAt - since > maxAgeMs;
    if (place === "hook" && answer !== "refuse") {
      this.trouble ??= { since: now, heldUntil: null, isDisabled: false };
      if (answer === "gone") {
        Object.assign(this.trouble, { isDisabled: true, heldUntil: null });
        this.hasten(place);
      } else if (answer === "later") this.trouble.heldUntil = asked;
    }
    if (isOver) this.#bury(entry, attempt);
    else Object.assign(entry, { attempt: attempt + 1, dueAt, lost: 0, isFresh: false });
  }

  /** What waits for a place is due now. */
  hasten(place: Place): void {
    for (const entry of this.waiting) {
      if (entry.place === place) entry.dueAt = Math.min(entry.dueAt, this.clock());
    }
  }

  #bury(entry: Entry, attempts: number): void {
    this.#remove(entry);
    const diedAt = this.clock();
    this.dead.push({ ...entry, attempt: attempts, diedAt });
    const death = deathOf(entry.id, attempts, diedAt);
    this.deaths.set(death, (this.deaths.get(death) ?? 0) + 1);
  }

  #remove({ id }: Entry): void {
    this.waiting = this.waiting.filter((entry) => entry.id !== id);
  }

  /** Tries again those that are meant, each in its old place in line. Returns how many. */
  redrive(isMeant: (letter: Letter) => boolean): number {
    this.start();
    const now = this.clock();
    const back = this.dead.filter(isMeant);
    this.dead = this.dead.filter((letter) => !back.includes(letter));
    for (const { diedAt: _, ...entry } of back) {
      const { attempt } = entry;
      const fresh = { attempt: attempt + 1, before: attempt, since: now, dueAt: now, lost: 0 };
      this.waiting.push({ ...entry, ...fresh, isFresh: false });
    }
    if (back.length > 0) this.flush();
    return back.length;
  }

  delete(isMeant: (letter: Letter) => boolean): number {
    this.start();
    const gone = this.dead.filter(isMeant);
    this.dead = this.dead.filter((letter) => !gone.includes(letter));
    for (const { id } of gone) this.forgotten.add(id);
    return gone.length;
  }

  disable(): void {
    this.start();
    const since = this.trouble?.since ?? this.clock();
    this.trouble = { since, heldUntil: null, isDisabled: true };
    this.hasten("hook");
    this.flush();
  }

  enable(): number {
    this.start();
    const since = this.trouble?.since;
    if (since === undefined) return 0;
    this.trouble = undefined;
    this.hasten("hook");
    const count = this.redrive(({ place, diedAt }) => place === "hook" && diedAt >= since);
    this.flush();
    return count;
  }

  /** The next ones of a list, newest first. */
  page(limit: number, after: { diedAt: number; id: string } | undefined): string[] {
    this.start();
    const order = (a: { diedAt: number; id: string }, b: typeof a) =>
      b.diedAt - a.diedAt || Number(a.id < b.id) - Number(a.id > b.id);
    return this.dead
      .filter((letter) => !after || order(after, letter) < 0)
      .toSorted(order)
      .slice(0, limit)
      .map(({ id }) => id);
  }

  /** What a crash in the middle of something has left is taken over as it is. */
  adopt({ waiting, dead, trouble, calls }: Found, plots: ReadonlyMap<string, number>): void {
    this.crash();
    this.waiting = waiting.map((entry) => ({ ...entry }));
    this.loner = waiting.find(({ wasAlone }) => wasAlone)?.id;
    this.dead = [...dead];
    this.trouble = trouble;
    this.calls = [...calls];
    this.#seq = Math.max(this.#seq, ...[...waiting, ...dead].map(({ seq }) => seq));
    for (const [id, used] of plots) {
      const plot = this.#plots.get(id);
      if (plot) plot.used = used;
    }
  }
}

/** One death of one event, by what the app is told of it. */
export const deathOf = (id: string, attempts: number, diedAt: number) =>
  `${id} after ${attempts} at ${diedAt}`;

/** What a place makes of an answer. */
export function answerAt(place: Place, answer: Answer): Answer {
  if (answer === "gone" && place !== "hook") return "refuse";
  if (answer === "later" && place !== "hook") return "fail";
  return answer === "hang" && place !== "hasty" && place !== "hook" ? "fail" : answer;
}

/** When a delay is over, put off to where others end, too: on a grid of about a sixteenth of it. */
function gathered(now: number, delay: number): number {
  let step = 1;
  while (step * 2 <= delay / 16) step *= 2;
  const over = now + delay;
  return over % step === 0 ? over : over + step - (over % step);
}
