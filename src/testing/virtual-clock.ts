/**
 * Time that a test moves on: an offset on `Date` for the whole isolate, and the
 * alarms of the objects that come due on the way, at their instants and in
 * their order. Timers and the sleeps of Workflows take their real time.
 */

import { DURATION_FORMS, type Duration, millisecondsOf } from "../core/duration.ts";
import { INSTANT_FORMS, type Instant, instantMs } from "../core/instant.ts";
import { preview } from "../core/json.ts";
import { inObject, ringAlarm } from "./cloudflare-test.ts";
import { VirtualClockError } from "./errors.ts";
import { openWorkOf } from "./invariants/invariants.ts";

/** An alarm that comes so often without time passing never lets it pass. */
const MAX_AT_ONCE = 1_000;
const LOOK_MS = 10;

export type VirtualClockOptions = {
  /**
   * Where the clock begins; not before the machine's.
   * @default the machine's time
   */
  readonly at?: Instant;
  /**
   * How long, in real time, an object may take for what has come due before the clock moves on.
   * @default "2 seconds"
   */
  readonly patience?: Duration;
};

type Stub = Pick<DurableObjectStub, "id" | "name">;

let active: VirtualClock | undefined;

/**
 * Moves `Date` for Perdure, agents, Think and the test alike; time still runs on. Declare it with `using`, or call
 * `restore()`. While it is ahead of the machine, alarms come by {@link VirtualClock.advance} only.
 *
 * @throws VirtualClockError while another one is active, or for a time before the machine's
 */
export function virtualClock({
  at,
  patience = "2 seconds",
}: VirtualClockOptions = {}): VirtualClock {
  if (active) {
    throw new VirtualClockError(
      "A virtual clock is active; call its restore(), or declare it with `using`, before there is another.",
    );
  }
  const patienceMs = millisecondsOf(patience);
  if (patienceMs === undefined) {
    throw new VirtualClockError(`patience is ${preview(patience)}; expected ${DURATION_FORMS}.`);
  }
  const aheadMs = at === undefined ? 0 : timeOf(at) - Date.now();
  if (aheadMs < 0) throw backwards(timeOf(at ?? 0), Date.now());
  active = new VirtualClock(patienceMs, aheadMs);
  return active;
}

class VirtualClock {
  readonly #patienceMs: number;
  readonly #RealDate = Date;
  readonly #realNow = Date.now;
  readonly #realConstructor = Date.prototype.constructor;
  /** By the object's id: what hung, and hangs still. */
  readonly #inVain = new Map<string, string>();
  #aheadMs: number;

  constructor(patienceMs: number, aheadMs: number) {
    this.#patienceMs = patienceMs;
    this.#aheadMs = aheadMs;
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

  /** The time that `Date.now()` says, epoch milliseconds. */
  now(): number {
    return this.#realNow.call(this.#RealDate) + this.#aheadMs;
  }

  /**
   * Lets time pass, and the alarms of these objects come that are due on the way: a task of every hour fires 24 times
   * in a day. What came due has `patience` to come to its end before the clock moves on.
   *
   * @throws VirtualClockError for what is no length of time, and for an object whose alarm lets no time pass
   */
  async advance(duration: Duration, ...objects: readonly Stub[]): Promise<void> {
    const ms = millisecondsOf(duration);
    if (ms === undefined || ms === Number.POSITIVE_INFINITY) {
      throw new VirtualClockError(
        `The clock cannot advance by ${preview(duration)}; expected ${DURATION_FORMS}. Time goes forward only.`,
      );
    }
    await this.#moveTo(this.now() + ms, objects);
  }

  /**
   * {@link advance} to a certain time.
   *
   * @throws VirtualClockError for a time that is over, and as `advance()`
   */
  async set(at: Instant, ...objects: readonly Stub[]): Promise<void> {
    const time = timeOf(at);
    const now = this.now();
    if (time < now) throw backwards(time, now);
    await this.#moveTo(time, objects);
  }

  /** `Date` is the machine's again. */
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
    if (active !== this) throw new VirtualClockError("The clock was restored; make another one.");
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

  /** Never back: time has run on meanwhile. */
  #jumpTo(time: number): void {
    this.#aheadMs += Math.max(0, time - this.now());
  }

  /** Gives what has come due its time, and no longer than that: what hangs must not hold up the clock. */
  async #settle(stub: DurableObjectStub): Promise<void> {
    const end = performance.now() + this.#patienceMs;
    const id = stub.id.toString();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      // What waits for its own next alarm, a retry, is not waited for here.
      const open = (await openWorkOf(stub, "now")).join();
      // Nor, again, what was waited for in vain.
      if (open === "" || open === this.#inVain.get(id)) return;
      if (performance.now() < end) continue;
      this.#inVain.set(id, open);
      return;
    }
  }
}

export type { VirtualClock };

/** Whose alarm comes first, and when. */
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

function timeOf(at: Instant): number {
  const time = instantMs(at);
  if (time !== undefined) return time;
  throw new VirtualClockError(`${preview(at)} is no time; expected ${INSTANT_FORMS}.`);
}

function backwards(time: number, now: number): VirtualClockError {
  return new VirtualClockError(
    `The clock cannot go back to ${new Date(time).toISOString()}: it is ${new Date(now).toISOString()}. ` +
      "Alarms that were set before would all be due at once; take a later time.",
  );
}
