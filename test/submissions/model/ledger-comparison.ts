/**
 * One random sequence on a real ledger and on the model at once. After each
 * step it waits until the two agree, and checks what has to hold in any case.
 */

import { expect } from "vitest";
import { NEXT, type SubmissionStatus } from "../../../src/submissions/states.ts";
import { sleep } from "../../support/ledger.ts";
import { time } from "../../support/ledger-object.ts";
import {
  type Ask,
  type Entry,
  idOf,
  isOpen,
  isUrgent,
  LAST_URGENT,
  type Rules,
  reachable,
} from "./entries.ts";
import { LedgerModel } from "./ledger-model.ts";
import { type CrashPoint, type Sight, World } from "./test-ledger.ts";

export type CalmStep =
  | ({ readonly op: "submit" } & Omit<Ask, "id">)
  /** The nth submission with a key, once more as it was. */
  | { readonly op: "repeat"; readonly nth: number }
  | { readonly op: "cancel"; readonly nth: number; readonly of: "open" | "all" }
  | { readonly op: "release" | "retry" | "delete"; readonly nth: number }
  | { readonly op: "wake" | "reset" };

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
const ISOLATED = "isolated";
/** A submission needs at most so many releases and wakes: the resets of a plot, its attempts, and the holds of each. */
const ROUNDS_EACH = 14 * 4;
/** Longer than any delay of the rules. */
const LONG_MS = 3_600_000;

/** What the app is told of different submissions has no order among them. */
const bySubmission = (events: readonly string[]) =>
  events.toSorted((a, b) => named(a).localeCompare(named(b)));
const named = (event: string) => event.slice(0, event.lastIndexOf(":"));

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
    this.#model = new LedgerModel(rules);
    this.#world = new World(rules);
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
      const isKnown = model.entries.some((entry) => ask.key !== undefined && entry.key === ask.key);
      const expected = model.submit(ask, now());
      return { expected, told: await world.submit(ask, isKnown) };
    }
    if (step.op === "cancel") {
      const id = this.#nth(step, step.of === "open" ? model.open : model.entries);
      const expected = model.cancel(id, now());
      return { expected, told: await world.cancel(id) };
    }
    if (step.op === "retry") return this.#retry(this.#nth(step, model.entries));
    if (step.op === "delete") {
      // An id that is tried again once more would be told apart from the first one by nobody here.
      // What is deleted while its turn is under way is gone at once, and the turn goes on: tests of their own show that.
      const firsts = model.entries.filter(
        (entry) => !entry.id.includes(":") && !model.isUnderWay(entry),
      );
      const id = this.#nth(step, firsts);
      const isGone = model.delete(id);
      return { expected: { isGone }, told: { isGone: await world.delete(id) } };
    }
    if (step.op === "wake") model.wake(now());
    if (step.op === "release") model.release(step.nth, now());
    if (step.op === "reset") model.reset(now());
    if (step.op === "release") await world.release(step.nth);
    else await (step.op === "reset" ? world.reset() : world.wake());
    return {};
  }

  async #retry(id: string): Promise<{ expected: object; told: object }> {
    const again = `${id}:retry`;
    const old = this.#model.find(id);
    if (old) this.#asks.set(again, { ...old.ask, id: again });
    const expected = this.#model.retry(id, now());
    const told = await this.#world.retry(id);
    return { expected: expected ?? { isKnown: false }, told: told ?? { isKnown: false } };
  }

  #nth({ nth }: { readonly nth: number }, among: readonly Entry[]): string {
    return among[nth % among.length]?.id ?? "nobody";
  }

  #askOf(step: Extract<CalmStep, { op: "submit" | "repeat" }>): Ask | undefined {
    const id = `s${this.#asks.size + 1}`;
    const keyed = this.#model.entries.filter(
      ({ ask, key }) => key !== undefined && key === ask.key,
    );
    const first = step.op === "submit" ? step : keyed[step.nth % Math.max(1, keyed.length)]?.ask;
    if (!first) return undefined;
    const ask: Ask = { ...first, id };
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
    for (const { id, status, attempts } of before) {
      const row = rows.get(id);
      if (!row && step.op === "delete") continue;
      if (!row) throw new Error(`${id} was ${status}, and is gone`);
      expect([...reachable(status)], `${id} was ${status}`).toContain(row.status);
      expect(row.attempts, `attempts of ${id}`).toBeGreaterThanOrEqual(attempts);
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
      const { id, dueAt, notBefore, expiresAt, gathersUntil, mergedInto } = row;
      const ask = this.#asks.get(id);
      if (!ask) throw new Error(`Nobody submitted ${id}`);
      return {
        ...row,
        ask,
        rank: this.#rankOf(ask),
        failed: this.#world.failed.get(id) ?? 0,
        key: row.key ?? undefined,
        dueAt: dueAt ?? undefined,
        notBefore: notBefore ?? undefined,
        expiresAt: expiresAt ?? undefined,
        gathersUntil: gathersUntil ?? undefined,
        mergedInto: mergedInto ?? undefined,
      };
    });
    this.#model.talk.said = [...conversation];
    this.#model.began = [...began];
    this.#model.crash();
  }

  /** Everything that is open comes to its end, given time and wakes; then the object sleeps. */
  async #settle(): Promise<void> {
    const most = this.#model.entries.length * ROUNDS_EACH + 8;
    const model = this.#model;
    for (let round = 0; model.open.length + model.live.length + model.orphans.size > 0; round++) {
      if (round > most) throw new Error(`It does not come to an end: ${model.events}`);
      const isHeld = model.live.length > 0;
      if (!isHeld) time.aheadMs += LONG_MS;
      await this.#calm(isHeld ? { op: "release", nth: 0 } : { op: "wake" });
      await this.#agree();
    }
    // One that was put off and is not waited for any more may cost a wake at its time.
    time.aheadMs += LONG_MS;
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
    const { entries, talk, began, events, live } = this.#model;
    const wakeBy = this.#wakeBy();
    const expected = {
      submissions: entries.map((entry) => ({
        id: entry.id,
        key: entry.key ?? null,
        status: entry.status,
        attempts: entry.attempts,
        dueAt: (entry.status === "pending" && entry.dueAt) || null,
        notBefore: entry.notBefore ?? null,
        mergedInto: entry.mergedInto ?? null,
        messages: entry.messages,
        isToBeUndone: entry.isToBeUndone,
        isAnswered: entry.isAnswered,
        resets: entry.resets,
        deferrals: entry.deferrals,
      })),
      conversation: talk.said,
      began,
      events: bySubmission(events),
      held: live.map(({ entry, attempt }) => `${entry.id}#${attempt}`),
      playing: 0,
      isWakeArmed: wakeBy === undefined ? "either" : true,
    };
    const { submissions, job, breaches, history, joined, events: told, ...rest } = sight;
    const seen = {
      ...rest,
      events: bySubmission(told),
      submissions: submissions.map((row, index) => {
        const { expiresAt, gathersUntil, plot, ...compared } = row;
        const wanted = expected.submissions[index];
        const dueAt = row.status === "pending" ? near(row.dueAt, wanted?.dueAt) : null;
        return { ...compared, dueAt, notBefore: near(row.notBefore, wanted?.notBefore) };
      }),
      isWakeArmed: wakeBy === undefined ? "either" : job !== null && job <= wakeBy,
    };
    return { seen: ordered(seen, expected), expected };
  }

  /** When the object has to wake at the latest, if it has to. */
  #wakeBy(): number | undefined {
    const due = this.#model.entries.flatMap((entry) => this.#model.dueOf(entry) ?? []);
    if (due.length === 0) return undefined;
    return Math.max(now() + HEARTBEAT_MS, Math.min(...due)) + SLACK_MS;
  }

  /** What no model is needed for. */
  #check({ submissions, conversation, began, joined, history, breaches }: Sight): void {
    expect(breaches, "L4 turns that ran at a time, L6 tools that ran twice").toEqual([]);
    this.#checkOrder(began);
    for (const { before, after, id } of history) {
      expect(NEXT[before], `L2 ${id} after ${before}`).toContain(after);
    }
    const keys = submissions.flatMap(({ key }) => key ?? []);
    expect(keys, "L3 keys").toEqual([...new Set(keys)]);
    for (const row of submissions) {
      const { id, status, attempts, resets } = row;
      const ask = this.#asks.get(id);
      const isOf = (name: string) => idOf(name) === id;
      // To join a turn that crashes at once is no attempt of its own.
      const most =
        (ask?.maxAttempts ?? this.#model.rules.maxAttempts) + (ask?.whenBusy === "steer" ? 1 : 0);
      expect(attempts - resets, `L6 L8 attempts of ${id}`).toBeLessThanOrEqual(most);
      const turns = began.filter(isOf).length + joined.filter(isOf).length;
      expect(turns, `turns of ${id}`).toBe(attempts);
      this.#checkMessages(row, conversation);
      const ended = history.filter((change) => change.id === id && ends.has(change.after)).length;
      expect(ended, `L1 ends of ${id}`).toBe(isOpen({ status }) ? 0 : 1);
    }
  }

  /** L4 in a thread, among those that have the same priority and do not go first for any reason. */
  #checkOrder(began: readonly string[]): void {
    const first = [...new Set(began.map(idOf))];
    const lines = new Map<string, string[]>();
    for (const id of first) {
      const ask = this.#asks.get(id);
      if (!ask || isUrgent(ask) || ask.delayMs !== undefined || ask.debounce !== undefined)
        continue;
      if (id.includes(":") || ask.thread === ISOLATED) continue;
      const line = `${ask.thread} with priority ${ask.priority}`;
      lines.set(line, [...(lines.get(line) ?? []), id]);
    }
    const numberOf = (id: string) => Number(id.slice(1));
    for (const [line, ids] of lines) {
      const accepted = ids.toSorted((a, b) => numberOf(a) - numberOf(b));
      expect(ids, `L4 the order in which turns began in ${line}`).toEqual(accepted);
    }
  }

  /** L4 L5: all or nothing, and nothing of what has not begun, is isolated or was taken back. */
  #checkMessages({ id, messages, attempts, mergedInto, status }: SeenRow, all: readonly string[]) {
    const thread = this.#asks.get(id)?.thread;
    // What is tried again shares its messages with the one before.
    if (id.includes(":") || this.#asks.has(`${id}:retry`)) return;
    const said = messages.filter((said) => all.includes(`${thread}/${said}`));
    if (said.length > 0) expect(said, `L4 messages of ${id}`).toEqual(messages);
    const isAbsent = attempts === 0 || thread === ISOLATED;
    if (isAbsent) expect(said, `L4 messages of ${id}`).toEqual([]);
    const isPresent = attempts > 0 && status === "completed" && mergedInto === undefined;
    if (isPresent && !isAbsent) expect(said, `L4 L7 messages of ${id}`).toEqual(messages);
  }

  /** Only one that was tried again has another rank than what it asks for says. */
  #rankOf({ id, whenBusy, priority }: Ask): number {
    const first = this.#asks.get(id.split(":")[0] ?? id);
    const isFirst = first ? isUrgent(first) : isUrgent({ whenBusy });
    if (!isFirst) return -priority;
    return id.includes(":") ? LAST_URGENT : Number.NEGATIVE_INFINITY;
  }
}

type SeenRow = Sight["submissions"][number];

/** A time of the real ledger as the model has it, where it is not much later. */
function near(seen: number | null, wanted: number | null | undefined): number | null {
  const late = (seen ?? 0) - (wanted ?? 0);
  return seen !== null && wanted != null && late >= 0 && late <= SLACK_MS ? wanted : seen;
}

/** The same keys in the same order, all the way down, so that the two can be compared as text. */
function ordered(seen: object, like: object): object {
  return Object.fromEntries(
    Object.entries(like).map(([key, other]) => {
      const value: unknown = Reflect.get(seen, key);
      if (!Array.isArray(value) || key !== "submissions") return [key, value];
      const [first = {}] = Array.isArray(other) ? (other as object[]) : [];
      return [key, value.map((row: object) => ordered(row, first))];
    }),
  );
}

function differences(seen: object, expected: object): string {
  const all = Object.entries(expected).flatMap(([name, wanted]) => {
    const [is, was] = [Reflect.get(seen, name), wanted].map((value) => JSON.stringify(value));
    return is === was ? [] : [`${name}\n  is       ${is}\n  expected ${was}`];
  });
  return all.join("\nand ");
}
