/**
 * An app that changes its base classes: the first version extends Think and its ThinkWorkflow, the second one DurableThink
 * and Perdure's. Both run over the same storage and the same workflow instances, as after a deploy.
 */

import { runInDurableObject } from "cloudflare:test";
import { env, WorkflowEntrypoint, type WorkflowEvent } from "cloudflare:workers";
import { Think, type ThinkScheduledTasks, type ThinkSubmissionInspection } from "@cloudflare/think";
import {
  type ThinkWorkflowStep as BuiltInStep,
  ThinkWorkflow as BuiltInWorkflow,
} from "@cloudflare/think/workflows";
import type { UIMessage } from "ai";
import { DurableThink } from "../../../../src/hosts/think/index.ts";
import type { SubmissionInspection } from "../../../../src/submissions/types.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../../src/workflow/index.ts";
import { outputOf, restartFrom, type StepAt } from "../../../support/engine.ts";
import { ALL } from "../../../support/features.ts";
import { HeldModel } from "../../../support/held-model.ts";

/** What both versions of the workflow can do. */
type MovedStep = Pick<BuiltInStep, "do" | "prompt">;
/** @param approval `waitForApproval()`, which is the workflow's own */
export type MovedBody = (step: MovedStep, approval: () => Promise<unknown>) => Promise<unknown>;

/** Agents, by name, and workflows, by id, that run their second version. */
const secondVersion = new Set<string>();
/** What a workflow does, by its id. */
const workflowBodies = new Map<string, MovedBody>();
/** What an agent declares, by its name. */
export const movedTasks = new Map<string, ThinkScheduledTasks>();
/** Agents, by name, whose Workflow has another binding now. */
export const unbound = new Set<string>();
/** The statuses that an agent's hook received, by its name. */
export const movedStatuses = new Map<string, string[]>();

/** The workflow's agent has to be found by its binding, and tells where an id ends with a "-". */
const BOUND = { agentBinding: "MovedAgent" };

function note(name: string, ...status: string[]) {
  movedStatuses.set(name, [...(movedStatuses.get(name) ?? []), status.join(" ")]);
}

// The class keeps its name, of which Think makes keys.
const First = class MovedAgent extends Think<Cloudflare.Env> {
  // The test runtime looks methods up in the second version; what an object has of its own is no method to it.
  readonly callKernel = undefined;
  override chatRecovery: Think["chatRecovery"] = true;
  override getModel() {
    return new HeldModel();
  }
  override getScheduledTasks() {
    return movedTasks.get(this.name) ?? {};
  }
  override onSubmissionStatus({ submissionId, status }: ThinkSubmissionInspection) {
    note(this.name, submissionId, status);
  }
  async nextSchedule(): Promise<number | null> {
    const [first] = await this.listSchedules();
    return (first?.payload as { scheduledFor?: number } | undefined)?.scheduledFor ?? null;
  }
  start(id: string): Promise<string> {
    return this.runWorkflow("MOVED_WORKFLOW", {}, { id, ...BOUND });
  }
};

const Second = class MovedAgent extends DurableThink<Cloudflare.Env> {
  static override readonly features = ALL;
  override chatRecovery: Think["chatRecovery"] = true;
  override getModel() {
    return new HeldModel();
  }
  override getScheduledTasks() {
    return movedTasks.get(this.name) ?? {};
  }
  protected override onSubmissionStatus({ submissionId, status, thread }: SubmissionInspection) {
    note(this.name, submissionId, status, thread);
  }
  async nextSchedule(): Promise<number | null> {
    const [first] = await this.listSchedules();
    return (first?.payload as { scheduledFor?: number } | undefined)?.scheduledFor ?? null;
  }
  start(id: string): Promise<string> {
    return this.runWorkflow("MOVED_WORKFLOW", {}, { id, ...BOUND });
  }
  restart(id: string): Promise<void> {
    return this.restartWorkflow(id);
  }
  async texts(): Promise<string[]> {
    const messages: UIMessage[] = await this.getMessages();
    return messages.map(({ role }) => role);
  }
};

export type MovedAgent = InstanceType<typeof Second>;

export const MovedAgent = new Proxy(Second, {
  construct: (_, [ctx, env]: [DurableObjectState, Cloudflare.Env]) => {
    const name = ctx.id.name ?? "";
    const { MOVED_WORKFLOW, ...others } = env;
    const bound = unbound.has(name) ? { ...others, RENAMED_WORKFLOW: MOVED_WORKFLOW } : env;
    return new (secondVersion.has(name) ? Second : First)(ctx, bound as Cloudflare.Env);
  },
});

class FirstWorkflow extends BuiltInWorkflow<Think, object> {
  override run(_: unknown, step: BuiltInStep): Promise<unknown> {
    return bodyOf(this.workflowId)(step, () => this.waitForApproval(step));
  }
}

class SecondWorkflow extends ThinkWorkflow<MovedAgent, object> {
  override run(_: unknown, step: ThinkWorkflowStep): Promise<unknown> {
    const approval = () => this.waitForApproval(step);
    return bodyOf(this.workflowId)(step as unknown as MovedStep, approval);
  }
}

export class MovedWorkflow extends WorkflowEntrypoint<Cloudflare.Env, object> {
  override run(event: WorkflowEvent<object>, step: never): Promise<unknown> {
    const Version = secondVersion.has(event.instanceId) ? SecondWorkflow : FirstWorkflow;
    return new Version(this.ctx, this.env).run(event as never, step);
  }
}

function bodyOf(id: string): MovedBody {
  const body = workflowBodies.get(id);
  if (!body) throw new Error(`No test has a body for ${id}`);
  return body;
}

/** An app in its first version. */
export function givenApp(body: MovedBody = async () => null) {
  const id = `moved-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  workflowBodies.set(id, body);
  const agent = () => env.MovedAgent.getByName(name);
  const reset = async () => {
    const dying = runInDurableObject<MovedAgent, void>(agent(), (_, ctx) => ctx.abort("deploy"));
    await dying.catch(() => {});
    // Its alarm would start it, half a minute later.
    await agent().listSubmissions();
  };
  return {
    id,
    name,
    agent,
    start: () => agent().start(id),
    /** The second version of the agent is deployed. */
    async changeAgent(): Promise<void> {
      secondVersion.add(name);
      await reset();
    },
    /**
     * The second version of the workflow is deployed, and the instance is replayed: what it had done before a step is in its log.
     *
     * @param from the step; unset where the instance has not begun
     */
    async changeWorkflow(from?: StepAt): Promise<void> {
      secondVersion.add(id);
      if (from) await restartFrom(env.MOVED_WORKFLOW, id, from);
    },
    /** The first version is deployed again: of the agent, and of the workflow from that step on. */
    async goBack(from?: StepAt): Promise<void> {
      secondVersion.delete(name);
      await reset();
      if (!from) return;
      secondVersion.delete(id);
      await restartFrom(env.MOVED_WORKFLOW, id, from);
    },
    output: <T>(timeoutMs?: number) => outputOf<T>(env.MOVED_WORKFLOW, id, timeoutMs),
    instance: () => env.MOVED_WORKFLOW.get(id),
  };
}
