/** The workflow base class: `AgentWorkflow` with the steps that agents need. */

import type { Agent } from "agents";
import {
  AgentWorkflow,
  type AgentWorkflowEvent,
  type AgentWorkflowStep,
  type DefaultProgress,
} from "agents/workflows";
import type { ZodObject, z } from "zod";
import { renewed } from "./agent-stub.ts";
import { type PromptableAgent, runPrompt, type ThinkPromptOptions } from "./prompt.ts";

/** The step that `run()` of a {@link ThinkWorkflow} receives. */
export interface ThinkWorkflowStep extends AgentWorkflowStep {
  /**
   * Asks the agent and waits for its structured answer. Idempotent per
   * workflow, instance, step name and key (W1); what it returns matches
   * `output` (W4).
   *
   * @throws ThinkPromptTimeoutError when no answer came within `timeout` (W2)
   * @throws ThinkPromptAbortedError when the submission was cancelled
   * @throws ThinkPromptSkippedError when the agent's turns were reset first
   * @throws ThinkPromptValidationError when the answer does not match `output`
   * @throws ThinkPromptError when the turn failed
   */
  prompt<Schema extends ZodObject>(
    name: string,
    options: ThinkPromptOptions<Schema>,
  ): Promise<z.infer<Schema>>;
}

/**
 * A Workflow whose agent can be prompted. Start it from the agent with
 * `runWorkflow()`, which tells it which agent is its own.
 */
export class ThinkWorkflow<
  AgentType extends Agent & PromptableAgent = Agent & PromptableAgent,
  Params = unknown,
  ProgressType = DefaultProgress,
  Env extends Cloudflare.Env = Cloudflare.Env,
> extends AgentWorkflow<AgentType, Params, ProgressType, Env> {
  /** The agent that started the workflow; a stub that works again after the agent went down. */
  override get agent(): DurableObjectStub<AgentType> {
    return renewed(this.env, super.agent);
  }

  protected override extendStep(
    step: AgentWorkflowStep,
    _event: AgentWorkflowEvent<Params>,
  ): ThinkWorkflowStep {
    let run: Promise<string> | undefined;
    return Object.assign(step, {
      prompt: <Schema extends ZodObject>(name: string, options: ThinkPromptOptions<Schema>) =>
        runPrompt({
          step,
          agent: () => this.agent as unknown as PromptableAgent,
          workflowName: this.workflowName,
          workflowId: this.workflowId,
          run: () => (run ??= step.do("perdure:run", async () => crypto.randomUUID())),
          name,
          options,
        }),
    });
  }
}
