/**
 * Makes an instance of a workflow class outside of the engine. The platform's base class takes only a context of the platform,
 * which nobody can make, so the app's class gets a parent that is the same for any other context.
 */

import { WorkflowEntrypoint } from "cloudflare:workers";
import { preview } from "../../core/json.ts";
import { VERSIONS } from "../../core/steps.ts";
import { InvalidHistoryError } from "./errors.ts";

type Run = (event: unknown, step: unknown) => Promise<unknown>;

/** A class that the Worker exports as a Workflow: of `perdure/workflow`, of agents, or of the platform. */
export type WorkflowClass = abstract new (
  ctx: never,
  env: never,
) => { run: (...args: never[]) => unknown };

/** Contexts of replays, with the classes of which they made instances. */
const replayed = new WeakMap<object, Set<unknown>>();

const Parent = new Proxy(WorkflowEntrypoint, {
  construct(target, args: [object, unknown], newTarget) {
    const [ctx, env] = args;
    const made = replayed.get(ctx);
    if (!made) return Reflect.construct(target, args, newTarget);
    for (let at: unknown = newTarget; at !== Parent && at !== null; at = parentOf(at)) made.add(at);
    return Object.assign(Object.create(newTarget.prototype as object), { ctx, env }) as object;
  },
});

/**
 * @param made gets the classes of which instances are made, with those that they extend
 * @throws InvalidHistoryError for what is no workflow class; whatever its constructor throws
 */
export function workflowOf(Class: WorkflowClass, env: object, made: Set<unknown>): { run: Run } {
  const { [VERSIONS]: versions = [] } = Object(Class) as { [VERSIONS]?: readonly unknown[] };
  for (const each of [Class, ...versions]) adopt(each);
  const ctx = { waitUntil() {}, passThroughOnException() {}, props: {} };
  replayed.set(ctx, made);
  return Reflect.construct(Class, [ctx, env]) as { run: Run };
}

function adopt(Class: unknown): void {
  let at = Class;
  for (let parent = parentOf(at); parent !== WorkflowEntrypoint; parent = parentOf(at)) {
    if (parent === Parent) return;
    if (parent === null) {
      throw new InvalidHistoryError(
        "WorkflowClass",
        `Invalid workflow class ${preview(Class)}: expected a class that extends ThinkWorkflow, DurableWorkflow, AgentWorkflow or WorkflowEntrypoint.`,
      );
    }
    at = parent;
  }
  Object.setPrototypeOf(at, Parent);
}

function parentOf(value: unknown): unknown {
  return typeof value === "function" ? Object.getPrototypeOf(value) : null;
}
