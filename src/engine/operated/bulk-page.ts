/** The items of one call of an action on all that a filter selects. */

import { preview } from "../../core/json.ts";
import { done, type Effect, messageOf, UNCHANGED } from "./effect.ts";

export type { Rows } from "./effect.ts";

/** Items of one call. */
export const PAGE = 100;
/** No further item is begun after this time: what calls the agent has a time limit. */
const PAGE_MS = 5_000;

export class BulkPage {
  count = 0;
  readonly failed: { id: string; error: string }[] = [];
  readonly #until: number;

  constructor(private readonly clock: { now(): number }) {
    this.#until = clock.now() + PAGE_MS;
  }

  get isOver(): boolean {
    return this.clock.now() >= this.#until;
  }

  /** Works on one item. An error is that of the item, and the page continues. */
  async item(id: string, work: () => Promise<boolean>): Promise<void> {
    try {
      if (await work()) this.count++;
    } catch (error) {
      this.failed.push({ id, error: messageOf(error) });
    }
  }

  effect(cursor: string | undefined): Effect {
    const { count, failed } = this;
    const [first] = failed;
    const next = cursor !== undefined && { cursor };
    if (!first) return { ...(count > 0 ? done(count) : UNCHANGED), ...next };
    const error = `${failed.length} failed. The first one: ${preview(first.id)}: ${first.error}`;
    const outcome = count > 0 ? "done" : "failed";
    return { outcome, count, failed: failed.slice(0, PAGE), error, ...next };
  }
}
