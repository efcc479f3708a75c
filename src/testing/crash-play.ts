/** Runs a scenario once, in a new object, with the given crashes. Repeats rejected steps; otherwise only the alarm wakes the object. */

import { failureOf } from "../core/failures.ts";
import { inObject, ringAlarm } from "./cloudflare-test.ts";
import { forgetInstances, type Instances, watchInstances } from "./crashable.ts";
import { InvalidScenarioError } from "./errors.ts";
import { readWork } from "./inspection/inspect-work.ts";
import { describeStoredWork, type WorkInspection } from "./inspection/open-work.ts";
import type { CrashPoint, Instance } from "./instance.ts";
import { invariantsOf } from "./invariants.ts";
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

/** A wake, and the alarm that it has removed. */
type RungAlarm = { readonly alarm: number | null; state: "running" | "completed" | "error" };

class Run<T extends Objects> {
  readonly #deadline: number;
  readonly #run: CrashRun<T>;
  readonly #instances: Instances;
  readonly #all: Instance[] = [];
  /** Whether the scenario is over. A check may start another instance, which is not watched. */
  #isOverNow = false;
  #lastWake: RungAlarm | undefined;

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

  /** Waits until the work is done. After a crash, only the alarm (or `touch`) starts the object. */
  async #finish(): Promise<void> {
    let state = this.#state();
    let since = performance.now();
    let woken = this.#instances.count;
    while (!this.#isLate()) {
      // Constructs an instance after a crash, and does not start it.
      const alarm =
        (await this.#alarm()) ?? (await this.#restoreAlarm(woken < this.#instances.count));
      if (woken < this.#instances.count) {
        if (alarm === null) await this.#checkAsleep();
        woken = this.#instances.count;
        this.#wake(alarm);
        since = performance.now();
      } else if (await this.#isOver()) {
        // A crash may still be pending.
        await sleep(POLL_MS);
        await this.#alarm();
        if (state === this.#state() && (await this.#isOver())) return;
      } else if (performance.now() - since > IDLE_MS && this.#isDue(alarm)) {
        this.#wake(alarm);
        since = performance.now();
      } else await sleep(POLL_MS);
      if (state === this.#state()) continue;
      state = this.#state();
      since = performance.now();
    }
    throw new Error(await this.#why());
  }

  /**
   * True when a running instance has to be woken. Before a crash it continues by itself until its alarm is due. Afterwards the
   * alarm may be the heartbeat of the crashed instance, which is not waited for.
   */
  #isDue(alarm: number | null): boolean {
    if (this.#lastWake?.state === "running") return false;
    if (this.scenario.touch !== undefined || this.#instances.count > 1) return true;
    return alarm !== null && alarm <= Date.now();
  }

  /** The alarm, without starting the object; null also while a crash comes. */
  #alarm(): Promise<number | null> {
    return inObject(this.#plain(), (_, { storage }) => storage.getAlarm()).catch(() => null);
  }

  /**
   * An object without an alarm stays asleep. Its verbs start it, and may repair that, so this is decided at once.
   *
   * @throws Error where stored work needs a wake
   */
  async #checkAsleep(): Promise<void> {
    const since = Date.now();
    // It may crash once more when a verb starts it. The next instance is checked again.
    const work = await this.#inspect((alarm) => alarm === null).catch(() => undefined);
    const open = work ? describeStoredWork(work, since) : [];
    if (open.length > 0) throw new Error(`no alarm is set, and ${open.join("; ")}`);
  }

  /** @param isWanted whether to go on, by the alarm before the verbs start the object */
  async #inspect(
    isWanted: (alarm: number | null) => boolean = () => true,
  ): Promise<WorkInspection | undefined> {
    const work = await inObject(this.#plain(), async (object, { storage }) =>
      isWanted(await storage.getAlarm()) ? readWork(object, storage) : undefined,
    );
    // The answer has left the object, so what it reports is durable.
    if (work) this.#instances.observer.inspected(work);
    return work;
  }

  async #isOver(): Promise<boolean> {
    const { isOver } = this.scenario;
    try {
      if (isOver) return await isOver(this.#run.stub(), this.#run);
      return (await this.#inspect())?.open.length === 0;
    } catch {
      // It crashed in between; the next poll finds its next instance.
      return false;
    }
  }

  /** Begins to wake the object. The alarm ends with the work in flight, which the polls do not wait for. */
  #wake(alarm: number | null): void {
    const { touch } = this.scenario;
    const work = touch ? touch(this.#run.stub(), this.#run) : ringAlarm(this.#plain());
    const wake: RungAlarm = { alarm, state: "running" };
    this.#lastWake = wake;
    // A crash in the alarm is expected. If the crash prevents work, the time limit reports it.
    Promise.resolve(work).then(
      () => {
        wake.state = "completed";
      },
      () => {
        wake.state = "error";
      },
    );
  }

  /**
   * The platform repeats an alarm that has failed, and ringAlarm() has removed it. Sets it again.
   *
   * @param hasCrashed whether the instance of the last wake is gone
   * @returns the alarm, if it was set again
   */
  async #restoreAlarm(hasCrashed: boolean): Promise<number | null> {
    const wake = this.#lastWake;
    if (!wake || wake.alarm === null) return null;
    const hasFailed = wake.state === "error" || (wake.state === "running" && hasCrashed);
    if (!hasFailed) return null;
    wake.state = "completed";
    await inObject(this.#plain(), () => this.#instances.latest?.restoreAlarm(Number(wake.alarm)));
    return wake.alarm;
  }

  /** Why the scenario is not over. */
  async #why(): Promise<string> {
    const seconds = this.scenario.timeoutMs / 1_000;
    const alarm = await this.#alarm();
    const open = (await this.#inspect())?.open ?? [];
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
