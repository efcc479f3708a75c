/** A log of arrivals for tests of waits: what the waits use of the agent's own. */

import type { Json } from "../../../src/core/json.ts";
import type { Inbound } from "../../../src/features/inbound/inbound.ts";
import type { WaitedArrival } from "../../../src/features/inbound/protocol.ts";
import type { WaitMatch } from "../../../src/features/inbound/types.ts";

type Row = {
  source: string;
  id: string;
  type: string;
  body: string;
  received_at: number;
};

export class TestArrivals implements Pick<Inbound, "recordWait"> {
  readonly #sql: SqlStorage;

  constructor({ sql }: DurableObjectStorage) {
    this.#sql = sql;
    sql.exec(
      `CREATE TABLE IF NOT EXISTS test_arrivals
         (seq INTEGER PRIMARY KEY, source TEXT, id TEXT, type TEXT, body TEXT, received_at INTEGER, waits TEXT DEFAULT '', UNIQUE (source, id))`,
    );
  }

  /** Returns whether it is new. */
  add({ source, id, type, body, receivedAt }: WaitedArrival): boolean {
    const values = [source, id, type, JSON.stringify(body), receivedAt];
    const added = this.#sql.exec(
      `INSERT OR IGNORE INTO test_arrivals (source, id, type, body, received_at) VALUES (?, ?, ?, ?, ?) RETURNING seq`,
      ...values,
    );
    return added.toArray().length > 0;
  }

  recent({ since, source, limit }: { since: number; source?: string | undefined; limit: number }) {
    const rows = this.#sql.exec<Row>(
      `SELECT * FROM (SELECT * FROM test_arrivals WHERE received_at >= ?1 AND source = IFNULL(?2, source) ORDER BY seq DESC LIMIT ?3)
       ORDER BY seq`,
      since,
      source ?? null,
      limit + 1,
    );
    const found = rows.toArray().map(({ received_at: receivedAt, body, ...row }) => {
      const { source: from, id, type } = row;
      return { source: from, id, type, body: JSON.parse(body) as Json, receivedAt };
    });
    return { arrivals: found.slice(-limit), hasMore: found.length > limit };
  }

  recordWait(source: string, id: string, { waitId }: WaitMatch): void {
    this.#sql.exec(
      "UPDATE test_arrivals SET waits = waits || ? WHERE source = ? AND id = ?",
      `${waitId} `,
      source,
      id,
    );
  }

  /** The waits that each has ended, by its id. */
  waits(): Record<string, string[]> {
    const rows = this.#sql.exec<{ id: string; waits: string }>("SELECT * FROM test_arrivals");
    return Object.fromEntries(
      rows.toArray().map(({ id, waits }) => [id, waits.split(" ").filter(Boolean)]),
    );
  }
}
