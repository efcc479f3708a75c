/** A scheduler alone on a plain Durable Object, with the tasks that its script declares. */

import { SchedulerObject, schedulerScripts } from "../../test/support/objects/scheduler-object.ts";
import { type Cost, costOf } from "./cost.ts";

export type Reconciled = Cost & {
  readonly ownStatements: number;
  readonly tasks: number;
  readonly ms: number;
};

/** The tasks of the object with that name, every 15 minutes. */
export function declareMany(name: string, count: number): void {
  const task = { schedule: "every 15 minutes", handler: async () => {} } as const;
  const ids = Array.from({ length: count }, (_, index) => `task-${index}`);
  schedulerScripts.set(name, { tasks: () => Object.fromEntries(ids.map((id) => [id, task])) });
}

const isOfScheduler = (query: string) => /perdure_(tasks|runs)/.test(query);

export class LoadedScheduler extends SchedulerObject {
  /** The statements since the last start, by table, and the number of tasks. */
  async reconciled(): Promise<Reconciled> {
    await this.lifecycle.start();
    const from = performance.now();
    await this.scheduler.reconcile();
    const ms = performance.now() - from;
    const cost = {
      ...costOf(this.meter),
      // The local runtime stores the name of each object in a separate table.
      rowsWritten: this.meter.rowsWrittenBy((query) => !query.includes("__miniflare")),
      ownStatements: this.meter.statementsOf(isOfScheduler),
    };
    const tasks = await this.scheduler.list({ occurrences: 0, limit: 1_000 });
    this.meter.reset();
    return { ...cost, ms, tasks: tasks.items.length };
  }

  /** Aborts the object. Its storage stays. */
  async die(): Promise<void> {
    await this.ctx.storage.sync();
    this.ctx.abort("The bench ends this life of the object, to measure the start of the next one");
  }
}
