/** The app's side of the scheduler: calls its functions in the host's context, and reports to its hooks and the log. */

import { failureOf } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { reportProblem } from "../core/problems.ts";
import { emit } from "../engine/events.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import { InvalidTaskError } from "./errors.ts";
import type { Settings } from "./options.ts";
import type { ScheduledRun, Turns } from "./types.ts";

export class App {
  /** The last problem reported of each kind and task since the start: the same one is not reported again. */
  readonly #reported = new Map<string, string>();

  constructor(
    readonly settings: Settings,
    readonly loop: WorkLoop,
    /** Undefined for a scheduler without a host: its tasks have no prompts. */
    readonly turns: Turns | undefined,
  ) {}

  get isSubAgent(): boolean {
    return this.loop.lifecycle.routes.source !== undefined;
  }

  /** Cancels the submission of a prompt, and does not wait for it. */
  cancelPrompt(submissionId: string, reason: string): void {
    this.turns?.cancel(submissionId, reason).catch((error: unknown) => {
      console.error(`[perdure] ${submissionId} could not be cancelled:`, error);
    });
  }

  /** `tasks()` or another function that declares tasks has failed. */
  reportUnreadable(error: unknown): void {
    console.error("[perdure] the scheduled tasks could not be reconciled:", error);
    emit(this.loop.lifecycle, "scheduler:invalid", { error: failureOf(error) });
  }

  /** Reports each invalid task, and options that do not exist, once for each start and problem. */
  reportDeclared(
    valid: Iterable<{ readonly taskId: string; readonly ignored: readonly string[] }>,
    invalid: Iterable<{ readonly taskId: string; readonly error: Error }>,
  ): void {
    for (const { taskId, error } of invalid) {
      if (this.#isNews(`task ${taskId}`, error.message)) this.reportInvalid(taskId, error);
    }
    for (const { taskId, ignored } of valid) {
      const fields = ignored.join(", ");
      if (fields === "" || !this.#isNews(`task ${taskId}`, fields)) continue;
      const what = `the scheduled task ${JSON.stringify(taskId)} has unknown options`;
      console.warn(`[perdure] ${what}, which are ignored: ${fields}.`);
    }
  }

  #isNews(subject: string, problem: string): boolean {
    const isNews = this.#reported.get(subject) !== problem;
    this.#reported.set(subject, problem);
    return isNews;
  }

  reportInvalid(taskId: string, error: unknown): void {
    console.error(`[perdure] the scheduled task ${preview(taskId)} is not armed:`, error);
    const failure = failureOf(error);
    emit(this.loop.lifecycle, "scheduler:invalid", { taskId, error: failure });
    const invalid = new InvalidTaskError(taskId, failure.message, { cause: error });
    this.#callHook("onInvalid", taskId, async () => this.settings.onInvalid?.(invalid));
  }

  /** @param isPaused whether this failure has paused the task */
  reportFailed(run: ScheduledRun, error: unknown, isPaused: boolean): void {
    const { taskId, idempotencyKey, attempts } = run;
    const failed = { taskId, idempotencyKey, attempts, error: failureOf(error) };
    emit(this.loop.lifecycle, "scheduler:failed", failed);
    const what = `the scheduled task ${JSON.stringify(taskId)} has failed${isPaused ? ", and is paused" : ""}`;
    console.error(`[perdure] ${what} (attempt ${attempts}):`, error);
    this.#callHook("onFailure", taskId, async () => this.settings.onFailure?.(error, run));
  }

  /** An occurrence is skipped because the queue of its task is full. Reported once for each task. */
  reportFull(taskId: string, reason: string): void {
    if (!this.#isNews(`queue of ${taskId}`, "full")) return;
    const message = `An occurrence is skipped: ${reason}`;
    const problem = { type: "scheduler:full", level: "warn", message, ids: { taskId } } as const;
    reportProblem(this.settings.onProblem, problem, this.loop.inHostContext);
  }

  /** Open runs are deleted, because their task is omitted for too long, or too many are. */
  reportDropped(taskId: string, count: number): void {
    const what = `${count} open runs of a task that is no longer declared are deleted`;
    const message = `${what}: tasks are kept for a year, up to 1,000 of them.`;
    const ids = { taskId, count };
    const problem = { type: "scheduler:dropped", level: "warn", message, ids } as const;
    reportProblem(this.settings.onProblem, problem, this.loop.inHostContext);
  }

  warnOfNoOccurrence(taskId: string): void {
    const what = `the scheduled task ${JSON.stringify(taskId)}`;
    console.warn(`[perdure] ${what} has no occurrence from now on.`);
  }

  /** @param count how many tasks a sub-agent declares, and does not run */
  warnOfScope(count: number): void {
    if (count === 0 || !this.#isNews("scope", "root")) return;
    console.warn(
      `[perdure] this sub-agent declares ${count} scheduled tasks, which run in the root agent only. ` +
        'Return "all" from getScheduledTasksScope() to run them here.',
    );
  }

  #callHook(hook: "onFailure" | "onInvalid", taskId: string, work: () => Promise<void>): void {
    this.loop.inHostContext(work).catch((thrown: unknown) => {
      console.error(`[perdure] ${hook} failed for ${JSON.stringify(taskId)}:`, thrown);
    });
  }
}
