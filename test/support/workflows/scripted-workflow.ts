/** A workflow whose body a test sets, by the id of the instance. The body is in memory, so every replay finds it. */

import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { AgentWorkflowEvent, AgentWorkflowStep } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { givenThink } from "../given.ts";
import { type AppHooks, appHooks, type ThinkAgent } from "../think-agent.ts";
import { watchSteps } from "./watched-steps.ts";

export type WorkflowBody = (
  step: ThinkWorkflowStep,
  workflow: ScriptedWorkflow,
) => Promise<unknown>;

/** By the id of the instance. */
export const workflowBodies = new Map<string, WorkflowBody>();

export class ScriptedWorkflow extends ThinkWorkflow<ThinkAgent, object> {
  protected override extendStep(
    step: AgentWorkflowStep,
    event: AgentWorkflowEvent<object>,
  ): ThinkWorkflowStep {
    watchSteps(step, this.workflowId);
    return super.extendStep(step, event);
  }

  override run(_event: AgentWorkflowEvent<object>, step: ThinkWorkflowStep) {
    const body = workflowBodies.get(this.workflowId);
    if (!body) throw new Error(`No test has a body for ${this.workflowId}`);
    return body(step, this);
  }

  /** `reportProgress()`, which is protected. */
  async tell(progress: { step: string; percent: number }): Promise<void> {
    await this.reportProgress(progress);
  }

  /** `waitForApproval()`, which is protected. */
  async approval(step: ThinkWorkflowStep): Promise<unknown> {
    return this.waitForApproval(step, { timeout: "1 minute" });
  }
}

/**
 * A workflow under introspection, not started yet, and the agent that it belongs to.
 *
 * @param options.isSub whether its agent is a sub-agent of the one that is returned
 */
export async function givenScriptedWorkflow(
  body: WorkflowBody,
  options: { hooks?: AppHooks; isSub?: boolean } = {},
) {
  const id = `body-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  workflowBodies.set(id, body);
  appHooks.set(options.isSub ? `child-of-${name}` : name, options.hooks ?? {});
  const instance = await introspectWorkflowInstance(env.SCRIPTED_WORKFLOW, id);
  return {
    id,
    instance,
    /** A new stub each time, because none survives a crash. */
    get agent() {
      return givenThink(name);
    },
    /** The statuses in the ledger of its own agent. The call starts the agent, as an alarm would do later. */
    async statuses(): Promise<string[]> {
      const agent = givenThink(name);
      if (options.isSub) return agent.statusesOfChild(`child-of-${name}`);
      return (await agent.listSubmissions()).map(({ status }) => status);
    },
    handle: () => env.SCRIPTED_WORKFLOW.get(id),
    async start() {
      const agent = givenThink(name);
      await (options.isSub
        ? agent.startScriptedOfChild(`child-of-${name}`, id)
        : agent.startScripted(id));
    },
    /** What the workflow has returned. */
    async output(): Promise<unknown> {
      await instance.waitForStatus("complete");
      return instance.getOutput();
    },
    /** The error of the workflow. */
    async error(): Promise<{ name: string; message: string }> {
      await instance.waitForStatus("errored");
      return instance.getError();
    },
    [Symbol.asyncDispose]: () => instance.dispose(),
  };
}
