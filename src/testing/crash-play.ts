/**
 * Plays a scenario once, in an object of its own, with the crashes that it is
 * given. Whoever calls repeats what it has not heard of; nobody else helps the
 * object but its alarm.
 */

import { failureOf } from "../core/failures.ts";
import { inObject, ringAlarm } from "./cloudflare-test.ts";
import { forgetLives, type Lives, watchLives } from "./crashable.ts";
import { InvalidScenarioError } from "./errors.ts";
import { invariantsOf, openWorkOf } from "./invariants/invariants.ts";
import type { CrashPoint, Life } from "./life.ts";
import type { Checked, CrashRun } from "./scenario.ts";

type Objects = Rpc.DurableObjectBranded | undefined;

/** What came of one play. */
export type Played = {
  readonly problems: readonly string[];
  /** What the life after the last crash has done: all of it, where there was none. */
  readonly seen: Life["seen"];
  /** The crashes that came. */
  readonly crashes: readonly CrashPoint[];
};

/** Nothing has happened for so long: the object is woken. */
const STILL_MS = 120;
/** Between two looks. */
const LOOK_MS = 20;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * @param crashes where each life ends; the life after the last one goes on to the end
 * @throws InvalidScenarioError when the class is not crashable, or a step fails without any crash
 */
export async function play<T extends Objects>(
  scenario: Checked<T>,
  crashes: readonly CrashPoint[],
): Promise<Played> {
  const one = new Play(scenario, crashes);
  try {
    return await one.play();
  } finally {
    one.end();
  }
}

class Play<T extends Objects> {
  readonly #deadline: number;
  readonly #run: CrashRun<T>;
  readonly #lives: Lives;
  readonly #all: Life[] = [];
  /** Whether all has come about: who looks at it then may begin a life, which is no part of the play. */
  #isPlayed = false;

  constructor(
    private readonly scenario: Checked<T>,
    private readonly crashes: readonly CrashPoint[],
  ) {
    const id = `${scenario.name.replaceAll(/[^A-Za-z0-9]+/g, "-").slice(0, 40)}-${crypto.randomUUID()}`;
    this.#deadline = performance.now() + scenario.timeoutMs;
    this.#run = {
      id,
      stub: () => scenario.objects.getByName(id),
      lives: () => this.#lives.count,
    };
    this.#lives = watchLives(this.#plain(), (life, count) => {
      this.#all.push(life);
      // The first life is prepared before it may crash.
      if (count > 1 && !this.#isPlayed) life.watch(crashes[this.#crashed().length]);
    });
  }

  async play(): Promise<Played> {
    await this.#prepare();
    const problems: string[] = [];
    try {
      for (const index of this.scenario.steps.keys()) await this.#step(index);
      await this.#rest();
      this.#isPlayed = true;
      this.#lives.latest?.release();
      problems.push(...(await this.#problems()));
    } catch (error) {
      if (error instanceof InvalidScenarioError) throw error;
      problems.push(failureOf(error).message);
    }
    const last = this.#lives.latest;
    if (!last) throw new Error(`The object of ${this.scenario.name} has never lived`);
    return { problems, seen: last.seen, crashes: this.#crashed() };
  }

  end(): void {
    forgetLives(this.#plain());
  }

  async #prepare(): Promise<void> {
    const { name, prepare } = this.scenario;
    await inObject(this.#plain(), () => {});
    if (!this.#lives.latest) {
      throw new InvalidScenarioError(
        name,
        "the objects cannot be crashed. Export their class from the worker of the tests as crashable(YourClass).",
      );
    }
    try {
      await prepare?.(this.#run.stub(), this.#run);
    } catch (error) {
      const message = `prepare() has failed: ${failureOf(error).message}`;
      throw new InvalidScenarioError(name, message, { cause: error });
    }
    this.#lives.latest.watch(this.crashes[0]);
  }

  /** As a caller does who was not told. */
  async #step(index: number): Promise<void> {
    const { name, steps } = this.scenario;
    for (;;) {
      try {
        await steps[index]?.(this.#run.stub(), this.#run);
        return;
      } catch (error) {
        const { message } = failureOf(error);
        if (this.crashes.length === 0) {
          const what = `step ${index + 1} fails without any crash: ${message}`;
          throw new InvalidScenarioError(name, what, { cause: error });
        }
        if (this.#isLate()) throw new Error(`step ${index + 1} still fails: ${message}`);
        await sleep(LOOK_MS);
      }
    }
  }

  /** Until all is over, with nobody's help but the alarm's. */
  async #rest(): Promise<void> {
    let state = this.#state();
    let since = performance.now();
    let woken = 1;
    while (!this.#isLate()) {
      // A life after a crash has begun when it is woken, and not before: what it finds then is its own doing.
      if (woken < this.#lives.count) {
        woken = this.#lives.count;
        await this.#wake();
      }
      if (await this.#isOver()) {
        // A crash may be on its way still.
        await sleep(LOOK_MS);
        if (state === this.#state() && (await this.#isOver())) return;
      } else if (performance.now() - since > STILL_MS) {
        await this.#wake();
        since = performance.now();
      } else await sleep(LOOK_MS);
      if (state === this.#state()) continue;
      state = this.#state();
      since = performance.now();
    }
    throw new Error(await this.#why());
  }

  async #isOver(): Promise<boolean> {
    const { isOver } = this.scenario;
    try {
      if (isOver) return await isOver(this.#run.stub(), this.#run);
      return (await openWorkOf(this.#plain())).length === 0;
    } catch {
      // It has crashed in between; the next look finds its next life.
      return false;
    }
  }

  async #wake(): Promise<void> {
    const { touch } = this.scenario;
    const woken = touch ? touch(this.#run.stub(), this.#run) : ringAlarm(this.#plain());
    // A crash in the alarm is what was asked for; one that is left out shows in what does not come about.
    await Promise.resolve(woken).catch(() => false);
  }

  /** Why it is not over. */
  async #why(): Promise<string> {
    const seconds = this.scenario.timeoutMs / 1_000;
    const open = await openWorkOf(this.#plain());
    const alarm = await inObject(this.#plain(), (_, { storage }) => storage.getAlarm());
    const wake =
      alarm === null ? "no alarm is set" : `its alarm is ${new Date(alarm).toISOString()}`;
    return `not over after ${seconds} seconds: ${open.join("; ") || "isOver() says no"}; ${wake}`;
  }

  async #problems(): Promise<string[]> {
    const { check, expect } = this.scenario;
    const found = await invariantsOf(this.#plain(), expect);
    return [...found, ...((await check?.(this.#run.stub(), this.#run)) ?? [])];
  }

  #state(): string {
    const { seen } = this.#lives.latest ?? {};
    return `${this.#lives.count} ${seen?.write.length} ${seen?.delivery.length}`;
  }

  #crashed(): CrashPoint[] {
    return this.#all.flatMap(({ crashedAt }) => crashedAt ?? []);
  }

  #isLate(): boolean {
    return performance.now() > this.#deadline;
  }

  /** Without the types of its methods, which nobody needs here. */
  #plain(): DurableObjectStub {
    return this.#run.stub() as unknown as DurableObjectStub;
  }
}
