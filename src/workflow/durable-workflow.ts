/** The workflow base class for plain Durable Objects: `WorkflowEntrypoint` with the steps of {@link ThinkWorkflowSteps}. */

import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import { CALL_OF, reportingEnd, runOf, type StepAgent } from "./step-call.ts";
import type { ThinkWorkflowSteps } from "./steps.generated.ts";
import { invalidClass, isOrigin, type WorkflowOrigin, withSteps } from "./think-workflow.ts";

/** The step that `run()` of a {@link DurableWorkflow} receives. */
export interface DurableWorkflowStep extends WorkflowStep, ThinkWorkflowSteps {}

/** Classes whose `run()` is wrapped. */
const wrapped = new WeakSet<object>();

/**
 * A Workflow whose Durable Object can be prompted. Start it from the object with `runWorkflow()`, which passes the object.
 *
 * @example
 * export class ReportWorkflow extends DurableWorkflow<Reports, { day: string }> {
 *   override async run({ payload }: WorkflowEvent<{ day: string }>, step: DurableWorkflowStep) {
 *     const text = await step.prompt("write", { prompt: `Write the report of ${payload.day}.` });
 *     await step.do("save", () => this.agent.save(payload.day, text));
 *   }
 * }
 */
export abstract class DurableWorkflow<
  Target extends Rpc.DurableObjectBranded = Rpc.DurableObjectBranded,
  Params = unknown,
  Env extends Cloudflare.Env = Cloudflare.Env,
> extends WorkflowEntrypoint<Env, Params> {
  #origin: WorkflowOrigin | undefined;

  constructor(ctx: ExecutionContext, env: Env) {
    super(ctx, env);
    wrapRun(Object.getPrototypeOf(this) as typeof this);
  }

  /** The object that started the workflow: a new stub at each access, because a stub stays broken after a crash. */
  get agent(): DurableObjectStub<Target> {
    const origin = this.#origin;
    if (!origin) throw notStarted(this);
    return objectAt<Target>(this.env, origin);
  }

  abstract override run(
    event: Readonly<WorkflowEvent<Params>>,
    step: DurableWorkflowStep,
  ): Promise<unknown>;

  /** @internal */
  async runWithSteps(
    event: Readonly<WorkflowEvent<Params>>,
    step: WorkflowStep,
    run: (event: Readonly<WorkflowEvent<Params>>, step: DurableWorkflowStep) => Promise<unknown>,
  ): Promise<unknown> {
    const given: unknown = event.payload;
    if (!isOrigin(given)) throw notStarted(this, given);
    const { perdure: origin, params } = given;
    this.#origin = origin;
    const { instanceId, workflowName: deployedAs } = event;
    const agent = () => this.agent as unknown as StepAgent;
    const steps = withSteps(this.env, step, {
      agent,
      workflowName: origin.workflow,
      workflowId: instanceId,
      deployedAs,
      run: runOf(step),
    });
    const work = () => run.call(this, { ...event, payload: params as Params }, steps);
    return reportingEnd(work, { step, agent, workflowId: instanceId });
  }
}

/** A new stub for the object that started a workflow. */
export function objectAt<Target extends Rpc.DurableObjectBranded>(
  env: object,
  { binding, name, jurisdiction }: WorkflowOrigin,
): DurableObjectStub<Target> {
  const namespace = Reflect.get(env, binding) as DurableObjectNamespace<Target> | undefined;
  if (!namespace) {
    throw new Error(
      `No Durable Object binding ${JSON.stringify(binding)} in this Worker. Add it to "durable_objects" in the Wrangler configuration.`,
    );
  }
  const there = jurisdiction as DurableObjectJurisdiction | undefined;
  return (there ? namespace.jurisdiction(there) : namespace).getByName(name);
}

/** The platform finds `run()` on the prototype. A class that inherits `run()` gets one of its own. */
function wrapRun(prototype: DurableWorkflow): void {
  const { run } = prototype;
  if (!run || wrapped.has(prototype)) return;
  wrapped.add(prototype);
  prototype.run = async function (event, step) {
    // A class that extends another one calls or inherits its `run()`.
    if (CALL_OF in step) return run.call(this, event, step);
    return this.runWithSteps(event, step, run);
  };
}

function notStarted(workflow: object, payload?: unknown): Error {
  const isOfAgent = "__workflowName" in Object(payload);
  return invalidClass(
    workflow,
    isOfAgent ? "started by an agent. Extend ThinkWorkflow." : "not started by runWorkflow().",
  );
}
