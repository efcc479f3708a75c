/**
 * Starts a Workflow instance, by `create()` of its binding, once for each id. Every attempt that another one may have
 * preceded looks for the instance first. Permanent failures: the id has an instance already (`ifExists: "return"` accepts
 * one of this agent), and an id or params that the platform refuses.
 */

import * as z from "zod";
import { TimeoutError, withTimeout } from "../../core/clock.ts";
import {
  byteLength,
  checkBytes,
  type Json,
  lostInJson,
  preview,
  stableJson,
  tooLarge,
} from "../../core/json.ts";
import { oneOf, optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { fromTypedJson, toTypedJson } from "../../core/typed-json.ts";
import { POLICY } from "../delivery/policy.ts";
import {
  InvalidDestinationError,
  InvalidEventError,
  messageMatches,
  UndeliverableError,
  WorkflowExistsError,
} from "../errors.ts";
import type { Adapter, AdapterContext, Delivery, WithPolicy } from "./adapter.ts";
import { bindingOf, problemOfBinding, WORKFLOW } from "./bindings.ts";

/** A Workflow instance to start. */
export type WorkflowStartDestination = WithPolicy & {
  readonly kind: "workflow-start";
  /** The Workflow's binding name in `env`. */
  readonly workflow: string;
  /** The id of the new instance. */
  readonly instance: string;
  /** See {@link WorkflowStartOptions.ifExists}. */
  readonly ifExists?: IfExists;
};

/** The parameters of a start. They are stored until the instance has started. */
export type WorkflowStartEvent = {
  readonly params?: unknown;
  /** The params are the result of `toTypedJson()`, as JSON cannot hold them. */
  readonly isTyped?: true;
  readonly retention?: WorkflowInstanceCreateOptions["retention"];
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly agentBinding?: string;
  /** Set by `put()`: the object instance that put it. A later one cannot know whether an attempt was made. */
  readonly putBy?: string;
};

export type IfExists = "throw" | "return";

/** How an instance of a Workflow is started. */
export type WorkflowStartOptions<Params = unknown> = WithPolicy & {
  /**
   * The id of the instance: 1 to 100 of `[A-Za-z0-9_-]`, the first no `-`. It must be unique over all agents that start this
   * Workflow, e.g. contain the agent's name.
   * @default a random UUID
   */
  readonly id?: string;
  /** The workflow's `event.payload`: what structured clone takes, such as a Date, a Map or a Uint8Array; up to 1,032,192 bytes. */
  readonly params?: Params;
  /** How long the platform keeps the instance after its end. Passed to `create()` of the binding. */
  readonly retention?: WorkflowInstanceCreateOptions["retention"];
  /** Stored with the instance where the agent tracks it, for `getWorkflows({ metadata })`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /**
   * The binding of the agent that starts it, or of its root agent.
   * @default the binding that has the name of the agent's class
   */
  readonly agentBinding?: string;
  /**
   * What happens if the Workflow has an instance with this id: with `"throw"` the start fails, with `"return"` it
   * succeeds without a second instance. An agent accepts an instance that it has started itself, and no other.
   * @default "throw"
   */
  readonly ifExists?: IfExists;
};

/** What `workflow()` returns, for `outbox.put()`. */
export type WorkflowStart = {
  readonly destination: WorkflowStartDestination;
  readonly event: WorkflowStartEvent;
};

/**
 * The delivery id of a start, under which the outbox stores no second one.
 *
 * @param isTracked whether the host tracks its instances, by their ids alone
 */
export function startId(
  { workflow, instance }: WorkflowStartDestination,
  isTracked: boolean,
): string {
  return isTracked ? `start:${instance}` : `start:${workflow}:${instance}`;
}

/**
 * `create()` of a Workflow binding, which finds the instance if an earlier attempt has created it.
 *
 * @param given the params without those that the host adds: they say who starts it, and an instance with others is refused
 * @throws WorkflowExistsError
 */
export type CreateInstance = (
  options: WorkflowInstanceCreateOptions,
  given?: unknown,
) => Promise<{ readonly instance: WorkflowInstance; readonly isNew: boolean }>;

/** Starts an instance by `create`. A host that tracks instances does both. */
export type StartWorkflow = (
  start: WorkflowStartDestination &
    WorkflowStartEvent & {
      readonly deliveryId: string;
      /** Whether no attempt preceded this one. */
      readonly isFirst: boolean;
    },
  create: CreateInstance,
) => Promise<void>;

/** Of a workflow's params as JSON. The platform's limit is 1 MiB, of which an agent adds who it is. */
const MAX_PARAMS_BYTES = 1_048_576 - 16_384;
const STRING = z.string({ error: "expected a string" });
/** `put()` checks the values, as those of the destination. */
const ANY = z.unknown().optional();
const START_OPTIONS = optionsOf<WorkflowStartOptions>()({
  id: ANY,
  params: ANY,
  retention: ANY,
  metadata: ANY,
  agentBinding: ANY,
  ifExists: ANY,
  policy: ANY,
});

/**
 * A new instance of a Workflow, for `outbox.put()`: it is started once, when the caller's transaction has committed.
 * An agent of Perdure tracks the instance, as `runWorkflow()` does.
 *
 * @param binding the Workflow's binding name in `env`
 * @throws InvalidDestinationError for an unknown option, and for names that are no strings
 * @throws InvalidEventError for params or metadata that JSON cannot hold, or that are too large
 * @example
 * this.ctx.storage.transactionSync(() => {
 *   this.sql`INSERT INTO orders (id) VALUES (${id})`;
 *   this.outbox.put(workflow("ORDER_WORKFLOW", { id, params: { order: id } }));
 * });
 */
export function workflow<Params = unknown>(
  binding: string,
  options: WorkflowStartOptions<Params> = {},
): WorkflowStart {
  const invalid = (_: string, message: string) => new InvalidDestinationError(message);
  const read = readOptions(START_OPTIONS, options, "options of workflow()", invalid);
  const { id = crypto.randomUUID(), ifExists, policy, ...event } = read;
  const instance = readOptions(STRING, id, "id", invalid);
  readOptions(STRING, binding, "workflow", invalid);
  const { params, ...others } = event;
  for (const [name, value] of Object.entries(others)) checkJson(name, value);
  return {
    destination: {
      kind: "workflow-start",
      workflow: binding,
      instance,
      ...(ifExists !== undefined && { ifExists }),
      ...(policy !== undefined && { policy }),
    },
    event: { ...others, ...("params" in event && storedParams(params)) },
  };
}

/** @throws InvalidEventError for a value that JSON would change, or that is too large */
function checkJson(name: string, value: unknown): void {
  const lost = lostInJson(value);
  if (lost) {
    throw new InvalidEventError(`${name}${lost}, which JSON cannot hold.`);
  }
  checkBytes(name, JSON.stringify(value) ?? "", { maxBytes: MAX_PARAMS_BYTES, refuse });
}

/** @throws InvalidEventError for params that the platform would refuse */
function storedParams(params: unknown): Pick<WorkflowStartEvent, "params" | "isTyped"> {
  if (!lostInJson(params)) {
    checkJson("params", params);
    return { params };
  }
  const { json, lost, surplus } = toTypedJson(params);
  if (lost[0] !== undefined)
    throw refuse(`params${lost[0]}, which a workflow cannot receive. Pass plain data.`);
  const bytes = byteLength(JSON.stringify(json)) - surplus;
  if (bytes > MAX_PARAMS_BYTES) throw refuse(tooLarge("params", bytes, MAX_PARAMS_BYTES));
  return { params: json, isTyped: true };
}

const refuse = (message: string) => new InvalidEventError(message);

/** Part of the platform's message, as in `(instance.already_exists) Workflow instance ...`. */
const EXISTS = /\binstance\.already_exists\b/;
const NO_INSTANCE = /\binstance\.not_found\b/;
/** An id or params that the platform refuses. */
const REFUSED = /\binstance\.invalid_id\b|\binvalid id\b|too[ _]large|limited to \d+ ?MiB/i;
/** https://developers.cloudflare.com/workflows/reference/limits/ */
const INSTANCE_ID = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/;
/** The platform has the first event of an instance that has started. One that waits for its start has none. */
const STARTED_MS = 5_000;
/** The delivery id has both names in it, and a limit of its own. */
const MAX_BINDING_LENGTH = 100;

/** A plain Durable Object has no list of its workflows. */
const untracked: StartWorkflow = async ({ instance, params, retention }, create) => {
  await create({ id: instance, params, ...(retention && { retention }) });
};

export const KINDS = {
  "workflow-start": {
    schema: optionsOf<WorkflowStartDestination>()({
      kind: oneOf(["workflow-start"]),
      workflow: text({ maxLength: MAX_BINDING_LENGTH }),
      instance: z.custom<string>((id) => typeof id === "string" && INSTANCE_ID.test(id), {
        error: "expected 1 to 100 of a-z, A-Z, 0-9, _ and -, and no - at the beginning",
      }),
      ifExists: oneOf<IfExists>(["throw", "return"]).optional(),
      policy: POLICY.optional(),
    }),
    connect({
      env,
      objectInstance,
      startWorkflow = untracked,
    }: Pick<AdapterContext, "env" | "objectInstance"> & {
      readonly startWorkflow?: StartWorkflow | undefined;
    }): Adapter<WorkflowStartDestination> {
      const keyOf = ({ workflow, instance }: WorkflowStartDestination) =>
        `workflow-start ${JSON.stringify([workflow, instance])}`;
      /** Attempts that continue after their time limit: the next one must not create a second instance beside them. */
      const running = new Map<string, Promise<void>>();
      const start = async (
        binding: Workflow,
        to: WorkflowStartDestination,
        { id, attempt, event }: Delivery,
      ) => {
        const { putBy, isTyped, ...content } = event as WorkflowStartEvent;
        const params = isTyped
          ? fromTypedJson(content.params as Json, () => undefined)
          : content.params;
        // Whatever its number: an earlier object instance may have crashed during an attempt.
        const isFirst = attempt === 1 && putBy === objectInstance;
        const start = { ...to, ...content, params, deliveryId: id, isFirst };
        try {
          await startWorkflow(start, creatorOf(binding, to, isFirst));
        } catch (error) {
          throw error instanceof WorkflowExistsError ? refused(to, error) : error;
        }
      };
      return {
        // The event is not sent as a delivery: create() gets the params, and workflow() limits their size.
        maxBytes: Number.POSITIVE_INFINITY,
        timeoutMs: 30_000,
        keyOf,
        labelOf: ({ workflow, instance }) => `${workflow} ${instance}`,
        problemOf: ({ workflow }) => problemOfBinding(env, WORKFLOW, "workflow", workflow),
        async deliver(to, delivery) {
          const key = keyOf(to);
          const earlier = running.get(key);
          // Only its answer may be lost: then the instance exists, and is found.
          const binding = bindingOf(env, WORKFLOW, to.workflow);
          if (earlier && !(await exists(binding, to.instance))) return earlier;
          const started = start(binding, to, delivery as Delivery);
          running.set(key, started);
          const ended = () => running.get(key) === started && running.delete(key);
          started.then(ended, ended);
          await started;
        },
      };
    },
  },
};

/** `create()` of a binding, which returns the instance that an earlier attempt has created. */
function creatorOf(
  binding: Workflow,
  to: WorkflowStartDestination,
  isFirst: boolean,
): CreateInstance {
  const { instance: id, ifExists } = to;
  return async (options, given) => {
    const found = async () => {
      const instance = await binding.get(id);
      if (given !== undefined && !(await isOwn(instance, options.params, given))) {
        throw new WorkflowExistsError(to, { isOfAnother: true });
      }
      return { instance, isNew: false };
    };
    if (!isFirst && (await exists(binding, id))) return found();
    try {
      const instance = await binding.create(options);
      // The local engine answers create() before it has stored the instance, and status() afterwards.
      await instance.status();
      return { instance, isNew: true };
    } catch (error) {
      if (!messageMatches(error, EXISTS)) {
        throw messageMatches(error, REFUSED) ? refused(to, error) : error;
      }
      if (isFirst && ifExists !== "return") {
        const problem = await found().catch((reason: unknown) => reason);
        throw problem instanceof WorkflowExistsError
          ? problem
          : new WorkflowExistsError(to, { cause: error });
      }
      return found();
    }
  };
}

/**
 * Whether an instance was started with what the host adds to the given params. Its first event has its params.
 * https://developers.cloudflare.com/workflows/build/subscribe-to-instance-events/
 *
 * @throws Error for an instance that has not started yet
 */
async function isOwn(instance: WorkflowInstance, params: unknown, given: unknown) {
  const events = await instance.subscribe({ filter: ["workflow_started"] });
  try {
    const { value } = await withTimeout(events.next(), STARTED_MS);
    const found: object = Object(value?.type === "workflow_started" && value.params);
    return Object.entries(Object(params)).every(
      ([key, part]) =>
        part === given ||
        part === Reflect.get(Object(given), key) ||
        stableJson(part) === stableJson(Reflect.get(found, key)),
    );
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    const id = preview(instance.id);
    throw new Error(`Instance ${id} exists, and does not say whose it is before it has started.`);
  } finally {
    events[Symbol.dispose]();
  }
}

async function exists(binding: Workflow, id: string): Promise<boolean> {
  try {
    await (await binding.get(id)).status();
    return true;
  } catch (error) {
    if (messageMatches(error, NO_INSTANCE)) return false;
    throw error;
  }
}

function refused(
  { workflow, instance }: WorkflowStartDestination,
  cause: Error,
): UndeliverableError {
  const what = `Instance ${preview(instance)} of Workflow ${workflow} was not started`;
  return new UndeliverableError(`${what}: ${cause.message}`, { cause });
}
