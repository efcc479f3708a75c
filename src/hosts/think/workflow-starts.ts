/**
 * Durable starts of workflows. The outbox stores each start until agents' own `runWorkflow()` has created the instance and
 * tracks it. This file joins the two, and knows in memory who waits for a start; it stores nothing itself.
 */

import type { RunWorkflowOptions, WorkflowInfo } from "agents/workflows";
import {
  type CreateInstance,
  InvalidDestinationError,
  type Outbox,
  type StartWorkflow,
  UndeliverableError,
  WorkflowExistsError,
  type WorkflowStart,
  type WorkflowStartOptions,
  workflow,
} from "../../outbox/index.ts";

/** Of `runWorkflow()`: those of agents, and what happens if the id exists. */
export type RunWorkflow = RunWorkflowOptions & Pick<WorkflowStartOptions, "ifExists">;

/** What the agent offers. */
export type WorkflowPort = {
  readonly env: object;
  readonly outbox: Outbox;
  /** Agents' own `runWorkflow()`, with this in place of the Workflow's binding. */
  readonly runWorkflow: (
    binding: Pick<Workflow, "create" | "get">,
    ...args: [name: string, params: unknown, options: RunWorkflowOptions]
  ) => Promise<string>;
  readonly getWorkflow: (id: string) => WorkflowInfo | undefined;
  /** Asks the platform, and stores the answer with the tracked workflow. */
  readonly getWorkflowStatus: (name: string, id: string) => Promise<unknown>;
};

/** How long a caller waits for the instance. Its start goes on afterwards. */
const WAIT_MS = 10_000;

type Started = Parameters<StartWorkflow>[0];

export class WorkflowStarts {
  /** Who waits, by delivery id. */
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  constructor(private readonly port: WorkflowPort) {}

  /**
   * Stores a start in the caller's transaction, and resolves when the instance exists and is tracked.
   *
   * @throws InvalidDestinationError, InvalidEventError at once, so that the transaction is rolled back
   */
  run(name: string, params: unknown, options: RunWorkflow = {}): Promise<string> {
    const { getWorkflow, outbox, env } = this.port;
    const { id = `wf_${crypto.randomUUID()}`, ...rest } = options;
    const start = workflow(name, { ...rest, id, params });
    if (!Reflect.get(env, name)) {
      throw new InvalidDestinationError(`Workflow binding '${name}' not found in environment`);
    }
    const problem = outbox.problemOf(start.destination);
    if (problem) throw new InvalidDestinationError(`The workflow ${problem}`);

    const accepts = options.ifExists === "return";
    const tracked = getWorkflow(id);
    if (accepts && tracked?.workflowName === name) return Promise.resolve(id);
    const stored = outbox.stateOf(start.id);
    if (tracked || (stored?.state === "waiting" && !accepts)) {
      return Promise.reject(new WorkflowExistsError(start.destination));
    }
    if (stored?.state === "dead" && !accepts) return Promise.reject(givenUp(start, stored));
    const isNew = stored?.state !== "waiting" && stored?.state !== "dead";
    if (isNew) outbox.put(start);
    const again = isNew ? undefined : () => this.run(name, params, options);
    return this.#end(start, stored?.state === "dead", again);
  }

  /** For the outbox: starts an instance and tracks it, also where an earlier attempt has done the one or the other. */
  readonly start: StartWorkflow = async (start, create) => {
    const waiting = this.#waiting.get(start.deliveryId);
    try {
      await this.#track(start, create);
      waiting?.resolve();
    } catch (error) {
      const isOver = error instanceof UndeliverableError || error instanceof WorkflowExistsError;
      if (isOver) waiting?.reject(error);
      // The caller knows, and there is nothing that could be tried again.
      if (error instanceof WorkflowExistsError && waiting) return;
      throw error;
    }
  };

  async #track(start: Started, create: CreateInstance): Promise<void> {
    const { workflow: name, instance: id, params, retention, metadata, agentBinding } = start;
    const { getWorkflow, getWorkflowStatus, runWorkflow } = this.port;
    const tracked = getWorkflow(id);
    const isAnother = tracked !== undefined && tracked.workflowName !== name;
    if (isAnother || (tracked && start.isFirst && start.ifExists !== "return")) {
      throw new WorkflowExistsError(start);
    }
    if (!tracked) {
      const finder = new Finder(create);
      try {
        await runWorkflow(finder, name, params ?? {}, {
          id,
          ...(retention && { retention }),
          ...(metadata && { metadata: { ...metadata } }),
          ...(agentBinding !== undefined && { agentBinding }),
        });
      } catch (error) {
        if (finder.wasAsked) throw error;
        // Agents refuse it, and the platform was not asked. Another attempt would come to the same.
        throw new UndeliverableError((error as Error).message, { cause: error });
      }
      if (finder.isNew) return;
    }
    // What it has reported while it was not tracked is not in its row.
    await getWorkflowStatus(name, id);
  }

  /**
   * Resolves with the id when the instance has started, or has taken too long to wait for.
   *
   * @param again for a start that an earlier call has put, which may be over by now
   */
  #end(
    { id: key, destination }: WorkflowStart,
    isDead: boolean,
    again: (() => Promise<string>) | undefined,
  ): Promise<string> {
    const { workflow: name, instance: id } = destination;
    const { outbox } = this.port;
    const started = this.#waiting.get(key) ?? Promise.withResolvers<void>();
    this.#waiting.set(key, started);
    const timer = setTimeout(() => {
      if (!outbox.stateOf(key)) return started.reject(rolledBack(name, id));
      console.warn(
        `[perdure] workflow ${name} ${id} has not started within ${WAIT_MS / 1_000} s. It is retried; inspectDelivery(${JSON.stringify(key)}) has the reason.`,
      );
      started.resolve();
    }, WAIT_MS);
    const over = () => {
      clearTimeout(timer);
      if (this.#waiting.get(key) === started) this.#waiting.delete(key);
    };
    const ended = started.promise.finally(over).then(() => id);
    if (isDead) {
      outbox.redrive(key).catch(started.reject);
      return ended;
    }
    // After the caller's transaction.
    queueMicrotask(() => {
      if (outbox.stateOf(key)) return;
      if (again) return void again().then(() => started.resolve(), started.reject);
      // The caller has rolled it back, and need not catch this as well.
      ended.catch(() => {});
      started.reject(rolledBack(name, id));
    });
    return ended;
  }
}

function rolledBack(name: string, id: string): Error {
  return new Error(`Workflow ${name} ${id} was not started: the transaction was rolled back`);
}

function givenUp({ id, destination }: WorkflowStart, { lastError }: { lastError: string }): Error {
  const { workflow: name, instance } = destination;
  return new Error(
    `Workflow ${name} has no instance ${JSON.stringify(instance)}, because its start was given up: ${lastError}. Try it again with redriveDeadLetter(${JSON.stringify(id)}), or delete the dead letter.`,
  );
}

/** Stands in place of a Workflow's binding for one call of `runWorkflow()`. */
class Finder {
  wasAsked = false;
  /** Whether the instance was created now, and not found. */
  isNew = false;

  constructor(private readonly find: CreateInstance) {}

  readonly create: Workflow["create"] = async (options = {}) => {
    this.wasAsked = true;
    const { instance, isNew } = await this.find(options);
    this.isNew = isNew;
    return instance;
  };

  readonly get = (): never => {
    throw new Error("runWorkflow() looks for no instance");
  };
}
