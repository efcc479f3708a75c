/** What a Think agent offers about its scheduled tasks. */

import type { Instant } from "../../core/instant.ts";
import type { ScheduledRun, ScheduledTaskInfo } from "../../scheduler/index.ts";
import { ThinkDeliveries } from "./think-deliveries.ts";
import { CAPABILITIES } from "./think-rooms.ts";

export class ThinkSchedules<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkDeliveries<Env, State, Props> {
  /** Reads `getScheduledTasks()` again, after what it reads has changed (S4). It happens by itself at each start. */
  override internal_reconcileScheduledTasks(): Promise<void> {
    return this[CAPABILITIES].scheduler.reconcile();
  }

  /** The declared tasks: when they run next, how their runs ended, what is wrong with them (S4, S5). */
  listScheduledTasks(options?: { occurrences?: number }): Promise<ScheduledTaskInfo[]> {
    return this[CAPABILITIES].scheduler.list(options);
  }

  /** One task, or null for an id that is not declared (S5). */
  inspectScheduledTask(
    taskId: string,
    options?: { occurrences?: number },
  ): Promise<ScheduledTaskInfo | null> {
    return this[CAPABILITIES].scheduler.inspect(taskId, options);
  }

  /** Runs of a task, newest first (S5). */
  listScheduledRuns(
    taskId: string,
    options?: { limit?: number; before?: Instant },
  ): Promise<ScheduledRun[]> {
    return this[CAPABILITIES].scheduler.runs(taskId, options);
  }

  /** Keeps a task from firing until it is resumed; the note says why (S5). */
  pauseScheduledTask(taskId: string, note?: string): Promise<void> {
    return this[CAPABILITIES].scheduler.pause(taskId, note);
  }

  /** Goes on with a paused task at its first occurrence after now (S5). */
  resumeScheduledTask(taskId: string): Promise<void> {
    return this[CAPABILITIES].scheduler.resume(taskId);
  }

  /** Runs a task now, also while it is paused; the same key again is the same run (S5). */
  triggerScheduledTask(taskId: string, options?: { key?: string }): Promise<ScheduledRun> {
    return this[CAPABILITIES].scheduler.trigger(taskId, options);
  }

  /** Runs the occurrences of a time that has passed, but for those that have run (S5). */
  backfillScheduledTask(
    taskId: string,
    range: { from: Instant; to: Instant },
  ): Promise<{ queued: number; alreadyRun: number }> {
    return this[CAPABILITIES].scheduler.backfill(taskId, range);
  }

  /** Leaves out the next occurrence of a task, and returns when it would have been (S5). */
  skipNextScheduledRun(taskId: string): Promise<number | null> {
    return this[CAPABILITIES].scheduler.skipNext(taskId);
  }
}
