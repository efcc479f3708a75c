/** Points at which a model call or a tool waits for the test, in place of a delay. */

const holds = new Map<string, Hold>();

export type HoldOptions = {
  /**
   * First call that waits. Earlier ones pass.
   * @default 1
   */
  readonly from?: number;
  /**
   * `call`: before the model replies. `reply`: after the first words of its text.
   * @default "call"
   */
  readonly at?: "call" | "reply";
  /**
   * Words of the text that pass.
   * @default 1
   */
  readonly words?: number;
  /** Calls return even when they are aborted, as a library without an abort signal does. */
  readonly ignoresAbort?: boolean;
  /** Called when a call reaches the point. */
  readonly onCall?: () => void;
};

export class Hold {
  /** The id for a script of the model, or for the tool `wait`. */
  readonly id = crypto.randomUUID();
  /** Calls that reached the point, over all attempts. */
  arrived = 0;
  /** Calls that went on after their release. */
  passed = 0;
  #isReleased = false;

  constructor(readonly options: HoldOptions = {}) {
    holds.set(this.id, this);
  }

  release(): void {
    this.#isReleased = true;
  }

  /** @throws the abort reason */
  async pass(signal?: AbortSignal): Promise<void> {
    this.arrived++;
    this.options.onCall?.();
    // A timer of the object's own, because a promise of another object's request may not be awaited.
    while (this.arrived >= (this.options.from ?? 1) && !this.#isReleased) {
      if (!this.options.ignoresAbort) signal?.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    this.passed++;
  }
}

/** The hold with this id, if the test has made one. */
export function findHold(id: string | undefined): Hold | undefined {
  return id === undefined ? undefined : holds.get(id);
}
