/** One stream of events: what has changed since it was last sent something, and its waits for more. */

import type { FollowEvent } from "./events.ts";
import type { ThreadPosition } from "./thread-position.ts";

/** Null is a sign of life. */
export type Events = AsyncGenerator<FollowEvent | null, void>;

/** Submissions of a thread that have changed since then. */
const MOST_CHANGED = 1_000;

export class Follower {
  /** Submissions that have changed: their status, or only their reply. */
  readonly #changed = new Map<string, "status" | "reply">();
  isClosed = false;
  #isBehind = false;
  #wake: (() => void) | undefined;
  #taken = new Map<string, "status" | "reply">();

  constructor(
    readonly isFor: (turn: { readonly submissionId: string; readonly thread: string }) => boolean,
    readonly approvalId?: string,
  ) {}

  changed(id: string, what: "status" | "reply" = "status"): void {
    if (this.#changed.size >= MOST_CHANGED && !this.#changed.has(id)) this.#isBehind = true;
    else if (this.#changed.get(id) !== "status") this.#changed.set(id, what);
    this.#wake?.();
  }

  close(): void {
    this.isClosed = true;
    this.#wake?.();
  }

  /** The ids that have changed since the last call. */
  take(): readonly string[] {
    this.#taken = new Map(this.#changed);
    this.#changed.clear();
    return [...this.#taken.keys()];
  }

  /** Whether more than replies has changed, or the reply of a submission that was not sent yet. */
  hasStatus(position: ThreadPosition): boolean {
    return [...this.#changed].some(
      ([id, what]) => what === "status" || position.seen(id)?.status === undefined,
    );
  }

  /** Whether only its reply has changed, as far as the follower knows. */
  onlyReply(id: string): boolean {
    return this.#taken.get(id) === "reply";
  }

  /**
   * Waits until something has changed, or it is closed.
   *
   * @returns a sign of life after `aliveMs`
   * @throws Error when too much has changed: the caller follows again
   */
  async *wait(aliveMs: number): Events {
    if (this.#changed.size === 0 && !this.isClosed) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        timer = setTimeout(resolve, aliveMs);
      });
      clearTimeout(timer);
      this.#wake = undefined;
    }
    if (this.#isBehind) {
      throw new Error(
        `More than ${MOST_CHANGED} submissions have changed since the last event. Follow again.`,
      );
    }
    if (this.#changed.size === 0 && !this.isClosed) yield null;
  }
}
