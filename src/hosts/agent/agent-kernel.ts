/** The kernel of an object whose app has hooks, and what the app's class overrides: what is the same for all hosts. */

import type { Lifecycle } from "agents/lifecycle";
import type { Problem } from "../../core/problems.ts";
import type { DeadLetter } from "../../outbox/types.ts";
import type { HostAgent } from "../../workflow/agent/host-agent.ts";
import {
  type Host,
  type HostOptions,
  type HostTurns,
  type Kernel,
  kernelOf,
} from "../../workflow/agent/kernel.ts";
import type { HostHooks, HostParts } from "../sdk/sdk-host.ts";
import { CAPABILITIES } from "../verbs.ts";
import {
  type ApprovalAgent,
  announceApproval,
  type SubmissionAgent,
  SubmissionClients,
} from "./clients.ts";

/** The hooks of an app, and its connections. */
export type AppHooks = SubmissionAgent &
  ApprovalAgent &
  HostHooks & {
    onProblem(problem: Problem): void | Promise<void>;
    onDeadLetter(letter: DeadLetter): void | Promise<void>;
  };

type HostClass<Turns extends HostTurns> = Pick<Host, "features" | "own"> & {
  readonly isBuiltIn: ReturnType<typeof notOverridden>;
  /** Of its options, for errors. */
  readonly name: string;
  readonly turns: (parts: HostParts) => Turns;
};

/** @param agent an agent of the SDK, with the hooks that are protected in its class */
export function agentKernel<Turns extends HostTurns>(
  agent: object,
  host: HostClass<Turns>,
  options: HostOptions,
): Kernel<Turns> {
  const own = agent as HostAgent & AppHooks & { readonly lifecycle: Lifecycle };
  const hasHook = (name: string) => !host.isBuiltIn(name, agent);
  const parts = { object: agent, agent: own, verbs: agent, hooks: own, hasHook };
  return hookedKernel({ ...parts, ...host, lifecycle: own.lifecycle }, options);
}

/** Makes the kernel, and gives it to the verbs. */
export function hookedKernel<Turns extends HostTurns>(
  host: HostClass<Turns> &
    Pick<Host, "object" | "agent" | "verbs" | "lifecycle"> & {
      readonly hooks: AppHooks;
      /** Whether the app has a hook of its own. */
      readonly hasHook: (name: keyof AppHooks) => boolean;
    },
  options: HostOptions,
): Kernel<Turns> {
  const { object, hooks, hasHook, name } = host;
  const hasStatusHook = () => hasHook("onSubmissionStatus");
  const kernel = kernelOf(
    {
      ...host,
      hooks: {
        onProblem: (problem) => hooks.onProblem(problem),
        onDeadLetter: (letter) => hooks.onDeadLetter(letter),
      },
      onApproval: (approval) => announceApproval(hooks, approval),
      clients: new SubmissionClients(hooks, () => hasHook("shouldSendSubmission")),
      turns: (outbox, limits, watchers) =>
        host.turns({ object, outbox, limits, watchers, hooks, hasStatusHook }),
    },
    options,
    `options of ${name}`,
  );
  Object.defineProperty(host.verbs, CAPABILITIES, { value: kernel });
  return kernel;
}

/** Names of methods of a class, as they were when it was constructed first: agents replace all of them by wrappers then. */
const methodNames = new WeakMap<object, ReadonlySet<string>>();

/**
 * Whether no class between an agent's class and its host overrides a method, and no field of `instance` does. A comparison with
 * the host's method does not show it: agents replace inherited methods by wrappers. Call it before each construction.
 *
 * @param agent the class that is constructed
 * @param host the class of Perdure that it extends
 */
export function notOverridden(
  agent: object,
  host: object,
): (name: string, instance?: object) => boolean {
  const names: ReadonlySet<string>[] = [];
  for (let at: object | null = agent; at !== null && at !== host; at = Object.getPrototypeOf(at)) {
    const { prototype } = at as { readonly prototype: object };
    const known = methodNames.get(at) ?? new Set(Object.getOwnPropertyNames(prototype));
    methodNames.set(at, known);
    names.push(known);
  }
  return (name, instance = {}) =>
    !names.some((known) => known.has(name)) && !Object.hasOwn(instance, name);
}
