/** The names of all agents, for the dashboard: a Durable Object namespace cannot list its objects. */

import { DurableObject } from "cloudflare:workers";
import type { Delivery } from "perdure/outbox";
import type { Env } from "./agent.ts";

export class Directory extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY) WITHOUT ROWID");
  }

  /** Called by the outbox of a new agent, perhaps more than once. */
  add({ event }: Delivery<{ name: string }>): void {
    this.ctx.storage.sql.exec("INSERT OR IGNORE INTO names VALUES (?)", event.name);
  }

  /** The cursor is the last name of the page before. */
  page({ cursor = "", limit = 50 }: { cursor?: string | undefined; limit?: number | undefined }) {
    const query = "SELECT name FROM names WHERE name > ? ORDER BY name LIMIT ?";
    const items = this.ctx.storage.sql
      .exec<{ name: string }>(query, cursor, limit)
      .toArray()
      .map(({ name }) => name);
    const last = items.at(-1);
    return { items, ...(items.length === limit && last !== undefined && { cursor: last }) };
  }
}
