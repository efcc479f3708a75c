/** The real outbox beside its model: how a command is performed on both, and what must be equal after it. */

import { expect } from "vitest";
import type { Outbox } from "../../../src/outbox/index.ts";
import type { Action, Compared, Subject } from "../../support/model-test.ts";
import { WEBHOOK } from "../../support/outbox.ts";
import type { OutboxCommand } from "./commands.ts";
import {
  type Answer,
  answerAt,
  deathOf,
  type Entry,
  type Letter,
  type NewEvent,
  OutboxModel,
  type Place,
} from "./outbox-model.ts";
import { DESTINATIONS, eventOf, RULES, type Snapshot, TestOutbox } from "./test-outbox.ts";

const BACKSTOP_MS = 30_000;
const PAGE = 2;
const LONG_MS = 7_200_000;

export class OutboxComparison implements Subject<OutboxCommand, Snapshot> {
  readonly #model: OutboxModel;
  readonly #outbox: TestOutbox;
  /** The answers to the attempts of each event. */
  readonly #answers = new Map<string, readonly Answer[]>();
  /** How far the list of dead letters has been read, and the cursor that the outbox gave for it. */
  #list: { at: { diedAt: number; id: string }; cursor: string } | undefined;
  /** The last command was a wake: the next wake must not be due at once. */
  #isWoken = false;
  /** No crash has come within a command: the model knows all that has happened. */
  #isExact = true;
  /** The object has not been woken since a crash: it need not have notified the app of what was buried before. */
  #mayOweNotifications = false;

  constructor(private readonly keepDelivered: { maxAge: number; maxCount: number } | undefined) {
    this.#outbox = new TestOutbox((id, place, nth) => this.#answer(id, place, nth), keepDelivered);
    this.#model = new OutboxModel(RULES, () => this.#outbox.now);
  }

  #answer(id: string, place: Place, nth: number): Answer {
    const answers = this.#answers.get(id) ?? ["take"];
    if (this.#model.isCalm) return "take";
    return answerAt(place, answers[Math.min(nth, answers.length - 1)] ?? "take");
  }

  pass(ms: number): void {
    this.#isWoken = false;
    this.#outbox.now += ms;
  }

  async crash(): Promise<void> {
    this.#isWoken = false;
    // After a crash within a command, too: a look at it may have started it before the clock has moved on.
    await this.#outbox.crash();
    this.#outbox.restart();
    this.#model.crash();
  }

  hasCrashed(): boolean {
    return this.#outbox.hasCrashed;
  }

  async end(): Promise<void> {
    await this.#outbox.crash();
  }

  inside: TestOutbox["inside"] = (work) => this.#outbox.inside(work);

  look(): Promise<Snapshot> {
    return this.#outbox.look();
  }

  /** A delivery may crash the object: what else is in flight then is random. */
  mayCrash(command: OutboxCommand): boolean {
    const { waiting, dead, isCalm } = this.#model;
    const events = command.op === "put" && command.commits ? command.events : [];
    const answers = [...waiting, ...dead].map(({ id }) => this.#answers.get(id) ?? []);
    const all = [...answers, ...events.map((event) => event.answers)];
    return !isCalm && all.some((some) => some.includes("kill"));
  }

  actionOf(command: OutboxCommand): Action {
    const outbox = this.#outbox;
    const model = this.#model;
    const { now } = outbox;
    this.#isWoken = command.op === "wake";
    switch (command.op) {
      case "wake":
        this.#mayOweNotifications = false;
        return {
          // Without an alarm nothing wakes it.
          expect: () => {
            if (model.waiting.length > 0 || model.startedAt !== null) model.flush();
          },
          act: () => outbox.wake(),
        };
      case "put": {
        const { events, commits } = command;
        if (commits) this.#plan(events);
        return {
          expect: () => model.put(events, commits),
          act: () => outbox.put(events, commits),
        };
      }
      case "page":
        return { expect: () => this.#expectedPage(), act: () => this.#page() };
      case "redrive":
      case "delete":
        return this.#aboutOne(command.op, this.#nth(command.nth));
      case "redrive all": {
        const { ageMs, place } = command;
        const since = ageMs === undefined ? {} : { since: new Date(now - ageMs) };
        const to = place ? { destination: DESTINATIONS[place] } : {};
        return {
          expect: () =>
            model.redrive(
              (letter) =>
                (place ?? letter.place) === letter.place &&
                letter.diedAt >= (ageMs === undefined ? 0 : now - ageMs),
            ),
          act: () => outbox.run((one) => one.redriveAll({ ...since, ...to })),
        };
      }
      case "delete before": {
        const before = now - command.ageMs;
        return {
          expect: () => model.delete(({ diedAt }) => diedAt < before),
          act: () => outbox.run((one) => one.deleteDeadLetters({ before: new Date(before) })),
        };
      }
      case "disable":
        return {
          expect: () => model.disable(),
          act: () => outbox.run((one) => one.disableEndpoint(WEBHOOK.url)),
        };
      case "enable":
        return {
          expect: () => model.enable(),
          act: () => outbox.run((one) => one.enableEndpoint(WEBHOOK.url)),
        };
    }
  }

  #aboutOne(op: "redrive" | "delete", id: string): Action {
    const isMeant = (letter: Letter) => letter.id === id;
    const model = this.#model;
    return op === "redrive"
      ? {
          expect: () => model.redrive(isMeant) > 0,
          act: () => this.#outbox.run((outbox) => outbox.redrive(id)),
        }
      : {
          expect: () => model.delete(isMeant) > 0,
          act: () => this.#outbox.run((outbox) => outbox.deleteDeadLetter(id)),
        };
  }

  #nth(nth: number): string {
    const { dead } = this.#model;
    return dead[nth % Math.max(1, dead.length)]?.id ?? "none";
  }

  #expectedPage() {
    const { dead, waiting } = this.#model;
    const ids = this.#model.page(PAGE, this.#list?.at);
    return { ids, deadLetters: dead.length, waiting: waiting.length };
  }

  /** The next page of a list that is read while letters come and go. */
  #page() {
    const list = this.#list;
    return this.#outbox.run(async (outbox: Outbox) => {
      const after = list && { cursor: list.cursor };
      const { items: deadLetters, cursor } = await outbox.listDeadLetters({
        limit: PAGE,
        ...after,
      });
      const { waiting, deadLetters: count } = await outbox.stats();
      expect(await outbox.countDeadLetters()).toBe(count);
      const last = deadLetters.at(-1);
      this.#list = last && cursor !== undefined ? { at: last, cursor } : undefined;
      return { ids: deadLetters.map(({ id }) => id), deadLetters: count, waiting };
    });
  }

  /** The first accepted put of an id decides how its attempts are answered. */
  #plan(events: readonly NewEvent[]): void {
    const planned = new Set<string>();
    for (const { id, answers } of events) {
      if (planned.has(id) || this.#model.isOpen(id)) continue;
      planned.add(id);
      this.#answers.set(id, answers);
      this.#model.plan(id, answers);
      this.#outbox.used.delete(id);
    }
  }

  /** Nothing accepted is lost. A caller that got no reply puts again. */
  async recover(command: OutboxCommand, before: Snapshot): Promise<boolean> {
    const isPut = command.op === "put" && command.commits;
    const ids = new Set(isPut ? command.events.map(({ id }) => id) : []);
    const found = await this.#outbox.look();
    this.#checkNothingLost(command, before, found, ids);
    for (const id of ids) this.#model.accepted.add(id);
    this.#mayOweNotifications = true;
    this.#isExact = false;
    this.#model.adopt(found, this.#outbox.used);
    return command.op === "put";
  }

  /** Everything accepted is still there, or was delivered, or was deleted. */
  #checkNothingLost(
    command: OutboxCommand,
    before: Snapshot,
    found: Snapshot,
    ids: ReadonlySet<string>,
  ): void {
    const isDeleting = command.op === "delete" || command.op === "delete before";
    const attempts = new Map([...found.waiting, ...found.dead].map((one) => [one.id, one.attempt]));
    for (const { id, attempt } of [...before.waiting, ...before.dead]) {
      const now = attempts.get(id);
      // One that was refused without an attempt shows the number of the attempt before.
      if (now !== undefined) expect(now, `attempts of ${id}`).toBeGreaterThanOrEqual(attempt - 1);
      else if (!isDeleting) expect(this.#isTaken(id), `${id} was lost`).toBe(true);
      else if (!this.#isTaken(id)) this.#model.deleted.add(id);
    }
    for (const { id } of [...found.waiting, ...found.dead]) {
      this.#model.deleted.delete(id);
      const isKnown = this.#model.accepted.has(id) || ids.has(id);
      expect(isKnown, `${id} was not put, or was rolled back`).toBe(true);
    }
  }

  #isTaken(id: string): boolean {
    return this.#outbox.calls.some((call) => call.id === id && call.answer === "take");
  }

  compare({ waiting, dead, endpoint, calls, unnotified, orphans, ...wakes }: Snapshot): Compared {
    const model = this.#model;
    return {
      seen: {
        waiting: waiting.map(waitingOf),
        dead: dead.map(deadOf),
        endpoint,
        calls: byPlace(calls),
        unnotified: this.#mayOweNotifications ? 0 : unnotified.length,
        orphans,
        wakes: this.#wakeProblem(wakes, unnotified.length > 0) ?? "right",
      },
      expected: {
        waiting: model.waiting.toSorted(bySeq).map(waitingOf),
        dead: model.dead.toSorted(bySeq).map(deadOf),
        endpoint: model.endpoint,
        calls: byPlace(model.calls),
        unnotified: 0,
        orphans: [],
        wakes: "right",
      },
    };
  }

  #wakeProblem(
    { job, alarm }: { job: number | null; alarm: number | null },
    mustNotify: boolean,
  ): string | undefined {
    const { waiting } = this.#model;
    const { now } = this.#outbox;
    if ((job === null) !== (alarm === null)) return `job ${job}, alarm ${alarm}`;
    if (waiting.length === 0 && !mustNotify) return job === null ? undefined : `O5 a job at ${job}`;
    if (job === null) return "an entry waits, and no job is set";
    const ready = Math.min(...waiting.map((entry) => this.#model.readyAt(entry)));
    if (this.#isWoken && job <= now) return `it has been woken, and wakes again at ${job - now}`;
    const latest = Math.max(ready, now + BACKSTOP_MS);
    return job > latest
      ? `it wakes at ${job - now}, and an entry is due at ${ready - now}`
      : undefined;
  }

  check(): void {
    const { notified, wrong } = this.#outbox;
    expect(wrong, "events that were changed").toEqual([]);
    if (!this.#isExact) return;
    expect([...notified].toSorted(), "deaths that the app was notified of").toEqual(
      [...this.#model.deaths].toSorted(),
    );
  }

  /** From now on every attempt succeeds. Everything accepted is delivered, and then no alarm is set. */
  async finish(run: (command: OutboxCommand) => Promise<void>): Promise<void> {
    const model = this.#model;
    model.isCalm = true;
    await run({ op: "wake" });
    for (const { id, attempt, diedAt } of model.dead) {
      const times = this.#outbox.notified.get(deathOf(id, attempt, diedAt));
      expect(times, `notifications of ${id}`).toBeGreaterThan(0);
    }
    await run({ op: "enable" });
    await run({ op: "redrive all" });
    for (let wake = 0; wake < 4 && model.waiting.length > 0; wake++) {
      this.#outbox.now += LONG_MS;
      await run({ op: "wake" });
    }
    expect(model.waiting, "entries of the model that never end").toEqual([]);
    const lost = [...model.accepted].filter((id) => !this.#isTaken(id) && !model.deleted.has(id));
    expect(lost, "O2 lost").toEqual([]);
    await this.#checkKept();
  }

  /** O4: an event that was sent as a reference can be read as long as it is kept. */
  async #checkKept(): Promise<void> {
    const taken = this.#outbox.calls.filter(({ answer }) => answer === "take");
    // Of several with the same id, the last one is kept.
    const last = new Map(taken.map((call) => [call.id, call]));
    const referenced = [...last.values()].filter(({ isWhole }) => !isWhole).map(({ id }) => id);
    for (const id of referenced) {
      const event = await this.#outbox.run((outbox) => outbox.read(id));
      if (event === null && this.keepDelivered) continue;
      const isLarge = JSON.stringify(event).length > 1_000;
      expect(event, `O4 ${id}`).toEqual(eventOf({ id, isLarge }));
    }
  }
}

const bySeq = (a: { seq: number }, b: { seq: number }) => a.seq - b.seq;

/** What is compared of an entry. Sequence numbers differ. */
function waitingOf({ id, place, attempt, isLarge, dueAt }: Entry) {
  return { id, place, attempt, isLarge, dueAt };
}

function deadOf({ id, place, attempt, isLarge, diedAt }: Letter) {
  return { id, place, attempt, isLarge, diedAt };
}

function byPlace(calls: readonly { place: Place }[]) {
  return [...Map.groupBy(calls, ({ place }) => place)].toSorted();
}
