/** The workflow base class: `AgentWorkflow` with the steps that agents need, and their signatures. */

import type { WorkflowStep } from "cloudflare:workers";
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
import { text } from "../core/options/option-schemas.ts";
import type { AnySchema } from "../core/schema/schema.ts";
import { checkedName, noteCall, UNAWAITED } from "../core/steps.ts";
import { type AgentPath, agentAt, agentBindings, isSubAgent, renewed } from "./agent-stub.ts";
import {
  type AgentToolClass,
  type AgentToolOptions,
  type AgentToolOutput,
  type AgentToolResult,
  runAgentToolStep,
} from "./agent-tool.ts";
import { type ApprovalDecision, type ApprovalOptions, runApproval } from "./approval.ts";
import { readStep, refusalOf } from "./options.ts";
import { runPrompt } from "./prompt.ts";
import { runPromptAll } from "./prompt-all.ts";
import type {
  AnswerOf,
  PromptAllOptions,
  PromptAllResults,
  PromptResult,
  PromptTarget,
  ThinkPromptOptions,
} from "./prompt-options.ts";
import {
  CALL_OF,
  durably,
  isStopped,
  reportingEnd,
  runOf,
  type StepAgent,
  type StepCall,
} from "./step-call.ts";
import {
  runWebhook,
  type WebhookArrival,
  type WebhookOptions,
  type WebhookUrl,
  type WebhookUrlOptions,
} from "./webhook.ts";

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
    wrapRun(new.target.prototype);
    super(ctx, env);
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
    _event: AgentWorkflowEvent<Params>,
  ): ThinkWorkflowStep {
    this.#stub = super.agent;
    const run = runOf(step, () => this.#locate(step));
    return withSteps(this.env, step, {
      agent: () => this.agent as unknown as StepAgent,
      workflowName: this.workflowName,
      workflowId: this.workflowId,
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
/** Steps of runs whose end is reported: a class that extends another one calls its `run()`. */
const running = new WeakSet<object>();

/** The platform finds `run()` on the prototype. */
function wrapRun(prototype: ThinkWorkflow): void {
  if (!Object.hasOwn(prototype, "run") || wrapped.has(prototype)) return;
  wrapped.add(prototype);
  const { run } = prototype;
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
}

export interface ThinkWorkflowSteps {
  /**
   * Asks the agent and waits for its answer: what `output` takes, or without one the text of the reply. Idempotent per
   * workflow, instance, step name and key; what it returns matches `output`.
   *
   * @throws ThinkPromptTimeoutError when no answer came within `timeout`
   * @throws ThinkPromptAbortedError when the submission was cancelled
   * @throws ThinkPromptSkippedError when the agent's turns were reset first
   * @throws ThinkPromptValidationError when the answer does not match `output`
   * @throws ThinkPromptNotFoundError when the agent no longer has the submission; it is not run again
   * @throws ThinkPromptError when the turn failed
   */
  prompt<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: ThinkPromptOptions<Schema>,
  ): Promise<AnswerOf<Schema>>;

  /** {@link prompt}, with what the answer has cost, and where in the ledger it is. */
  promptResult<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: ThinkPromptOptions<Schema>,
  ): Promise<PromptResult<Schema>>;

  /**
   * Asks the agent about each of many items, some at a time, and waits for all the answers, which come in the order of
   * the items. Idempotent per workflow, instance, step name and the item's key. Up to 10,000 items; a thousand small
   * ones take about 15 steps of the platform. Uses of one name at the same time need different keys.
   *
   * With `onError: "return"` it throws none of the errors below, and returns them as values.
   *
   * @throws ThinkPromptTimeoutError when not all answers came within `timeout`
   * @throws ThinkPromptAbortedError when a submission was cancelled
   * @throws ThinkPromptSkippedError when the agent's turns were reset first
   * @throws ThinkPromptValidationError when an answer does not match `output`
   * @throws ThinkPromptError when a turn failed; like the others with `index` and `key` of its item
   */
  promptAll<
    Item,
    Schema extends AnySchema | undefined = undefined,
    OnError extends "throw" | "return" = "throw",
  >(
    name: string,
    items: readonly Item[],
    options: PromptAllOptions<Item, Schema, OnError>,
  ): Promise<PromptAllResults<Schema, OnError>>;

  /**
   * Asks a person at the agent, durably, and waits for the decision: `agent.approvals` has `list()`, `grant()` and
   * `reject()`. Idempotent per workflow, instance, step name and key within a run; a restarted workflow takes
   * over what is still pending where it asks the same, and asks again for what was decided before. Uses of one name in
   * one run need different keys. No event and no click can answer another approval; the payload matches `schema`. A
   * payload that only `schema` itself refuses, e.g. by a refinement, is not the decision: another approval asks again,
   * with the reason as its `refusal`, up to ten times within the same `timeout`.
   *
   * @throws ApprovalTimeoutError when it was not decided within `timeout` and `onTimeout` is `"throw"`
   * @throws ApprovalPayloadError when the payload of the last of these is refused, too
   * @throws ApprovalCancelledError when it was cancelled at the agent
   */
  approval<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options?: ApprovalOptions<Schema>,
  ): Promise<ApprovalDecision<Schema>>;

  /**
   * Runs a child agent as a tool of the workflow's agent, and waits for the end of its run. Idempotent per workflow,
   * instance, step name and key: a completed run answers a restart at once, one that failed is tried afresh by
   * it, a running one is waited for. Progress and milestones go to `onWorkflowProgress()` of the agent and to its clients.
   * The child's turn is recovered by Think, or by the child's own class, after a crash of the child: a tool of it may run again.
   *
   * @param child the child's class, or its name. The Worker must export the class, which needs no binding or migration
   * @throws AgentToolTimeoutError when it had not ended within `timeout`; it is cancelled then
   * @throws AgentToolAbortedError when the run was cancelled
   * @throws AgentToolInterruptedError when the agent gave the run up
   * @throws AgentToolValidationError when its output does not match `output`
   * @throws AgentToolFailedError when the child failed, or could not be started
   */
  agentTool<Schema extends AnySchema | undefined = undefined>(
    name: string,
    child: AgentToolClass | string,
    options: AgentToolOptions<Schema>,
  ): Promise<AgentToolResult<AgentToolOutput<Schema>>>;

  /**
   * Waits for an arrival that the agent accepts: by its source, its type, and fields of its body. Idempotent per
   * workflow, instance, step name and key: an arrival that has come answers a restart at once. All open steps that an arrival
   * is for get it. An arrival that only `schema` itself refuses, e.g. by a refinement, is not the one: the step waits for
   * another one, up to ten times within the same `timeout`.
   *
   * @throws WebhookTimeoutError when no arrival came within `timeout`
   * @throws WebhookBodyError when the last of these is refused, too
   * @throws WebhookCancelledError when the wait was cancelled at the agent
   * @example
   * const match = { "data.object.metadata.orderId": orderId };
   * const { body } = await step.webhook("paid", { from: "stripe", type: "payment_intent.succeeded", match, timeout: "3 days" });
   */
  webhook<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: WebhookUrlOptions<Schema>,
  ): Promise<WebhookUrl<Schema>>;
  webhook<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: WebhookOptions<Schema>,
  ): Promise<WebhookArrival<Schema>>;
}

/** The step that `run()` receives, with the steps of Perdure. They note their calls until something awaits them. */
export function withSteps<Step extends WorkflowStep>(
  env: object,
  step: Step,
  run: Omit<StepCall, "step" | "name" | "used">,
): Step & ThinkWorkflowSteps {
  const used = new Set<string>();
  const callOf = (name: string): StepCall => ({ ...run, step, name: checkedName(name), used });
  const steps = Object.entries(stepsOf(env, callOf)).map(([verb, start]) => {
    const call = (name: string, ...rest: unknown[]) =>
      noteCall(step, `step.${verb}(${preview(name)})`, () => start(name, ...rest));
    return [verb, call];
  });
  const added = { [CALL_OF]: callOf, [UNAWAITED]: new Map() };
  return Object.assign(step, Object.fromEntries(steps) as ThinkWorkflowSteps, added);
}

/**
 * @param callOf one step of this run, on the workflow's own agent
 */
function stepsOf(env: object, callOf: (name: string) => StepCall): ThinkWorkflowSteps {
  const promptResult: ThinkWorkflowSteps["promptResult"] = async (name, options) =>
    runPrompt(prompted(env, callOf(name), options?.agent), options);
  return {
    promptResult,
    prompt: async (name, options) => (await promptResult(name, options)).output,
    promptAll: async (name, items, options) => runPromptAll(callOf(name), items, options),
    approval: async (name, options = {}) => runApproval(callOf(name), options),
    agentTool: async (name, child, options) => runAgentToolStep(callOf(name), child, options),
    webhook: (async (name: string, options: WebhookOptions) =>
      runWebhook(callOf(name), options)) as ThinkWorkflowSteps["webhook"],
  };
}

/** The same step, on the agent that it asks. */
function prompted(env: object, call: StepCall, target: PromptTarget | undefined): StepCall {
  if (target === undefined) return call;
  const refuse = refusalOf("prompt", call.name);
  const { binding = "", name } = target ?? {};
  const bindings = agentBindings(env);
  if (!bindings.includes(binding)) {
    const among = bindings.join(", ") || "none: env has no namespace";
    const problem = `expected an object with name, and as binding one of ${among}`;
    throw refuse(`Invalid agent ${preview(target)}: ${problem}.`);
  }
  readStep(text(), name, refuse, "agent.name");
  return { ...call, agent: () => agentAt<StepAgent>(env, binding, name) };
}
