/** An app whose deploys a test makes: the versions of its agents, and the class of its workflow, are in memory. */

import {
  DurableObject,
  env,
  WorkflowEntrypoint,
  type WorkflowEvent,
  type WorkflowStep,
} from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import type { AgentWorkflowEvent } from "agents/workflows";
import {
  type Deployments,
  deployments,
  versions,
  type WorkflowClass,
} from "../../../src/features/deploy/index.ts";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { durable } from "../../../src/hosts/object/index.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { operations } from "../../../src/operator/index.ts";
import {
  DurableWorkflow,
  type DurableWorkflowStep,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";

/** What is deployed. */
export const deployed = {
  version: "1",
  workflow: undefined as unknown as WorkflowClass,
  /** Whether agents that start now install deployments(). */
  isOn: true,
  /** How often the agent goes down at the start of a run. */
  crashes: 0,
};

export class DeployedAgent extends DurableAgent<Cloudflare.Env> {
  static override get features() {
    return deployed.isOn
      ? [deployments({ version: () => deployed.version }), operations()]
      : [operations()];
  }

  override callKernel(...args: Parameters<DurableAgent["callKernel"]>) {
    if (args[0] === "deployments.begin" && deployed.crashes > 0) {
      deployed.crashes--;
      this.ctx.abort("the agent goes down");
    }
    return super.callKernel(...args);
  }

  async start(id: string): Promise<string> {
    return this.runWorkflow("DEPLOYED_WORKFLOW", { order: 17 }, { id });
  }

  async startOfChild(id: string): Promise<void> {
    const child = await this.subAgent(DeployedAgent, "child");
    await child.start(id);
  }

  statusOf(id: string) {
    return this.getWorkflow(id);
  }

  override async onWorkflowError(_workflow: string, _id: string, error: string): Promise<void> {
    await this.ctx.storage.put("errors", [...(await this.errors()), error]);
  }

  async errors(): Promise<string[]> {
    return (await this.ctx.storage.get<string[]>("errors")) ?? [];
  }

  /** As an operator does. */
  setVersion(id: string, version: string): void {
    const { store } = this[CAPABILITIES].features.get("deployments", "a test") as Deployments;
    store.setRun({ workflow: "DEPLOYED_WORKFLOW", instance: id }, version, Date.now());
  }
}

/** A plain object. */
export class DeployedObject extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    model: "some/model",
    features: [deployments({ version: () => deployed.version })],
  });

  async start(id: string): Promise<void> {
    await this.durable.runWorkflow("DEPLOYED_WORKFLOW", { order: 17 }, { id });
  }
}

/** What the Worker exports, whatever is deployed. */
export class DeployedWorkflow extends WorkflowEntrypoint<Cloudflare.Env> {
  override run(event: Readonly<WorkflowEvent<unknown>>, step: WorkflowStep): Promise<unknown> {
    return new deployed.workflow(this.ctx, this.env as never).run(event as never, step as never);
  }
}

type Body = (step: ThinkWorkflowStep, payload: object) => Promise<unknown>;

/** A class of the app. */
export function classOf(body: Body, statics: object = {}) {
  class Ticket extends ThinkWorkflow<DeployedAgent, { order: number }> {
    override run({ payload }: AgentWorkflowEvent<{ order: number }>, step: ThinkWorkflowStep) {
      return body(step, payload);
    }
  }
  return Object.assign(Ticket, statics) as WorkflowClass;
}

/** Of the plain object. */
export function objectClass(name: string) {
  return class extends DurableWorkflow<DeployedObject, { order: number }> {
    override async run(
      { payload }: WorkflowEvent<{ order: number }>,
      step: DurableWorkflowStep,
    ): Promise<unknown> {
      const first = await step.do("first", async () => `first by ${name}`);
      await step.waitForEvent("go", { type: "go", timeout: "1 hour" });
      return [first, `second by ${name}`, payload];
    }
  } as unknown as WorkflowClass;
}

/** Two steps with an event between them, and which class has run them. */
export const ticket = (name: string, statics = {}) =>
  classOf(async (step, payload) => {
    const first = await step.do("first", async () => `first by ${name}`);
    await step.waitForEvent("go", { type: "go", timeout: "1 hour" });
    const second = await step.do("second", async () => `second by ${name}`);
    return [first, second, payload];
  }, statics);

export function deploy(version: string, workflow: WorkflowClass): void {
  deployed.version = version;
  deployed.workflow = workflow;
}

export const agentOf = (id: string) => env.DeployedAgent.getByName(`agent-of-${id}`);

export { versions };
