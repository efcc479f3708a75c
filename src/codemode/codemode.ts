/**
 * The kind `codemode`: runs code in the agent's Code Mode runtime, asks a
 * person about each action that needs it, and closes the gate with what came of
 * it. The runtime's record is the truth; what is noted here only tells what an
 * earlier life was about to do (L6). `decide.ts` has the table of states.
 */

import { type Clock, systemClock } from "../core/clock.ts";
import { InvalidGateError } from "../waits/errors.ts";
import type { Gates } from "../waits/gates.ts";
import type { Closing, Gate, GateKind } from "../waits/types.ts";
import { actionRequest, decisionOf } from "./approval-request.ts";
import { type Action, decide } from "./decide.ts";
import { completed, failed, interrupted, pendingAction, rejected } from "./outcome.ts";
import { type Found, findExecution, markedCode } from "./records.ts";
import type {
  CallRecord,
  CodemodePort,
  CodemodeRequest,
  CodemodeRuntime,
  ExecutionRecord,
  PassOutput,
  Progress,
} from "./types.ts";

/** How soon, and how late, it is looked whether an action was approved elsewhere. */
const SOONEST_MS = 60_000;
const LATEST_MS = 6 * 3_600_000;

/** An agent that has no runtime any more does not try to stop what it began for longer than that. */
const GIVE_UP_MS = 86_400_000;

const DENIALS: Record<string, string> = {
  rejected: "was rejected",
  expired: "was not decided in time",
  cancelled: "was given up before it was decided",
};

export class Codemode implements GateKind {
  /** Passes of this life, by gate. */
  readonly #passes = new Map<string, Promise<PassOutput | undefined>>();

  constructor(
    private readonly gates: Gates,
    private readonly port: CodemodePort,
    private readonly clock: Clock = systemClock,
  ) {}

  /** A result stays one; what failed is tried afresh (W1). */
  answersLaterRuns({ status }: Gate): boolean {
    return status === "completed";
  }

  async drive({ gateId }: Gate): Promise<number | null> {
    let came: Came = {};
    for (;;) {
      const gate = await this.gates.find(gateId);
      if (gate?.status !== "open") return null;
      const runtime = await this.#runtimeFor(gate);
      if (!runtime) return null;
      const { refused, hasRun = false } = came;
      const found = await this.#look(runtime, gate);
      const situation = { ...found, refused, hasRun, now: this.clock.now() };
      const next = await this.#perform(decide(situation), { gate, runtime, ...situation });
      if (next === null || typeof next === "number") return next;
      came = { ...next, hasRun: hasRun || next.hasRun === true };
    }
  }

  /** What is paused is rejected, so that it ends; what runs is waited for, as nothing can stop it. */
  async stop(gate: Gate): Promise<void> {
    // How it ended is read from its record.
    await this.#passes.get(gate.gateId)?.catch(() => undefined);
    try {
      await this.#end(gate.gateId);
    } catch (error) {
      const since = gate.settledAt ?? gate.createdAt;
      if (this.clock.now() - since < GIVE_UP_MS) throw error;
      console.error("[perdure] code that nobody waits for could not be stopped:", error);
    }
  }

  async #end(gateId: string): Promise<void> {
    const gate = await this.gates.find(gateId);
    if (gate?.state === undefined) return;
    const runtime = await this.port.runtime();
    const { execution } = await executionOf(runtime, gate);
    const action = execution?.status === "paused" ? pendingAction(execution) : undefined;
    if (execution && action) await runtime.reject({ seq: action.seq, executionId: execution.id });
  }

  async #runtimeFor(gate: Gate): Promise<CodemodeRuntime | undefined> {
    try {
      return await this.port.runtime();
    } catch (error) {
      // Once something has begun, its end is worth another try.
      if (gate.state !== undefined) throw error;
      const problem = error instanceof Error ? error.message : String(error);
      await this.#close(gate, failed(problem, undefined, "unavailable"));
      return undefined;
    }
  }

  async #look(runtime: CodemodeRuntime, gate: Gate) {
    const progress = gate.state as Progress | undefined;
    if (!progress) {
      return { progress, execution: undefined, mayBeForgotten: false, approval: undefined };
    }
    const found = await executionOf(runtime, gate);
    const asked =
      progress.step === "asked"
        ? await this.gates.find(approvalId(progress.executionId, progress.seq))
        : undefined;
    return { progress, ...found, approval: asked?.status, asked };
  }

  /** Returns when to look again, or what came of it: then it is looked at once more. */
  async #perform(
    next: Action,
    { gate, runtime, progress, execution, asked }: Scene,
  ): Promise<number | null | Came> {
    switch (next.do) {
      case "begin":
        if (next.forget !== undefined) await runtime.deleteExecution(next.forget);
        return this.#begin(gate, runtime);
      case "ask":
        return this.#ask(gate, progress, execution, next.action);
      case "wait":
        return this.#later(progress);
      case "approve":
        return this.#approve(gate, runtime, execution, next.action);
      case "reject":
        await runtime.reject({ seq: next.action.seq, executionId: execution?.id ?? "" });
        return {};
      case "complete":
        return this.#close(gate, completed(execution as ExecutionRecord));
      case "interrupted":
        return this.#close(gate, interrupted(execution as ExecutionRecord));
      case "rejected":
        return this.#rejected(gate, runtime, execution as ExecutionRecord, asked);
      case "fail":
        return this.#fail(gate, runtime, execution, next.error);
    }
  }

  #begin(gate: Gate, runtime: CodemodeRuntime) {
    const { code } = gate.request as CodemodeRequest;
    const progress: Progress = { step: "begun", since: this.clock.now() };
    return this.#pass(gate, progress, () =>
      runtime.execute({ code: markedCode(code, gate.gateId) }),
    );
  }

  #approve(
    gate: Gate,
    runtime: CodemodeRuntime,
    execution: ExecutionRecord | undefined,
    { seq }: CallRecord,
  ) {
    const executionId = execution?.id ?? "";
    const since = sinceOf(gate);
    return this.#pass(gate, { step: "approved", since, executionId, seq }, () =>
      runtime.approve({ executionId }),
    );
  }

  /** Notes what is about to be done, makes sure that the note is kept, and does it. */
  async #pass(gate: Gate, progress: Progress, run: () => Promise<PassOutput>): Promise<Came> {
    const pass = (async () => {
      if (!(await this.gates.note(gate.gateId, progress))) return undefined;
      await this.port.sync();
      return run();
    })();
    this.#passes.set(gate.gateId, pass);
    try {
      const output = await pass;
      if (!output) return {};
      return { hasRun: true, ...(output.status === "error" && { refused: output.error }) };
    } finally {
      this.#passes.delete(gate.gateId);
    }
  }

  async #ask(
    gate: Gate,
    progress: Progress | undefined,
    execution: ExecutionRecord | undefined,
    action: CallRecord,
  ) {
    const executionId = execution?.id ?? "";
    const { seq } = action;
    await this.#withdraw(gate, approvalId(executionId, seq));
    const approval = await this.gates.openInside(gate, {
      gateId: approvalId(executionId, seq),
      kind: "approval",
      request: actionRequest(executionId, action),
    });
    // Closed meanwhile, as the next look will find.
    if (!approval) return {};
    const since = progress?.since ?? gate.createdAt;
    const asked: Progress = { step: "asked", since, executionId, seq, askedAt: this.clock.now() };
    await this.gates.note(gate.gateId, asked);
    return approval.status === "open" ? this.#later(asked) : {};
  }

  /** Questions about actions that were decided elsewhere need no answer any more. */
  async #withdraw({ gateId }: Gate, except?: string): Promise<void> {
    for (const inner of await this.gates.inside(gateId)) {
      if (inner.gateId === except) continue;
      const result = { error: "The action was decided elsewhere" };
      await this.gates.close(inner.gateId, { status: "cancelled", result });
    }
  }

  /** The longer it has waited, the longer it can wait: the runtime tells nobody of what is approved elsewhere. */
  #later(progress: Progress | undefined): number {
    const now = this.clock.now();
    const waited = progress?.step === "asked" ? now - progress.askedAt : 0;
    return now + Math.min(Math.max(waited / 2, SOONEST_MS), LATEST_MS);
  }

  async #rejected(
    gate: Gate,
    runtime: CodemodeRuntime,
    execution: ExecutionRecord,
    asked: Gate | undefined,
  ): Promise<null> {
    const { onReject } = gate.request as CodemodeRequest;
    const progress = gate.state as Progress;
    const action =
      progress.step === "begun"
        ? undefined
        : execution.log.find((call) => call?.seq === progress.seq);
    const denial = DENIALS[asked?.status ?? ""] ?? "was rejected elsewhere";
    const undone = onReject === "rollback" ? await undo(runtime, execution.id) : "";
    const what = action ? `${action.connector}.${action.method}` : "An action of the code";
    const error = `${what} ${denial}.${undone}`;
    return this.#close(gate, rejected(error, execution, action, decisionOf(asked?.result)));
  }

  /** What is paused, and cannot go on, is ended. */
  async #fail(
    gate: Gate,
    runtime: CodemodeRuntime,
    execution: ExecutionRecord | undefined,
    error: string,
  ): Promise<null> {
    const action = execution?.status === "paused" ? pendingAction(execution) : undefined;
    if (execution && action) await runtime.reject({ seq: action.seq, executionId: execution.id });
    return this.#close(gate, failed(error, execution));
  }

  async #close({ gateId }: Gate, closing: Closing): Promise<null> {
    try {
      await this.gates.close(gateId, closing);
    } catch (error) {
      if (!(error instanceof InvalidGateError)) throw error;
      const { executionId } = closing.result as { executionId?: string };
      const result = {
        error: error.message,
        failure: "error",
        ...(executionId && { executionId }),
      };
      await this.gates.close(gateId, { status: "failed", result });
    }
    return null;
  }
}

/** What a pass came to, if there was one. */
type Came = { readonly refused?: string | undefined; readonly hasRun?: boolean };

type Scene = {
  readonly gate: Gate;
  readonly runtime: CodemodeRuntime;
  readonly progress: Progress | undefined;
  readonly execution: ExecutionRecord | undefined;
  /** The approval of the action that was asked about. */
  readonly asked?: Gate | undefined;
};

/** The execution of a gate, by what was noted about it. */
export async function executionOf(runtime: CodemodeRuntime, gate: Gate): Promise<Found> {
  const progress = gate.state as Progress;
  const { code } = gate.request as CodemodeRequest;
  const marked = markedCode(code, gate.gateId);
  return findExecution(runtime, progress.since, (execution) =>
    progress.step === "begun" ? execution.code === marked : execution.id === progress.executionId,
  );
}

/** The same for the same action, so that a person is asked once. */
function approvalId(executionId: string, seq: number): string {
  return `${executionId}-${seq}`;
}

function sinceOf({ state, createdAt }: Gate): number {
  return (state as Progress | undefined)?.since ?? createdAt;
}

/** Tried once: a failure is told with the rejection, which must not wait for it. */
async function undo(runtime: CodemodeRuntime, executionId: string): Promise<string> {
  try {
    await runtime.rollback({ executionId });
    return " What had been applied before was rolled back.";
  } catch (error) {
    return ` Rolling back what had been applied before failed: ${error instanceof Error ? error.message : String(error)}.`;
  }
}
