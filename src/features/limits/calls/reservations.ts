/**
 * Reserves what a model call needs. A call that cannot be made now waits in memory for up to 30 seconds, a later one of a turn for
 * 5 minutes, and then in the ledger.
 */

import type { Clock } from "../../../core/clock.ts";
import type { WaitedFor, WaitingFor } from "../../../submissions/types.ts";
import type { Capacity, Held, Need } from "../capacity.ts";
import { LimitTimeoutError, LimitWaitError } from "../errors.ts";
import { sleep } from "../sleep.ts";
import { type DeniedNeed, exceeded, verdictOf, type Work } from "../work.ts";

/** How long the first model call of an attempt waits in memory. Nothing is lost if it waits in the ledger instead. */
const PATIENCE_MS = 30_000;
/** The same for a turn that would have waited in the ledger, had its model been known: a crash would cost it an attempt. */
const UNASKED_PATIENCE_MS = 1_000;
/** The same for a later call: the next attempt would have to repeat those before it. */
const BEGUN_PATIENCE_MS = 300_000;
/** A crash in a wait of this length counts no attempt: that costs two rows. */
const NOTED_WAIT_MS = 1_000;
const HEARTBEAT_MS = 10_000;

export type ReservationUses = {
  readonly capacity: Capacity;
  readonly clock: Clock;
  readonly heartbeat: (seq: number) => void;
  /** A call waits in memory until then; undefined: no longer. */
  readonly onWaiting: (seq: number, until: number | undefined) => void;
  /** A call is sent after a wait in memory. */
  readonly onWaited: (seq: number, waited: WaitedFor) => void;
};

export class Reservations {
  constructor(private readonly uses: ReservationUses) {}

  /** All of it, or an error: nothing is held then. */
  async reserve(work: Work, needs: readonly Need[], signal: AbortSignal | undefined) {
    const { capacity, clock } = this.uses;
    const held = new Map<Need, Held>();
    const firstMs = work.isUnasked ? UNASKED_PATIENCE_MS : PATIENCE_MS;
    const patienceMs = work.hasBegun ? BEGUN_PATIENCE_MS : firstMs;
    const from = clock.now();
    const deadline = from + patienceMs;
    let waited: Omit<WaitedFor, "ms"> | undefined;
    let isNoted = false;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const denials = await this.#tryAll(work, needs, held);
        signal?.throwIfAborted();
        if (denials.length === 0) {
          work.waits = [];
          work.isUnasked = false;
          const startOf = (one: Held) => capacity.startOf(one);
          const [last] = [...held.values()].sort((one, other) => startOf(other) - startOf(one));
          const startMs = last ? startOf(last) - clock.now() : 0;
          if (last && startMs > 0) {
            waited ??= { limit: last.need.limit.shown, key: last.need.key, why: "full" };
            await sleep(startMs, signal);
          }
          // It may have ended, where the machine was busy meanwhile.
          const isLive = [...held.values()].every((one) => capacity.endOf(one) > clock.now());
          if (!isLive && clock.now() < deadline) continue;
          if (waited && work.seq !== undefined)
            this.uses.onWaited(work.seq, { ...waited, ms: clock.now() - from });
          return [...held.values()];
        }
        work.since ??= clock.now();
        const verdict = verdictOf(work, denials, clock.now());
        if ("error" in verdict) throw verdict.error;
        const { waitingFor, waitMs } = verdict;
        const { limit, key, why } = waitingFor;
        waited = { limit, key, why };
        if (clock.now() + waitMs > deadline) throw this.#tooLong(work, waitingFor, patienceMs);
        if (work.seq !== undefined && !isNoted && waitMs > NOTED_WAIT_MS) {
          isNoted = true;
          this.uses.onWaiting(work.seq, deadline);
        }
        await this.#wait(work, waitMs, signal);
      }
    } catch (error) {
      for (const one of held.values()) capacity.settle(one, {});
      throw error;
    } finally {
      if (isNoted && work.seq !== undefined) this.uses.onWaiting(work.seq, undefined);
    }
  }

  async #wait({ seq }: Work, ms: number, signal: AbortSignal | undefined): Promise<void> {
    for (let left = ms; left > 0; left -= HEARTBEAT_MS) {
      if (seq !== undefined) this.uses.heartbeat(seq);
      await sleep(Math.min(left, HEARTBEAT_MS), signal);
    }
  }

  /** Takes what is lent, and asks for the rest at once. */
  async #tryAll(work: Work, needs: readonly Need[], held: Map<Need, Held>): Promise<DeniedNeed[]> {
    const { capacity, clock } = this.uses;
    const missing = needs.filter((need) => {
      const before = held.get(need);
      if (before && capacity.endOf(before) > clock.now()) return false;
      if (before) capacity.settle(before, {});
      held.delete(need);
      const taken = capacity.take(need);
      if (taken) held.set(need, taken);
      return !taken;
    });
    const tooMuch = missing.map((need) => ({ need, dimension: exceeded(need) }));
    const never = tooMuch.find(({ dimension }) => dimension !== undefined);
    if (never) {
      const denied = { outcome: "refused", why: "exceeds", dimension: never.dimension } as const;
      return [{ need: never.need, denied: denied as DeniedNeed["denied"] }];
    }
    const waitedMs = work.since === undefined ? 0 : clock.now() - work.since;
    const asked = missing.map(async (need): Promise<DeniedNeed | undefined> => {
      const answer = await capacity.obtain({ ...need, waitedMs });
      if ("outcome" in answer) return { need, denied: answer };
      held.set(need, answer);
      return undefined;
    });
    // Also when one fails, the others are held and have to be settled.
    const results = await Promise.allSettled(asked);
    for (const result of results) if (result.status === "rejected") throw result.reason;
    return results.flatMap((result) =>
      result.status === "fulfilled" && result.value ? [result.value] : [],
    );
  }

  /** A client's turn has no row to wait in. Others keep their place at the keeper. */
  #tooLong(work: Work, waitingFor: WaitingFor, patienceMs: number): Error {
    if (work.seq !== undefined) {
      work.waits = [];
      return new LimitWaitError(waitingFor);
    }
    const { limit, key, why } = waitingFor;
    return new LimitTimeoutError(limit, key, patienceMs, why);
  }
}
