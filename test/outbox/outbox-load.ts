/**
 * A load on an outbox: whom its entries are for, how these receivers behave,
 * and what came of it. The same in every run, without chance: how long a
 * delivery takes and whether it fails follows from the entry's number.
 */

import type { Statement } from "../support/ledger-scale.ts";

/** How many destinations there are of each kind. */
export type Crowd = {
  /** Takes a delivery at once, or within a few milliseconds. */
  readonly healthy: number;
  /** Takes {@link SLOW_MS} for each. */
  readonly slow: number;
  /** Refuses every other attempt, as quickly as a healthy one takes it. */
  readonly failing: number;
};
export type Kind = keyof Crowd;

/** What is put: the number of the entry, and when. */
export type LoadEvent = { readonly index: number; readonly putAt: number };

const SLOW_MS = 200;
const KINDS = ["healthy", "slow", "failing"] as const;

type Inbox = {
  readonly kind: Kind;
  /** Entries by number, in the order of their first attempts, and in that of their arrivals. */
  readonly begun: number[];
  readonly arrived: number[];
  readonly delaysMs: number[];
  isBusy: boolean;
};

export type Delays = { readonly medianMs: number; readonly worstMs: number };

export class Load {
  readonly #inboxes: ReadonlyMap<string, Inbox>;
  readonly #names: readonly string[];
  readonly #problems: string[] = [];
  #arrived = 0;
  #healthy = 0;
  readonly #lastAt = new Map<Kind, number>();

  /** @param heldFor deliveries to healthy destinations before which no slow one answers */
  constructor(
    readonly entries: number,
    crowd: Crowd,
    private readonly heldFor = 0,
  ) {
    const inboxes = KINDS.flatMap((kind) =>
      Array.from({ length: crowd[kind] }, (_, index): [string, Inbox] => [
        `${kind}-${index}`,
        { kind, begun: [], arrived: [], delaysMs: [], isBusy: false },
      ]),
    );
    this.#inboxes = new Map(inboxes);
    // The kinds in a mixed order, so that none of them comes first in all.
    this.#names = inboxes
      .map(([name]) => name)
      .toSorted((one, other) => mixed(hashOf(one)) - mixed(hashOf(other)));
  }

  /** Whom an entry is for: the destinations in turn. */
  nameOf(index: number): string {
    return this.#names[index % this.#names.length] ?? "";
  }

  get isDone(): boolean {
    return this.#arrived >= this.entries;
  }

  /** One attempt at a destination. */
  async receive(name: string, attempt: number, { index, putAt }: LoadEvent): Promise<void> {
    const inbox = this.#inboxes.get(name);
    if (!inbox) throw new Error(`No destination ${name}`);
    if (inbox.isBusy) this.#problems.push(`${name} got ${index} while it had another one`);
    inbox.isBusy = true;
    if (attempt === 1) inbox.begun.push(index);
    const ms = inbox.kind === "slow" ? SLOW_MS : (mixed(index) % 4) - 1;
    // Half of the quick ones answer at once: each timer costs the local runtime milliseconds of its own.
    if (ms > 0) await sleep(ms);
    // Polled: a promise of another request does not continue the object's.
    while (inbox.kind === "slow" && this.#healthy < this.heldFor) await sleep(20);
    inbox.isBusy = false;
    if (inbox.kind === "failing" && mixed(index * 64 + attempt) % 2 === 0) throw new Error("busy");
    const now = Date.now();
    inbox.arrived.push(index);
    inbox.delaysMs.push(now - putAt);
    this.#lastAt.set(inbox.kind, now);
    this.#arrived++;
    if (inbox.kind === "healthy") this.#healthy++;
  }

  /** What was lost, repeated, out of order, or two at a time. */
  problems(): string[] {
    const problems = [...this.#problems];
    for (const [position, name] of this.#names.entries()) {
      const { begun, arrived, kind } = this.#inboxes.get(name) as Inbox;
      const put = Math.ceil((this.entries - position) / this.#names.length);
      if (arrived.length !== put) problems.push(`${name} got ${arrived.length} of ${put}`);
      if (new Set(arrived).size < arrived.length) problems.push(`${name} got one twice`);
      if (!isAscending(begun)) problems.push(`${name} received them out of order: ${begun}`);
      // One that is refused steps aside for those behind it (O3).
      if (kind !== "failing" && !isAscending(arrived)) problems.push(`${name}: ${arrived}`);
    }
    return problems;
  }

  /** From put to arrival. */
  delays(kind: Kind): Delays {
    const all = [...this.#inboxes.values()]
      .filter((inbox) => inbox.kind === kind)
      .flatMap(({ delaysMs }) => delaysMs)
      .toSorted((one, other) => one - other);
    return { medianMs: all[Math.floor(all.length / 2)] ?? 0, worstMs: all.at(-1) ?? 0 };
  }

  /** When the last entry arrived at a kind of destination; epoch milliseconds. */
  lastAt(kind: Kind): number {
    return this.#lastAt.get(kind) ?? 0;
  }
}

/** What all the runs of one statement came to. */
export type Tally = {
  readonly times: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
};

/** Sums up the statements that match. */
export function tally(statements: readonly Statement[], pattern = /^/): Tally {
  const found = statements.filter(({ query }) => pattern.test(query));
  const sum = (key: "rowsRead" | "rowsWritten") =>
    found.reduce((total, statement) => total + statement[key], 0);
  return { times: found.length, rowsRead: sum("rowsRead"), rowsWritten: sum("rowsWritten") };
}

/** The statements of the outbox and of the job queue, by what they are for. */
export const STATEMENTS = {
  put: /^INSERT INTO perdure_outbox /,
  claim: /^SELECT \* FROM perdure_outbox /,
  forget: /^DELETE FROM perdure_outbox /,
  retry: /^UPDATE perdure_outbox /,
  look: /ROW_NUMBER/,
  next: /^SELECT MIN\(due_at\)/,
  wake: /cf_agents_jobs/,
} as const;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function isAscending(numbers: readonly number[]): boolean {
  return numbers.every((number, position) => number > (numbers[position - 1] ?? -1));
}

/** A number that looks like chance and is not: the finaliser of MurmurHash3. */
function mixed(number: number): number {
  const first = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return (second ^ (second >>> 16)) >>> 0;
}

function hashOf(text: string): number {
  return [...text].reduce((hash, letter) => Math.imul(hash, 31) + letter.charCodeAt(0), 7);
}
