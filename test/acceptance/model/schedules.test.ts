/** Schedules against a model: time, pauses, triggers, backfills, skipped occurrences, deploys that omit the task, and crashes. */

import fc from "fast-check";
import { capabilitiesOf } from "perdure/agent";
import { type VirtualClock, virtualClock } from "perdure/testing";
import { expect, it } from "vitest";
import { afterRestart, BOUND_MS, type GivenAgent, givenAgent } from "../app/given.ts";
import { HOSTS, type Host } from "../app/hosts.ts";
import { taskRuns } from "../app/receivers.ts";
import { deployedTasks, type makeTasks, SCHEDULED } from "../app/tasks.ts";
import { playSequences, type Subject } from "./sequences.ts";

type Command =
  | { readonly op: "pause" | "resume" | "skip" | "crash" | "omit" | "declare" }
  | { readonly op: "trigger"; readonly key: number }
  | { readonly op: "pass" | "backfill"; readonly hours: number };

const commands: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ op: fc.constantFrom("pause", "resume", "skip", "crash") }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom("omit", "declare", "declare") }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("trigger"), key: fc.nat({ max: 3 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constantFrom("pass", "pass", "backfill"),
      hours: fc.integer({ min: 1, max: 3 }),
    }),
  },
);

const HOUR = 3_600_000;
const TASK = "hourly";

/** Runs of one hourly task, by its occurrences, which are whole hours after its first one. */
class ScheduleModel {
  readonly runs = new Map<number, "completed" | "skipped">();
  readonly triggers = new Set<number>();
  /** The next occurrence; null while the task is paused. */
  next: number | null;
  /** Whether the last deploy has omitted the task. */
  isOmitted = false;

  constructor(
    private readonly first: number,
    public now: number,
  ) {
    this.next = first;
  }

  pause(): void {
    this.next = null;
  }

  resume(): void {
    if (this.next !== null) return;
    this.next = this.#after(this.now);
    this.#leaveKnown();
  }

  /** Occurrences that passed while the task was omitted do not run. */
  declare(now: number): void {
    if (!this.isOmitted) return;
    this.isOmitted = false;
    if (this.next === null) return;
    this.next = Math.max(this.next, this.#after(now));
  }

  skip(): number | null {
    const skipped = this.next;
    if (skipped === null) return null;
    this.runs.set(skipped, "skipped");
    this.next = skipped + HOUR;
    return skipped;
  }

  pass(now: number): void {
    this.now = now;
    while (!this.isOmitted && this.next !== null && this.next <= now) {
      this.runs.set(this.next, "completed");
      this.next += HOUR;
    }
  }

  /** Returns how many occurrences from a time until now are run. */
  backfill(from: number): number {
    let queued = 0;
    for (let time = this.#after(Math.max(from, this.first) - 1); time < this.now; time += HOUR) {
      if (this.runs.get(time) === "completed") continue;
      this.runs.set(time, "completed");
      queued++;
    }
    return queued;
  }

  #after(time: number): number {
    return this.first + (Math.floor((time - this.first) / HOUR) + 1) * HOUR;
  }

  /** An occurrence that was skipped before the pause stays skipped. */
  #leaveKnown(): void {
    while (this.next !== null && this.runs.has(this.next)) this.next += HOUR;
  }
}

class ScheduleSubject implements Subject<Command> {
  readonly #agent: GivenAgent;
  readonly #model: ScheduleModel;
  readonly #tasks: ReturnType<typeof makeTasks>;

  private constructor(
    agent: GivenAgent,
    first: number,
    tasks: ReturnType<typeof makeTasks>,
    private readonly clock: VirtualClock,
  ) {
    this.#agent = agent;
    this.#tasks = tasks;
    this.#model = new ScheduleModel(first, clock.now());
  }

  static async make(host: Host, clock: VirtualClock): Promise<ScheduleSubject> {
    const agent = givenAgent(host, `${SCHEDULED}${crypto.randomUUID()}`);
    const { name } = agent;
    const task = {
      schedule: "every hour",
      overlap: "allow",
      handler: ({ idempotencyKey }: { idempotencyKey: string }) =>
        taskRuns.receive(name, idempotencyKey),
    };
    const tasks = { [TASK]: task } as unknown as ReturnType<typeof makeTasks>;
    deployedTasks.set(name, tasks);
    const found = await capabilitiesOf(await agent.verbs()).schedules.inspect(TASK);
    return new ScheduleSubject(agent, Number(found?.next), tasks, clock);
  }

  async perform(command: Command): Promise<void> {
    const { schedules } = capabilitiesOf(await this.#agent.verbs());
    const isOfObject = ["omit", "declare", "pass", "crash"].includes(command.op);
    if (this.#model.isOmitted && !isOfObject) return;
    switch (command.op) {
      case "omit":
        await this.#deploy({} as never);
        this.#model.isOmitted = true;
        return;
      case "declare":
        await this.#deploy(this.#tasks);
        return this.#model.declare(this.clock.now());
      case "pause":
        await schedules.pause(TASK);
        return this.#model.pause();
      case "resume":
        this.#model.now = this.clock.now();
        await schedules.resume(TASK);
        return this.#model.resume();
      case "skip":
        return expect(await schedules.skipNext(TASK)).toBe(this.#model.skip());
      case "trigger":
        await schedules.trigger(TASK, { key: `key-${command.key}` });
        this.#model.triggers.add(command.key);
        return;
      case "backfill": {
        const from = this.clock.now() - command.hours * HOUR;
        this.#model.now = this.clock.now();
        const reply = await schedules.backfill(TASK, { from, to: this.#model.now });
        return expect(reply.queued).toBe(this.#model.backfill(from));
      }
      case "pass":
        await this.clock.advance(command.hours * HOUR, this.#agent.root);
        return this.#model.pass(this.clock.now());
      case "crash": {
        await this.#agent.crash();
        const hasAlarm = await this.#agent.ring();
        if (this.#model.next !== null && !this.#model.isOmitted)
          expect(hasAlarm, "the object has an alarm").toBe(true);
      }
    }
  }

  async #deploy(tasks: ReturnType<typeof makeTasks>): Promise<void> {
    deployedTasks.set(this.#agent.name, tasks);
    await this.#agent.crash();
    await capabilitiesOf(await this.#agent.verbs()).schedules.list();
  }

  look = (): Promise<object> =>
    afterRestart(async () => {
      const { schedules } = capabilitiesOf(await this.#agent.verbs());
      const { items } = await schedules.runs(TASK, { limit: 1_000 });
      const task = await schedules.inspect(TASK);
      const effects = taskRuns.get(this.#agent.name);
      const keys = items
        .filter(({ status }) => status === "completed")
        .map(({ idempotencyKey }) => idempotencyKey);
      return {
        next: task ? task.next : "omitted",
        runs: items
          .filter(({ cause }) => cause !== "trigger")
          .map(({ scheduledFor, status }) => [scheduledFor, status])
          .toReversed(),
        triggers: items.filter(({ cause }) => cause === "trigger").map(({ status }) => status),
        hasEachEffectOnce:
          effects.length === keys.length && keys.every((key) => effects.includes(key)),
      };
    });

  expected = (): object => ({
    next: this.#model.isOmitted ? "omitted" : this.#model.next,
    runs: [...this.#model.runs].toSorted(([one], [other]) => one - other),
    triggers: [...this.#model.triggers].map(() => "completed"),
    hasEachEffectOnce: true,
  });
}

for (const host of HOSTS.filter(({ entry, depth }) => entry === "perdure/object" && depth === 0)) {
  it(`S1 S3 S4: the schedules of ${host.title} do what their model does`, async () => {
    using clock = virtualClock({ patience: BOUND_MS });
    await playSequences(commands, () => ScheduleSubject.make(host, clock), 5);
  }, 3_600_000);
}
