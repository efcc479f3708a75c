/**
 * A scheduler alone on a plain Durable Object. Its tasks and its clock are
 * those of the test that has named the object, and outlive its lives.
 */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Scheduler, type SchedulerSettings } from "../../src/scheduler/index.ts";
import { Meter, metered } from "../../src/testing/index.ts";

export type SchedulerScript = Omit<SchedulerSettings, "tasks"> & {
  tasks: SchedulerSettings["tasks"];
  /** Epoch milliseconds; the machine's clock where it is not set. */
  now?: number;
  /** In [0, 1), for the backoff. */
  chance?: number;
  /** The host's own start, which follows the scheduler's. */
  readonly started?: (object: SchedulerObject) => void | Promise<void>;
  /** At the birth of each life, before it starts. */
  born?: (object: SchedulerObject, ctx: DurableObjectState) => void;
};

/** By the object's name. */
export const schedulerScripts = new Map<string, SchedulerScript>();

export class SchedulerObject extends DurableObject<Cloudflare.Env> {
  readonly meter: Meter;
  readonly lifecycle = Lifecycle.install(this);
  readonly scheduler: Scheduler;
  readonly #script: SchedulerScript;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
    const script: SchedulerScript = schedulerScripts.get(ctx.id.name ?? "") ?? {
      tasks: () => ({}),
    };
    this.#script = script;
    const {
      now: _now,
      chance: _chance,
      started: _started,
      born,
      tasks: _tasks,
      ...settings
    } = script;
    this.scheduler = new Scheduler({
      ...settings,
      // Read each time: a test declares others between two lives, or within one.
      tasks: () => script.tasks(),
      clock: { now: () => script.now ?? Date.now(), random: () => script.chance ?? 0 },
    });
    this.lifecycle.use(this.scheduler);
    born?.(this, ctx);
  }

  async onStart(): Promise<void> {
    await this.#script.started?.(this);
  }
}
