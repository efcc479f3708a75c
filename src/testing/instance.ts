/** One instance of an object, from its construction to its eviction or crash. Numbers its writes and deliveries, and crashes it at one. */

import { isWrite, type StorageObserver } from "./meter.ts";

/**
 * When to crash. `before` and `after` a write lose everything since the object's last await. `soon after` comes when the write
 * is committed, perhaps with later ones. `before` a delivery, the destination receives nothing; `after` it, the destination
 * has the event, but the object has not stored that.
 */
export type Moment = "before" | "after" | "soon after";

/** Where to crash: at the nth write or delivery since the instance is watched. */
export type CrashPoint = {
  readonly at: "write" | "delivery";
  /** From 1. */
  readonly number: number;
  readonly moment: Moment;
};

type Cursor = SqlStorageCursor<Record<string, SqlStorageValue>>;

export class Instance implements StorageObserver {
  /** Statements, and names of deliveries, since it is watched. */
  readonly seen: Readonly<Record<CrashPoint["at"], string[]>> = { write: [], delivery: [] };
  /** The point at which the object crashed. */
  crashedAt: CrashPoint | undefined;
  #isWatched = false;
  #point: CrashPoint | undefined;
  /** Numbers of the deliveries in flight. */
  readonly #inFlight = new Map<string, number>();

  /** @param storage before it is intercepted */
  constructor(
    private readonly ctx: DurableObjectState,
    private readonly storage: DurableObjectStorage,
  ) {}

  /** Counts from now on, and crashes at that point, if there is one. */
  watch(point?: CrashPoint): void {
    this.#isWatched = true;
    this.#point = point;
  }

  /** Stops counting, and does not crash any more. */
  release(): void {
    this.#isWatched = false;
    this.#point = undefined;
  }

  exec(query: string, run: () => Cursor): Cursor {
    return isWrite(query) ? this.#write(query, run) : run();
  }

  /** Sets an alarm again that was removed by a call which has failed. Not a write of the scenario. */
  async restoreAlarm(time: number): Promise<void> {
    await this.storage.setAlarm(time);
  }

  put<T>(_keys: number, run: () => T): T {
    return this.#write("put", run);
  }

  setAlarm<T>(run: () => T): T {
    return this.#write("setAlarm", run);
  }

  /** A delivery attempt starts. */
  attempting(id: string, attempt: number, kind: string): void {
    if (!this.#isWatched) return;
    const number = this.seen.delivery.push(`attempt ${attempt} of a ${kind} delivery`);
    this.#inFlight.set(`${id}#${attempt}`, number);
    this.#pass("delivery", "before", number);
  }

  /** A destination has accepted a delivery. */
  taken(id: string, attempt: number): void {
    const number = this.#inFlight.get(`${id}#${attempt}`);
    if (number !== undefined) this.#pass("delivery", "after", number);
  }

  #write<T>(what: string, run: () => T): T {
    if (!this.#isWatched) return run();
    const number = this.seen.write.push(what);
    this.#pass("write", "before", number);
    const result = run();
    this.#pass("write", "after", number);
    return result;
  }

  #pass(at: CrashPoint["at"], moment: Moment, number: number): void {
    const point = this.#point;
    if (point?.at !== at || point.number !== number) return;
    if (point.moment === moment) this.#crash(point);
    else if (point.moment === "soon after" && moment === "after") {
      setTimeout(() => this.#crash(point), 0);
    }
  }

  /** The platform stops the code at once; no `catch` runs. */
  #crash(point: CrashPoint): void {
    if (this.#point !== point) return;
    this.#point = undefined;
    this.crashedAt = point;
    this.ctx.abort("crash of a test");
  }
}
