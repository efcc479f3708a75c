/**
 * A model of the outbox on plain lists: one entry and one attempt after the other. Written from the guarantees and the
 * docs of its types. It shares no code with the outbox and knows no SQL.
 */

/** How a destination answers an attempt. An answer that a place does not know is a failure there. */
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
  /** After so many lost attempts the entry is buried. */
  readonly maxLost: number;
  readonly retryAfterMs: number;
};

export type NewEvent = {
  readonly id: string;
  readonly place: Place;
  readonly isLarge: boolean;
  /** The answers to its attempts. The last one is repeated. */
  readonly answers: readonly Answer[];
};

export type Entry = Omit<NewEvent, "answers"> & {
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
export type FailingEndpoint = { since: number; heldUntil: number | null; isDisabled: boolean };

/** What the object has stored after a crash within a command. */
export type Found = {
  readonly waiting: readonly Entry[];
  readonly dead: readonly Letter[];
  readonly endpoint: FailingEndpoint | undefined;
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
  endpoint: FailingEndpoint | undefined;
  calls: Call[] = [];
  /** How often the app must have been notified of each death. */
  readonly deaths = new Map<string, number>();
  /** When the object last started, or null after a crash. */
  startedAt: number | null = null;
  /** Places whose possibly attempted entry of before the crash has been seen since the start. */
  doubted = new Set<Place>();
  /** The entry that was attempted alone when the object crashed: no other was in flight. */
  loneEntry: string | undefined;
  /** Every id that was accepted, and those that were deleted by a caller. */
  readonly accepted = new Set<string>();
  readonly deleted = new Set<string>();
  readonly #plans = new Map<string, { answers: readonly Answer[]; used: number }>();
  #seq = 0;
  /** From now on every attempt succeeds. */
  isCalm = false;

  constructor(
    readonly rules: Rules,
    private readonly clock: () => number,
  ) {}

  start(): void {
    this.startedAt ??= this.clock();
  }

  crash(): void {
    this.startedAt = null;
    this.doubted = new Set();
    this.loneEntry = undefined;
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
      this.deleted.delete(id);
      const fresh = { attempt: 1, before: 0, since: now, dueAt: now, isFresh: true, lost: 0 };
      this.waiting.push({ id, place, isLarge, seq: ++this.#seq, wasAlone: false, ...fresh });
    }
    this.flush();
  }

  /** Sets the answers to the attempts of an event that is put next. */
  plan(id: string, answers: readonly Answer[]): void {
    this.#plans.set(id, { answers, used: 0 });
  }

  /** The answer to the next attempt. */
  answer(id: string, place: Place): Answer {
    if (this.isCalm) return "take";
    const plan = this.#plans.get(id);
    const answer = plan?.answers[Math.min(plan.used++, plan.answers.length - 1)] ?? "take";
    return answerAt(place, answer);
  }

  /** Attempts everything that is due. */
  flush(): void {
    this.start();
    for (const place of PLACES) {
      for (let entry = this.#next(place); entry; entry = this.#next(place)) this.#attempt(entry);
    }
  }

  /** When an entry can be attempted. */
  readyAt(entry: Entry): number {
    const held = entry.place === "hook" ? (this.endpoint?.heldUntil ?? 0) : 0;
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
    const isOld = entry.isFresh && entry.dueAt < (this.startedAt ?? 0);
    const isOthers = this.loneEntry !== undefined && this.loneEntry !== id;
    const isDoubtful = isOld && !isOthers && !(isFirst && this.doubted.has(place));
    if (isDoubtful) this.doubted.add(place);
    const isClosed = place === "hook" && this.endpoint?.isDisabled;
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
      if (place === "hook" && !this.endpoint?.isDisabled) this.endpoint = undefined;
    } else this.#failed(entry, answer);
  }

  /** A crash may have interrupted its attempt: the next one comes later, and it counts if it was made alone. */
  #lose(entry: Entry): void {
    const { maxAttempts, maxAgeMs } = this.rules[entry.place];
    const wasAlone = this.loneEntry === entry.id;
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
    const isPermanent = answer === "refuse" || answer === "gone";
    const isOver = isPermanent || failures >= maxAttempts || dueAt - since > maxAgeMs;
    if (place === "hook" && answer !== "refuse") {
      this.endpoint ??= { since: now, heldUntil: null, isDisabled: false };
      if (answer === "gone") {
        Object.assign(this.endpoint, { isDisabled: true, heldUntil: null });
        this.makeDue(place);
      } else if (answer === "later") this.endpoint.heldUntil = asked;
    }
    if (isOver) this.#bury(entry, attempt);
    else Object.assign(entry, { attempt: attempt + 1, dueAt, lost: 0, isFresh: false });
  }

  /** All entries for a place are due now. */
  makeDue(place: Place): void {
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

  /** Retries the chosen letters, each in its old place in line. Returns how many. */
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
    for (const { id } of gone) this.deleted.add(id);
    return gone.length;
  }

  disable(): void {
    this.start();
    const since = this.endpoint?.since ?? this.clock();
    this.endpoint = { since, heldUntil: null, isDisabled: true };
    this.makeDue("hook");
    this.flush();
  }

  enable(): number {
    this.start();
    const since = this.endpoint?.since;
    if (since === undefined) return 0;
    this.endpoint = undefined;
    this.makeDue("hook");
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

  /** Takes over what the object has stored after a crash within a command. */
  adopt({ waiting, dead, endpoint, calls }: Found, used: ReadonlyMap<string, number>): void {
    this.crash();
    this.waiting = waiting.map((entry) => ({ ...entry }));
    this.loneEntry = waiting.find(({ wasAlone }) => wasAlone)?.id;
    this.dead = [...dead];
    this.endpoint = endpoint;
    this.calls = [...calls];
    this.#seq = Math.max(this.#seq, ...[...waiting, ...dead].map(({ seq }) => seq));
    for (const [id, plan] of this.#plans) plan.used = used.get(id) ?? 0;
  }
}

/** One death of one event, as the app is notified of it. */
export const deathOf = (id: string, attempts: number, diedAt: number) =>
  `${id} after ${attempts} at ${diedAt}`;

/** How a place treats an answer. */
export function answerAt(place: Place, answer: Answer): Answer {
  if (answer === "gone" && place !== "hook") return "refuse";
  if (answer === "later" && place !== "hook") return "fail";
  return answer === "hang" && place !== "hasty" && place !== "hook" ? "fail" : answer;
}

/** When a delay ends, rounded up to a grid of about a sixteenth of it, so that entries come due together. */
function gathered(now: number, delay: number): number {
  let step = 1;
  while (step * 2 <= delay / 16) step *= 2;
  const over = now + delay;
  return over % step === 0 ? over : over + step - (over % step);
}
