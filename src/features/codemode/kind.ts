/**
 * The kind `codemode`, for `runCode()`: runs code in the agent's Code Mode runtime, asks a person about each action that needs
 * an approval, and closes the wait with the outcome. The runtime's record is the truth; the stored progress only says what was about
 * to happen before a restart. `decide.ts` has the table of states.
 */

import { type Clock, systemClock } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { InvalidWaitError } from "../../workflow/waits/errors.ts";
import type { Closing, StoredKind, Wait } from "../../workflow/waits/protocol.ts";
import type { Waits } from "../../workflow/waits/waits.ts";
import { type Action, decide } from "./decide.ts";
import {
  actionRequest,
  completed,
  decisionOf,
  failed,
  interrupted,
  pendingAction,
  rejected,
} from "./outcome.ts";
import { type Found, findExecution, markedCode, markOf } from "./records.ts";
import type {
  CallRecord,
  CodemodePort,
  CodemodeRequest,
  CodemodeRuntime,
  ExecutionRecord,
  PassOutput,
  Progress,
} from "./types.ts";

/** Between looks whether an action was approved elsewhere. */
const SOONEST_MS = 60_000;
const LATEST_MS = 6 * 3_600_000;

/** How long an agent without a runtime tries to stop what it began. */
const GIVE_UP_MS = 86_400_000;

export class Codemode implements StoredKind {
  /** Running passes, by wait. */
  readonly #passes = new Map<string, Promise<PassOutput | undefined>>();

  constructor(
    private readonly waits: Waits,
    private readonly port: CodemodePort,
    private readonly clock: Clock = systemClock,
  ) {}

  /** A result answers later runs; a failed execution is run again. */
  answersLaterRuns({ status }: Wait): boolean {
    return status === "completed";
  }

  async drive({ waitId }: Wait): Promise<number | null> {
    let came: Came = {};
    for (;;) {
      const wait = this.waits.find(waitId);
      if (wait?.status !== "open") return null;
      const runtime = await this.#runtimeFor(wait);
      if (!runtime) return null;
      const { refused, hasRun = false } = came;
      const found = await this.#look(runtime, wait);
      const situation = { ...found, refused, hasRun, now: this.clock.now() };
      const next = await this.#perform(decide(situation), { wait, runtime, ...situation });
      if (next === null || typeof next === "number") return next;
      came = { ...next, hasRun: hasRun || next.hasRun === true };
    }
  }

  /** Rejects a paused action, so that the execution ends; waits for a running pass, which cannot be stopped. */
  async stop(wait: Wait): Promise<void> {
    // How it ended is read from its record.
    await this.#passes.get(wait.waitId)?.catch(() => undefined);
    try {
      await this.#end(wait.waitId);
    } catch (error) {
      const since = wait.settledAt ?? wait.createdAt;
      if (this.clock.now() - since < GIVE_UP_MS) throw error;
      console.error("[perdure] code of a closed wait could not be stopped:", error);
    }
  }

  async #end(waitId: string): Promise<void> {
    const wait = this.waits.find(waitId);
    if (wait?.state === undefined) return;
    const runtime = await this.port.runtime();
    const { execution } = await executionOf(runtime, wait);
    await rejectPaused(runtime, execution);
  }

  async #runtimeFor(wait: Wait): Promise<CodemodeRuntime | undefined> {
    try {
      return await this.port.runtime();
    } catch (error) {
      // Once something has begun, its end is worth another try.
      if (wait.state !== undefined) throw error;
      await this.#close(wait, failed(failureOf(error).message, undefined, "unavailable"));
      return undefined;
    }
  }

  async #look(runtime: CodemodeRuntime, wait: Wait) {
    const progress = wait.state as Progress | undefined;
    if (!progress) {
      return { progress, execution: undefined, mayBeForgotten: false, approval: undefined };
    }
    const found = await executionOf(runtime, wait);
    const asked =
      progress.step === "asked"
        ? this.waits.findByKey(approvalKey(progress.executionId, progress.seq))
        : undefined;
    return { progress, ...found, approval: asked?.status, asked };
  }

  /** Returns when to look again, or what a pass came to: then the execution is looked at once more. */
  async #perform(
    next: Action,
    { wait, runtime, progress, execution, asked }: Scene,
  ): Promise<number | null | Came> {
    switch (next.do) {
      case "execute":
        if (next.forget !== undefined) await runtime.deleteExecution(next.forget);
        return this.#execute(wait, runtime);
      case "ask":
        return this.#ask(wait, next.execution.id, next.action);
      case "wait":
        return this.#later(progress);
      case "approve":
        return this.#approve(wait, runtime, next.execution.id, next.action);
      case "reject":
        await runtime.reject({ seq: next.action.seq, executionId: next.execution.id });
        return {};
      case "complete":
        return this.#close(wait, completed(next.execution));
      case "interrupted":
        return this.#close(wait, interrupted(next.execution));
      case "rejected":
        return this.#rejected(wait, runtime, next.execution, asked);
      case "fail":
        await rejectPaused(runtime, execution);
        return this.#close(wait, failed(next.error, execution));
    }
  }

  #execute(wait: Wait, runtime: CodemodeRuntime) {
    const { code } = wait.request as CodemodeRequest;
    const progress: Progress = { step: "begun", since: this.clock.now() };
    return this.#pass(wait, progress, () =>
      runtime.execute({ code: markedCode(code, wait.waitId) }),
    );
  }

  #approve(wait: Wait, runtime: CodemodeRuntime, executionId: string, { seq }: CallRecord) {
    const since = sinceOf(wait);
    return this.#pass(wait, { step: "approved", since, executionId, seq }, () =>
      runtime.approve({ executionId }),
    );
  }

  /** Stores the progress durably, and runs the pass. */
  async #pass(wait: Wait, progress: Progress, run: () => Promise<PassOutput>): Promise<Came> {
    const pass = (async () => {
      if (!this.waits.note(wait.waitId, progress)) return undefined;
      await this.port.sync();
      return run();
    })();
    this.#passes.set(wait.waitId, pass);
    try {
      const output = await pass;
      if (!output) return {};
      return { hasRun: true, ...(output.status === "error" && { refused: output.error }) };
    } finally {
      this.#passes.delete(wait.waitId);
    }
  }

  async #ask(wait: Wait, executionId: string, action: CallRecord): Promise<number | Came> {
    const { seq } = action;
    const key = approvalKey(executionId, seq);
    await this.#withdraw(wait, this.waits.findByKey(key));
    const request = actionRequest(executionId, action);
    const approval = await this.waits.openInside(wait, { key, kind: "approval", request });
    // Closed meanwhile, as the next look will find.
    if (!approval) return {};
    const since = sinceOf(wait);
    const asked: Progress = { step: "asked", since, executionId, seq, askedAt: this.clock.now() };
    this.waits.note(wait.waitId, asked);
    return approval.status === "open" ? this.#later(asked) : {};
  }

  /** Cancels the approvals of actions that were decided elsewhere. */
  async #withdraw({ waitId }: Wait, except: Wait | undefined): Promise<void> {
    for (const inner of this.waits.store.inside(waitId)) {
      if (inner.id === except?.waitId) continue;
      const result = { error: "The action was decided elsewhere" };
      await this.waits.settle(inner.id, { status: "cancelled", result });
    }
  }

  /** At growing intervals: the runtime does not report what is approved elsewhere. */
  #later(progress: Progress | undefined): number {
    const now = this.clock.now();
    const waited = progress?.step === "asked" ? now - progress.askedAt : 0;
    return now + Math.min(Math.max(waited / 2, SOONEST_MS), LATEST_MS);
  }

  async #rejected(
    wait: Wait,
    runtime: CodemodeRuntime,
    execution: ExecutionRecord,
    asked: Wait | undefined,
  ): Promise<null> {
    const { onReject } = wait.request as CodemodeRequest;
    const progress = wait.state as Progress;
    const action =
      progress.step === "begun"
        ? undefined
        : execution.log.find((call) => call?.seq === progress.seq);
    const { status = "rejected elsewhere" } = asked ?? {};
    const denial = status === "expired" ? "was not decided in time" : `was ${status}`;
    const undone = onReject === "rollback" ? await undo(runtime, execution.id) : "";
    const what = action ? `${action.connector}.${action.method}` : "An action of the code";
    const error = `${what} ${denial}.${undone}`;
    return this.#close(wait, rejected(error, execution, action, decisionOf(asked?.result)));
  }

  async #close({ waitId }: Wait, closing: Closing): Promise<null> {
    try {
      await this.waits.settle(waitId, closing);
    } catch (error) {
      if (!(error instanceof InvalidWaitError)) throw error;
      const { executionId } = closing.result as { executionId?: string };
      const known = executionId && { executionId };
      const result = { error: error.message, failure: "error", ...known };
      await this.waits.settle(waitId, { status: "failed", result });
    }
    return null;
  }
}

/** The outcome of a pass, if there was one. */
type Came = { readonly refused?: string | undefined; readonly hasRun?: boolean };

type Scene = {
  readonly wait: Wait;
  readonly runtime: CodemodeRuntime;
  readonly progress: Progress | undefined;
  readonly execution: ExecutionRecord | undefined;
  /** The approval of the action that was asked about. */
  readonly asked?: Wait | undefined;
};

/** The execution of a wait, by what was noted about it. */
export async function executionOf(runtime: CodemodeRuntime, wait: Wait): Promise<Found> {
  const progress = wait.state as Progress;
  const mark = markOf(wait.waitId);
  return findExecution(runtime, progress.since, (execution) =>
    progress.step === "begun"
      ? execution.code.includes(mark)
      : execution.id === progress.executionId,
  );
}

/** A key that each repetition of an action has, so that a person is asked once. */
function approvalKey(executionId: string, seq: number): string {
  return `${executionId}-${seq}`;
}

/** So that the execution ends. */
async function rejectPaused(
  runtime: CodemodeRuntime,
  execution: ExecutionRecord | undefined,
): Promise<void> {
  const action = execution?.status === "paused" ? pendingAction(execution) : undefined;
  if (execution && action) await runtime.reject({ seq: action.seq, executionId: execution.id });
}

function sinceOf({ state, createdAt }: Wait): number {
  return (state as Progress | undefined)?.since ?? createdAt;
}

/** Tried once: the rejection reports a failure, and does not wait for it. */
async function undo(runtime: CodemodeRuntime, executionId: string): Promise<string> {
  try {
    await runtime.rollback({ executionId });
    return " What had been applied before was rolled back.";
  } catch (error) {
    return ` Rolling back what had been applied before failed: ${failureOf(error).message}.`;
  }
}
