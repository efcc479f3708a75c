/** The host for an `Agent` of the SDK whose turns a harness runs. Experimental, as the SDK's harnesses are. */

import { Agent } from "agents";
import type { AgentHarness } from "agents/experimental/channels";
import type { LifecycleCapability } from "agents/lifecycle";
import { invalidOption } from "../../core/options/options.ts";
import type { HostOptions, RunWorkflow } from "../../kernel/index.ts";
import { durableBase, TaskHooks } from "../agent/agent-hooks.ts";
import { agentKernel, notOverridden } from "../agent/agent-kernel.ts";
import { HarnessHost } from "./harness-host.ts";

/** Limits and retention, each with a default. */
export type DurableHarnessOptions = HostOptions;

/**
 * An `Agent` whose turns a harness of the SDK runs: submissions, threads, workflows that wait for them, approvals and an
 * outbox. The main conversation is the harness's default session, each thread a session of its own. The harness has the model and
 * the tools, and recovers turns that a crash interrupts.
 *
 * @experimental
 * @example
 * export class Coder extends DurableHarness<Env> {
 *   readonly harness = this.useHarness(new ThinkHarness({ model: createOpenAI()("gpt-4o-mini"), tools }));
 * }
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durableBase() copies the methods to the prototype.
export class DurableHarness<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends object = object,
> extends durableBase(Agent, TaskHooks)<Env, State, Props> {
  #harness: AgentHarness | undefined;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an invalid option
   */
  constructor(ctx: DurableObjectState, env: Env, options: DurableHarnessOptions = {}) {
    const isBuiltIn = notOverridden(new.target, DurableHarness);
    super(ctx, env);
    agentKernel(
      this,
      {
        name: "DurableHarness",
        features: new.target.features,
        own: Agent.prototype,
        isBuiltIn,
        turns: (parts) =>
          new HarnessHost(parts, {
            isSubAgent: () => this.parentPath.length > 0,
            harness: () => this.#harness ?? this.#missing(),
          }),
      },
      options,
    );
  }

  #missing(): never {
    const { name } = this.constructor;
    throw new Error(
      `${name} has no harness. Add a field to it: readonly harness = this.useHarness(new ThinkHarness({ model }));`,
    );
  }

  /**
   * Installs the harness that runs the agent's turns. Call it in a field of your class.
   * @returns the harness
   * @throws InvalidOptionError for a second harness, or for an object that is no harness
   */
  protected useHarness<Harness extends AgentHarness & LifecycleCapability>(
    harness: Harness,
  ): Harness {
    const isHarness = typeof harness?.session === "function";
    if (!isHarness || this.#harness) {
      const expected = isHarness
        ? "one harness for each agent. Remove the second call of useHarness()"
        : "a harness of the SDK, e.g. new ThinkHarness({ model })";
      throw invalidOption("harness", harness, expected);
    }
    this.lifecycle.use(harness);
    this.#harness = harness;
    return harness;
  }
}

/** All verbs. Those are repeated here whose types in `Agent` differ. */
export interface DurableHarness<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends object = object,
> extends TaskHooks {
  runWorkflow<P = unknown>(
    workflowName: Parameters<Agent<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string>;
  terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void>;
}
