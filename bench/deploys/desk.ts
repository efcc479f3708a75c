/** The object that counts effects, and at which work of the app waits until the driver opens it. */

import { DurableObject } from "cloudflare:workers";

const POLL_MS = 200;

/** How often each effect has happened, and what has asked to go on. By the id of the cell. */
export type Desked = {
  readonly effects: Readonly<Record<string, number>>;
  readonly asked: readonly string[];
};

export class Desk extends DurableObject {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      `CREATE TABLE IF NOT EXISTS effects (cell TEXT, what TEXT, times INTEGER, PRIMARY KEY (cell, what)) WITHOUT ROWID;
       CREATE TABLE IF NOT EXISTS asked (cell TEXT, what TEXT, PRIMARY KEY (cell, what)) WITHOUT ROWID;
       CREATE TABLE IF NOT EXISTS opened (at INTEGER);
       CREATE TABLE IF NOT EXISTS begun (agent TEXT, name TEXT, PRIMARY KEY (agent, name)) WITHOUT ROWID`,
    );
  }

  /** Returns how often it has happened. */
  effect(cell: string, what: string): number {
    const query =
      "INSERT INTO effects VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times";
    return this.ctx.storage.sql.exec<{ times: number }>(query, cell, what).one().times;
  }

  /** Notes who asks, and returns whether they may go on. */
  mayPass(cell: string, what: string): boolean {
    this.ctx.storage.sql.exec("INSERT OR IGNORE INTO asked VALUES (?, ?)", cell, what);
    return this.ctx.storage.sql.exec("SELECT * FROM opened").toArray().length > 0;
  }

  open(): void {
    this.ctx.storage.sql.exec("INSERT INTO opened VALUES (?)", Date.now());
  }

  /** The app knows its agents, for operators. */
  begin(agent: string, name: string): void {
    this.ctx.storage.sql.exec("INSERT OR IGNORE INTO begun VALUES (?, ?)", agent, name);
  }

  /** Names after one of them, in their order. */
  begun(agent: string, after: string, limit: number): string[] {
    const query = "SELECT name FROM begun WHERE agent = ? AND name > ? ORDER BY name LIMIT ?";
    const rows = this.ctx.storage.sql.exec<{ name: string }>(query, agent, after, limit);
    return Array.from(rows, ({ name }) => name);
  }

  look(): Record<string, Desked> {
    const { sql } = this.ctx.storage;
    const found: Record<string, { effects: Record<string, number>; asked: string[] }> = {};
    const of = (cell: string) => {
      found[cell] ??= { effects: {}, asked: [] };
      return found[cell];
    };
    type Row = { cell: string; what: string; times: number };
    for (const { cell, what, times } of sql.exec<Row>("SELECT * FROM effects"))
      of(cell).effects[what] = times;
    for (const { cell, what } of sql.exec<Omit<Row, "times">>("SELECT * FROM asked"))
      of(cell).asked.push(what);
    return found;
  }
}

export interface DeskEnv {
  readonly DESK: DurableObjectNamespace<Desk>;
}

/** The one desk. */
export const deskOf = (env: DeskEnv) => env.DESK.getByName("desk");

/** The names of the agents of a kind, for `operator()`. */
export const namesOf =
  (agent: string) =>
  async (env: DeskEnv, { limit, cursor = "" }: { limit: number; cursor?: string }) => {
    const items = await deskOf(env).begun(agent, cursor, limit);
    const last = items.length === limit ? items.at(-1) : undefined;
    return { items, ...(last !== undefined && { cursor: last }) };
  };

/** Waits until the driver has opened the desk. */
export async function passDesk(env: DeskEnv, cell: string, what: string): Promise<void> {
  while (!(await deskOf(env).mayPass(cell, what)))
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
