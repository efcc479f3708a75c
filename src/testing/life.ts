/**
 * One life of an object: from its construction to its eviction or crash.
 * Numbers its writes and deliveries, and ends it at one of them when told to.
 */

import { isMigration, keepHistory } from "./history.ts";
import { isWrite, type StorageObserver } from "./meter.ts";

/**
 * When the crash comes. Before and after a write itself, everything since the
 * object last waited for something is lost with it; soon after, the write has
 * been committed, and perhaps a little more. Before a delivery its destination
 * hears nothing; after it, it has heard, and that is not written down.
 */
export type Moment = "before" | "after" | "soon after";

/** Where a crash comes: at the nth write or delivery since the life is watched. */
export type CrashPoint = {
  readonly at: "write" | "delivery";
  /** From 1. */
  readonly number: number;
  readonly moment: Moment;
};

type Cursor = SqlStorageCursor<Record<string, SqlStorageValue>>;

export class Life implements StorageObserver {
  /** What it has done since it is watched: statements, and names of deliveries. */
  readonly seen: Readonly<Record<CrashPoint["at"], string[]>> = { write: [], delivery: [] };
  /** Where it was ended. */
  crashedAt: CrashPoint | undefined;
  #isWatched = false;
  #point: CrashPoint | undefined;
  /** Numbers of the deliveries under way. */
  readonly #underWay = new Map<string, number>();

  constructor(
    private readonly ctx: DurableObjectState,
    private readonly sql: SqlStorage,
  ) {}

  /** Counts from here on, and ends the life at that point, if there is one. */
  watch(point?: CrashPoint): void {
    this.#isWatched = true;
    this.#point = point;
  }

  /** It goes on unharmed. */
  release(): void {
    this.#isWatched = false;
    this.#point = undefined;
  }

  exec(query: string, run: () => Cursor): Cursor {
    const cursor = isWrite(query) ? this.#write(query, run) : run();
    if (isMigration(query)) keepHistory(this.sql);
    return cursor;
  }

  put<T>(_keys: number, run: () => T): T {
    return this.#write("put", run);
  }

  setAlarm<T>(run: () => T): T {
    return this.#write("setAlarm", run);
  }

  /** A destination is about to be told. */
  attempting(id: string, attempt: number, kind: string): void {
    if (!this.#isWatched) return;
    const number = this.#note("delivery", `attempt ${attempt} of a ${kind} delivery`);
    this.#underWay.set(`${id}#${attempt}`, number);
    this.#pass("delivery", "before", number);
  }

  /** A destination has been told. */
  taken(id: string, attempt: number): void {
    const number = this.#underWay.get(`${id}#${attempt}`);
    if (number !== undefined) this.#pass("delivery", "after", number);
  }

  #write<T>(what: string, run: () => T): T {
    if (!this.#isWatched) return run();
    const number = this.#note("write", what);
    this.#pass("write", "before", number);
    const result = run();
    this.#pass("write", "after", number);
    return result;
  }

  #note(at: CrashPoint["at"], what: string): number {
    return this.seen[at].push(what);
  }

  #pass(at: CrashPoint["at"], moment: Moment, number: number): void {
    const point = this.#point;
    if (point?.at !== at || point.number !== number) return;
    if (point.moment === moment) this.#crash(point);
    else if (point.moment === "soon after" && moment === "after") {
      setTimeout(() => this.#crash(point), 0);
    }
  }

  /** Nothing that follows is run: the platform stops the code where it stands, and no `catch` sees it. */
  #crash(point: CrashPoint): void {
    if (this.#point !== point) return;
    this.#point = undefined;
    this.crashedAt = point;
    this.ctx.abort("crash of a test");
  }
}
