/** One attempt of a run: calls the handler, or submits the prompt. Stores nothing. */

import type { UIMessage } from "ai";
import { unlessAborted } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import type { IntakeResult } from "../../submissions/turns/turn-engine.ts";
import type { App } from "../app.ts";
import { RunTimeoutError } from "../errors.ts";
import { idempotencyKeyOf, occurrenceKeyOf } from "../keys.ts";
import type { Run } from "../rows.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import type { ScheduledTaskContext } from "../types.ts";

/** An attempt that is about to start. */
export type Attempt = {
  readonly task: DeclaredTask;
  readonly run: Run;
  readonly owner: string;
  /** Of this attempt alone. */
  readonly abort: AbortController;
  /** Stores the submission of a prompt with the run, in the transaction that accepts it. Throws where the run has ended. */
  readonly submitted: (submissionId: string) => void;
};

/**
 * Resolves when the handler has ended, or the prompt's submission is accepted.
 *
 * @throws RunTimeoutError after the task's `timeout`, the signal's reason when the run is cancelled, and what user code throws
 */
export async function perform(attempt: Attempt, app: App): Promise<void> {
  const { task, abort } = attempt;
  const { handler } = task.action;
  const work = handler
    ? app.loop.inHostContext(async () => handler(contextOf(attempt)))
    : submit(attempt, app);
  const { taskId, timeoutMs } = task;
  const timer = setTimeout(() => abort.abort(new RunTimeoutError(taskId, timeoutMs)), timeoutMs);
  try {
    await unlessAborted(work, abort.signal);
  } finally {
    clearTimeout(timer);
  }
}

async function submit({ task, run, owner, submitted }: Attempt, app: App): Promise<void> {
  const { turns } = app;
  if (!turns) throw new Error("A Scheduler without a host runs no prompts");
  const { prompt, owner: own } = task.action;
  const text =
    typeof prompt === "function" ? await app.loop.inHostContext(async () => prompt()) : prompt;
  if (typeof text !== "string" || text.trim() === "") {
    const name = `the scheduled task ${JSON.stringify(task.taskId)}`;
    throw new TypeError(`Invalid prompt ${preview(text)} of ${name}: expected a non-empty string.`);
  }
  const idempotencyKey = idempotencyKeyOf(owner, run);
  const metadata = {
    ...task.metadata,
    source: "scheduled-task",
    ownerKey: owner,
    taskId: task.taskId,
    scheduledFor: run.occurrence,
    schedule: task.schedule.text,
  };
  // The ledger has no value for "no limit".
  const maxAttempts =
    task.retry?.maxAttempts && Math.min(task.retry.maxAttempts, Number.MAX_SAFE_INTEGER);
  const retry = maxAttempts && { retry: { maxAttempts } };
  const options = { ...own, idempotencyKey, metadata, ...retry };
  // The id is the same in each attempt, so that a repeated submission has the same message.
  const message: UIMessage = { id: idempotencyKey, role: "user", parts: [{ type: "text", text }] };
  await turns.accept([{ messages: [message], options }], ([taken]) =>
    submitted((taken as IntakeResult).submission.submissionId),
  );
}

function contextOf({ task, run, owner, abort }: Attempt): ScheduledTaskContext {
  const { schedule, metadata, taskId } = task;
  const { kind, timezone } = schedule;
  const idempotencyKey = idempotencyKeyOf(owner, run);
  return {
    taskId,
    scheduledFor: run.occurrence,
    scheduledForDate: new Date(run.occurrence),
    occurrenceKey: occurrenceKeyOf(run),
    idempotencyKey,
    schedule: schedule.text,
    scheduleKind: kind,
    ...(kind === "wall-clock" && timezone !== undefined && { timezone }),
    ...(metadata && { metadata }),
    attempt: run.attempts,
    signal: abort.signal,
    instanceId: idempotencyKey,
    cause: run.cause,
  };
}
