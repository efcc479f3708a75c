/**
 * One random sequence on a real outbox and on the model at once. After each
 * step it waits until the two agree, and checks what has to hold in any case.
 */

import { expect } from "vitest";
import { until } from "../../support/given.ts";
import { WEBHOOK } from "../../support/outbox.ts";
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
import { type CrashPoint, DESTINATIONS, eventOf, RULES, type Sight, World } from "./test-outbox.ts";

export type CalmStep =
  | { readonly op: "put"; readonly events: readonly NewEvent[]; readonly commits: boolean }
  | { readonly op: "redrive" | "delete"; readonly nth: number }
  | { readonly op: "redrive all"; readonly ageMs?: number; readonly place?: Place }
  | { readonly op: "delete before"; readonly ageMs: number }
  | { readonly op: "disable" | "enable" | "wake" | "page" };

export type Step =
  | CalmStep
  | { readonly op: "crash" }
  | { readonly op: "pass"; readonly ms: number }
  /** The object dies in the middle of the step, if that makes so many writes. */
  | { readonly op: "crash in"; readonly step: CalmStep; readonly point: CrashPoint };

const BACKSTOP_MS = 30_000;
const PAGE = 2;
const LONG_MS = 7_200_000;

export class OutboxRun {
  readonly #model: OutboxModel;
  readonly #world: World;
  readonly #plots = new Map<string, readonly Answer[]>();
  /** Where the list that is being read has come to, and its cursor as the outbox gave it. */
  #list: { at: { diedAt: number; id: string }; cursor: string } | undefined;
  /** How many crashes came in the middle of a step. */
  crashes = 0;
  /** The step was a wake: the next one is not to come at once. */
  #isWoken = false;
  /** Nothing has happened that the model was not there for. */
  #isExact = true;
  /** A life that has not been woken need not have told of what the last one buried. */
  #mayHaveUntold = false;

  /** @param patienceMs how long the outbox may take to come to what the model says */
  constructor(
    private readonly keepDelivered: { maxAge: number; maxCount: number } | undefined,
    private readonly patienceMs: number,
  ) {
    this.#world = new World((id, place, nth) => this.#answer(id, place, nth), keepDelivered);
    this.#model = new OutboxModel(RULES, () => this.#world.now);
  }

  #answer(id: string, place: Place, nth: number): Answer {
    const plot = this.#plots.get(id) ?? ["take"];
    if (this.#model.isCalm) return "take";
    return answerAt(place, plot[Math.min(nth, plot.length - 1)] ?? "take");
  }

  async play(steps: readonly Step[]): Promise<void> {
    for (const [index, step] of steps.entries()) {
      await named(`step ${index + 1}, ${JSON.stringify(step)}`, () => this.#step(step));
    }
    await named("the end", () => this.#settle());
    await this.#world.crash();
  }

  async #step(step: Step): Promise<void> {
    this.#isWoken = false;
    if (step.op === "pass") this.#world.now += step.ms;
    else if (step.op === "crash") {
      await this.#world.crash();
      this.#model.crash();
    } else if (step.op === "crash in") return this.#crashIn(step.step, step.point);
    else await this.#calmOrKilled(step);
    await this.#agree();
  }

  /** The step on both, and whoever has asked is told the same. */
  async #calm(step: CalmStep): Promise<void> {
    const target = "nth" in step ? this.#nth(step.nth) : undefined;
    const told = this.#act(step, target);
    const expected = this.#expect(step, target);
    expect(await told, `what ${step.op} returns`).toEqual(expected);
    this.#isWoken = step.op === "wake";
    if (this.#isWoken) this.#mayHaveUntold = false;
  }

  /** Whether a delivery may end the object in this step: what else is under way then is for chance to say. */
  #mayKill(step: CalmStep): boolean {
    const { waiting, dead, isCalm } = this.#model;
    const events = step.op === "put" && step.commits ? step.events : [];
    const plots = [...waiting, ...dead].map(({ id }) => this.#plots.get(id) ?? []);
    const all = [...plots, ...events.map(({ plot }) => plot)];
    return !isCalm && all.some((plot) => plot.includes("kill"));
  }

  #nth(nth: number): string {
    const { dead } = this.#model;
    return dead[nth % Math.max(1, dead.length)]?.id ?? "nobody";
  }

  #expect(step: CalmStep, target: string | undefined): unknown {
    const model = this.#model;
    const { now } = this.#world;
    if (step.op === "put") return model.put(step.events, step.commits);
    if (step.op === "redrive") return model.redrive(({ id }) => id === target) > 0;
    if (step.op === "delete") return model.delete(({ id }) => id === target) > 0;
    if (step.op === "redrive all") {
      const since = step.ageMs === undefined ? 0 : now - step.ageMs;
      const isMeant = (place: Place) => step.place === undefined || step.place === place;
      return model.redrive(({ place, diedAt }) => isMeant(place) && diedAt >= since);
    }
    if (step.op === "delete before") return model.delete(({ diedAt }) => diedAt < now - step.ageMs);
    if (step.op === "disable") return model.disable();
    if (step.op === "enable") return model.enable();
    if (step.op === "page") return this.#expectPage();
    // Without an alarm nobody wakes it.
    if (model.waiting.length > 0 || model.bornAt !== null) model.flush();
    return undefined;
  }

  #expectPage() {
    const { dead, waiting } = this.#model;
    const ids = this.#model.page(PAGE, this.#list?.at);
    return { ids, deadLetters: dead.length, waiting: waiting.length };
  }

  async #act(step: CalmStep, target = "nobody"): Promise<unknown> {
    const world = this.#world;
    const { now } = world;
    if (step.op === "wake") return void (await world.wake());
    if (step.op === "put") {
      if (step.commits) this.#plan(step.events);
      return world.put(step.events, step.commits);
    }
    return world.run(async ({ outbox }) => {
      if (step.op === "redrive") return outbox.redrive(target);
      if (step.op === "delete") return outbox.deleteDeadLetter(target);
      if (step.op === "redrive all") {
        return outbox.redriveAll({
          ...(step.ageMs !== undefined && { since: new Date(now - step.ageMs) }),
          ...(step.place && { destination: DESTINATIONS[step.place] }),
        });
      }
      if (step.op === "delete before") {
        return outbox.deleteDeadLetters({ before: new Date(now - step.ageMs) });
      }
      if (step.op === "disable") return outbox.disableEndpoint(WEBHOOK.url);
      if (step.op === "enable") return outbox.enableEndpoint(WEBHOOK.url);
      return this.#page(outbox);
    });
  }

  /** The next page of a list that is read while letters come and go. */
  async #page(outbox: Parameters<Parameters<World["run"]>[0]>[0]["outbox"]) {
    const after = this.#list && { cursor: this.#list.cursor };
    const { deadLetters, cursor } = await outbox.listDeadLetters({ limit: PAGE, ...after });
    const last = deadLetters.at(-1);
    this.#list = last && cursor !== undefined ? { at: last, cursor } : undefined;
    const { waiting, deadLetters: count } = await outbox.stats();
    expect(await outbox.countDeadLetters()).toBe(count);
    return { ids: deadLetters.map(({ id }) => id), deadLetters: count, waiting };
  }

  /** The first put that is accepted says how its attempts are answered. */
  #plan(events: readonly NewEvent[]): void {
    const planned = new Set<string>();
    for (const { id, plot } of events) {
      if (planned.has(id) || this.#model.isOpen(id)) continue;
      planned.add(id);
      this.#plots.set(id, plot);
      this.#model.plan(id, plot);
      this.#world.used.delete(id);
    }
  }

  /** @param point where it crashes; undefined leaves that to the deliveries that kill it */
  async #crashIn(step: CalmStep, point: CrashPoint | undefined): Promise<void> {
    const world = this.#world;
    const before = await world.look();
    const ids = new Set(step.op === "put" && step.commits ? step.events.map(({ id }) => id) : []);
    const target = "nth" in step ? this.#nth(step.nth) : undefined;
    const list = this.#list;
    if (point) await world.crashAt(point);
    await this.#act(step, target).catch(() => {});
    // It may come in what the step has set off.
    await until(() => world.hasCrashed, 30).catch(() => {});
    if (!world.hasCrashed) await world.callOffCrash().catch(() => {});
    if (world.hasCrashed) {
      this.crashes++;
      world.nextLife();
    } else await world.crash();
    this.#list = list;
    const found = await world.look();
    this.#checkNothingLost(step, before, found, ids);
    for (const id of ids) this.#model.accepted.add(id);
    this.#mayHaveUntold = true;
    this.#isExact = false;
    this.#model.adopt(found, world.used);
    // A caller that was not told puts again; what has been delivered since comes again.
    if (step.op === "put" && point) await this.#calmOrKilled(step);
    await this.#agree();
  }

  #calmOrKilled(step: CalmStep): Promise<void> {
    return this.#mayKill(step) ? this.#crashIn(step, undefined) : this.#calm(step);
  }

  /** Whatever had been accepted is still there, or was taken, or was to be forgotten. */
  #checkNothingLost(step: CalmStep, before: Sight, found: Sight, ids: ReadonlySet<string>): void {
    const isDeleting = step.op === "delete" || step.op === "delete before";
    const attempts = new Map([...found.waiting, ...found.dead].map((one) => [one.id, one.attempt]));
    for (const { id, attempt } of [...before.waiting, ...before.dead]) {
      const now = attempts.get(id);
      // What was refused without an attempt stands at the one before it.
      if (now !== undefined) expect(now, `attempts of ${id}`).toBeGreaterThanOrEqual(attempt - 1);
      else if (!isDeleting) expect(this.#isTaken(id), `${id} was lost`).toBe(true);
      else if (!this.#isTaken(id)) this.#model.forgotten.add(id);
    }
    for (const { id } of [...found.waiting, ...found.dead]) {
      const isKnown = this.#model.accepted.has(id) || ids.has(id);
      expect(isKnown, `${id} was not put, or was rolled back`).toBe(true);
    }
  }

  #isTaken(id: string): boolean {
    return this.#world.calls.some((call) => call.id === id && call.answer === "take");
  }

  /** Waits until the outbox is where the model is. */
  async #agree(): Promise<void> {
    let sight: Sight | undefined;
    const isThere = async () => {
      sight = await this.#world.look();
      return JSON.stringify(this.#seen(sight)) === JSON.stringify(this.#wanted());
    };
    const isRight = await until(isThere, this.patienceMs).catch(() => false);
    if (!isRight && sight) throw new Error(differences(this.#seen(sight), this.#wanted()));
    this.#check();
  }

  #wanted() {
    const { waiting, dead, trouble, calls } = this.#model;
    return {
      waiting: waiting.toSorted(bySeq).map(waitingOf),
      dead: dead.toSorted(bySeq).map(deadOf),
      trouble,
      calls: byPlace(calls),
      untold: 0,
      orphans: [],
      wakes: "as it should",
    };
  }

  #seen({ waiting, dead, trouble, calls, untold, orphans, ...wakes }: Sight) {
    return {
      waiting: waiting.map(waitingOf),
      dead: dead.map(deadOf),
      trouble,
      calls: byPlace(calls),
      untold: this.#mayHaveUntold ? 0 : untold.length,
      orphans,
      wakes: this.#wakesWrongly(wakes, untold.length > 0) ?? "as it should",
    };
  }

  /** What is wrong with the wake that it holds. */
  #wakesWrongly(
    { job, alarm }: { job: number | null; alarm: number | null },
    mustTell: boolean,
  ): string | undefined {
    const { waiting } = this.#model;
    const { now } = this.#world;
    if ((job === null) !== (alarm === null)) return `job ${job}, alarm ${alarm}`;
    if (waiting.length === 0 && !mustTell) return job === null ? undefined : `O5 a job at ${job}`;
    if (job === null) return "something waits, and nothing wakes it";
    const ready = Math.min(...waiting.map((entry) => this.#model.readyAt(entry)));
    if (this.#isWoken && job <= now) return `it has been woken, and wakes again at ${job - now}`;
    const latest = Math.max(ready, now + BACKSTOP_MS);
    return job > latest
      ? `it wakes at ${job - now}, and something is due at ${ready - now}`
      : undefined;
  }

  #check(): void {
    const { told, wrong } = this.#world;
    expect(wrong, "events that were changed").toEqual([]);
    if (!this.#isExact) return;
    expect([...told].toSorted(), "deaths that were told of").toEqual(
      [...this.#model.deaths].toSorted(),
    );
  }

  /** Everything is taken from now on: everything that was accepted arrives, and then it rests. */
  async #settle(): Promise<void> {
    const model = this.#model;
    model.isCalm = true;
    await this.#calm({ op: "wake" });
    await this.#agree();
    for (const { id, attempt, diedAt } of model.dead) {
      const times = this.#world.told.get(deathOf(id, attempt, diedAt));
      expect(times, `told of ${id}`).toBeGreaterThan(0);
    }
    await this.#calm({ op: "enable" });
    await this.#calm({ op: "redrive all" });
    for (let wake = 0; wake < 4 && model.waiting.length > 0; wake++) {
      this.#world.now += LONG_MS;
      await this.#calm({ op: "wake" });
      await this.#agree();
    }
    expect(model.waiting, "the model itself comes to rest").toEqual([]);
    await this.#agree();
    const lost = [...model.accepted].filter((id) => !this.#isTaken(id) && !model.forgotten.has(id));
    expect(lost, "O2 lost").toEqual([]);
    await this.#checkKept();
  }

  /** O4: what came as a reference is there to be fetched, as long as it is kept. */
  async #checkKept(): Promise<void> {
    const taken = this.#world.calls.filter(({ answer }) => answer === "take");
    // Of several with the same id, it is the last one that is kept.
    const last = new Map(taken.map((call) => [call.id, call]));
    const referenced = [...last.values()].filter(({ isWhole }) => !isWhole).map(({ id }) => id);
    for (const id of referenced) {
      const event = await this.#world.run(({ outbox }) => outbox.read(id));
      if (event === null && this.keepDelivered) continue;
      const isLarge = JSON.stringify(event).length > 1_000;
      expect(event, `O4 ${id}`).toEqual(eventOf({ id, isLarge }));
    }
  }
}

const bySeq = (a: { seq: number }, b: { seq: number }) => a.seq - b.seq;

/** What both must agree on; numbers in line are each one's own. */
function waitingOf({ id, place, attempt, isLarge, dueAt }: Entry) {
  return { id, place, attempt, isLarge, dueAt };
}

function deadOf({ id, place, attempt, isLarge, diedAt }: Letter) {
  return { id, place, attempt, isLarge, diedAt };
}

function byPlace(calls: readonly { place: Place }[]) {
  return [...Map.groupBy(calls, ({ place }) => place)].toSorted();
}

function differences(seen: object, expected: object): string {
  const all = Object.entries(expected).flatMap(([name, wanted]) => {
    const [is, was] = [Reflect.get(seen, name), wanted].map((value) => JSON.stringify(value));
    return is === was ? [] : [`${name}\n  is       ${is}\n  expected ${was}`];
  });
  return all.join("\nand ");
}

async function named(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new Error(`After ${what}: ${error instanceof Error ? error.message : error}`);
  }
}
