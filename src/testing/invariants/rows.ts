/** Reads the rows of an object's modules. A module that is not installed has none. */

import { hasTable } from "../history.ts";

export class Rows {
  constructor(
    readonly sql: SqlStorage,
    /** Epoch milliseconds, by the object's clock. */
    readonly now: number,
  ) {}

  /** The rows of a query on a table; none if the table does not exist. */
  of<Row extends Record<string, SqlStorageValue>>(
    table: string,
    query: string,
    ...bindings: SqlStorageValue[]
  ): Row[] {
    return hasTable(this.sql, table) ? this.sql.exec<Row>(query, ...bindings).toArray() : [];
  }

  /**
   * One problem for each row that matches; none if the table does not exist.
   *
   * @param problem SQL of the problem's text
   * @param which SQL behind the table's name, e.g. `WHERE status = 'completed'`
   */
  problems(table: string, problem: string, which = "", ...bindings: SqlStorageValue[]): string[] {
    const query = `SELECT ${problem} AS problem FROM ${table} ${which}`;
    return this.of<{ problem: string }>(table, query, ...bindings).map((row) => row.problem);
  }
}

/** SQL of a column with epoch milliseconds as an ISO 8601 text. */
export function isoTime(column: string): string {
  return `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;
}
