/** Runs a scenario once, in a new object, with the given crashes. Repeats rejected steps; otherwise only the alarm wakes the object. */

import { failureOf } from "../core/failures.ts";
import { inObject, ringAlarm } from "./cloudflare-test.ts";
import { forgetInstances, type Instances, watchInstances } from "./crashable.ts";
import { InvalidScenarioError } from "./errors.ts";
import type { CrashPoint, Instance } from "./instance.ts";
import { invariantsOf, openWorkOf } from "./invariants/invariants.ts";
import type { Checked, CrashRun, Objects } from "./scenario.ts";

/** The result of one run. */
export type Played = {
  readonly problems: readonly string[];
  /** The writes and deliveries since the last crash. */
  readonly seen: Instance["seen"];
  /** The crashes that happened. */
  readonly crashes: readonly CrashPoint[];
};

/** The object is woken after this time without a change. */
const IDLE_MS = 120;
const POLL_MS = 20;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * @param crashes where to crash; the instance after the last crash runs to the end
 * @throws InvalidScenarioError when the class is not crashable, or a step fails without a crash
 */
export async function play<T extends Objects>(
  scenario: Checked<T>,
  crashes: readonly CrashPoint[],
): Promise<Played> {
  return new Run(scenario, crashes).play();
}

class Run<T extends Objects> {
  readonly #deadline: number;
  readonly #run: CrashRun<T>;
  readonly #instances: Instances;
  readonly #all: Instance[] = [];
  /** Whether the scenario is over. A check may start another instance, which is not watched. */
  #isOverNow = false;

  constructor(
    private readonly scenario: Checked<T>,
    private readonly crashes: readonly CrashPoint[],
  ) {
    const id = `${scenario.name.replaceAll(/[^A-Za-z0-9]+/g, "-").slice(0, 40)}-${crypto.randomUUID()}`;
    this.#deadline = performance.now() + scenario.timeoutMs;
    this.#run = {
      id,
      stub: () => scenario.objects.getByName(id),
      starts: () => this.#instances.count,
    };
    this.#instances = watchInstances(this.#plain(), (instance, count) => {
      this.#all.push(instance);
      // prepare() runs in the first instance before it may crash.
      if (count > 1 && !this.#isOverNow) instance.watch(crashes[this.#crashed().length]);
    });
  }

  async play(): Promise<Played> {
    try {
      await this.#prepare();
      const problems = await this.#playSteps();
      const last = this.#instances.latest;
      if (!last) throw new Error(`The object of ${this.scenario.name} was never constructed`);
      return { problems, seen: last.seen, crashes: this.#crashed() };
    } finally {
      forgetInstances(this.#plain());
    }
  }

  async #playSteps(): Promise<readonly string[]> {
    try {
      for (const index of this.scenario.steps.keys()) await this.#step(index);
      await this.#finish();
      this.#isOverNow = true;
      this.#instances.latest?.release();
      return await this.#problems();
    } catch (error) {
      if (error instanceof InvalidScenarioError) throw error;
      return [failureOf(error).message];
    }
  }

  async #prepare(): Promise<void> {
    const { name, prepare } = this.scenario;
    await inObject(this.#plain(), () => {});
    if (!this.#instances.latest) {
      const remedy = "Export their class from the worker of the tests as crashable(YourClass).";
      throw new InvalidScenarioError(name, `the objects cannot be crashed. ${remedy}`);
    }
    try {
      await prepare?.(this.#run.stub(), this.#run);
    } catch (error) {
      const message = `prepare() failed: ${failureOf(error).message}`;
      throw new InvalidScenarioError(name, message, { cause: error });
    }
    this.#instances.latest.watch(this.crashes[0]);
  }

  /** Repeats the step until it succeeds, as a caller without an answer does. */
  async #step(index: number): Promise<void> {
    const { name, steps } = this.scenario;
    for (;;) {
      try {
        await steps[index]?.(this.#run.stub(), this.#run);
        return;
      } catch (error) {
        const { message } = failureOf(error);
        if (this.crashes.length === 0) {
          const what = `step ${index + 1} fails without a crash: ${message}`;
          throw new InvalidScenarioError(name, what, { cause: error });
        }
        if (this.#isLate()) throw new Error(`step ${index + 1} still fails: ${message}`);
        await sleep(POLL_MS);
      }
    }
  }

  /** Waits until the work is done. Only the alarm (or `touch`) wakes the object. */
  async #finish(): Promise<void> {
    let state = this.#state();
    let since = performance.now();
    let woken = 1;
    while (!this.#isLate()) {
      // An instance starts when it is first woken after a crash, even if all work seems done.
      if (woken < this.#instances.count) {
        woken = this.#instances.count;
        await this.#wake();
      }
      if (await this.#isOver()) {
        // A crash may still be pending.
        await sleep(POLL_MS);
        if (state === this.#state() && (await this.#isOver())) return;
      } else if (performance.now() - since > IDLE_MS) {
        await this.#wake();
        since = performance.now();
      } else await sleep(POLL_MS);
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
      // It crashed in between; the next poll finds its next instance.
      return false;
    }
  }

  async #wake(): Promise<void> {
    const { touch } = this.scenario;
    const woken = touch ? touch(this.#run.stub(), this.#run) : ringAlarm(this.#plain());
    // A crash in the alarm is expected. If the crash prevents work, the time limit reports it.
    await Promise.resolve(woken).catch(() => false);
  }

  /** Why the scenario is not over. */
  async #why(): Promise<string> {
    const seconds = this.scenario.timeoutMs / 1_000;
    const open = await openWorkOf(this.#plain());
    const alarm = await inObject(this.#plain(), (_, { storage }) => storage.getAlarm());
    const wake =
      alarm === null ? "no alarm is set" : `its alarm is ${new Date(alarm).toISOString()}`;
    return `not over after ${seconds} seconds: ${open.join("; ") || "isOver() returns false"}; ${wake}`;
  }

  async #problems(): Promise<string[]> {
    const { check, expect } = this.scenario;
    const found = await invariantsOf(this.#plain(), expect);
    return [...found, ...((await check?.(this.#run.stub(), this.#run)) ?? [])];
  }

  #state(): string {
    const { seen } = this.#instances.latest ?? {};
    return `${this.#instances.count} ${seen?.write.length} ${seen?.delivery.length}`;
  }

  #crashed(): CrashPoint[] {
    return this.#all.flatMap(({ crashedAt }) => crashedAt ?? []);
  }

  #isLate(): boolean {
    return performance.now() > this.#deadline;
  }

  /** The stub without the types of its methods. */
  #plain(): DurableObjectStub {
    return this.#run.stub() as unknown as DurableObjectStub;
  }
}
