/** Reads the rows of an object's rooms; a room that is not installed has none. */

import { hasTable } from "../history.ts";

export class Rows {
  constructor(
    readonly sql: SqlStorage,
    /** Epoch milliseconds, as the object's rooms have it. */
    readonly now: number,
  ) {}

  has(table: string): boolean {
    return hasTable(this.sql, table);
  }

  /** The rows of a query on that table; none where there is no such table. */
  of<Row extends Record<string, SqlStorageValue>>(
    table: string,
    query: string,
    ...bindings: SqlStorageValue[]
  ): Row[] {
    return this.has(table) ? this.sql.exec<Row>(query, ...bindings).toArray() : [];
  }
}
