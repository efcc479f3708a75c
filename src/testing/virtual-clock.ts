/**
 * A clock that the test advances: an offset on `Date` for the whole isolate. Alarms of the given objects run on the way, at their
 * times and in order. Timers and the sleeps of Workflows take real time.
 */

import type { Instant } from "../core/options/instant.ts";
import { duration, instant, optionsOf, readOptions } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import { inObject, ringAlarm } from "./cloudflare-test.ts";
import { VirtualClockError } from "./errors.ts";
import { readWork } from "./inspection/inspect-work.ts";
import { describeDueWork } from "./inspection/open-work.ts";

/** An alarm that is set again for the same time more often than this blocks the clock. */
const MAX_AT_ONCE = 1_000;
const POLL_MS = 10;

export type VirtualClockOptions = {
  /**
   * The start time, not before the machine's time.
   * @default the machine's time
   */
  readonly at?: Instant;
  /**
   * How long, in real time, the clock waits for an object to finish its due work.
   * @default "2 seconds"
   */
  readonly patience?: Duration;
};

type Stub = Pick<DurableObjectStub, "id" | "name">;

const OPTIONS = optionsOf<VirtualClockOptions>()({
  at: instant().optional(),
  patience: duration().default(2_000),
});

const DURATION = duration();
const INSTANT = instant();
const refuse = (_: string, message: string) => new VirtualClockError(message);

let active: VirtualClock | undefined;

/**
 * Shifts `Date` for Perdure, agents, Think and the test. Time still passes. Declare it with `using`, or call `restore()`. While
 * it is ahead of the machine, alarms run by {@link VirtualClock.advance} only.
 *
 * @throws VirtualClockError for an invalid option, a time before the machine's, or while another clock is active
 */
export function virtualClock(options: VirtualClockOptions = {}): VirtualClock {
  if (active) {
    throw new VirtualClockError(
      "Another virtual clock is active. Call its restore(), or declare it with `using`.",
    );
  }
  const now = Date.now();
  const { at = now, patience } = readOptions(OPTIONS, options, "options of virtualClock()", refuse);
  if (at < now) throw backwards(at, now);
  active = new VirtualClock(patience, at - now);
  return active;
}

class VirtualClock {
  readonly #RealDate = Date;
  readonly #realNow = Date.now;
  readonly #realConstructor = Date.prototype.constructor;
  /** Open work that exceeded `patience`, by the object's id. */
  readonly #overdue = new Map<string, string>();

  constructor(
    private readonly patienceMs: number,
    private aheadMs: number,
  ) {
    const now = () => this.now();
    this.#RealDate.now = now;
    const moved = new Proxy(this.#RealDate, {
      construct: (target, args: unknown[], newTarget) =>
        Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
      apply: (target) => new target(now()).toString(),
    });
    this.#RealDate.prototype.constructor = moved;
    globalThis.Date = moved;
  }

  /** The time of `Date.now()`, epoch milliseconds. */
  now(): number {
    return this.#realNow.call(this.#RealDate) + this.aheadMs;
  }

  /**
   * Advances the clock. Runs the due alarms of these objects on the way: an hourly task fires 24 times in a day. Due work has
   * `patience` to finish before the clock moves on.
   *
   * @throws VirtualClockError for an invalid duration, or an alarm that is set for the same time again and again
   */
  async advance(by: Duration, ...objects: readonly Stub[]): Promise<void> {
    await this.#moveTo(this.now() + readOptions(DURATION, by, "duration", refuse), objects);
  }

  /**
   * Advances the clock to a time, as {@link advance}.
   *
   * @throws VirtualClockError for an invalid time or one in the past, and as `advance()`
   */
  async set(at: Instant, ...objects: readonly Stub[]): Promise<void> {
    const time = readOptions(INSTANT, at, "time", refuse);
    const now = this.now();
    if (time < now) throw backwards(time, now);
    await this.#moveTo(time, objects);
  }

  /** Restores the machine's `Date`. */
  restore(): void {
    if (active !== this) return;
    active = undefined;
    this.#RealDate.now = this.#realNow;
    this.#RealDate.prototype.constructor = this.#realConstructor;
    globalThis.Date = this.#RealDate;
  }

  [Symbol.dispose](): void {
    this.restore();
  }

  async #moveTo(target: number, objects: readonly Stub[]): Promise<void> {
    if (active !== this) throw new VirtualClockError("The clock was restored. Create another one.");
    const stubs = objects as readonly DurableObjectStub[];
    let atOnce = 0;
    let latest = Number.NEGATIVE_INFINITY;
    for (;;) {
      const next = await firstAlarm(stubs);
      if (!next || next.time > target) break;
      atOnce = next.time > latest ? 0 : atOnce + 1;
      if (atOnce > MAX_AT_ONCE) {
        const at = new Date(next.time).toISOString();
        throw new VirtualClockError(
          `The alarm of ${next.stub.name ?? next.stub.id} is set for ${at} again and again.`,
        );
      }
      latest = Math.max(latest, next.time);
      this.#jumpTo(next.time);
      await ringAlarm(next.stub);
      await this.#settle(next.stub);
    }
    this.#jumpTo(target);
  }

  /** Never moves back: time has passed meanwhile. */
  #jumpTo(time: number): void {
    this.aheadMs += Math.max(0, time - this.now());
  }

  /** Waits at most `patience` for due work, so that work that hangs does not block the clock. */
  async #settle(stub: DurableObjectStub): Promise<void> {
    const end = performance.now() + this.patienceMs;
    const id = stub.id.toString();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      // A retry waits for its own alarm, not here.
      const work = await inObject(stub, (object, { storage }) => readWork(object, storage));
      const open = describeDueWork(work, this.now()).join();
      // Work that exceeded `patience` before is not waited for again.
      if (open === "" || open === this.#overdue.get(id)) return;
      if (performance.now() < end) continue;
      this.#overdue.set(id, open);
      return;
    }
  }
}

export type { VirtualClock };

/** The object with the earliest alarm. */
async function firstAlarm(
  stubs: readonly DurableObjectStub[],
): Promise<{ stub: DurableObjectStub; time: number } | undefined> {
  let first: { stub: DurableObjectStub; time: number } | undefined;
  for (const stub of stubs) {
    const time = await inObject(stub, (_, { storage }) => storage.getAlarm());
    if (time !== null && (!first || time < first.time)) first = { stub, time };
  }
  return first;
}

function backwards(time: number, now: number): VirtualClockError {
  return new VirtualClockError(
    `Invalid time ${new Date(time).toISOString()}: expected a time after ${new Date(now).toISOString()}, because the clock cannot go back.`,
  );
}
