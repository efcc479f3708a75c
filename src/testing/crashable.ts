/** Durable Object classes that a test can crash at any write. Tracks the instances of each object by its id. */

import { subscribe } from "node:diagnostics_channel";
import { preview } from "../core/json.ts";
import type { SubmissionStatus } from "../submissions/states.ts";
import { Observer } from "./inspection/observer.ts";
import { Instance } from "./instance.ts";
import { metered } from "./meter.ts";

/** The instances of one object, of which only the latest is kept. */
export class Instances {
  /** How many were constructed. */
  count = 0;
  latest: Instance | undefined;
  /** History of all instances. */
  readonly observer = new Observer();

  /** @param onConstructed called after the construction of each instance, before it starts */
  constructor(
    readonly name: string | undefined,
    readonly onConstructed: ((instance: Instance, count: number) => void) | undefined,
  ) {}
}

type Class = new (...args: never[]) => object;

/** By the id of the object. */
const watched = new Map<string, Instances>();
/** Current instances of watched objects, by class and name as in events. */
const byAddress = new Map<string, { instance: Instance; instances: Instances }>();
const crashables = new WeakSet<object>();
/** Objects that are constructed or being constructed. A class that is made crashable twice is watched once. */
const seen = new WeakSet<DurableObjectState>();
let isListening = false;

/**
 * Returns the class with objects that {@link crashAtEveryWrite} can crash. Export it from the worker of the tests, under the
 * class name of the binding. Its objects behave as before until a test watches them.
 *
 * @throws TypeError for a value that is not a class
 * @example
 * export class Triage extends crashable(TriageAgent) {}
 */
export function crashable<Base extends Class>(base: Base): Base {
  if (typeof base !== "function") {
    throw new TypeError(`Invalid base ${preview(base)}: expected a Durable Object class.`);
  }
  if (crashables.has(base)) return base;
  listen();
  const watching = new Proxy(base, {
    construct(target, [ctx, ...rest]: [DurableObjectState, ...unknown[]], newTarget) {
      const begin = before(ctx, newTarget.prototype.constructor.name as string);
      const object = Reflect.construct(target, [ctx, ...rest], newTarget) as object;
      begin?.();
      return object;
    },
  });
  crashables.add(watching);
  return watching;
}

/** Tracks the instances of an object. Call it before the object is constructed. */
export function watchInstances(
  { id, name }: DurableObjectStub,
  onConstructed?: (instance: Instance, count: number) => void,
): Instances {
  const instances = new Instances(name, onConstructed);
  watched.set(id.toString(), instances);
  return instances;
}

/** Stops tracking an object. */
export function forgetInstances({ id }: DurableObjectStub): void {
  const instances = watched.get(id.toString());
  instances?.latest?.release();
  watched.delete(id.toString());
  for (const [address, known] of byAddress)
    if (known.instances === instances) byAddress.delete(address);
}

/** The tracked instances of an object, if it is watched. */
export function instancesOf({ id }: DurableObjectStub): Instances | undefined {
  return watched.get(id.toString());
}

/** Intercepts the object's storage. Returns what to call after its construction. */
function before(ctx: DurableObjectState, className: string): (() => void) | undefined {
  const instances = watched.get(ctx.id.toString());
  const { name } = ctx.id;
  // A sub-agent may have its root's id.
  const isOther = instances?.name !== undefined && name !== undefined && instances.name !== name;
  if (!instances || isOther || seen.has(ctx)) return undefined;
  seen.add(ctx);
  const instance = new Instance(ctx, ctx.storage);
  metered(ctx, instance);
  instances.latest = instance;
  instances.count++;
  instances.observer.restarted();
  byAddress.set(`${className}/${name}`, { instance, instances });
  return () => instances.onConstructed?.(instance, instances.count);
}

type LifecycleEvent = { readonly agent: string; readonly name: string } & (
  | {
      readonly type: "outbox:attempt" | "outbox:delivered" | "outbox:discarded";
      readonly payload: { readonly id: string; readonly attempt: number; readonly kind: string };
    }
  | {
      readonly type: "submission:status";
      readonly payload: { readonly submissionId: string; readonly status: SubmissionStatus };
    }
);

/** Subscribes once to the events of all objects. */
function listen(): void {
  if (isListening) return;
  isListening = true;
  // The SDK chooses the channel by the type of the event: statuses of submissions are those of messages.
  for (const channel of ["agents:lifecycle", "agents:message"]) {
    subscribe(channel, (message) => {
      const event = message as LifecycleEvent;
      const known = byAddress.get(`${event.agent}/${event.name}`);
      if (known) observe(event, known.instance, known.instances.observer);
    });
  }
}

function observe({ type, payload }: LifecycleEvent, instance: Instance, observer: Observer): void {
  if (type === "submission:status") observer.reported(payload.submissionId, payload.status);
  else if (type === "outbox:attempt")
    instance.attempting(payload.id, payload.attempt, payload.kind);
  else if (type === "outbox:delivered" || type === "outbox:discarded") {
    observer.accepted.add(payload.id);
    if (type === "outbox:delivered") instance.taken(payload.id, payload.attempt);
  }
}
