/** The host for an `Agent` of the SDK: turns run by the AI SDK, with the app's model, instructions and tools. */

import { Agent } from "agents";
import type { HostOptions } from "../../workflow/agent/kernel.ts";
import type { RunWorkflow } from "../../workflow/agent/workflows.ts";
import { SdkHost } from "../sdk/sdk-host.ts";
import { ThreadSessions } from "../sdk/threads.ts";
import { MCP_WAIT } from "../sdk/turn-source.ts";
import { checkChannel } from "../support.ts";
import { durableBase, ModelHooks, sourceOf } from "./agent-hooks.ts";
import { agentKernel, notOverridden } from "./agent-kernel.ts";

/** Limits and retention, each with a default. */
export type DurableAgentOptions = HostOptions;

/**
 * An `Agent` with durable turns: submissions, threads, workflows that wait for them, approvals and an outbox. The main
 * conversation is the thread `"main"`. Use DurableThink for an agent on `@cloudflare/think`, and DurableChatAgent for a chat.
 *
 * @example
 * export class Support extends DurableAgent<Env> {
 *   override getModel() {
 *     return createOpenAI({ apiKey: this.env.OPENAI_API_KEY })("gpt-4o-mini");
 *   }
 *   override getTools() {
 *     return { lookUp: tool({ inputSchema: z.object({ order: z.string() }), execute: ({ order }) => this.find(order) }) };
 *   }
 * }
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durableBase() copies the methods to the prototype.
export class DurableAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends object = object,
> extends durableBase(Agent, ModelHooks)<Env, State, Props> {
  /**
   * Calls of the model in one turn, at most.
   * @default 10
   */
  maxSteps = 10;

  /**
   * Whether a turn waits for MCP servers before it calls `getTools()`, as in AIChatAgent: the connections are made again after a
   * restart.
   * @default { timeout: 15_000 }
   */
  waitForMcpConnections: boolean | { timeout: number } = MCP_WAIT;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an invalid option
   */
  constructor(ctx: DurableObjectState, env: Env, options: DurableAgentOptions = {}) {
    const isBuiltIn = notOverridden(new.target, DurableAgent);
    super(ctx, env);
    const sessions = new ThreadSessions();
    this.lifecycle.use(sessions);
    agentKernel(
      this,
      {
        name: "DurableAgent",
        features: new.target.features,
        own: Agent.prototype,
        isBuiltIn,
        turns: (parts) =>
          new SdkHost(parts, {
            source: sourceOf(this),
            sessions,
            check: (submission) => checkChannel("perdure/agent", submission),
          }),
      },
      options,
    );
  }
}

/** All verbs. Those are repeated here whose types in `Agent` differ. */
export interface DurableAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends object = object,
> extends ModelHooks {
  runWorkflow<P = unknown>(
    workflowName: Parameters<Agent<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string>;
  terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void>;
}
