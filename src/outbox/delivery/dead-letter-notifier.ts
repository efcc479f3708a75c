/**
 * Tells the app of its dead letters: by an event and by its hook, at once, and
 * again after a crash until it has been told (O3). One after the other, so
 * that a thousand of them do not come at the same time.
 */

import { withTimeout } from "../../core/timeout.ts";
import type { DeadLetters } from "../store/dead-letters.ts";
import type { DeadLetter } from "../types.ts";

/** A hook that takes longer holds up the next letter no further. */
const TIMEOUT_MS = 30_000;

export type NotifierOwner = {
  readonly deadLetters: DeadLetters;
  /** Tells of one. */
  tell(letter: DeadLetter): Promise<void>;
  /** It has been told of. */
  told(letter: DeadLetter): void;
  /** All have been told of. */
  done(): void;
};

export class DeadLetterNotifier {
  #underWay: Promise<void> | undefined;

  constructor(private readonly owner: NotifierOwner) {}

  /** Somebody is still to be told: the object must be woken for it, should it crash. */
  get isUnderWay(): boolean {
    return this.#underWay !== undefined;
  }

  /** What is under way; never rejects. */
  get work(): Promise<void> {
    return this.#underWay ?? Promise.resolve();
  }

  /** Tells of all that the app has not been told of. */
  start(): void {
    if (this.#underWay === undefined && this.#next()) this.#underWay = this.#tellAll();
  }

  async #tellAll(): Promise<void> {
    try {
      // After whatever has just buried one is through with it.
      await Promise.resolve();
      for (let letter = this.#next(); letter; letter = this.#next()) {
        await this.#tell(letter);
        this.owner.told(letter);
      }
      // In one go with the last look, so that nothing is buried in between and passed over.
      this.#underWay = undefined;
      this.owner.done();
    } catch (error) {
      this.#underWay = undefined;
      console.error("[perdure] dead letters are told of at the next wake, because of:", error);
    }
  }

  #next(): DeadLetter | undefined {
    return this.owner.deadLetters.untold();
  }

  /** A hook that fails has been told all the same. */
  async #tell(letter: DeadLetter): Promise<void> {
    try {
      await withTimeout(this.owner.tell(letter), TIMEOUT_MS);
    } catch (error) {
      console.error(`[perdure] onDeadLetter failed for ${letter.id}:`, error);
    }
  }
}
