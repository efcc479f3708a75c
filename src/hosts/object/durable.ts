/** `durable()`: the modules on a plain Durable Object with a `Lifecycle`, and their verbs. */

import type { DurableObject } from "cloudflare:workers";
import type { Lifecycle } from "agents/lifecycle";
import type { Sessions } from "agents/sessions";
import { systemClock } from "../../core/clock.ts";
import { invalidOption } from "../../core/options/options.ts";
import { logProblem } from "../../core/problems.ts";
import { CAPABILITY_VERBS, type CapabilityName } from "../../workflow/agent/capabilities.ts";
import type { StoredKind } from "../../workflow/waits/protocol.ts";
import { type AppHooks, hookedKernel } from "../agent/agent-kernel.ts";
import { OBJECT } from "../limitations.ts";
import { type HostParts, SdkHost } from "../sdk/sdk-host.ts";
import { ThreadSessions } from "../sdk/threads.ts";
import { appSource, type McpConnections, waitForMcp } from "../sdk/turn-source.ts";
import { checkChannel, NotSupportedByHostError } from "../support.ts";
import { AgentVerbs, CAPABILITIES } from "../verbs.ts";
import { ObjectAgent } from "./object-agent.ts";
import { type DurableOptions, readDurableOptions, type Settings } from "./options.ts";

/** A Durable Object with an installed Lifecycle. */
export type LifecycleDurableObject = DurableObject & { readonly lifecycle: Lifecycle };

/** The verbs of a durable object, for its own code and over RPC. */
export class Durable extends AgentVerbs {
  /** @internal */
  readonly agent: ObjectAgent;

  /** @internal */
  constructor(object: LifecycleDurableObject, options: DurableOptions) {
    super();
    const { lifecycle } = object;
    const { ctx, env } = object as unknown as { ctx: DurableObjectState; env: object };
    this.agent = new ObjectAgent(object, ctx, env, () => lifecycle.name, systemClock);
    const { settings, limits } = readDurableOptions(options);
    const { sessions = new ThreadSessions() } = settings;
    if (!settings.sessions) lifecycle.use(sessions);
    const kernel = hookedKernel(
      {
        name: "durable()",
        object,
        features: settings.features,
        agent: this.agent,
        verbs: this,
        lifecycle,
        hooks: hooksOf(this.agent, settings),
        hasHook: (name) => name in settings && settings[name as keyof Settings] !== undefined,
        own: this.agent,
        isBuiltIn: (verb) => isBuiltIn(object, verb),
        turns: (parts) => this.#turns(parts, settings, sessions),
      },
      limits,
    );
    kernel.waits.install("agent-tool", NO_AGENT_TOOLS);
  }

  #turns(parts: HostParts, settings: Settings, sessions: Sessions) {
    const { model, instructions, tools, maxSteps } = settings;
    return new SdkHost(parts, {
      source: appSource({
        model: (id) => (typeof model === "function" ? model(id) : model),
        instructions: () => (typeof instructions === "function" ? instructions() : instructions),
        tools: async () => {
          await waitForMcp(mcpOf(parts.object), settings.waitForMcpConnections);
          return typeof tools === "function" ? tools() : tools;
        },
        maxSteps: () => maxSteps,
        beforeTurn: (turn) => settings.beforeTurn?.(turn),
        agentName: parts.object.constructor.name,
        agentId: () => this.agent.name,
      }),
      sessions,
      check: (submission) => {
        checkChannel("perdure/object", submission);
        const { models = [] } = submission.answer ?? {};
        if (typeof model !== "function" && models.length > 0)
          throw new NotSupportedByHostError("perdure/object", "models", OBJECT);
      },
    });
  }

  /** Deletes the main conversation, and ends its running and pending turns. */
  async clearMessages(): Promise<void> {
    const { submissions, threads } = this[CAPABILITIES];
    await submissions.clearMain(() => threads.clear("main"));
  }

  /** The workflows that the object has started, as `getWorkflows()` of an Agent. */
  getWorkflows(criteria?: Parameters<ObjectAgent["getWorkflows"]>[0]) {
    return this.agent.getWorkflows(criteria);
  }

  /** One of them, or undefined for an id that is not tracked. */
  getWorkflow(workflowId: string) {
    return this.agent.getWorkflow(workflowId);
  }

  /** Pauses a workflow. @throws Error if it is not tracked, and the platform's error if it does not run */
  pauseWorkflow(workflowId: string): Promise<void> {
    return this.agent.pauseWorkflow(workflowId);
  }

  /** Continues a paused workflow. @throws Error if it is not tracked, and the platform's error if it is not paused */
  resumeWorkflow(workflowId: string): Promise<void> {
    return this.agent.resumeWorkflow(workflowId);
  }
}

const NO_AGENT_TOOLS: StoredKind = {
  check: async () => {
    throw new NotSupportedByHostError("perdure/object", "step.agentTool()", OBJECT);
  },
  answersLaterRuns: () => false,
};

const OBJECTS = new WeakMap<object, Durable>();

/** Over RPC an object has these methods, if its class calls {@link durable}. Declare them with `interface MyObject extends DurableVerbs {}`. */
export type DurableVerbs = Omit<Durable, CapabilityName | "agent" | typeof CAPABILITIES>;

/**
 * Makes the turns of a Durable Object durable: submissions, threads, workflows that wait for them, approvals and an
 * outbox. Call it in a field after that of the Lifecycle. The verbs of the result are also methods of the object over RPC.
 *
 * @throws InvalidOptionError for an invalid option, or for an object without a Lifecycle
 * @example
 * export class Reports extends DurableObject<Env> {
 *   readonly lifecycle = Lifecycle.install(this);
 *   readonly durable = durable(this, { model: createOpenAI({ apiKey })("gpt-4o-mini") });
 * }
 * export interface Reports extends DurableVerbs {}
 */
export function durable(object: LifecycleDurableObject, options: DurableOptions): Durable {
  if (typeof object?.lifecycle?.use !== "function") {
    throw invalidOption(
      "object",
      object,
      "a Durable Object with a Lifecycle. Add before it: readonly lifecycle = Lifecycle.install(this)",
    );
  }
  if (OBJECTS.has(object))
    throw invalidOption("object", object, "an object on which durable() was not called yet");
  const made = new Durable(object, options);
  OBJECTS.set(object, made);
  addToClass(Object.getPrototypeOf(object) as object);
  return made;
}

/** RPC finds methods on the prototype. Those of the app's class stay as they are. */
function addToClass(prototype: object): void {
  for (const verbs of [Durable.prototype, AgentVerbs.prototype]) {
    for (const verb of Object.getOwnPropertyNames(verbs)) {
      if (verb in prototype || verb in CAPABILITY_VERBS) continue;
      const value = async function (this: LifecycleDurableObject, ...args: unknown[]) {
        // RPC does not start the Lifecycle.
        await this.lifecycle.start();
        const made = OBJECTS.get(this) as unknown as Record<
          string,
          (...args: unknown[]) => unknown
        >;
        return made[verb]?.(...args);
      };
      FORWARDERS.add(value);
      Object.defineProperty(prototype, verb, { value, configurable: true, writable: true });
    }
  }
}

/** As the SDK documents it for a plain object: `readonly mcp = new MCPClientManager(...)`. */
function mcpOf(object: object): McpConnections | undefined {
  const { mcp } = object as { mcp?: Partial<McpConnections> };
  return typeof mcp?.waitForConnections === "function" ? (mcp as McpConnections) : undefined;
}

const FORWARDERS = new WeakSet<object>();

/** Whether the app's class does not have a verb of its own by this name. */
function isBuiltIn(object: object, verb: string): boolean {
  const value: unknown = Reflect.get(object, verb);
  return typeof value !== "function" || FORWARDERS.has(value);
}

/** The hooks in the options, and the connections of the object. */
function hooksOf(agent: ObjectAgent, settings: Settings): AppHooks {
  const connections = () => settings.webSockets?.getConnections() ?? [][Symbol.iterator]();
  return {
    getConnections: connections as AppHooks["getConnections"],
    broadcast: (message, without = []) => {
      for (const connection of connections())
        if (!without.includes(connection.id)) connection.send(message);
    },
    shouldSendSubmission: (...args) => settings.shouldSendSubmission?.(...args) ?? false,
    shouldSendApproval: (...args) => settings.shouldSendApproval?.(...args) ?? false,
    onSubmissionStatus: (submission) => settings.onSubmissionStatus?.(submission),
    onApproval: (approval) => settings.onApproval?.(approval),
    onDeadLetter: (letter) => settings.onDeadLetter?.(letter),
    onProblem: (problem) => {
      if (settings.onProblem) return settings.onProblem(problem);
      const [{ className, name } = { className: "", name: "" }] = agent.selfPath;
      return logProblem({ ...problem, ids: { agent: className, name, ...problem.ids } });
    },
  };
}
