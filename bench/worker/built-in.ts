/** Think's own agent with the model of the bench. */

import { Think, type ThinkScheduledTask, type ThinkScheduledTasks } from "@cloudflare/think";
import type { Meter } from "../../src/testing/meter.ts";
import { AgentVerbs } from "./agent-verbs.ts";
import { message, meterOf } from "./cost.ts";
import type { Env } from "./env.ts";
import { asked, TimedModel } from "./timed-model.ts";

export class BuiltInBench extends Think<Env> {
  readonly meter: Meter | undefined;
  #tasks: ThinkScheduledTasks = {};

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf(ctx);
    super(ctx, env);
    this.meter = meter;
  }

  override getModel() {
    return new TimedModel();
  }

  override getScheduledTasks(): ThinkScheduledTasks {
    return this.#tasks;
  }

  get verbs(): AgentVerbs {
    return new AgentVerbs(this);
  }

  async startPrompts(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("BUILT_IN_WORKFLOW", params, { id });
  }

  /** Adds pending submissions by submitting them, because nothing else is public. */
  async fill(count: number): Promise<void> {
    for (let index = 0; index < count; index++) await this.submitMessages([message(asked(0))]);
  }

  /** The object starts again at its next call. */
  async die(): Promise<void> {
    this.ctx.abort("bench");
  }

  /** Skips pending submissions, and aborts running ones. */
  async stop(): Promise<void> {
    this.resetTurnState();
  }

  /** Declares tasks, and returns the time to reconcile them, in milliseconds. */
  async declare(schedule: ThinkScheduledTask["schedule"], count: number): Promise<number> {
    const task = { schedule, handler: async () => {} } as ThinkScheduledTask;
    this.#tasks = Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`task-${index}`, task]),
    );
    const from = performance.now();
    await this.internal_reconcileScheduledTasks();
    return performance.now() - from;
  }
}
