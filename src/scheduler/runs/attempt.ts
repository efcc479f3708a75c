/** What one attempt does: it calls the handler, or submits the prompt. Stores nothing. */

import { RunCancelledError, RunTimeoutError } from "../errors.ts";
import { idempotencyKeyOf, occurrenceKeyOf } from "../keys.ts";
import type { Run } from "../rows.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import type { PromptPort, ScheduledTaskContext } from "../types.ts";

/** One attempt that is about to begin. */
export type Attempt = {
  readonly task: DeclaredTask;
  readonly run: Run;
  readonly owner: string;
  /** Of this attempt alone. */
  readonly abort: AbortController;
};

export type ActionHost = {
  readonly prompts: PromptPort | undefined;
  readonly inHostContext: <T>(work: () => Promise<T>) => Promise<T>;
};

/**
 * Resolves when the attempt is over: with the submission of a prompt, whose
 * end is still to come, or with undefined.
 *
 * @throws RunTimeoutError when it takes longer than the task's `timeout`, and what user code throws
 */
export function perform(attempt: Attempt, host: ActionHost): Promise<string | undefined> {
  const { task, abort } = attempt;
  const { handler } = task.action;
  const work = handler
    ? host.inHostContext(async () => {
        await handler(contextOf(attempt));
        return undefined;
      })
    : submit(attempt, host);
  return inTime(work, task, abort);
}

async function submit(
  { task, run, owner, abort }: Attempt,
  { prompts, inHostContext }: ActionHost,
): Promise<string> {
  if (!prompts) throw new Error("The scheduler has no port for prompts");
  const { prompt } = task.action;
  const text = typeof prompt === "function" ? await inHostContext(async () => prompt()) : prompt;
  if (typeof text !== "string" || text.trim() === "") {
    throw new TypeError(`The prompt of ${JSON.stringify(task.taskId)} is not a text, or empty.`);
  }
  const { submissionId } = await prompts.submit(text, {
    idempotencyKey: idempotencyKeyOf(owner, run),
    metadata: {
      ...task.metadata,
      source: "scheduled-task",
      ownerKey: owner,
      taskId: task.taskId,
      scheduledFor: run.slot,
      schedule: task.schedule.text,
    },
    ...(task.retry && { retry: task.retry }),
  });
  // Cancelled in the meantime, when nobody knew of the submission yet.
  const { reason } = abort.signal;
  if (reason instanceof RunCancelledError) cancelPrompt(prompts, submissionId, reason.message);
  return submissionId;
}

/** Tells the host that nobody wants the turn any more; nothing waits for it. */
export function cancelPrompt(
  prompts: PromptPort | undefined,
  submissionId: string,
  reason: string,
): void {
  Promise.resolve(submissionId)
    .then((id) => prompts?.cancel(id, reason))
    .catch((error: unknown) => {
      console.error(`[perdure] ${submissionId} could not be cancelled:`, error);
    });
}

function contextOf({ task, run, owner, abort }: Attempt): ScheduledTaskContext {
  const { schedule, metadata, taskId } = task;
  const { kind, timezone } = schedule;
  const idempotencyKey = idempotencyKeyOf(owner, run);
  return {
    taskId,
    scheduledFor: run.slot,
    scheduledForDate: new Date(run.slot),
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

/** The same promise, or a rejection and an aborted signal when it takes too long or the run is cancelled. */
async function inTime<T>(
  work: Promise<T>,
  { taskId, timeoutMs }: DeclaredTask,
  abort: AbortController,
): Promise<T> {
  const stopped = new Promise<never>((_, reject) => {
    const stop = () => reject(abort.signal.reason);
    if (abort.signal.aborted) stop();
    else abort.signal.addEventListener("abort", stop, { once: true });
  });
  const timer = setTimeout(() => abort.abort(new RunTimeoutError(taskId, timeoutMs)), timeoutMs);
  try {
    return await Promise.race([work, stopped]);
  } finally {
    clearTimeout(timer);
  }
}
