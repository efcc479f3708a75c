/** A plain Durable Object with those members of an `Agent` that the modules use: its name, its place, its workflows. */

import type { WorkflowInfo, WorkflowPage, WorkflowQueryCriteria } from "agents/workflows";
import type { Clock } from "../../core/clock.ts";
import { readOptions, text } from "../../core/options/option-schemas.ts";
import { invalidOption } from "../../core/options/options.ts";
import { bindingOf, bindingsOf, NAMESPACE, WORKFLOW } from "../../outbox/destinations/bindings.ts";
import type { HostAgent } from "../../workflow/agent/host-agent.ts";
import type { OriginParams, WorkflowOrigin } from "../../workflow/think-workflow.ts";
import { WorkflowTable } from "./workflow-table.ts";

const WORKFLOW_ID = text({ empty: true });

type RunWorkflowOptions = NonNullable<Parameters<HostAgent["runWorkflow"]>[2]>;

export class ObjectAgent implements HostAgent {
  readonly parentPath = [];
  readonly #workflows: WorkflowTable;

  constructor(
    private readonly object: object,
    readonly ctx: DurableObjectState,
    public env: object,
    private readonly nameOf: () => string,
    private readonly clock: Clock,
  ) {
    this.#workflows = new WorkflowTable(ctx.storage);
  }

  get name(): string {
    return this.nameOf();
  }

  get selfPath() {
    return [{ className: this.object.constructor.name, name: this.name }];
  }

  /** Starts an instance of a DurableWorkflow, and tracks it. Called by the outbox, with a binding whose `create()` can be repeated. */
  async runWorkflow(
    workflow: string,
    params: unknown,
    { id, metadata, retention, agentBinding }: RunWorkflowOptions = {},
  ): Promise<string> {
    const perdure = this.#originOf(workflow, agentBinding);
    const instance = await this.#bindingOf(workflow).create({
      ...(id !== undefined && { id }),
      params: { perdure, params } satisfies OriginParams,
      ...(retention && { retention }),
    });
    this.#workflows.add({ id: instance.id, name: workflow, metadata }, this.#now);
    return instance.id;
  }

  ownBinding(): string | undefined {
    const { id } = this.ctx;
    const { jurisdiction } = id;
    const leadsHere = (namespace: DurableObjectNamespace) =>
      (jurisdiction === undefined
        ? namespace
        : namespace.jurisdiction(jurisdiction as DurableObjectJurisdiction)
      )
        .idFromName(this.name)
        .equals(id);
    return bindingsOf(this.env, NAMESPACE).find(([, namespace]) => leadsHere(namespace))?.[0];
  }

  /** @throws InvalidOptionError if no binding leads to the object */
  #originOf(workflow: string, given: string | undefined): WorkflowOrigin {
    const { jurisdiction } = this.ctx.id;
    const binding = given ?? this.ownBinding();
    if (binding !== undefined) return { workflow, binding, name: this.name, jurisdiction };
    const expected = `a Durable Object binding of this Worker that leads to ${this.object.constructor.name}. Add it to "durable_objects" in the Wrangler configuration`;
    throw invalidOption("agentBinding", given, expected);
  }

  getWorkflow(id: string): WorkflowInfo | undefined {
    readOptions(WORKFLOW_ID, id, "workflowId");
    return this.#workflows.find(id);
  }

  getWorkflows(criteria?: WorkflowQueryCriteria): WorkflowPage {
    return this.#workflows.page(criteria);
  }

  async getWorkflowStatus(workflow: string, id: string): Promise<InstanceStatus> {
    const instance = await this.#bindingOf(workflow).get(id);
    return this.#read(instance, id);
  }

  async terminateWorkflow(id: string): Promise<void> {
    await this.#change(id, (instance) => instance.terminate());
  }

  async pauseWorkflow(id: string): Promise<void> {
    await this.#change(id, (instance) => instance.pause());
  }

  async resumeWorkflow(id: string): Promise<void> {
    await this.#change(id, (instance) => instance.resume());
  }

  async restartWorkflow(id: string): Promise<void> {
    await (await this.#tracked(id)).restart();
    // Not read: the platform may still say how the run before has ended.
    this.#workflows.update(id, "queued", null, this.#now);
  }

  async #change(id: string, change: (instance: WorkflowInstance) => Promise<void>): Promise<void> {
    const instance = await this.#tracked(id);
    await change(instance);
    await this.#read(instance, id);
  }

  /** @throws Error for an instance that is not tracked, and that of the platform */
  async #tracked(id: string): Promise<WorkflowInstance> {
    const tracked = this.getWorkflow(id);
    // The message of agents.
    if (!tracked) throw new Error(`Workflow ${id} not found in tracking table`);
    return this.#bindingOf(tracked.workflowName).get(id);
  }

  async #read(instance: WorkflowInstance, id: string): Promise<InstanceStatus> {
    const found = await instance.status();
    const { status, error } = found;
    this.#workflows.update(id, status, error ?? null, this.#now);
    return found;
  }

  #bindingOf(workflow: string): Workflow {
    const given: unknown = Reflect.get(this.env, workflow);
    // The outbox passes a binding of its own, with only these two.
    const isBinding = typeof given === "object" && given !== null && "create" in given;
    return isBinding ? (given as Workflow) : bindingOf(this.env, WORKFLOW, workflow);
  }

  get #now() {
    return { now: this.clock.now() };
  }
}
