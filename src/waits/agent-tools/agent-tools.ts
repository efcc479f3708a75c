/**
 * Gates of the kind `agent-tool`: a child agent's run, which is started once
 * and whose end closes the gate.
 *
 * Three tell of the end, and any of them may be lost: the agent, at least once
 * and behind the turns that it runs; the child's stream, at once, as long as
 * this life follows it; the child's record, whenever it is asked. The gate is
 * closed by the first.
 */

import type { AgentToolLifecycleResult, AgentToolRunInfo } from "agents/agent-tools";
import { backoffMs } from "../../core/backoff.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { type Gates, GRACE_MS } from "../gates.ts";
import type { Closing, Gate, GateKind } from "../types.ts";
import {
  closingOf,
  endIn,
  endOf,
  endTold,
  gateIdOf,
  hasEnded,
  requestOf,
  runIdOf,
  stateOf,
} from "./ends.ts";
import { Following } from "./following.ts";
import type { AgentToolEnd, AgentToolPort, AgentToolState } from "./types.ts";

/** Between attempts to start a run that the agent had no place for; an end that frees one is not waited for longer. */
const REFUSED = { baseMs: 2_000, capMs: 300_000 } as const;
/** Between attempts to start a run that failed to start, and how many there are. */
const FAILED = { baseMs: 1_000, capMs: 30_000 } as const;
const MOST_FAILURES = 4;
/** When a run is looked at again that nothing is heard of. */
const LOOK_MS = 60_000;
/** When one is looked at again that was stopped, as long as the agent has not said why. */
const STOPPED_LOOK_MS = 5_000;
/** The child may run a little longer than the step waits, so that the step's own end is told. */
const BUDGET_MARGIN_MS = 60_000;
/** Open gates among which one that waits for a place is looked for. */
const MOST_WAITING = 100;

const UNWANTED = "Its workflow's step waits no longer";

export class AgentTools implements GateKind {
  readonly #following: Following;
  /** Whether this life knows of one that the agent had no place for. */
  #hasRefused = false;

  constructor(
    private readonly port: AgentToolPort,
    private readonly gates: () => Gates,
    private readonly clock: Clock = systemClock,
  ) {
    this.#following = new Following(port, (gateId) => gates().nudge(gateId), clock);
  }

  answersLaterRuns({ status }: Gate): boolean {
    return status === "completed";
  }

  async drive(gate: Gate): Promise<number | null> {
    const { className } = requestOf(gate);
    const state = stateOf(gate);
    const runId = runIdOf(gate.gateId, state.dispatch);
    if (!this.port.isExported(className)) {
      const error =
        `The Worker exports no class ${JSON.stringify(className)}. Export the child agent's class from the ` +
        "Worker's entry point under its own name, and keep names when bundling (esbuild: keepNames).";
      return this.#close(gate, { status: "error", runId, error });
    }
    if (this.port.has(className, runId)) {
      if (state.isSent) return this.#look(gate, state);
      // The start of it was cut off, or failed: a child that cannot be reached now may be one that can never be.
      return this.#look(gate, state).catch((error) =>
        this.#failed(gate, state, failureOf(error).message),
      );
    }
    if (!state.isSent) return this.#start(gate, state);
    const error = "The run was cleared from the agent (clearAgentToolRuns) before it had ended";
    return this.#close(gate, { status: "aborted", runId, error });
  }

  async stop(gate: Gate): Promise<void> {
    const runId = runIdOf(gate.gateId, stateOf(gate).dispatch);
    this.#following.forget(runId);
    // Cancelling it now would tell the app of another end than the run had.
    if (hasEnded(gate)) return;
    const end = endOf(gate);
    await this.port.cancel(runId, end && "error" in end ? end.error : UNWANTED);
  }

  /** W2: what the child has to show before its step gives it up. */
  async lastLook(gate: Gate): Promise<Closing> {
    const { className } = requestOf(gate);
    const { dispatch, problem, interrupted } = stateOf(gate);
    const runId = runIdOf(gate.gateId, dispatch);
    let error = problem ?? "The child agent had not ended its run";
    let end: AgentToolEnd | undefined;
    try {
      const found = this.port.has(className, runId) && (await this.port.inspect(className, runId));
      if (found) end = endIn(found);
    } catch (cause) {
      error = failureOf(cause).message;
    }
    return closingOf(end ?? interrupted ?? { status: "timeout", runId, error });
  }

  /** The agent's word that a run has ended: at least once for each, and again where an interrupted one ends after all. */
  async finished({ runId, agentType }: AgentToolRunInfo, result: AgentToolLifecycleResult) {
    const gateId = gateIdOf(runId);
    const gate = gateId === undefined ? undefined : await this.gates().find(gateId);
    if (gate?.status === "open" && runIdOf(gate.gateId, stateOf(gate).dispatch) === runId) {
      await this.#finish(gate, endTold(runId, result) ?? (await this.#completed(agentType, runId)));
    }
    await this.#nextRefused();
  }

  async #finish(gate: Gate, end: AgentToolEnd): Promise<void> {
    if (end.status === "interrupted" && end.childStillRunning) {
      // It may still end, as long as its step waits: that is bounded (W2).
      await this.gates().note(gate.gateId, { ...stateOf(gate), interrupted: end });
    } else {
      await this.#close(gate, end);
    }
  }

  async #completed(className: string, runId: string): Promise<AgentToolEnd> {
    const found = await this.port.inspect(className, runId);
    const end = found && endIn(found);
    if (end) return end;
    const error = "The child agent completed its run, and has no record of it any more";
    return { status: "error", runId, error };
  }

  async #start(gate: Gate, state: AgentToolState): Promise<number | null> {
    const { className, input, display } = requestOf(gate);
    const runId = runIdOf(gate.gateId, state.dispatch);
    const left = gate.expiresAt - GRACE_MS - this.clock.now();
    const maxBudgetMs = Math.max(0, left) + BUDGET_MARGIN_MS;
    try {
      const run = { runId, input, display, maxBudgetMs };
      const { status, error } = await this.port.start(className, run);
      if (status === "error") return this.#refused(gate, state, error ?? "The agent refused it");
    } catch (error) {
      return this.#failed(gate, state, failureOf(error).message);
    }
    const { problem: _, ...sent } = { ...state, isSent: true };
    if (await this.gates().note(gate.gateId, sent)) return this.#follow(gate, runId);
    const closed = await this.gates().find(gate.gateId);
    // Its step has given it up while it was started, when the child had nothing to cancel yet.
    if (!closed || !hasEnded(closed)) await this.port.abandon(className, runId, UNWANTED);
    return null;
  }

  /** Tried again with another run: agents keep a refused one, under its id. */
  async #refused(gate: Gate, state: AgentToolState, problem: string): Promise<number | null> {
    const refusals = state.refusals + 1;
    const next = { ...state, dispatch: state.dispatch + 1, refusals, problem };
    if (!(await this.gates().note(gate.gateId, next))) return null;
    this.#hasRefused = true;
    return this.clock.now() + backoffMs(refusals, REFUSED, this.clock.random());
  }

  async #failed(gate: Gate, state: AgentToolState, error: string): Promise<number | null> {
    const failures = state.failures + 1;
    const runId = runIdOf(gate.gateId, state.dispatch);
    if (failures < MOST_FAILURES) {
      const next = { ...state, failures, problem: error };
      if (!(await this.gates().note(gate.gateId, next))) return null;
      return this.clock.now() + backoffMs(failures, FAILED, this.clock.random());
    }
    // It holds one of the agent's places for as long as it is not cancelled. That is told as an end, which is not this gate's.
    await this.gates().note(gate.gateId, { ...state, dispatch: state.dispatch + 1, isSent: false });
    await this.port.cancel(runId, error);
    return this.#close(gate, { status: "error", runId, error });
  }

  /** What became of a run that was started earlier, maybe in an earlier life. */
  async #look(gate: Gate, state: AgentToolState): Promise<number | null> {
    const { className } = requestOf(gate);
    const runId = runIdOf(gate.gateId, state.dispatch);
    const found = await this.port.inspect(className, runId);
    if (!found) return this.#startAgain(gate, state);
    this.#following.tellMissed(gate, runId, found);
    const end = endIn(found);
    if (!end) return this.#follow(gate, runId);
    // A child that was given up looks like a cancelled one. The agent knows which it is, and will say so.
    if (end.status === "aborted") return this.clock.now() + STOPPED_LOOK_MS;
    return this.#close(gate, end);
  }

  /** The agent knows the run and the child does not: the start was cut off between the two, and never comes there. */
  async #startAgain(gate: Gate, state: AgentToolState): Promise<number | null> {
    const next = { ...state, dispatch: state.dispatch + 1, isSent: false };
    if (!(await this.gates().note(gate.gateId, next))) return null;
    await this.port.cancel(
      runIdOf(gate.gateId, state.dispatch),
      "It was not started, and is replaced",
    );
    return this.#start(gate, next);
  }

  #follow(gate: Gate, runId: string): number | null {
    return this.#following.begin(gate, runId) ? null : this.clock.now() + LOOK_MS;
  }

  /** A place is free: the one that has waited longest has it. */
  async #nextRefused(): Promise<void> {
    if (!this.#hasRefused) return;
    const query = { kind: "agent-tool", isOpen: true, limit: MOST_WAITING } as const;
    const waiting = (await this.gates().list(query)).findLast((gate) => {
      const { refusals, isSent } = stateOf(gate);
      return refusals > 0 && !isSent;
    });
    if (waiting) await this.gates().nudge(waiting.gateId);
    else this.#hasRefused = false;
  }

  async #close({ gateId }: Gate, end: AgentToolEnd): Promise<null> {
    const gate = await this.gates().find(gateId);
    if (gate?.status !== "open") return null;
    if (end.status === "completed") this.#following.tellMissed(gate, end.runId, end);
    await this.gates().close(gateId, closingOf(end));
    this.#following.forget(end.runId);
    return null;
  }
}
