/**
 * One random sequence on a real ledger and on the model at once. After each
 * step it waits until the two agree, and checks what has to hold in any case.
 */

import { expect } from "vitest";
import { NEXT, type SubmissionStatus } from "../../src/submissions/states.ts";
import { sleep } from "./ledger.ts";
import { type Ask, isOpen, LedgerModel, messageIds, type Rules } from "./ledger-model.ts";
import { time } from "./ledger-object.ts";
import { type CrashPoint, type Sight, World } from "./ledger-world.ts";

export type CalmStep =
  | ({ readonly op: "submit" } & Omit<Ask, "id">)
  /** The nth submission with a key, once more as it was. */
  | { readonly op: "repeat"; readonly nth: number }
  | { readonly op: "cancel"; readonly nth: number; readonly of: "open" | "all" }
  | { readonly op: "release" | "wake" | "skip" };

export type Step =
  | CalmStep
  | { readonly op: "crash" }
  | { readonly op: "pass"; readonly ms: number }
  /** The object dies in the middle of the step, if that makes so many writes. */
  | { readonly op: "crash in"; readonly step: CalmStep; readonly point: CrashPoint };

/** What the alarm's own clock may be ahead or behind by: a step takes milliseconds. */
const SLACK_MS = 5_000;
/** While something is open, the object looks after itself at least this often. */
const HEARTBEAT_MS = 30_000;
/** Longer than any delay of the rules. */
const LONG_MS = 3_600_000;

const now = () => Date.now() + time.aheadMs;
const ends = new Set<SubmissionStatus>(["completed", "error", "aborted", "skipped"]);

export class Run {
  readonly #world: World;
  readonly #model: LedgerModel;
  readonly #asks = new Map<string, Ask>();
  /** How many crashes came in the middle of a step. */
  crashes = 0;

  /** @param patienceMs how long the ledger may take to come to what the model says */
  constructor(
    rules: Rules,
    private readonly patienceMs: number,
  ) {
    const { maxPending, maxAttempts } = rules;
    this.#model = new LedgerModel(rules);
    this.#world = new World({
      maxPending,
      retry: { maxAttempts, baseDelay: rules.delayMs(1) * 2, maxDelay: LONG_MS },
    });
  }

  async play(steps: readonly Step[]): Promise<void> {
    await this.#world.begin();
    try {
      for (const [index, step] of steps.entries()) {
        await this.#named(`step ${index + 1}, ${JSON.stringify(step)}`, () => this.#step(step));
      }
      await this.#named("the end", () => this.#settle());
    } finally {
      await this.#world.end();
    }
  }

  async #named(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      throw new Error(`After ${what}: ${error instanceof Error ? error.message : error}`);
    }
  }

  async #step(step: Step): Promise<void> {
    const { op } = step.op === "crash in" ? step.step : step;
    // Whether a cancellation makes up for a wake that is missing is left open.
    if (op === "cancel" && this.#model.isLate(now())) await this.#step({ op: "wake" });
    if (step.op === "pass") time.aheadMs += step.ms;
    else if (step.op === "crash") {
      await this.#world.crash();
      this.#model.crash();
    } else if (step.op === "crash in") return this.#crashIn(step.step, step.point);
    else await this.#calm(step);
    await this.#agree();
  }

  async #calm(step: CalmStep): Promise<void> {
    const { expected, told } = await this.#act(step);
    if (!expected) return;
    const wrong = differences(told ?? {}, expected);
    if (wrong) throw new Error(`what the caller is told differs in ${wrong}`);
  }

  /** The step on both. Returns what the caller has to be told, and what it was told. */
  async #act(step: CalmStep): Promise<{ expected?: object; told?: object }> {
    const model = this.#model;
    const world = this.#world;
    if (step.op === "submit" || step.op === "repeat") {
      const ask = this.#askOf(step);
      if (!ask) return {};
      const isKnown = model.entries.some(
        (entry) => ask.key !== undefined && entry.ask.key === ask.key,
      );
      const expected = model.submit(ask, now());
      return { expected, told: await world.submit(ask, isKnown) };
    }
    if (step.op === "cancel") {
      const among = step.of === "open" ? model.open : model.entries;
      const id = among[step.nth % among.length]?.ask.id ?? "nobody";
      const expected = model.cancel(id, now());
      return { expected, told: await world.cancel(id) };
    }
    if (step.op === "wake") model.wake(now());
    if (step.op === "release") model.release(now());
    if (step.op === "skip") model.skipPending();
    await (step.op === "skip" ? world.skipPending() : world[step.op]());
    return {};
  }

  #askOf(step: Extract<CalmStep, { op: "submit" | "repeat" }>): Ask | undefined {
    const id = `s${this.#asks.size + 1}`;
    const keyed = this.#model.entries.filter(({ ask }) => ask.key !== undefined);
    const first = step.op === "submit" ? step : keyed[step.nth % Math.max(1, keyed.length)]?.ask;
    if (!first) return undefined;
    const { key, plot, maxAttempts, afterSideEffects, onConflict } = first;
    const ask = { id, key, plot, maxAttempts, afterSideEffects, onConflict };
    this.#asks.set(id, ask);
    return ask;
  }

  /** L1 L6: the step is done in part. What is left of it is taken over from the rows, if they can be so. */
  async #crashIn(step: CalmStep, point: CrashPoint): Promise<void> {
    const before = structuredClone(this.#model.entries);
    await this.#world.crashAt(point);
    const { told } = await this.#act(step).catch(() => ({ told: undefined }));
    if (!this.#world.hasCrashed) await this.#agree(() => this.#world.hasCrashed);
    if (!this.#world.hasCrashed) await this.#world.callOffCrash().catch(() => {});
    if (!this.#world.hasCrashed) return this.#agree();
    this.crashes++;
    this.#world.nextLife();
    const sight = await this.#world.look();
    const rows = new Map(sight.submissions.map((row) => [row.id, row]));
    for (const { ask, status, attempts } of before) {
      const row = rows.get(ask.id);
      if (!row) throw new Error(`${ask.id} was ${status}, and is gone`);
      expect([...reachable(status)], `${ask.id} was ${status}`).toContain(row.status);
      expect(row.attempts, `attempts of ${ask.id}`).toBeGreaterThanOrEqual(attempts);
    }
    const promised = told as { accepted?: boolean; submissionId?: string; outcome?: string };
    const promise = rows.get(promised?.submissionId ?? "")?.status;
    if (promised?.accepted) expect(promise, "of what was accepted").toBeDefined();
    if (promised?.outcome === "cancelled") expect(promise).toBe("aborted");
    this.#adopt(sight);
    await this.#agree();
  }

  #adopt({ submissions, conversation, began }: Sight): void {
    this.#model.entries = submissions.map((row) => {
      const ask = this.#asks.get(row.id);
      if (!ask) throw new Error(`Nobody submitted ${row.id}`);
      const { status, attempts, isAnswered, deferrals, resets } = row;
      const failed = this.#world.failed.get(row.id) ?? 0;
      return {
        ask,
        status,
        attempts,
        isAnswered,
        deferrals,
        resets,
        failed,
        dueAt: row.dueAt ?? undefined,
      };
    });
    this.#model.conversation = [...conversation];
    this.#model.began = [...began];
    this.#model.crash();
  }

  /** Everything that is open comes to its end, given time and wakes; then the object sleeps. */
  async #settle(): Promise<void> {
    const most = this.#model.entries.length * (this.#model.rules.maxAttempts + 1) * 2 + 4;
    for (let round = 0; this.#model.open.length > 0 || this.#model.live; round++) {
      if (round > most) throw new Error(`It does not come to an end: ${this.#model.events}`);
      if (!this.#model.live) time.aheadMs += LONG_MS;
      await this.#calm({ op: this.#model.live ? "release" : "wake" });
      await this.#agree();
    }
    for (let wake = 0; wake < 2; wake++) {
      await this.#world.wake();
      await this.#agree();
    }
    expect((await this.#world.look()).job, "the wake of a ledger with nothing open").toBeNull();
  }

  /** Waits until the ledger is as the model says, and checks what has to hold always. */
  async #agree(isOver: () => boolean = () => false): Promise<void> {
    const deadline = Date.now() + this.patienceMs;
    for (;;) {
      const sight = await this.#world.look().catch((error: unknown) => {
        if (isOver()) return undefined;
        throw error;
      });
      if (!sight || isOver()) return;
      const { seen, expected } = this.#compared(sight);
      const isSame = JSON.stringify(seen) === JSON.stringify(expected);
      if (isSame || Date.now() > deadline) {
        this.#check(sight);
        if (isSame) return;
        throw new Error(`the ledger and the model differ in ${differences(seen, expected)}`);
      }
      await sleep(1);
    }
  }

  #compared(sight: Sight) {
    const { entries, conversation, began, events } = this.#model;
    const wakeBy = this.#wakeBy();
    const expected = {
      submissions: entries.map(
        ({ ask, status, attempts, isAnswered, deferrals, resets, dueAt }) => ({
          id: ask.id,
          key: ask.key ?? null,
          status,
          attempts,
          dueAt: status === "pending" ? (dueAt ?? null) : null,
          isAnswered,
          resets,
          deferrals,
        }),
      ),
      conversation,
      began,
      events,
      turn: this.#model.live ? "held" : "none",
      isWakeArmed: wakeBy === undefined ? "either" : true,
    };
    const seen = {
      submissions: sight.submissions.map((row, index) => {
        const wanted = expected.submissions[index]?.dueAt ?? null;
        const late = (row.dueAt ?? 0) - (wanted ?? 0);
        const isDue = row.dueAt !== null && wanted !== null && late >= 0 && late <= SLACK_MS;
        return { ...row, dueAt: row.status !== "pending" ? null : isDue ? wanted : row.dueAt };
      }),
      conversation: sight.conversation,
      began: sight.began,
      events: sight.events,
      turn: sight.turn,
      isWakeArmed: wakeBy === undefined ? "either" : sight.job !== null && sight.job <= wakeBy,
    };
    return { seen, expected };
  }

  /** When the object has to wake at the latest, if it has to. */
  #wakeBy(): number | undefined {
    const [first] = this.#model.open;
    if (!first) return undefined;
    return Math.max(now() + HEARTBEAT_MS, first.dueAt ?? 0) + SLACK_MS;
  }

  /** What no model is needed for. */
  #check({ submissions, conversation, began, history }: Sight): void {
    const orders = began.map((attempt) => submissions.findIndex(({ id }) => id === idOf(attempt)));
    expect(orders, "L4 the order in which attempts began").toEqual(
      orders.toSorted((a, b) => a - b),
    );
    for (const { before, after, id } of history) {
      expect(NEXT[before], `L2 ${id} after ${before}`).toContain(after);
    }
    const keys = submissions.flatMap(({ key }) => key ?? []);
    expect(keys, "L3 keys").toEqual([...new Set(keys)]);
    for (const { id, status, attempts, resets } of submissions) {
      const maxAttempts = this.#asks.get(id)?.maxAttempts ?? this.#model.rules.maxAttempts;
      expect(attempts - resets, `L6 L8 attempts of ${id}`).toBeLessThanOrEqual(maxAttempts);
      expect(began.filter((attempt) => idOf(attempt) === id).length, `turns of ${id}`).toBe(
        attempts,
      );
      expect(
        conversation.filter((said) => idOf(said) === id),
        `L4 L5 messages of ${id}`,
      ).toEqual(attempts > 0 ? messageIds(id) : []);
      const ended = history.filter((step) => step.id === id && ends.has(step.after)).length;
      expect(ended, `L1 ends of ${id}`).toBe(isOpen({ status }) ? 0 : 1);
    }
  }
}

/** Of an attempt `s1#2` or a message `s1.2`. */
function idOf(name: string): string {
  return name.split(/[.#]/)[0] ?? "";
}

function differences(seen: object, expected: object): string {
  const all = Object.entries(expected).flatMap(([name, wanted]) => {
    const [is, was] = [Reflect.get(seen, name), wanted].map((value) => JSON.stringify(value));
    return is === was ? [] : [`${name}\n  is       ${is}\n  expected ${was}`];
  });
  return all.join("\nand ");
}

function reachable(status: SubmissionStatus): Set<SubmissionStatus> {
  const found = new Set<SubmissionStatus>([status]);
  for (const from of found) for (const to of NEXT[from]) found.add(to);
  return found;
}
