/** The real ledger beside its model: how a command is performed on both, and what must be equal after it. */

import { expect } from "vitest";
import { NEXT, type SubmissionStatus } from "../../../src/submissions/states.ts";
import type { Action, Compared, Subject } from "../../support/model-test.ts";
import { time } from "../../support/objects/ledger-object.ts";
import type { LedgerCommand } from "./commands.ts";
import {
  type Entry,
  idOf,
  isOpen,
  isUrgent,
  LAST_URGENT,
  type Request,
  type Rules,
  reachable,
} from "./entries.ts";
import { LedgerModel } from "./ledger-model.ts";
import { type Snapshot, TestLedger } from "./test-ledger.ts";

/** By how much the alarm's clock may differ: a step takes milliseconds. */
const SLACK_MS = 5_000;
/** While a submission is open, the object wakes at least this often. */
const HEARTBEAT_MS = 30_000;
/** The same while a turn runs: its heartbeat grows up to this. */
const TURN_HEARTBEAT_MS = 120_000;
const ISOLATED = "isolated";
/** The most releases and wakes that a submission needs: its resets and attempts, each with its holds. */
const ROUNDS_EACH = 14 * 4;
/** Longer than any delay of the rules. */
const LONG_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Notifications of different submissions come in any order. */
const bySubmission = (events: readonly string[]) =>
  events.toSorted((a, b) => named(a).localeCompare(named(b)));
const named = (event: string) => event.slice(0, event.lastIndexOf(":"));

const now = () => Date.now() + time.aheadMs;
const ends = new Set<SubmissionStatus>(["completed", "error", "aborted", "skipped"]);

export class LedgerComparison implements Subject<LedgerCommand, Snapshot> {
  readonly #ledger: TestLedger;
  readonly #model: LedgerModel;
  readonly #requests = new Map<string, Request>();

  constructor(rules: Rules) {
    // So far ahead that no alarm comes by itself: only the sequence decides when the object wakes.
    time.aheadMs = DAY_MS;
    this.#model = new LedgerModel(rules);
    this.#ledger = new TestLedger(rules);
  }

  setUp(): Promise<void> {
    return this.#ledger.setUp();
  }

  end(): Promise<void> {
    return this.#ledger.end();
  }

  pass(ms: number): void {
    time.aheadMs += ms;
  }

  async crash(hasCrashed: boolean): Promise<void> {
    if (!hasCrashed) await this.#ledger.crash();
    this.#ledger.restart();
    this.#model.crash();
  }

  inside: TestLedger["inside"] = (work) => this.#ledger.inside(work);

  look(): Promise<Snapshot> {
    return this.#ledger.look();
  }

  actionOf(command: LedgerCommand): Action {
    const model = this.#model;
    const ledger = this.#ledger;
    switch (command.op) {
      case "submit":
      case "repeat":
        return this.#submit(command);
      case "cancel": {
        const id = nth(command, command.of === "open" ? model.open : model.entries);
        return { expect: () => model.cancel(id, now()), act: () => ledger.cancel(id) };
      }
      case "retry":
        return this.#retry(nth(command, model.entries));
      case "delete": {
        // A retried submission that is retried again would get the same name as the first one in this test.
        // Deleting one whose turn still runs is tested in submissions.test.ts.
        const firsts = model.entries.filter(
          (entry) => !entry.id.includes(":") && !model.isRunning(entry),
        );
        const id = nth(command, firsts);
        return { expect: () => model.delete(id), act: () => ledger.delete(id) };
      }
      case "release":
        return {
          expect: () => model.release(command.nth, now()),
          act: () => ledger.release(command.nth),
        };
      case "reset":
        return { expect: () => model.reset(now()), act: () => ledger.reset() };
      case "wake":
        return { expect: () => model.wake(now()), act: () => ledger.wake() };
    }
  }

  #submit(command: Extract<LedgerCommand, { op: "submit" | "repeat" }>): Action {
    const request = this.#requestOf(command);
    if (!request) return { expect: () => undefined, act: async () => undefined };
    const { entries } = this.#model;
    const isKnown = entries.some(({ key }) => key !== undefined && key === request.key);
    return {
      expect: () => this.#model.submit(request, now()),
      act: () => this.#ledger.submit(request, isKnown),
    };
  }

  #retry(id: string): Action {
    const again = `${id}:retry`;
    const old = this.#model.find(id);
    if (old) this.#requests.set(again, { ...old.request, id: again });
    return { expect: () => this.#model.retry(id, now()), act: () => this.#ledger.retry(id) };
  }

  #requestOf(command: Extract<LedgerCommand, { op: "submit" | "repeat" }>): Request | undefined {
    const id = `s${this.#requests.size + 1}`;
    const keyed = this.#model.entries.filter(
      ({ request, key }) => key !== undefined && key === request.key,
    );
    const first =
      command.op === "submit" ? command : keyed[command.nth % Math.max(1, keyed.length)]?.request;
    if (!first) return undefined;
    const request: Request = { ...first, id };
    this.#requests.set(id, request);
    return request;
  }

  /** L1 L6: no submission is lost or goes back, and what the caller was promised holds. */
  async recover(command: LedgerCommand, before: Snapshot, reply: unknown): Promise<boolean> {
    const found = await this.#ledger.look();
    const rows = new Map(found.submissions.map((row) => [row.id, row]));
    for (const { id, status, attempts } of before.submissions) {
      const row = rows.get(id);
      if (!row && command.op === "delete") continue;
      if (!row) throw new Error(`${id} was ${status}, and is gone`);
      expect([...reachable(status)], `${id} was ${status}`).toContain(row.status);
      expect(row.attempts, `attempts of ${id}`).toBeGreaterThanOrEqual(attempts);
    }
    const promised = (reply ?? {}) as {
      accepted?: boolean;
      submissionId?: string;
      outcome?: string;
    };
    const status = rows.get(promised.submissionId ?? "")?.status;
    if (promised.accepted) expect(status, "status of an accepted submission").toBeDefined();
    if (promised.outcome === "cancelled") expect(status).toBe("aborted");
    this.#adopt(found);
    return false;
  }

  #adopt({ submissions, conversation, began }: Snapshot): void {
    this.#model.entries = submissions.map((row) => {
      const { id, dueAt, notBefore, expiresAt, gathersUntil, mergedInto } = row;
      const request = this.#requests.get(id);
      if (!request) throw new Error(`${id} was never submitted`);
      return {
        ...row,
        request,
        rank: this.#rankOf(request),
        failed: this.#ledger.failed.get(id) ?? 0,
        key: row.key ?? undefined,
        dueAt: dueAt ?? undefined,
        notBefore: notBefore ?? undefined,
        expiresAt: expiresAt ?? undefined,
        gathersUntil: gathersUntil ?? undefined,
        mergedInto: mergedInto ?? undefined,
      };
    });
    this.#model.conversations.said = [...conversation];
    this.#model.began = [...began];
    this.#model.crash();
  }

  /** Everything that is open ends, given time and wakes. Then the object sets no alarm. */
  async finish(run: (command: LedgerCommand) => Promise<void>): Promise<void> {
    const model = this.#model;
    const most = model.entries.length * ROUNDS_EACH + 8;
    for (let round = 0; model.open.length + model.held.length + model.orphans.size > 0; round++) {
      if (round > most) throw new Error(`It does not end: ${model.events}`);
      const isHeld = model.held.length > 0;
      if (!isHeld) time.aheadMs += LONG_MS;
      await run(isHeld ? { op: "release", nth: 0 } : { op: "wake" });
    }
    // A deferred submission that has ended may still cost one wake at its time.
    time.aheadMs += LONG_MS;
    for (let wake = 0; wake < 2; wake++) await run({ op: "wake" });
    expect((await this.#ledger.look()).job, "the wake of a ledger with nothing open").toBeNull();
  }

  compare(snapshot: Snapshot): Compared {
    const { entries, conversations, began, events, held } = this.#model;
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
        hasCalled: entry.hasCalled,
        resets: entry.resets,
        deferrals: entry.deferrals,
      })),
      conversation: conversations.said,
      began,
      events: bySubmission(events),
      held: held.map(({ entry, attempt }) => `${entry.id}#${attempt}`),
      playing: 0,
      isWakeArmed: wakeBy === undefined ? "either" : true,
    };
    const { submissions, job, breaches, history, joined, events: notified, ...rest } = snapshot;
    const seen = {
      ...rest,
      events: bySubmission(notified),
      submissions: submissions.map((row, index) => {
        const { expiresAt, gathersUntil, turn, ...compared } = row;
        const wanted = expected.submissions[index];
        const dueAt = row.status === "pending" ? near(row.dueAt, wanted?.dueAt) : null;
        return { ...compared, dueAt, notBefore: near(row.notBefore, wanted?.notBefore) };
      }),
      isWakeArmed: wakeBy === undefined ? "either" : job !== null && job <= wakeBy,
    };
    return { seen: ordered(seen, expected), expected };
  }

  /** When the object must wake at the latest, if it must. */
  #wakeBy(): number | undefined {
    const due = this.#model.entries.flatMap((entry) => this.#model.dueOf(entry) ?? []);
    if (due.length === 0) return undefined;
    // A cancelled turn may still run.
    const isRunning =
      this.#model.held.length > 0 || this.#model.entries.some(({ status }) => status === "running");
    const heartbeat = isRunning ? TURN_HEARTBEAT_MS : HEARTBEAT_MS;
    return Math.max(now() + heartbeat, Math.min(...due)) + SLACK_MS;
  }

  check({ submissions, conversation, began, joined, history, breaches }: Snapshot): void {
    expect(breaches, "L4 turns that ran at a time, L6 tools that ran twice").toEqual([]);
    this.#checkOrder(began);
    for (const { before, after, id } of history) {
      expect(NEXT[before], `L2 ${id} after ${before}`).toContain(after);
    }
    const keys = submissions.flatMap(({ key }) => key ?? []);
    expect(keys, "L3 keys").toEqual([...new Set(keys)]);
    for (const row of submissions) {
      const { id, status, attempts, resets } = row;
      const request = this.#requests.get(id);
      const isOf = (name: string) => idOf(name) === id;
      // To join a turn that crashes at once is no attempt of its own.
      const most =
        (request?.maxAttempts ?? this.#model.rules.maxAttempts) +
        (request?.whenBusy === "steer" ? 1 : 0);
      expect(attempts - resets, `L6 L8 attempts of ${id}`).toBeLessThanOrEqual(most);
      const turns = began.filter(isOf).length + joined.filter(isOf).length;
      expect(turns, `turns of ${id}`).toBe(attempts);
      this.#checkMessages(row, conversation);
      const ended = history.filter((change) => change.id === id && ends.has(change.after)).length;
      expect(ended, `L1 ends of ${id}`).toBe(isOpen({ status }) ? 0 : 1);
    }
  }

  /** L4: in a thread, those of the same priority begin in the order of acceptance, unless something puts one first. */
  #checkOrder(began: readonly string[]): void {
    const first = [...new Set(began.map(idOf))];
    const lines = new Map<string, string[]>();
    for (const id of first) {
      const request = this.#requests.get(id);
      if (!request || isUrgent(request)) continue;
      if (request.delayMs !== undefined || request.debounce !== undefined) continue;
      if (id.includes(":") || request.thread === ISOLATED) continue;
      const line = `${request.thread} with priority ${request.priority}`;
      lines.set(line, [...(lines.get(line) ?? []), id]);
    }
    const numberOf = (id: string) => Number(id.slice(1));
    for (const [line, ids] of lines) {
      const accepted = ids.toSorted((a, b) => numberOf(a) - numberOf(b));
      expect(ids, `L4 the order in which turns began in ${line}`).toEqual(accepted);
    }
  }

  /** L4 L5: all messages or none; none of one that has not begun, is isolated or was rolled back. */
  #checkMessages({ id, messages, attempts, mergedInto, status }: SeenRow, all: readonly string[]) {
    const thread = this.#requests.get(id)?.thread;
    // A retried submission shares its messages with the one before.
    if (id.includes(":") || this.#requests.has(`${id}:retry`)) return;
    const said = messages.filter((said) => all.includes(`${thread}/${said}`));
    if (said.length > 0) expect(said, `L4 messages of ${id}`).toEqual(messages);
    const isAbsent = attempts === 0 || thread === ISOLATED;
    if (isAbsent) expect(said, `L4 messages of ${id}`).toEqual([]);
    const isPresent = attempts > 0 && status === "completed" && mergedInto === undefined;
    if (isPresent && !isAbsent) expect(said, `L4 L7 messages of ${id}`).toEqual(messages);
  }

  /** Only a retried submission has another rank than its request says. */
  #rankOf({ id, whenBusy, priority }: Request): number {
    const first = this.#requests.get(id.split(":")[0] ?? id);
    const isFirst = first ? isUrgent(first) : isUrgent({ whenBusy });
    if (!isFirst) return -priority;
    return id.includes(":") ? LAST_URGENT : Number.NEGATIVE_INFINITY;
  }
}

type SeenRow = Snapshot["submissions"][number];

/** The time of the model, where that of the ledger is only a little later. */
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

function nth({ nth }: { readonly nth: number }, among: readonly Entry[]): string {
  return among[nth % among.length]?.id ?? "none";
}
