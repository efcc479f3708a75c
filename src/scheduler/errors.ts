/** What the scheduler refuses, and how runs end badly. */

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
    const there = known.length > 0 ? [...some, ...rest].join(", ") : "none";
    super(`No scheduled task ${preview(taskId)} is declared; there are: ${there}.`);
  }
}

/** A declaration that cannot be understood, where a task of that id is needed. */
export class InvalidTaskError extends Error {
  override readonly name = "InvalidTaskError";
  constructor(
    readonly taskId: string,
    readonly problem: string,
    options?: ErrorOptions,
  ) {
    super(`The scheduled task ${preview(taskId)} is invalid: ${problem}`, options);
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
      `The handler of ${JSON.stringify(taskId)} took longer than ${timeoutMs} ms. Let it heed \`signal\`, hand long work to a Workflow, or set \`timeout\`.`,
    );
  }
}

/** The object did not survive the last attempt. */
export class RunInterruptedError extends Error {
  override readonly name = "RunInterruptedError";
  constructor(
    readonly taskId: string,
    readonly attempts: number,
  ) {
    super(
      `The object ended in the middle of attempt ${attempts} of ${JSON.stringify(taskId)}, its last. Raise \`retry.maxAttempts\` if its work is safe to repeat.`,
    );
  }
}

/** The reason of the signal when a run is cancelled. */
export class RunCancelledError extends Error {
  override readonly name = "RunCancelledError";
}

/** The host does not know the submission of a prompt any more. */
export class PromptLostError extends Error {
  override readonly name = "PromptLostError";
  constructor(readonly submissionId: string) {
    super(
      `The submission ${submissionId} is not known any more, so its end is not either. Keep submissions longer than their turns take.`,
    );
  }
}
