import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StoredKey } from "../../../../src/features/limits/keeper/account.ts";
import { Book } from "../../../../src/features/limits/keeper/book.ts";
import type {
  Amounts,
  Ask,
  Lent,
  Notice,
  Rules,
} from "../../../../src/features/limits/keeper/protocol.ts";
import { limitMs, sizeOf } from "../../../support/sizes.ts";

const WINDOW_MS = 60_000;
const RULES: Rules = {
  requests: { amount: 10, window: { ms: WINDOW_MS } },
  tokens: { amount: 10_000, window: { ms: WINDOW_MS } },
  nanodollars: { amount: 60_000, window: { calendar: "day", zone: "UTC" } },
  slots: 12,
};
const KEYS = ["a", "b"];

type Command =
  | {
      readonly do: "ask";
      readonly key: number;
      readonly need: Amounts;
      readonly ahead: Amounts;
      readonly share: number;
    }
  /** Uses a part of the oldest open lease, at once or at its last moment, and reports that, a wrong amount, or nothing. */
  | {
      readonly do: "use";
      readonly part: number;
      readonly isLate: boolean;
      readonly reports: boolean;
    }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "setBack"; readonly ms: number }
  | { readonly do: "restart" }
  | { readonly do: "pause" | "resume"; readonly key: number };

const amounts = fc.record(
  {
    requests: fc.integer({ min: 1, max: 4 }),
    tokens: fc.integer({ min: 1, max: 3_000 }),
    nanodollars: fc.integer({ min: 1, max: 9_000 }),
    slots: fc.integer({ min: 1, max: 2 }),
  },
  { requiredKeys: ["requests"] },
);
const key = fc.nat(KEYS.length - 1);
const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("ask" as const),
      key,
      need: amounts,
      ahead: amounts,
      share: fc.nat(2),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("use" as const),
      part: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
      isLate: fc.boolean(),
      reports: fc.boolean(),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.oneof(
        { weight: 3, arbitrary: fc.integer({ min: 0, max: 500 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 40_000 }) },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("setBack" as const),
      ms: fc.integer({ min: 0, max: 3_600_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom("pause" as const, "resume" as const), key }),
  },
);

type Use = { readonly key: string; readonly at: number; readonly amounts: Amounts };
type Open = {
  readonly key: string;
  /** Nanodollars that were used. */
  reported?: number | undefined;
  readonly ticket: string;
  readonly at: number;
  readonly lent: Lent;
  readonly share: string;
};

/** What agents use by their leases, with the true time. The keeper's clock may be set back. */
class Reference {
  now = 1_800_000_000_000;
  #clockOff = 0;
  readonly rows = new Map<string, string>();
  readonly uses: Use[] = [];
  readonly open: Open[] = [];
  readonly leases: Open[] = [];
  /** Notices, and the nanodollars that were used for certain then. */
  readonly notices: { readonly notice: Notice; readonly certain: number }[] = [];
  readonly paused = new Set<string>();
  lends = 0;
  #tickets = 0;
  book = this.#start();

  #start(): Book {
    const store = {
      load: (key: string) => {
        const row = this.rows.get(key);
        return row === undefined ? undefined : (JSON.parse(row) as StoredKey);
      },
      save: (key: string, state: StoredKey) => void this.rows.set(key, JSON.stringify(state)),
    };
    const clock = { now: () => this.now - this.#clockOff, random: () => 0.5 };
    return new Book("limit", store, clock);
  }

  run(command: Command): void {
    if (command.do === "wait") this.now += command.ms;
    else if (command.do === "setBack") this.#clockOff += command.ms;
    else if (command.do === "restart") this.book = this.#start();
    else if (command.do === "ask") this.#ask(command);
    else if (command.do === "use") this.#use(command);
    else this.#turn(command.do, KEYS[command.key] as string);
  }

  #turn(verb: "pause" | "resume", key: string): void {
    if (verb === "pause") {
      this.paused.add(key);
      this.book.pause(key, "tests", RULES);
    } else {
      expect(this.book.resume(key, RULES)).toBe(this.paused.delete(key));
    }
  }

  #ask({ key: index, need, ahead, share }: Extract<Command, { do: "ask" }>): void {
    const key = KEYS[index] as string;
    const ticket = `${this.#tickets++}`;
    const ask: Ask = {
      ...{ ticket, key, rules: RULES, need, ahead, waitedMs: 0 },
      share: { key: `${share}`, weight: share + 1 },
    };
    const answer = this.book.ask(ask);
    this.#noticed(answer.notices);
    if (answer.outcome === "refused") throw new Error("refused");
    if (answer.outcome === "wait") {
      expect(answer.waitMs).toBeGreaterThan(0);
      return;
    }
    expect(this.paused.has(key)).toBe(false);
    this.lends++;
    for (const [name, amount] of Object.entries(need))
      expect(answer.lent[name as keyof Amounts]).toBeGreaterThanOrEqual(amount);
    const lease = { key, ticket, at: this.now, lent: answer, share: `${share}` };
    this.open.push(lease);
    this.leases.push(lease);
  }

  /** Money is used for certain when it is reported. Of a lease that has ended without a report, all may have been used. */
  #noticed(notices: readonly Notice[] = []): void {
    for (const notice of notices) {
      const certain = this.leases
        .filter(({ key }) => key === notice.key)
        .map(({ at, lent: { lent, inMs, forMs }, reported }) => {
          const isOver = at + inMs + forMs <= this.now;
          return reported ?? (isOver ? (lent.nanodollars ?? 0) : 0);
        });
      this.notices.push({ notice, certain: certain.reduce((sum, one) => sum + one, 0) });
    }
  }

  #use({ part, isLate, reports }: Extract<Command, { do: "use" }>): void {
    const lease = this.open.shift();
    if (!lease) return;
    const { lent, inMs, forMs } = lease.lent;
    const from = lease.at + inMs;
    const until = from + forMs;
    if (this.now > until) return;
    const at = isLate ? until : Math.max(this.now, from);
    this.now = Math.max(this.now, at);
    const used = Object.fromEntries(
      Object.entries(lent)
        .filter(([name]) => name !== "slots")
        .map(([name, amount]) => [name, Math.floor(amount * part)]),
    );
    this.uses.push({ key: lease.key, at, amounts: used });
    if (!reports) return;
    lease.reported = used.nanodollars ?? 0;
    const notices = this.book.giveBack([
      {
        ...{
          key: lease.key,
          rules: RULES,
          lease: lease.lent.lease,
          ticket: lease.ticket,
          lent,
          used,
        },
        usedAgoMs: this.now - at,
      },
    ]);
    this.#noticed(notices);
  }

  /** The most that was used in any span of a window's length. */
  mostIn(name: "requests" | "tokens", key: string): number {
    const uses = this.uses.filter((use) => use.key === key).sort((one, other) => one.at - other.at);
    const sums = uses.map(({ at }) =>
      uses
        .filter((use) => use.at > at - WINDOW_MS && use.at <= at)
        .reduce((sum, use) => sum + (use.amounts[name] ?? 0), 0),
    );
    return Math.max(0, ...sums);
  }
}

describe("what a keeper lends", () => {
  it("M1 M4: never exceeds the limit in any window, and gives no notice of money early, through lost leases, restarts and clocks that are set back", {
    timeout: limitMs(120_000),
  }, () => {
    let noticed = 0;
    const property = fc.property(
      fc.array(commands, { minLength: 20, maxLength: 200, size: "max" }),
      (all) => {
        const reference = new Reference();
        for (const command of all) reference.run(command);
        for (const key of KEYS) {
          expect(reference.mostIn("requests", key)).toBeLessThanOrEqual(10);
          expect(reference.mostIn("tokens", key)).toBeLessThanOrEqual(10_000);
        }
        for (const { notice, certain } of reference.notices) {
          expect(certain).toBeGreaterThanOrEqual(0.8 * 60_000);
          expect(notice.usedNanodollars).toBeLessThanOrEqual(certain);
        }
        noticed += reference.notices.length;
        // Everything comes back: the next day, nothing counts.
        for (const key of KEYS)
          if (reference.paused.has(key)) reference.run({ do: "resume", key: KEYS.indexOf(key) });
        reference.run({ do: "wait", ms: 26 * 3_600_000 });
        for (const key of KEYS) {
          const [state] = reference.book.inspect([key]);
          if (state) expect(Object.values(state.used)).toEqual([0, 0, 0, 0]);
          const row = reference.rows.get(key);
          if (row) expect(reference.book.isIdle(key, JSON.parse(row) as StoredKey)).toBe(true);
        }
      },
    );
    fc.assert(property, {
      numRuns: sizeOf("LIMITS_RUNS", 300),
      ...(sizeOf("LIMITS_SEED", 0) > 0 && { seed: sizeOf("LIMITS_SEED", 0) }),
    });
    expect(noticed).toBeGreaterThan(0);
  });
});
