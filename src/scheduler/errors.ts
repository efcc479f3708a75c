/** The errors of the scheduler's methods and of failed runs. */

import { preview } from "../core/json.ts";

/** No task of that id is declared. */
export class UnknownTaskError extends Error {
  override readonly name = "UnknownTaskError";
  constructor(
    readonly taskId: unknown,
    readonly known: readonly string[],
  ) {
    const some = known.slice(0, 20).map((id) => preview(id));
    const rest = known.length > some.length ? [`and ${known.length - some.length} more`] : [];
    const declared = known.length > 0 ? [...some, ...rest].join(", ") : "none";
    super(`Unknown scheduled task ${preview(taskId)}. Declared tasks: ${declared}.`);
  }
}

/** The declaration of the task is invalid. */
export class InvalidTaskError extends Error {
  override readonly name = "InvalidTaskError";
  constructor(
    readonly taskId: string,
    readonly problem: string,
    options?: ErrorOptions,
  ) {
    super(`Invalid scheduled task ${preview(taskId)}: ${problem}`, options);
  }
}

/** An attempt took longer than the task's `timeout`. */
export class RunTimeoutError extends Error {
  override readonly name = "RunTimeoutError";
  constructor(
    readonly taskId: string,
    readonly timeoutMs: number,
  ) {
    super(
      `The handler of ${JSON.stringify(taskId)} took longer than its timeout of ${timeoutMs} ms. Use \`signal\`, start a Workflow for long work, or raise \`timeout\`.`,
    );
  }
}

/** The object went down during the last attempt. */
export class RunInterruptedError extends Error {
  override readonly name = "RunInterruptedError";
  constructor(
    readonly taskId: string,
    readonly attempts: number,
  ) {
    super(
      `The object went down during attempt ${attempts} of ${JSON.stringify(taskId)}, its last. Raise \`retry.maxAttempts\` if its work is safe to repeat.`,
    );
  }
}

/** The signal's reason when a run is cancelled. */
export class RunCancelledError extends Error {
  override readonly name = "RunCancelledError";
}

/** The host no longer knows the submission of a prompt. */
export class PromptLostError extends Error {
  override readonly name = "PromptLostError";
  constructor(readonly submissionId: string) {
    super(
      `The submission ${submissionId} is no longer stored, so the end of its prompt is unknown. Keep submissions longer than turns take.`,
    );
  }
}
