/**
 * Durable starts of workflows, and their termination. The outbox stores each start until `runWorkflow()` of agents has created the
 * instance and tracks it; only the callers that wait for it are in memory.
 */

import type { RunWorkflowOptions, WorkflowCallback } from "agents/workflows";
import { because, type Failure } from "../../core/failures.ts";
import { shorten } from "../../core/json.ts";
import { flag, optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { checkNames } from "../../core/options/options.ts";
import { emit } from "../../engine/events.ts";
import { remedyOf, WORKFLOW } from "../../outbox/destinations/bindings.ts";
import {
  hasEnded,
  type InstanceOf,
  workflowEvent,
} from "../../outbox/destinations/workflow-event.ts";
import {
  type CreateInstance,
  type StartWorkflow,
  type WorkflowStartDestination,
  type WorkflowStartEvent,
  type WorkflowStartOptions,
  workflow,
} from "../../outbox/destinations/workflow-start.ts";
import {
  InvalidDestinationError,
  UndeliverableError,
  WorkflowExistsError,
} from "../../outbox/errors.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";
import type { RunRef } from "../waits/protocol.ts";
import type { Waits } from "../waits/waits.ts";
import { problemOfAgentBinding } from "./agent-binding.ts";
import type { HostAgent } from "./host-agent.ts";
import { INHERITED, ownerIn, runMetadata } from "./run-owner.ts";

/** Options of `runWorkflow()`: those of agents, what happens if the id exists, and options that its prompts inherit. */
export type RunWorkflow = RunWorkflowOptions &
  Pick<WorkflowStartOptions, "ifExists"> &
  OwnerOptions;

/** How long a caller waits for the instance. The start continues after that. */
const WAIT_S = 10;
const RUN_OPTIONS = ["id", "metadata", "agentBinding", "retention", "ifExists", ...INHERITED];
const WORKFLOW_ID = text({ empty: true });
const TERMINATE = optionsOf<{ rollback?: boolean }>()({ rollback: flag().default(false) });

type Started = Parameters<StartWorkflow>[0];

/** Methods of the SDK's class, which the object's class may override. */
export type OwnMethods = Pick<
  HostAgent,
  "runWorkflow" | "terminateWorkflow" | "restartWorkflow" | "getWorkflowStatus"
>;

type PutStart = {
  readonly id: string;
  readonly error?: Error;
  readonly isDead: boolean;
  readonly end: () => Promise<string>;
};

export class Workflows {
  /** Callers that wait, by {@link instanceKey}. */
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();
  /** Statuses reported by runs whose instances are not tracked yet. */
  readonly #early = new Map<string, InstanceStatus>();
  readonly #agent: HostAgent;

  /**
   * @param own the SDK's own methods, which the agent's class overrides
   * @param waits what runs that have ended may have left open
   */
  constructor(
    agent: HostAgent,
    private readonly own: OwnMethods,
    private readonly outbox: Outbox,
    private readonly waits: Pick<Waits, "cancelFor" | "endRun" | "restartRun">,
    private readonly submissions: Pick<Submissions, "checkOwner">,
  ) {
    this.#agent = agent;
  }

  /**
   * Stores a start in the caller's transaction, and resolves when the instance exists and is tracked.
   * @throws InvalidDestinationError, InvalidEventError at once, so that the transaction is rolled back
   */
  run(name: string, params: unknown, options?: RunWorkflow): Promise<string> {
    const { error, end } = this.put(name, params, options);
    return error ? Promise.reject(error) : end();
  }

  /**
   * Stores a start in the caller's transaction.
   * @returns `error` if the id cannot be used, and nothing is stored then; `isDead` if the start was given up before, so that
   *   `end()` sends it again; `end()`, to be called in the same transaction, resolves as {@link run}
   * @throws InvalidDestinationError, InvalidEventError, InvalidSubmissionError, FeatureNotInstalledError
   */
  put(name: string, params: unknown, options: RunWorkflow = {}): PutStart {
    const { outbox } = this;
    const invalid = (_: string, message: string) => new InvalidDestinationError(message);
    checkNames("options of runWorkflow()", options, RUN_OPTIONS, invalid);
    const { id = `wf_${crypto.randomUUID()}`, priority, concurrency, rate, ...given } = options;
    const start = workflow(name, {
      ...given,
      ...runMetadata(this.submissions, options),
      id,
      params,
    });
    if (!Reflect.get(this.#agent.env, name)) {
      // Begins like the message of agents.
      throw new InvalidDestinationError(
        `Workflow binding '${shorten(name)}' not found in environment. ${remedyOf(this.#agent.env, WORKFLOW)}.`,
      );
    }
    const problem = outbox.problemOf(start.destination);
    if (problem) throw new InvalidDestinationError(problem);

    const accepts = options.ifExists === "return";
    const tracked = this.#agent.getWorkflow(id);
    const exists = { id, isDead: false, end: () => Promise.resolve(id) };
    if (accepts && tracked?.workflowName === name) return exists;
    const key = outbox.startId(start.destination);
    const stored = this.#storedStart(key);
    const holder = tracked?.workflowName ?? stored?.workflow;
    const isDead = stored?.state === "dead";
    if (tracked || (stored && holder !== name) || (stored && !isDead && !accepts)) {
      return { ...exists, error: new WorkflowExistsError(start.destination, { holder }) };
    }
    if (isDead && !accepts) {
      const problem = `Workflow ${name} has no instance ${JSON.stringify(id)}: its start was given up: ${stored.lastError}. Try it again with outbox.redrive(${JSON.stringify(key)}).`;
      return { ...exists, error: new Error(problem) };
    }
    if (!stored) outbox.put(start);
    const again = stored && (() => this.run(name, params, options));
    return { id, isDead, end: () => this.#end(key, start.destination, isDead, again) };
  }

  /** Options that the prompts of a run inherit. The same over restarts of the run. */
  async ownerOf({ name, id }: RunRef): Promise<OwnerOptions> {
    const tracked = () => this.#agent.getWorkflow(id);
    const start = { kind: "workflow-start", workflow: name, instance: id } as const;
    // A run may ask before it is tracked. Until then its start is stored.
    const starting = async () =>
      ((await this.outbox.read(this.outbox.startId(start))) ?? undefined) as
        | WorkflowStartEvent
        | undefined;
    const found = tracked() ?? (await starting()) ?? tracked();
    return ownerIn(found?.metadata);
  }

  /** The start that has not succeeded. It may be that of another Workflow, because ids are unique over all of them. */
  #storedStart(key: string) {
    const found = this.outbox.infoOf(key);
    if (found?.state !== "waiting" && found?.state !== "dead") return undefined;
    const { state, lastError, destination } = found;
    return { state, lastError, workflow: (destination as WorkflowStartDestination).workflow };
  }

  /** For the outbox: see {@link problemOfAgentBinding}. */
  problemOf({ agentBinding }: { agentBinding?: string | undefined }): string | undefined {
    return problemOfAgentBinding(this.#agent, agentBinding);
  }

  /** For the outbox: starts an instance and tracks it. An earlier attempt may have done either. */
  readonly start: StartWorkflow = async (start, create) => {
    const { instance } = start;
    try {
      await this.#track(start, create);
      const early = this.#early.get(instance);
      this.#early.delete(instance);
      if (early) await this.#report(instance, early);
      this.#waiting.get(instanceKey(start))?.resolve();
    } catch (error) {
      const caller = this.#waiting.get(instanceKey(start));
      const exists = error instanceof WorkflowExistsError;
      // After the outbox has deleted the start: a caller that accepts the instance starts it again.
      if (exists || error instanceof UndeliverableError) {
        this.#early.delete(instance);
        setTimeout(() => caller?.reject(error), 0);
      }
      // The caller gets the error, and a retry could not help.
      if (!exists || !caller) throw error;
    }
  };

  async #track(start: Started, create: CreateInstance): Promise<void> {
    const { workflow: name, instance: id, params, retention, metadata, agentBinding } = start;
    const agent = this.#agent;
    const tracked = agent.getWorkflow(id);
    const holder = tracked?.workflowName;
    const isAnother = holder !== undefined && holder !== name;
    if (isAnother || (tracked && start.isFirst && start.ifExists !== "return")) {
      throw new WorkflowExistsError(start, { holder });
    }
    if (!tracked) {
      const problem = this.problemOf({ agentBinding });
      if (problem) throw because(refused(start, `The workflow ${problem}`), "binding-missing");
      let wasAsked = false;
      let isNew = false;
      const given = params ?? {};
      const binding: Pick<Workflow, "create" | "get"> = {
        create: async (options = {}) => {
          wasAsked = true;
          const created = await create(options, given);
          isNew = created.isNew;
          return created.instance;
        },
        get: () => {
          throw new Error("runWorkflow() does not call get()");
        },
      };
      try {
        const options = {
          id,
          ...(retention && { retention }),
          ...(metadata && { metadata: { ...metadata } }),
          ...(agentBinding !== undefined && { agentBinding }),
        };
        await this.#runWith(binding, name, () =>
          this.own.runWorkflow.call(agent, name as never, given, options),
        );
      } catch (error) {
        if (wasAsked) throw error;
        // Agents refuse it before they call the platform. A retry could not help.
        const { message } = error as Error;
        const refusal = refused(start, message, error);
        throw /binding/i.test(message) ? because(refusal, "binding-missing") : refusal;
      }
      if (isNew) return;
    }
    // The row does not have reports from before the instance was tracked.
    await agent.getWorkflowStatus(name as never, id);
  }

  /**
   * Resolves with the id when the instance has started, or has taken too long to wait for.
   * @param key the delivery id
   * @param again starts it again, if another call has put the start and may not accept an existing instance
   */
  #end(
    key: string,
    destination: WorkflowStartDestination,
    isDead: boolean,
    again: (() => Promise<string>) | undefined,
  ): Promise<string> {
    const { workflow: name, instance: id } = destination;
    const { outbox } = this;
    const waitKey = instanceKey(destination);
    const started = this.#waiting.get(waitKey) ?? Promise.withResolvers<void>();
    this.#waiting.set(waitKey, started);
    const look = () => {
      if (this.#storedStart(key)?.workflow === name) return;
      if (this.#agent.getWorkflow(id)?.workflowName === name) return started.resolve();
      // The caller has rolled back, and need not catch this rejection, too.
      ended.catch(() => {});
      started.reject(
        new Error(
          `Workflow ${name} has no instance ${JSON.stringify(id)}: the transaction was rolled back. Call runWorkflow() again.`,
        ),
      );
    };
    let seconds = 0;
    // An asynchronous transaction may be rolled back later.
    const timer = setInterval(() => {
      look();
      if (++seconds < WAIT_S) return;
      console.warn(
        `[perdure] workflow ${name} ${id} has not started within ${WAIT_S} s. It is retried; outbox.inspect(${JSON.stringify(key)}) has the reason.`,
      );
      started.resolve();
    }, 1_000);
    const ended = started.promise
      .finally(() => {
        clearInterval(timer);
        if (this.#waiting.get(waitKey) === started) this.#waiting.delete(waitKey);
      })
      .then(
        () => id,
        (error: unknown) => {
          // The call that has put it does not accept an existing instance; this one does.
          if (again && error instanceof WorkflowExistsError) return again();
          throw error;
        },
      );
    if (isDead) outbox.redrive(key).catch(started.reject);
    // After the caller's transaction.
    else queueMicrotask(look);
    return ended;
  }

  /** Calls a method of the SDK with another binding of this name in `env`. It reads `env` before it awaits anything. */
  #runWith<Result>(binding: object, name: string, call: () => Result): Result {
    const agent = this.#agent;
    const { env } = agent;
    agent.env = { ...env, [name]: binding };
    try {
      return call();
    } finally {
      agent.env = env;
    }
  }

  /**
   * A run of a workflow has ended.
   * @param failure its error, also one that the app has reported itself, or null
   */
  async ended(id: string, failure: Failure | null): Promise<void> {
    const status = failure ? "errored" : "complete";
    await this.#report(id, { status, ...(failure && { error: failure }) });
  }

  /** A workflow calls its agent back. The SDK stores what it reports only if the instance is tracked. */
  calledBack(callback: WorkflowCallback): void {
    const status = reportedStatus(callback);
    if (status && !this.#agent.getWorkflow(callback.workflowId))
      this.#keepEarly(callback.workflowId, status);
  }

  /** Tracks what a run reports. What the platform has stopped stays so. */
  async #report(id: string, reported: InstanceStatus): Promise<void> {
    const { status } = reported;
    const tracked = this.#agent.getWorkflow(id);
    if (!tracked) return this.#keepEarly(id, reported);
    const { storage } = this.#agent.ctx;
    if (tracked.status === "terminated" || tracked.status === "paused") return;
    if (status === "running" && hasEnded(tracked)) return;
    if (status === "errored") emit({ storage }, "workflow:errored");
    if (tracked.status !== status) await this.track(tracked, reported);
    else if (hasEnded(reported)) await this.#atEnd(tracked);
  }

  /** Keeps what a run reports before `create()` has returned, or before its start is repeated after a crash. */
  #keepEarly(id: string, reported: InstanceStatus): void {
    const key = this.outbox.startId({ kind: "workflow-start", workflow: "", instance: id });
    if (this.#storedStart(key)?.state !== "waiting") return;
    const kept = this.#early.get(id)?.status;
    // As for a tracked instance: progress does not reopen an end, and the error that the app has reported stays.
    if (kept === undefined || (reported.status !== "running" && reported.status !== kept))
      this.#early.set(id, reported);
  }

  /** Stores the status of an instance as the platform has it. Only the SDK writes its own table. */
  async track({ workflowName, workflowId }: Tracked, status: InstanceStatus): Promise<void> {
    const binding = { create: null, get: async () => ({ status: async () => status }) };
    await this.#runWith(binding, workflowName, () =>
      this.own.getWorkflowStatus.call(this.#agent, workflowName as never, workflowId),
    );
    if (hasEnded(status)) await this.#atEnd({ workflowName, workflowId });
  }

  async #atEnd({ workflowName: workflow, workflowId }: Tracked): Promise<void> {
    await this.waits.endRun({ workflow, instance: workflowId });
    if (this.outbox.atEnd({ workflowId }) > 0) this.outbox.flush();
  }

  /** Restarts a workflow from its beginning. What its earlier run has left open is cancelled unless the new run asks for it. */
  async restart(instance: string, ...rest: RestartOptions): Promise<void> {
    readOptions(WORKFLOW_ID, instance, "workflowId");
    const workflow = this.#agent.getWorkflow(instance)?.workflowName ?? "";
    const restart = () => this.own.restartWorkflow.call(this.#agent, instance, ...rest);
    await this.waits.restartRun({ workflow, instance }, restart);
  }

  /** Terminates a workflow, and cancels what it waits for, also where it was gone before. */
  async terminate(instance: string, options: { rollback?: boolean } = {}) {
    readOptions(WORKFLOW_ID, instance, "workflowId");
    const { rollback } = readOptions(TERMINATE, options, "options of terminateWorkflow()");
    const workflow = this.#agent.getWorkflow(instance)?.workflowName ?? "";
    const of = { workflow, instance };
    const cancel = () => this.waits.cancelFor(of, "The workflow that waited for it was terminated");
    // Rejects if the workflow is not tracked, or its binding has another name now.
    const endOf = async () => this.outbox.endOf(workflowEvent({ ...of, eventType: "none" }));
    try {
      if (rollback && workflow !== "") await this.#terminateWithRollback(of);
      else await this.own.terminateWorkflow.call(this.#agent, instance);
    } catch (error) {
      // The caller gets this error, whatever goes wrong here.
      if ((await endOf().catch(() => null)) === "gone") await cancel();
      throw error;
    }
    await cancel();
    await this.#atEnd({ workflowName: workflow, workflowId: instance });
  }

  /** `terminateWorkflow()` of agents has no option for it. */
  async #terminateWithRollback({ workflow, instance }: InstanceOf): Promise<void> {
    const binding = (this.#agent.env as Record<string, Workflow | undefined>)[workflow];
    // The message of agents.
    if (!binding) throw new Error(`Workflow binding '${workflow}' not found in environment`);
    await (await binding.get(instance)).terminate({ rollback: true });
    // Reads the new status, and tracks it.
    await this.#agent.getWorkflowStatus(workflow as never, instance);
  }
}

type RestartOptions =
  Parameters<HostAgent["restartWorkflow"]> extends [string, ...infer Rest] ? Rest : never;

/** As `onWorkflowCallback()` of agents stores it; undefined for an event of the app. */
function reportedStatus(callback: WorkflowCallback): InstanceStatus | undefined {
  const { type } = callback;
  if (type === "progress") return { status: "running" };
  if (type === "complete") return { status: "complete" };
  if (type !== "error") return undefined;
  return { status: "errored", error: { name: "WorkflowError", message: callback.error } };
}

type Tracked = { readonly workflowName: string; readonly workflowId: string };

/** After a rollback, two Workflows may have callers for one id. */
function instanceKey({ workflow, instance }: InstanceOf): string {
  return `${workflow}:${instance}`;
}

/** For example, a deploy has renamed the agent's class or its binding since the start was stored. */
function refused({ deliveryId }: Started, problem: string, cause?: unknown): UndeliverableError {
  const remedy = `Deploy a fix, then start it with outbox.redrive(${JSON.stringify(deliveryId)}).`;
  return new UndeliverableError(`${problem} ${remedy}`, { cause });
}
