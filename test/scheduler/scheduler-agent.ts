/** A scheduler on a plain agent, whose sub-agents have one, too. */

import { Agent } from "agents";
import { type ScheduledTasks, Scheduler } from "../../src/scheduler/index.ts";

/** What the agents declare, by their names. */
export const agentTasks = new Map<string, () => ScheduledTasks>();
/** The scope, by name. */
export const agentScopes = new Map<string, "root" | "all">();

export class SchedulerAgent extends Agent<Cloudflare.Env> {
  readonly schedules = new Scheduler({
    tasks: () => agentTasks.get(this.name)?.() ?? {},
    scope: () => agentScopes.get(this.name) ?? "root",
  });

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.lifecycle.use(this.schedules);
  }

  /** Ids of the armed tasks. */
  async armed(): Promise<string[]> {
    const { items } = await this.schedules.list();
    return items.map(({ taskId }) => taskId);
  }

  /** The same of a sub-agent. */
  async armedIn(name: string): Promise<string[]> {
    const child = await this.subAgent(SchedulerAgent, name);
    return child.armed();
  }

  /** Reads the declarations of a sub-agent again. */
  async reconcileIn(name: string): Promise<void> {
    const child = await this.subAgent(SchedulerAgent, name);
    await child.reconciled();
  }

  async reconciled(): Promise<void> {
    await this.schedules.reconcile();
  }

  async triggerIn(name: string, taskId: string, key?: string): Promise<string> {
    const child = await this.subAgent(SchedulerAgent, name);
    return child.triggered(taskId, key);
  }

  /** The idempotency key of a run made now. */
  async triggered(taskId: string, key?: string): Promise<string> {
    const run = await this.schedules.trigger(taskId, key === undefined ? {} : { key });
    return run.idempotencyKey;
  }
}
