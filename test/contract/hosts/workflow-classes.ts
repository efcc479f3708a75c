/** Workflows whose `run()` is the class's own, inherited, or overridden with `super.run()`. */

import {
  DurableWorkflow,
  type DurableWorkflowStep,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";

import type { AgentHost } from "./agent-host.ts";
import type { ObjectHost } from "./object-host.ts";

export type Order = { readonly order: string; readonly prompt: string };

/** Runs of each class's code, by the instance's id. In the memory of the isolate. */
export const runs = new Map<string, string[]>();

type Event = { readonly payload: Order; readonly instanceId: string };

/** What both base classes run. */
async function take({ payload, instanceId }: Event, step: DurableWorkflowStep, title: string) {
  runs.set(instanceId, [...(runs.get(instanceId) ?? []), title]);
  const answer = await step.prompt("ask", { prompt: payload.prompt });
  const order = await step.do("charge", async () => payload.order);
  return `${title} ${order}: ${answer}`;
}

export class AgentOrder extends ThinkWorkflow<AgentHost, Order> {
  title(): string {
    return "order";
  }
  override async run(event: Event, step: ThinkWorkflowStep) {
    const stored = await this.agent.listSubmissions();
    return `${await take(event, step, this.title())} (${Array.isArray(stored)})`;
  }
}
export class AgentInherits extends AgentOrder {
  override title() {
    return "inherits";
  }
}
export class AgentThird extends AgentInherits {
  override title() {
    return "third";
  }
}
export class AgentCallsSuper extends AgentOrder {
  override async run(event: Event, step: ThinkWorkflowStep) {
    const changed = { ...event, payload: { ...event.payload, order: "B8" } };
    return `super ${await super.run(changed, step)}`;
  }
}
export class AgentInheritsSuper extends AgentCallsSuper {}

export class ObjectOrder extends DurableWorkflow<ObjectHost, Order> {
  title(): string {
    return "order";
  }
  override async run(event: Event, step: DurableWorkflowStep) {
    const stored = await this.agent.listSubmissions();
    return `${await take(event, step, this.title())} (${Array.isArray(stored)})`;
  }
}
export class ObjectInherits extends ObjectOrder {
  override title() {
    return "inherits";
  }
}
export class ObjectThird extends ObjectInherits {
  override title() {
    return "third";
  }
}
export class ObjectCallsSuper extends ObjectOrder {
  override async run(event: Event, step: DurableWorkflowStep) {
    const changed = { ...event, payload: { ...event.payload, order: "B8" } };
    return `super ${await super.run(changed, step)}`;
  }
}
export class ObjectInheritsSuper extends ObjectCallsSuper {}
