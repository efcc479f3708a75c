/** Retention: deletes rows window by window, at a bounded cost for any number of rows. */

import { valuesOf } from "../core/sql.ts";

/** Row numbers of one window. */
const WINDOW = 256;
/** Maximum rows that one {@link Sweep.prune} deletes. */
const MAX_PRUNED = 5_000;
/** Maximum windows of each of its two places: rows that must stay may be in all of them. */
const MAX_WINDOWS = 20;

/**
 * Prunes a table from its oldest row on, and in a second place that moves on with each call: rows that must stay would otherwise hide
 * those behind them. The second place starts at random, so that objects that restart often also reach every row.
 */
export class Sweep {
  #after: number | undefined;

  /**
   * @param random returns a number in [0, 1)
   * @param table whose rows have a `seq`
   */
  constructor(
    private readonly random: () => number,
    private readonly table: string,
  ) {}

  /**
   * Deletes rows that retention may delete, each of which is read once. Returns how many: {@link MAX_PRUNED} where there may be more.
   *
   * @param isOver whether it may, in SQL
   */
  prune(sql: SqlStorage, isOver: string, ...bindings: SqlStorageValue[]): number {
    const { table } = this;
    const next = (after: number) =>
      valuesOf<number | null>(sql, `SELECT MIN(seq) FROM ${table} WHERE seq > ?`, after)[0] ?? null;
    const deletion = `DELETE FROM ${table} WHERE seq BETWEEN ? AND ? AND ${isOver}`;
    let left = MAX_PRUNED;
    /** Prunes windows until one of them loses no row. Returns the end of that one, or null after the newest row. */
    const pruneFrom = (after: number): number | null => {
      let end = after;
      for (let windows = 0; windows < MAX_WINDOWS; windows++) {
        const first = next(end);
        if (first === null) return null;
        end = first + Math.min(WINDOW, left) - 1;
        sql.exec(deletion, first, end, ...bindings);
        const deleted = valuesOf<number>(sql, "SELECT changes()")[0] ?? 0;
        left -= deleted;
        if (deleted === 0 || left === 0) break;
      }
      return end;
    };
    const oldest = pruneFrom(0);
    if (oldest === null || left === 0) return MAX_PRUNED - left;
    const newest = valuesOf<number>(sql, `SELECT IFNULL(MAX(seq), 0) FROM ${table}`)[0] ?? 0;
    this.#after ??= Math.floor(this.random() * newest);
    // After the newest row, start again.
    this.#after = pruneFrom(Math.max(this.#after, oldest)) ?? 0;
    return MAX_PRUNED - left;
  }
}
