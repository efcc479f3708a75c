/** The workflow base class: `AgentWorkflow` with the steps that agents need. */

import { NonRetryableError } from "cloudflare:workflows";
import type { Agent } from "agents";
import {
  AgentWorkflow,
  type AgentWorkflowEvent,
  type AgentWorkflowStep,
  type DefaultProgress,
} from "agents/workflows";
import { HALF_CHARACTER, preview } from "../core/json.ts";
import { isWellFormedText } from "../core/text.ts";
import { type AgentPath, isSubAgent, renewed } from "./agent-stub.ts";
import { CALL_OF, durably, type StepAgent, type StepCall, UsedNames } from "./step-call.ts";
import { stepsOf, type ThinkWorkflowSteps } from "./steps.ts";

/** The step that `run()` of a {@link ThinkWorkflow} receives. */
export interface ThinkWorkflowStep extends AgentWorkflowStep, ThinkWorkflowSteps {}

/**
 * A Workflow whose agent can be prompted. Start it from the agent with
 * `runWorkflow()`, which tells it which agent is its own.
 */
export class ThinkWorkflow<
  AgentType extends Agent & StepAgent = Agent & StepAgent,
  Params = unknown,
  ProgressType = DefaultProgress,
  Env extends Cloudflare.Env = Cloudflare.Env,
> extends AgentWorkflow<AgentType, Params, ProgressType, Env> {
  /** Where the agent is, if it is a sub-agent; known from the first step of Perdure on. */
  #path: AgentPath | undefined;
  /** Kept past the end of the run: rollbacks come after it, when the platform's wrapper has let go of its stub. */
  #stub: DurableObjectStub<AgentType> | undefined;

  /** The agent that started the workflow; a stub that works again after the agent went down. */
  override get agent(): DurableObjectStub<AgentType> {
    return renewed(this.env, this.#stub ?? super.agent, this.#path);
  }

  protected override extendStep(
    step: AgentWorkflowStep,
    _event: AgentWorkflowEvent<Params>,
  ): ThinkWorkflowStep {
    this.#stub = super.agent;
    const run = once(() => this.#begin(step));
    const used = new UsedNames();
    const callOf = (name: string): StepCall => ({
      step,
      agent: () => this.agent as unknown as StepAgent,
      workflowName: this.workflowName,
      workflowId: this.workflowId,
      run,
      name: checkedName(name),
      used,
    });
    return Object.assign(step, stepsOf(this.env, callOf), { [CALL_OF]: callOf });
  }

  /** Names this run of the workflow, and finds out where its agent is. */
  async #begin(step: AgentWorkflowStep): Promise<string> {
    if (isSubAgent(this.agent)) {
      const agent = this.agent as unknown as { agentPath(): Promise<AgentPath> };
      this.#path = await durably(step, "perdure:agent", () => agent.agentPath());
    }
    return step.do("perdure:run", async () => crypto.randomUUID());
  }
}

/** @throws NonRetryableError for a name that no step can have */
function checkedName(name: string): string {
  const isText = typeof name === "string" && name !== "";
  if (isText && isWellFormedText(name)) return name;
  const problem = isText ? `, ${HALF_CHARACTER}` : "; expected a non-empty string.";
  throw new NonRetryableError(
    `A step got ${preview(name)} as its name${problem}`,
    "InvalidStepNameError",
  );
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
