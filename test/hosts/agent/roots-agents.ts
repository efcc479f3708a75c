/** Root agents that differ in what they can keep for their sub-agents. */

import { Agent, getSubAgentByName } from "agents";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { method } from "../../../src/outbox/index.ts";
import { defineScheduledTasks, schedules } from "../../../src/scheduler/index.ts";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";

/** Without schedules(). */
export class BareRoot extends DurableAgent<Cloudflare.Env> {
  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }
}

/** Without Perdure. */
export class PlainRoot extends Agent<Cloudflare.Env> {}

/** With the schedules of its sub-agents. */
export class TickingChild extends DurableAgent<Cloudflare.Env> {
  static override readonly features = [schedules()];

  override getModel() {
    return new ScriptedModel();
  }
  override getScheduledTasksScope() {
    return "all" as const;
  }
  override getScheduledTasks() {
    return defineScheduledTasks({
      tick: { schedule: "every minute", handler: () => this.#tick() },
    });
  }
  /** Puts an event into the outbox, without waiting for anything. */
  put(id: string): string {
    return this.outbox.put(method("note"), "noted", { id });
  }
  note() {}
  /** Starts a workflow in the same way. */
  start(): Promise<string> {
    return this.runWorkflow("PROMPT_WORKFLOW", {});
  }
  async #tick() {
    await this.ctx.storage.put("ticks", (await this.ticks()) + 1);
  }
  async ticks(): Promise<number> {
    return (await this.ctx.storage.get<number>("ticks")) ?? 0;
  }
}

export const childOf = (root: DurableObjectStub) =>
  getSubAgentByName(root as never, TickingChild, "child");
