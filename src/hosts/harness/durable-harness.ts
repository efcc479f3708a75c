/** The host for an `Agent` of the SDK whose turns a harness runs. Experimental, as the SDK's harnesses are. */

import { Agent, type Connection } from "agents";
import type { AgentHarness } from "agents/experimental/channels";
import type { LifecycleCapability } from "agents/lifecycle";
import { invalidOption } from "../../core/options/options.ts";
import type { Problem } from "../../core/problems.ts";
import type { Feature, HostOptions, Kernel, RunWorkflow } from "../../kernel/index.ts";
import { notOverridden } from "../../kernel/index.ts";
import type { DeadLetter } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import type { Approval } from "../../kernel/waits/index.ts";
import type { ScheduledTasks } from "../../scheduler/index.ts";
import { agentKernel, logFor } from "../agent/agent-kernel.ts";
import { changeWakes, deletedWithWakes, type SubAgents } from "../agent/sub-agents.ts";
import type { SubmissionAudience } from "../agent/submission-clients.ts";
import { HARNESS } from "../limitations.ts";
import { NotSupportedByHostError } from "../support.ts";
import { type AgentVerbs, addVerbs, CAPABILITIES } from "../verbs.ts";
import { HarnessHost } from "./harness-host.ts";

/** Limits and retention, each with a default. A harness reports no tokens, so there is no budget. */
export type DurableHarnessOptions = Omit<HostOptions, "budget">;

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
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: addVerbs() copies the methods to the prototype.
export class DurableHarness<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends Agent<Env, State, Props> {
  static {
    addVerbs(DurableHarness);
  }

  /** What this class installs beside submissions, workflows and the outbox, such as `schedules()`. @default none */
  static readonly features: readonly Feature[] = [];

  /** @internal */
  readonly [CAPABILITIES]: Kernel;

  #harness: AgentHarness | undefined;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an invalid option
   * @throws NotSupportedByHostError for a budget
   */
  constructor(ctx: DurableObjectState, env: Env, options: DurableHarnessOptions = {}) {
    const isBuiltIn = notOverridden(new.target, DurableHarness);
    super(ctx, env);
    if ((options as HostOptions | null)?.budget !== undefined)
      throw new NotSupportedByHostError("perdure/harness", "budget", HARNESS);
    const kernel = agentKernel(
      this,
      {
        name: "DurableHarness",
        features: new.target.features,
        own: Agent.prototype,
        isBuiltIn,
        turns: ({ outbox, limits, ...parts }) =>
          new HarnessHost({ ...this.#turns(), ...parts }, outbox, limits),
      },
      options,
    );
    this[CAPABILITIES] = kernel;
  }

  #turns() {
    return {
      object: this,
      isSubAgent: () => this.parentPath.length > 0,
      harness: () => this.#harness ?? this.#missing(),
      onStatus: (submission: SubmissionInspection) => this.onSubmissionStatus(submission),
    } as const;
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

  /** The tasks that recur, for a class that installs `schedules()` of `perdure/scheduler`. Override it. */
  getScheduledTasks(): ScheduledTasks | Promise<ScheduledTasks> {
    return {};
  }

  /** The time zone of schedules that name none. Override it. @default none: a clock time without a zone is an invalid task */
  getDefaultTimezone(): string | undefined | Promise<string | undefined> {
    return undefined;
  }

  /** Whether sub-agents of this class run scheduled tasks of their own. Override it. @default "root" */
  getScheduledTasksScope(): "root" | "all" | Promise<"root" | "all"> {
    return "root";
  }

  /** Deletes the agent's own conversation, and ends its running and pending turns. */
  async clearMessages(): Promise<void> {
    const { submissions, threads } = this[CAPABILITIES];
    await submissions.clearMain(() => threads.clear("main"));
  }

  /** Called at least once for each new dead letter. What it throws is logged and changes nothing. Override it. */
  protected onDeadLetter(_letter: DeadLetter): void | Promise<void> {}

  /**
   * Called once for each problem that could go unnoticed, see {@link Problem}. What it throws is logged. Override it to log in
   * another way.
   * @default logs one line of JSON with `console.error()` or `console.warn()`
   */
  protected onProblem(problem: Problem): void | Promise<void> {
    logFor(this, problem);
  }

  /**
   * Called after each change of a submission's status. `submitMessages()`, the turn and `cancelSubmission()` wait for it, at most
   * `statusHookTimeout`. What it throws is logged and changes nothing. Do not wait for a turn in it. Override it.
   */
  protected onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

  /**
   * Decides whether a connected client is sent the whole approval when it changes; others get its id, status and title. Override it.
   * @default false
   */
  protected shouldSendApproval(_approval: Approval, _connection: Connection): boolean {
    return false;
  }

  /**
   * Decides what a connected client is sent of a submission: `"status"` for its status, `true` for that and its reply while it is
   * written. Override it.
   * @default false
   */
  protected shouldSendSubmission(
    _submission: SubmissionInspection,
    _connection: Connection,
  ): SubmissionAudience {
    return false;
  }

  /** Called after an approval was opened, decided, expired or cancelled. What it throws is logged. Override it. */
  protected onApproval(_approval: Approval): void | Promise<void> {}

  /** The agent's sub-agents. `delete()` also removes the wakes that the root agent keeps for one, and for all below it. */
  override get dynamicAgents(): SubAgents {
    return deletedWithWakes(super.dynamicAgents, this.selfPath, this[CAPABILITIES].waking);
  }

  /** Deletes the agent and everything that it stored. */
  override async destroy(): Promise<void> {
    // The root agent keeps the wakes of a sub-agent: those come soon, find no agent and lapse.
    if (this.parentPath.length > 0)
      await changeWakes(this[CAPABILITIES].waking, this.selfPath, "expedite");
    await super.destroy();
  }
}

/** All verbs. Those are repeated here whose types in `Agent` differ. */
export interface DurableHarness<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AgentVerbs {
  runWorkflow<P = unknown>(
    workflowName: Parameters<Agent<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string>;
  terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void>;
}
