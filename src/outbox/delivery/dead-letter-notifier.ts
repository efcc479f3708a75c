/**
 * Notifies the app of its dead letters, one after the other, at least once each: at once, and again after a crash until
 * the notification was recorded.
 */

import { withTimeout } from "../../core/clock.ts";
import { HEARTBEAT_MS, type WorkLoop } from "../../engine/work-loop.ts";
import type { EndedStore } from "../store/ended.ts";
import type { DeadLetter } from "../types.ts";
import type { Reports } from "./reports.ts";

/** A slower hook does not delay the next dead letter further. */
const HOOK_TIMEOUT_MS = 30_000;

export class DeadLetterNotifier {
  isRunning = false;

  /** @param onDone called when no dead letter is left to notify */
  constructor(
    private readonly loop: WorkLoop,
    private readonly ended: EndedStore,
    private readonly reports: Reports,
    private readonly onDone: () => void,
  ) {}

  /** An entry became a dead letter: notifies now, and after a crash in the next object instance. */
  added(): void {
    this.loop.wake.request(this.loop.clock.now() + HEARTBEAT_MS);
    this.start();
  }

  /** Notifies of all dead letters that were not notified yet. */
  start(): void {
    if (this.isRunning || !this.#next()) return;
    this.isRunning = true;
    this.loop.track(this, this.#notifyAll());
  }

  async #notifyAll(): Promise<void> {
    try {
      // After the code that has just added one.
      await Promise.resolve();
      for (let letter = this.#next(); letter; letter = this.#next()) {
        await this.#notify(letter);
        this.ended.notified(letter);
        this.ended.prune(this.loop.clock.now(), false);
      }
      // No await since the last read: none can be added in between and be missed.
      this.isRunning = false;
      this.onDone();
    } catch (error) {
      this.isRunning = false;
      console.error("[perdure] dead letters are notified at the next wake, because of:", error);
    }
  }

  #next(): DeadLetter | undefined {
    return this.ended.nextToNotify();
  }

  /** A hook that fails counts as notified. */
  async #notify(letter: DeadLetter): Promise<void> {
    try {
      await withTimeout(this.reports.dead(letter), HOOK_TIMEOUT_MS);
    } catch (error) {
      console.error(`[perdure] onDeadLetter failed for ${letter.id}:`, error);
    }
  }
}
