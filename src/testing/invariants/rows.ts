/** Reads the rows of an object's modules. A module that is not installed has none. */

import { hasTable } from "../history.ts";

export class Rows {
  constructor(
    readonly sql: SqlStorage,
    /** Epoch milliseconds, by the object's clock. */
    readonly now: number,
  ) {}

  has(table: string): boolean {
    return hasTable(this.sql, table);
  }

  /** The rows of a query on a table; none if the table does not exist. */
  of<Row extends Record<string, SqlStorageValue>>(
    table: string,
    query: string,
    ...bindings: SqlStorageValue[]
  ): Row[] {
    return this.has(table) ? this.sql.exec<Row>(query, ...bindings).toArray() : [];
  }
}
