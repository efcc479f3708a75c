/** Calls of the agent of a run before it is known which class continues the run. */

import type { WorkflowEvent } from "cloudflare:workers";
import { AgentWorkflow, type AgentWorkflowEvent, type AgentWorkflowStep } from "agents/workflows";
import type { CallsKernel } from "../../core/calls.ts";
import { objectAt } from "../../workflow/durable-workflow.ts";
import { isRefusal, type StepAgent } from "../../workflow/step-call.ts";
import { isOrigin } from "../../workflow/think-workflow.ts";
import type { BegunRun, RunStart, Version } from "./types.ts";

type RunCalls = {
  "deployments.begin"(run: BegunRun): Promise<RunStart>;
  "deployments.continues"(workflow: string, instance: string): Promise<Version | undefined>;
};

/** Work with the agent, which knows the workflow by the name of its binding. */
type Work<Result> = (agent: CallsKernel<RunCalls> & StepAgent, workflow: string) => Promise<Result>;

/** Does the work with a new stub each time: a stub stays broken when its agent went down. */
export type InAgent = <Result>(work: Work<Result>) => Promise<Result>;

/** Finds the agent of a run as agents do, and runs nothing of the workflow. */
class Probe extends AgentWorkflow {
  /** The class that continues the run reports how it ends. */
  protected override async notifyAgent(): Promise<void> {}

  override run(_: AgentWorkflowEvent, step: AgentWorkflowStep): Promise<unknown> {
    const { work } = step as unknown as { work: Work<unknown> };
    return work(this.agent as never, this.workflowName);
  }
}

export function agentOf(
  ctx: ExecutionContext,
  env: Cloudflare.Env,
  event: Readonly<WorkflowEvent<unknown>>,
): InAgent {
  const { payload } = event;
  if (isOrigin(payload)) {
    const { perdure: origin } = payload;
    return (work) => work(objectAt(env, origin) as never, origin.workflow);
  }
  return <Result>(work: Work<Result>) =>
    new Probe(ctx, env).run(event as never, { work } as never) as Promise<Result>;
}

/** As often, and as long, as a step of Perdure repeats its calls. */
const MOST_ATTEMPTS = 12;
const FIRST_DELAY_MS = 500;

/** Repeats a call of the agent that fails because the agent is down. @throws the error of the last attempt, or a refusal */
export async function repeated<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === MOST_ATTEMPTS || isRefusal(error)) throw error;
      await scheduler.wait(FIRST_DELAY_MS * 2 ** attempt);
    }
  }
}
