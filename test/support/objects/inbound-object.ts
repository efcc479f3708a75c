/** The arrival log on a plain Durable Object, and methods that arrivals call. A table has each effect, so that a crash undoes it. */

import { Inbound } from "../../../src/features/inbound/inbound.ts";
import type { RawArrival } from "../../../src/features/inbound/protocol.ts";
import type { InboundSettings, WaitMatch } from "../../../src/features/inbound/types.ts";
import { Outbox } from "../../../src/outbox/index.ts";
import { MeteredObject } from "./metered-object.ts";

export type InboundScript = InboundSettings & {
  /** What waits, before each arrival that is not accepted. */
  readonly matchWaits?: (arrival: RawArrival, object: InboundObject) => readonly WaitMatch[];
  readonly onProblem?: (problem: { readonly type: string; readonly ids: object }) => void;
  /** Within `slow()`, outside of any transaction. */
  readonly onSlow?: (text: string, object: InboundObject) => Promise<void>;
  /** Within `note()`. */
  readonly onNote?: (text: string, object: InboundObject) => unknown;
  /** How far its clock is ahead. */
  readonly aheadMs?: () => number;
};

/** By the object's name. */
export const inboundScripts = new Map<string, InboundScript>();

/** What every agent inherits. */
class BaseObject extends MeteredObject {
  inherited(): string {
    return "inherited";
  }
}

export class InboundObject extends BaseObject {
  readonly inbound: Inbound;
  readonly outbox: Outbox;
  /** No method of the class. */
  readonly field = () => "field";
  readonly #script: InboundScript;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#script = inboundScripts.get(ctx.id.name ?? "") ?? {};
    const { matchWaits, onSlow: _, onNote: __, aheadMs, ...settings } = this.#script;
    const clock = { now: () => Date.now() + (aheadMs?.() ?? 0), random: () => 0 };
    this.outbox = new Outbox({ host: this, env });
    this.inbound = new Inbound({
      ...settings,
      clock,
      agent: this,
      verbs: { unlogged: async () => {} },
      matchWaits: (arrival) => matchWaits?.(arrival, this) ?? [],
    });
    this.lifecycle.use(this.outbox).use(this.inbound);
  }

  get getter(): () => string {
    throw new Error("The getter was run");
  }

  unlogged(): void {}

  /** Returns no promise. */
  note(text: unknown): unknown {
    this.write(String(text));
    return this.#script.onNote ? this.#script.onNote(String(text), this) : { noted: text };
  }

  async slow(text: string): Promise<unknown> {
    await this.#script.onSlow?.(text, this);
    this.write(text);
    return { slow: text };
  }

  /** Returns a promise, and is no async function. */
  promised(text: string): Promise<unknown> {
    this.write(`${text} first`);
    return this.slow(text);
  }

  /** Returns the promise of an asynchronous transaction, and is no async function. */
  transacted(text: string): Promise<unknown> {
    return this.ctx.storage.transaction(async () => {
      this.write(`${text} first`);
      await this.ctx.storage.get("nothing");
      this.write(text);
      return { transacted: text };
    });
  }

  refuse(name: string, message: string): never {
    this.write("undone");
    throw Object.assign(new Error(message), { name });
  }

  transaction<T>(work: () => T): T {
    return this.ctx.storage.transactionSync(work);
  }

  write(text: string): void {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS notes (seq INTEGER PRIMARY KEY, text TEXT)");
    sql.exec("INSERT INTO notes (text) VALUES (?)", text);
  }

  waitFor(isWaiting: boolean): void {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS open_waits (id INTEGER PRIMARY KEY)");
    if (isWaiting) sql.exec("INSERT OR IGNORE INTO open_waits VALUES (1)");
    else sql.exec("DELETE FROM open_waits");
  }

  isWaiting(): boolean {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS open_waits (id INTEGER PRIMARY KEY)");
    return sql.exec("SELECT id FROM open_waits").toArray().length > 0;
  }

  notes(): string[] {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS notes (seq INTEGER PRIMARY KEY, text TEXT)");
    return Array.from(
      sql.exec("SELECT text FROM notes ORDER BY seq").raw<[string]>(),
      ([text]) => text,
    );
  }
}
