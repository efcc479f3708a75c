/** A scheduler alone on a plain Durable Object. Its tasks and its clock are in the script of its name and survive a crash. */

import { Scheduler, type SchedulerSettings } from "../../../src/scheduler/index.ts";
import type { Turns } from "../../../src/scheduler/types.ts";
import { MeteredObject } from "./metered-object.ts";

export type SchedulerScript = Omit<SchedulerSettings, "tasks"> & {
  tasks: SchedulerSettings["tasks"];
  readonly turns?: Turns;
  /** Epoch milliseconds; the machine's clock where it is not set. */
  now?: number;
  /** In [0, 1), for the backoff. */
  chance?: number;
  /** The host's own start, which follows the scheduler's. */
  readonly started?: (object: SchedulerObject) => void | Promise<void>;
  /** Called at each construction, before the start. */
  born?: (object: SchedulerObject, ctx: DurableObjectState) => void;
};

/** By the object's name. */
export const schedulerScripts = new Map<string, SchedulerScript>();

export class SchedulerObject extends MeteredObject {
  readonly scheduler: Scheduler;
  readonly #script: SchedulerScript;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
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
      turns,
      ...settings
    } = script;
    this.scheduler = new Scheduler(
      {
        ...settings,
        // Read each time: a test may change the declarations.
        tasks: () => script.tasks(),
        clock: { now: () => script.now ?? Date.now(), random: () => script.chance ?? 0 },
      },
      turns,
    );
    this.lifecycle.use(this.scheduler);
    born?.(this, ctx);
  }

  async onStart(): Promise<void> {
    await this.#script.started?.(this);
  }
}
