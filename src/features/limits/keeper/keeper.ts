/**
 * The object that keeps a limit for all agents. It lends capacity by its {@link Book}, and has a row for each key. All work of a
 * call is synchronous, so that calls do not mix, and the platform holds the answer until the row is on disk.
 */

import { DurableObject } from "cloudflare:workers";
import { systemClock } from "../../../core/clock.ts";
import { valuesOf } from "../../../core/sql.ts";
import { forgetVersions, migrate } from "../../../engine/migrations.ts";
import type { StoredKey } from "./account.ts";
import { Book, type BookStore } from "./book.ts";
import {
  type KeyPage,
  readAsk,
  readKey,
  readObservation,
  readPage,
  readPause,
  readReturns,
  readRules,
} from "./input.ts";
import type { Answer, Ask, KeyState, Notice, Observation, Return, Rules } from "./protocol.ts";

const MIGRATIONS = [
  "CREATE TABLE perdure_limit_keys (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID",
];

/** How often idle keys are deleted. */
const SWEEP_MS = 3_600_000;
/** Keys that one alarm reads. The next alarm goes on. */
const SWEPT_KEYS = 5_000;

/** Keys of a keeper, in their order. */
export type KeptKeys = {
  readonly keys: readonly KeyState[];
  /** The last key of the page, if there are more. */
  readonly next?: string;
};

/**
 * Keeps a limit of `limits()` for all agents. Export it from the Worker, and bind it as `LIMIT_KEEPER`. It has no public methods:
 * agents call it.
 *
 * @example export { LimitKeeper } from "perdure/limits";
 */
export class LimitKeeper extends DurableObject<object> {
  /** Keys in memory. Others are read from their rows. */
  protected readonly maxKeysInMemory: number = 10_000;
  /** What the current call has changed, by the key. */
  readonly #changed = new Map<string, StoredKey>();
  #book: Book | undefined;
  #started: Promise<void> | undefined;
  /** Where the sweep goes on. */
  #sweptTo = "";

  /** @internal */
  async ask(ask: Ask): Promise<Answer> {
    const read = readAsk(ask);
    await this.#start();
    return this.#commit((book) => book.ask(read));
  }

  /** @internal */
  async giveBack(returns: readonly Return[]): Promise<readonly Notice[]> {
    const read = readReturns(returns);
    await this.#start();
    return this.#commit((book) => book.giveBack(read));
  }

  /** @internal */
  async observe(observation: Observation): Promise<void> {
    const read = readObservation(observation);
    await this.#start();
    this.#commit((book) => book.observe(read));
  }

  /** Lends nothing of a key until {@link resume}. @internal */
  async pause(key: string, reason: string, rules: Rules): Promise<void> {
    const read = readPause({ key, reason });
    const readOfRules = readRules(rules);
    await this.#start();
    this.#commit((book) => book.pause(read.key, read.reason, readOfRules));
  }

  /** Returns whether the key was paused. @internal */
  async resume(key: string, rules: Rules): Promise<boolean> {
    const read = readKey(key);
    const readOfRules = readRules(rules);
    await this.#start();
    return this.#commit((book) => book.resume(read, readOfRules));
  }

  /** @internal */
  async list(page: KeyPage): Promise<KeptKeys> {
    const { key, after, limit } = readPage(page);
    await this.#start();
    if (key !== undefined) return { keys: this.#commit((book) => book.inspect([key])) };
    const found = this.#keysAfter(after, limit + 1);
    const keys = this.#commit((book) => book.inspect(found.slice(0, limit)));
    const next = found.length > limit ? found[limit - 1] : undefined;
    return { keys, ...(next !== undefined && { next }) };
  }

  /** Deletes idle keys. */
  override async alarm(): Promise<void> {
    this.#open();
    const { storage } = this.ctx;
    const found = storage.sql
      .exec<{ key: string; state: string }>(
        `SELECT key, state FROM perdure_limit_keys WHERE key >= ? ORDER BY key LIMIT ${SWEPT_KEYS + 1}`,
        this.#sweptTo,
      )
      .toArray();
    const next = found.length > SWEPT_KEYS ? found.pop()?.key : undefined;
    const idle = found.flatMap(({ key, state }) =>
      this.#opened.isIdle(key, JSON.parse(state) as StoredKey) ? [key] : [],
    );
    const deletion = "DELETE FROM perdure_limit_keys WHERE key IN (SELECT value FROM json_each(?))";
    if (idle.length > 0) storage.sql.exec(deletion, JSON.stringify(idle));
    for (const key of idle) this.#opened.forget(key);
    this.#sweptTo = next ?? "";
    if (next === undefined && this.#keysAfter(undefined, 1).length === 0) await this.#end();
    else await storage.setAlarm(systemClock.now() + (next === undefined ? SWEEP_MS : 0));
  }

  /** No key is left: the object takes no storage. */
  async #end(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(async () => {
      this.#started = undefined;
      forgetVersions(this.ctx.storage);
      await this.ctx.storage.deleteAll();
    });
  }

  async #start(): Promise<void> {
    this.#open();
    this.#started ??= this.#arm();
    try {
      await this.#started;
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
  }

  /** Keeps the alarm of the next sweep. One that is lost, or that a wrong clock has set, is set again. */
  async #arm(): Promise<void> {
    const { storage } = this.ctx;
    const alarm = await storage.getAlarm();
    const latest = systemClock.now() + SWEEP_MS;
    if (alarm === null || alarm > latest) await storage.setAlarm(latest);
  }

  /** @throws NewerSchemaError; then the keeper refuses each call */
  #open(): void {
    migrate(this.ctx.storage, "limits", MIGRATIONS);
  }

  get #opened(): Book {
    const { sql } = this.ctx.storage;
    const store: BookStore = {
      load: (key) => {
        const query = "SELECT state FROM perdure_limit_keys WHERE key = ?";
        const [state] = valuesOf<string>(sql, query, key);
        return state === undefined ? undefined : (JSON.parse(state) as StoredKey);
      },
      save: (key, state) => this.#changed.set(key, state),
    };
    this.#book ??= new Book(this.ctx.id.name ?? "", store, systemClock, this.maxKeysInMemory);
    return this.#book;
  }

  /** One row for each key that the work changes, however often. */
  #commit<T>(work: (book: Book) => T): T {
    const { storage } = this.ctx;
    try {
      const result = work(this.#opened);
      const upsert = "INSERT OR REPLACE INTO perdure_limit_keys (key, state) VALUES (?, ?)";
      storage.transactionSync(() => {
        for (const [key, state] of this.#changed)
          storage.sql.exec(upsert, key, JSON.stringify(state));
      });
      return result;
    } catch (error) {
      // The book may know of changes that are not stored. Those who wait ask again.
      this.#book = undefined;
      throw error;
    } finally {
      this.#changed.clear();
    }
  }

  #keysAfter(after: string | undefined, limit: number): string[] {
    const { sql } = this.ctx.storage;
    // The key of a limit without keys is empty.
    const [where, ...bindings] = after === undefined ? [""] : ["WHERE key > ?", after];
    const query = `SELECT key FROM perdure_limit_keys ${where} ORDER BY key LIMIT ?`;
    return valuesOf<string>(sql, query, ...bindings, limit);
  }
}
