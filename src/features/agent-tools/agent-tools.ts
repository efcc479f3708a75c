/**
 * The kind `agent-tool`, for `step.agentTool()`: starts the run of a child agent once, and closes the wait with its end.
 *
 * The end is reported in three ways, and each may be lost: by the agent, at least once and after the turns that it runs; by the
 * child's stream, at once, while this object instance follows it; by the child's record, when it is read. The first closes the wait.
 */

import type { Agent } from "agents";
import type { AgentToolLifecycleResult, AgentToolRunInfo } from "agents/agent-tools";
import { type Clock, systemClock } from "../../core/clock.ts";
import { backoffMs, failureOf } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { invalidOption } from "../../core/options/options.ts";
import type { Feature } from "../../workflow/agent/kernel.ts";
import type { AgentToolEnd } from "../../workflow/agent-tool.ts";
import type { Closing, StoredKind, Wait } from "../../workflow/waits/protocol.ts";
import { GRACE_MS, type Waits } from "../../workflow/waits/waits.ts";
import { type Children, childrenOf, ON_FINISH } from "./children.ts";
import {
  closingOf,
  endIn,
  endOf,
  hasEnded,
  reportedEnd,
  requestOf,
  runIdOf,
  stateOf,
  waitIdOf,
} from "./ends.ts";
import { Following } from "./following.ts";
import type { AgentToolState } from "./types.ts";

/** Between attempts to start a run that the agent had no slot for. The end of another run triggers one at once. */
const REFUSED = { baseMs: 2_000, capMs: 300_000 } as const;
/** Between attempts to start a run that failed to start, and how many there are. */
const FAILED = { baseMs: 1_000, capMs: 30_000 } as const;
const MOST_FAILURES = 4;
/** When a run that is not followed is looked at again. */
const LOOK_MS = 60_000;
/** When a stopped run is looked at again, until the agent has reported why it stopped. */
const STOPPED_LOOK_MS = 5_000;
/** The child's budget is a little longer than the step waits, so that the step's timeout comes first. */
const BUDGET_MARGIN_MS = 60_000;
/** Open waits among which one that waits for a slot is searched. */
const MOST_WAITING = 100;

/** The platform's message about a class that is no agent, or no chat agent, and that of agents. */
const NO_CHILD =
  /does not implement (?:the method )?"(?:_cf_\w+|\w+AgentToolRun)"|agent-tool adapter/;

const UNWANTED = "Its workflow's step has stopped waiting";

/**
 * Lets the workflows of an agent run child agents with `step.agentTool()`. A plain Durable Object has no sub-agents.
 *
 * @example
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [agentTools()];
 * }
 */
export function agentTools(): Feature<"agentTools", AgentTools> {
  return {
    feature: "agentTools",
    install: ({ agent, object, waits }) => {
      if (!("runAgentTool" in agent)) {
        const expected =
          "no agentTools() on a plain Durable Object, which has no sub-agents. Extend DurableAgent";
        throw invalidOption("features", "agentTools()", expected);
      }
      const tools = new AgentTools(childrenOf(agent as unknown as Agent), waits);
      waits.install("agent-tool", tools);
      // Agents call it when a run has ended, at least once, and again for one that ends after it was given up.
      Object.assign(object, { [ON_FINISH]: tools.finished.bind(tools) });
      return tools;
    },
  };
}

export class AgentTools implements StoredKind {
  readonly #following: Following;
  /** Whether a run was refused since the last start because the agent had no slot. */
  #hasRefused = false;

  constructor(
    private readonly children: Children,
    private readonly waits: Waits,
    private readonly clock: Clock = systemClock,
  ) {
    this.#following = new Following(children, async (waitId) => waits.nudge(waitId), clock);
  }

  answersLaterRuns({ status }: Wait): boolean {
    return status === "completed";
  }

  async drive(wait: Wait): Promise<number | null> {
    const { className } = requestOf(wait);
    const { isSent } = stateOf(wait);
    const runId = runIdOf(wait);
    if (!this.children.isExported(className)) {
      const error =
        `The Worker exports no class ${JSON.stringify(className)}. Export the child agent's class from the ` +
        "Worker's entry point under its own name, and keep names when bundling (esbuild: keepNames).";
      return this.#close(wait, { status: "error", runId, error });
    }
    if (this.children.has(className, runId)) {
      if (isSent) return this.#look(wait);
      // The start of it was cut off, or failed: a child that cannot be reached now may be one that can never be.
      return this.#look(wait).catch((error) => this.#failed(wait, failureOf(error).message));
    }
    if (!isSent) return this.#start(wait);
    const error = "The run was cleared from the agent (clearAgentToolRuns) before it had ended";
    return this.#close(wait, { status: "aborted", runId, error });
  }

  async stop(wait: Wait): Promise<void> {
    const runId = runIdOf(wait);
    this.#following.forget(runId);
    // Cancelling it now would report another end to the app than the run had.
    if (hasEnded(wait)) return;
    const end = endOf(wait);
    await this.children.cancel(runId, end && "error" in end ? end.error : UNWANTED);
  }

  /** The child's end, if there is one, before its step times out. */
  async lastLook(wait: Wait): Promise<Closing> {
    const { className } = requestOf(wait);
    const { problem, interrupted } = stateOf(wait);
    const runId = runIdOf(wait);
    let error = problem ?? "The child agent had not ended its run";
    let end: AgentToolEnd | undefined;
    try {
      const found =
        this.children.has(className, runId) && (await this.children.inspect(className, runId));
      if (found) end = endIn(found);
    } catch (cause) {
      error = failureOf(cause).message;
    }
    return closingOf(end ?? interrupted ?? { status: "timeout", runId, error });
  }

  /** The agent reports that a run has ended: at least once, and again if an interrupted run ends after all. */
  async finished({ runId, agentType }: AgentToolRunInfo, result: AgentToolLifecycleResult) {
    const waitId = waitIdOf(runId);
    await this.waits.ready();
    const wait = waitId === undefined ? undefined : this.waits.find(waitId);
    if (wait?.status === "open" && runIdOf(wait) === runId) {
      const end = reportedEnd(runId, result) ?? (await this.#completed(agentType, runId));
      const mayEnd = end.status === "interrupted" && end.childStillRunning;
      // It may still end as long as its step waits.
      if (mayEnd) this.#note(wait, { interrupted: end });
      else await this.#close(wait, end);
    }
    await this.#nextRefused();
  }

  async #completed(className: string, runId: string): Promise<AgentToolEnd> {
    const found = await this.children.inspect(className, runId);
    const end = found && endIn(found);
    if (end) return end;
    const error = "The child agent completed its run, and has no record of it any more";
    return { status: "error", runId, error };
  }

  async #start(wait: Wait): Promise<number | null> {
    const { className, input, display } = requestOf(wait);
    const runId = runIdOf(wait);
    const left = wait.expiresAt - GRACE_MS - this.clock.now();
    const maxBudgetMs = Math.max(0, left) + BUDGET_MARGIN_MS;
    try {
      const run = { runId, input, display, maxBudgetMs };
      const { status, error } = await this.children.start(className, run);
      if (status === "error") return this.#refused(wait, error ?? "The agent refused it");
    } catch (error) {
      return this.#failed(wait, failureOf(error).message);
    }
    const sent = this.#note(wait, { isSent: true, problem: undefined });
    if (sent) return this.#follow(sent);
    const closed = this.waits.find(wait.waitId);
    // Its step has given it up while it was started, when the child had nothing to cancel yet.
    if (!closed || !hasEnded(closed)) await this.children.abandon(className, runId, UNWANTED);
    return null;
  }

  /** Tried again with another run id: agents keep a refused run under its id. */
  async #refused(wait: Wait, problem: string): Promise<number | null> {
    const { dispatch, refusals: before } = stateOf(wait);
    const refusals = before + 1;
    if (!this.#note(wait, { dispatch: dispatch + 1, refusals, problem })) return null;
    this.#hasRefused = true;
    return this.clock.now() + backoffMs(refusals, REFUSED, this.clock.random());
  }

  async #failed(wait: Wait, problem: string): Promise<number | null> {
    const { dispatch, failures: before } = stateOf(wait);
    const failures = before + 1;
    const error = NO_CHILD.test(problem)
      ? `${requestOf(wait).className} cannot run as an agent tool: expected a class that extends Think, DurableThink, AIChatAgent or DurableChatAgent. ${problem}`
      : problem;
    if (error === problem && failures < MOST_FAILURES) {
      if (!this.#note(wait, { failures, problem: error })) return null;
      return this.clock.now() + backoffMs(failures, FAILED, this.clock.random());
    }
    const runId = runIdOf(wait);
    // It holds a slot of the agent until it is cancelled. The agent reports that as an end, which is not this wait's.
    this.#note(wait, { dispatch: dispatch + 1, isSent: false });
    await this.children.cancel(runId, error);
    return this.#close(wait, { status: "error", runId, error });
  }

  /** Looks at a run that was started earlier, maybe before the last start. */
  async #look(wait: Wait): Promise<number | null> {
    const runId = runIdOf(wait);
    const found = await this.children.inspect(requestOf(wait).className, runId);
    if (!found) {
      // The agent knows the run and the child does not: the start was cut off between the two, and never comes there.
      const dispatch = stateOf(wait).dispatch + 1;
      const next = this.#note(wait, { dispatch, isSent: false });
      if (!next) return null;
      await this.children.cancel(runId, "It was not started, and is replaced");
      return this.#start(next);
    }
    this.#following.reportMissed(wait, runId, found);
    const end = endIn(found);
    if (!end) return this.#follow(wait);
    // A child that was given up looks like a cancelled one. The agent knows which it is, and will say so.
    if (end.status === "aborted") return this.clock.now() + STOPPED_LOOK_MS;
    return this.#close(wait, end);
  }

  /** Stores what has changed. Undefined if the wait was closed. */
  #note(wait: Wait, changes: Partial<AgentToolState>): Wait | undefined {
    const state = { ...stateOf(wait), ...changes } as Json;
    return this.waits.note(wait.waitId, state) ? { ...wait, state } : undefined;
  }

  #follow(wait: Wait): number | null {
    return this.#following.start(wait, runIdOf(wait)) ? null : this.clock.now() + LOOK_MS;
  }

  /** A slot is free: starts the run that has waited longest. */
  async #nextRefused(): Promise<void> {
    if (!this.#hasRefused) return;
    const query = { kind: "agent-tool", isOpen: true, limit: MOST_WAITING } as const;
    const waiting = (await this.waits.list(query)).items.findLast((wait) => {
      const { refusals, isSent } = stateOf(wait);
      return refusals > 0 && !isSent;
    });
    if (waiting) this.waits.nudge(waiting.waitId);
    else this.#hasRefused = false;
  }

  async #close({ waitId }: Wait, end: AgentToolEnd): Promise<null> {
    const wait = this.waits.find(waitId);
    if (wait?.status !== "open") return null;
    if (end.status === "completed") this.#following.reportMissed(wait, end.runId, end);
    await this.waits.settle(waitId, closingOf(end));
    this.#following.forget(end.runId);
    return null;
  }
}
