/** The workflow base class: `AgentWorkflow` with the steps that agents need. */

import type { WorkflowStep } from "cloudflare:workers";
import { NonRetryableError } from "cloudflare:workflows";
import type { Agent } from "agents";
import {
  AgentWorkflow,
  type AgentWorkflowEvent,
  type AgentWorkflowStep,
  type DefaultProgress,
  type WorkflowCallback,
} from "agents/workflows";
import { type Failure, failureOf } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { isPlainObject } from "../core/options/options.ts";
import { checkedName, noteCall, UNAWAITED } from "../core/steps.ts";
import { type AgentPath, isSubAgent, renewed } from "./agent-stub.ts";
import {
  CALL_OF,
  type CallOf,
  durably,
  isStopped,
  reportingEnd,
  runOf,
  type StepAgent,
  type StepCall,
} from "./step-call.ts";
import { STEPS, type ThinkWorkflowSteps } from "./steps.generated.ts";

/** The step that `run()` of a {@link ThinkWorkflow} receives. */
export interface ThinkWorkflowStep extends AgentWorkflowStep, ThinkWorkflowSteps {}

/** Of the members of an agent on a host of Perdure, one that another agent does not have. */
type PerdureAgent = { readonly outbox: object };

/**
 * A Workflow whose agent can be prompted. Start it from the agent with
 * `runWorkflow()`, which passes the agent.
 */
export class ThinkWorkflow<
  AgentType extends Agent & PerdureAgent = Agent & PerdureAgent,
  Params = unknown,
  ProgressType = DefaultProgress,
  Env extends Cloudflare.Env = Cloudflare.Env,
> extends AgentWorkflow<AgentType, Params, ProgressType, Env> {
  /** Where the agent is, if it is a sub-agent; known from the first step of Perdure on. */
  #path: AgentPath | undefined;
  /** Kept past the end of the run: rollbacks come after it, when the platform's wrapper has released its stub. */
  #stub: DurableObjectStub<AgentType> | undefined;

  constructor(ctx: ExecutionContext, env: Env) {
    // Before that of agents, so that it is inside: the agent can still be called, and hears of a failure first.
    const isNew = wrapRun(new.target.prototype);
    super(ctx, env);
    if (isNew) checkStart(new.target.prototype);
  }

  /** The agent that started the workflow; a stub that works again after the agent went down. */
  override get agent(): DurableObjectStub<AgentType> {
    return renewed(this.env, this.#stub ?? super.agent, this.#path);
  }

  /** A run that the platform has stopped has not failed. */
  protected override async notifyAgent(callback: WorkflowCallback): Promise<void> {
    if (callback.type !== "error" || !isStopped(callback.error)) await super.notifyAgent(callback);
  }

  protected override extendStep(
    step: AgentWorkflowStep,
    { workflowName: deployedAs }: AgentWorkflowEvent<Params>,
  ): ThinkWorkflowStep {
    this.#stub = super.agent;
    const run = runOf(step, () => this.#locate(step));
    return withSteps(this.env, step, {
      agent: () => this.agent as unknown as StepAgent,
      workflowName: this.workflowName,
      workflowId: this.workflowId,
      deployedAs,
      run,
    });
  }

  async #locate(step: AgentWorkflowStep): Promise<void> {
    if (!isSubAgent(this.agent)) return;
    const agent = this.agent as unknown as StepAgent;
    this.#path = await durably(step, "perdure:agent", () => agent.callKernel("agentPath"));
  }
}

/** Classes whose `run()` is wrapped. */
const wrapped = new WeakSet<object>();
/** Steps of runs whose end is reported: a class that extends another one calls or inherits its `run()`. */
const running = new WeakSet<object>();

/** The platform finds `run()` on the prototype. A class that inherits `run()` gets one of its own, which agents wraps, too. Returns whether it did. */
function wrapRun(prototype: ThinkWorkflow): boolean {
  const { run } = prototype;
  if (!run || wrapped.has(prototype)) return false;
  wrapped.add(prototype);
  prototype.run = function (event, step: AgentWorkflowStep) {
    const work = () => run.call(this, event, step);
    if (running.has(step)) return work();
    running.add(step);
    let reported: Failure | null = null;
    const { reportError } = step;
    step.reportError = (error) => {
      reported = failureOf(error);
      return reportError(error);
    };
    const agent = () => this.agent as unknown as StepAgent;
    return reportingEnd(work, { step, agent, workflowId: this.workflowId }, () => reported);
  };
  return true;
}

/** Around the `run()` of agents, which knows only that no agent has started it. */
function checkStart(prototype: ThinkWorkflow): void {
  const { run } = prototype;
  prototype.run = async function (event, step: AgentWorkflowStep) {
    if (!isOrigin(event.payload)) return run.call(this, event, step);
    throw invalidClass(this, "not started by an agent. Extend DurableWorkflow.");
  };
}

/** Whether a plain object has started the workflow. */
export function isOrigin(payload: unknown): payload is OriginParams {
  return isPlainObject(payload) && isPlainObject(payload.perdure) && "binding" in payload.perdure;
}

/** No retry of the instance could help. */
export const invalidClass = (workflow: object, problem: string) =>
  new NonRetryableError(`${workflow.constructor.name} was ${problem}`, "InvalidWorkflowError");

/** How a step is made of a run: its calls by their names, and `env`. */
type StepOf = (callOf: CallOf, env: object) => (name: string, ...rest: never[]) => Promise<unknown>;

/** The step that `run()` receives, with the steps of Perdure. They note their calls until something awaits them. */
export function withSteps<Step extends WorkflowStep>(
  env: object,
  step: Step,
  run: Omit<StepCall, "step" | "name" | "used">,
): Step & ThinkWorkflowSteps {
  const used = new Set<string>();
  const callOf: CallOf = (name) => ({ ...run, step, name: checkedName(name), used });
  const steps = Object.entries<StepOf>(STEPS).map(([verb, stepOf]) => {
    const start = stepOf(callOf, env);
    const call = (name: string, ...rest: never[]) =>
      noteCall(step, `step.${verb}(${preview(name)})`, () => start(name, ...rest));
    return [verb, call];
  });
  const added = { [CALL_OF]: callOf, [UNAWAITED]: new Map() };
  return Object.assign(step, Object.fromEntries(steps) as ThinkWorkflowSteps, added);
}

/** Where the object is that has started a workflow. Part of the instance's params. */
export type WorkflowOrigin = {
  /** The Workflow's binding name. */
  readonly workflow: string;
  /** The binding and the name of the object. */
  readonly binding: string;
  readonly name: string;
  readonly jurisdiction?: string | undefined;
};

/** The params of an instance as the object stores them. */
export type OriginParams = { readonly perdure: WorkflowOrigin; readonly params: unknown };
