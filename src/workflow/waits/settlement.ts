/** Closes waits: the end and its event commit together, and what follows in memory comes after the transaction. */

import { emit } from "../../engine/events.ts";
import { HEARTBEAT_MS, type WorkLoop } from "../../engine/work-loop.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Driver } from "./driver.ts";
import { checkClosing } from "./errors.ts";
import type { Closing, Ending, Wait } from "./protocol.ts";
import { reportOf } from "./reports.ts";
import type { WaitStore } from "./store.ts";

/** Closes a wait inside a wait that was closed. */
const PARENT_CLOSED: Closing = {
  status: "cancelled",
  result: { error: "What it was for has ended" },
};

type Settling = {
  /** From outside: the workflow needs no event, and what runs for the wait must be stopped. */
  readonly isForced: boolean;
  readonly now: number;
};

export class Settlement {
  /** @param store opened at its first use */
  constructor(
    private readonly loop: WorkLoop,
    private readonly outbox: Outbox,
    private readonly driver: Driver,
    private readonly store: () => WaitStore,
  ) {}

  /**
   * The end, and its entry in the outbox, or the waking of the wait that it is inside of, commit together.
   *
   * @returns the wait; undefined if it was closed before
   */
  settle(waitId: string, closing: Closing, { isForced }: { isForced: boolean }): Wait | undefined {
    checkClosing(closing);
    const rest = { isForced, now: this.loop.clock.now() };
    const all = this.store().transaction(() => this.#closeAndReport(waitId, closing, rest));
    if (all.length > 0) this.#settled(all, rest);
    return all[0];
  }

  /**
   * {@link settle} in the caller's synchronous transaction, which may be rolled back. The event is sent after the caller's
   * synchronous code.
   */
  settleWithin(waitId: string, ending: Ending): Wait | undefined {
    checkClosing(ending.closing);
    const rest = { isForced: false, now: this.loop.clock.now() };
    const all = this.store().transaction(() => this.closeBy(waitId, ending, rest));
    if (all.length === 0) return undefined;
    queueMicrotask(() =>
      this.loop.tryOrPause(waitId, "a wait that was closed could not be announced", () => {
        const isCommitted = this.store().find(waitId)?.settledAt !== undefined;
        if (isCommitted) this.#settled(all, rest);
      }),
    );
    return all[0];
  }

  /** Closes the wait and the waits inside it, and stores what has ended it. Call it in a transaction. */
  closeBy(waitId: string, { closing, answeredBy }: Ending, rest: Settling): Wait[] {
    const all = this.#closeAndReport(waitId, closing, rest);
    if (all.length > 0) this.store().answeredBy(waitId, answeredBy);
    return all;
  }

  #closeAndReport(waitId: string, closing: Closing, { isForced, now }: Settling): Wait[] {
    const closed = this.#closeAll(waitId, closing, { isForced, now });
    const [wait] = closed;
    if (wait?.parent !== undefined) this.store().wakeAt(wait.parent, now);
    else if (wait && !isForced) {
      const { destination, event } = reportOf(wait, closing, now);
      this.outbox.enqueue(crypto.randomUUID(), destination, event);
    }
    return closed;
  }

  #closeAll(waitId: string, closing: Closing, { isForced, now }: Settling): Wait[] {
    const store = this.store();
    const open = store.find(waitId);
    const hasToStop = isForced && open && this.driver.kindOf(open).stop !== undefined;
    const wait = store.close(waitId, closing, { now, isDone: !hasToStop });
    if (!wait) return [];
    const inside = store.inside(waitId);
    return [
      wait,
      ...inside.flatMap((inner) =>
        this.#closeAll(inner.waitId, PARENT_CLOSED, { isForced: true, now }),
      ),
    ];
  }

  #settled(all: readonly Wait[], { isForced, now }: Settling): void {
    for (const wait of all) {
      this.announce(wait);
      if (wait.isLive) this.drive(wait);
    }
    const inside = all[0]?.parent;
    const parent = inside === undefined ? undefined : this.store().find(inside);
    if (parent?.status === "open") this.drive(parent);
    // The wake that waits for the day on which a closed wait would have expired comes soon instead, and finds the next one.
    const { wake } = this.loop;
    if (wake.armedFor !== null) wake.request(now + HEARTBEAT_MS);
    if (inside === undefined && !isForced) this.outbox.flush();
  }

  announce(wait: Wait): void {
    const { waitId, kind, status } = wait;
    const name = status === "open" ? "wait:create" : (`wait:${status}` as const);
    emit(this.loop.lifecycle, name, { waitId, kind });
    this.driver.announce(wait);
  }

  /** Drives a wait in the background, and again by a wake if the object restarts before it has returned. */
  drive(wait: Wait): void {
    this.driver.start(wait);
    this.loop.wake.request(this.loop.clock.now() + HEARTBEAT_MS);
  }
}
