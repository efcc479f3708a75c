/** Finds the rows that retention may delete. Reads a bounded number of rows and writes none. */

/** Rows of one read. A sweep reads at most twice. */
const SWEEP_ROWS = 256;

/** A row's number, and whether retention may delete it. */
type SweptRow = { readonly seq: number; readonly isOver: number };

/**
 * Reads the oldest rows, and a window of later rows that moves on with each sweep: otherwise rows that must stay would
 * hide the ones behind them. The window starts at random, so that objects that restart often also reach every row.
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
   * Deletes some of the rows that retention may delete, at the same cost for any number of rows. Returns how many.
   *
   * @param isOver whether it may, in SQL
   */
  prune(sql: SqlStorage, isOver: string, ...bindings: SqlStorageValue[]): number {
    const { table } = this;
    const query = `SELECT seq, IFNULL(${isOver}, 0) AS isOver FROM ${table} WHERE seq > ? ORDER BY seq LIMIT ${SWEEP_ROWS}`;
    const over = this.next(
      (after) => sql.exec<SweptRow>(query, ...bindings, after).toArray(),
      () => sql.exec<SweptRow>(`SELECT IFNULL(MAX(seq), 0) AS seq FROM ${table}`).one().seq,
    );
    if (over.length === 0) return 0;
    const deletion = `DELETE FROM ${table} WHERE seq IN (SELECT value FROM json_each(?))`;
    sql.exec(deletion, JSON.stringify(over));
    return over.length;
  }

  /**
   * The numbers of the rows to delete.
   *
   * @param read returns the first {@link SWEEP_ROWS} rows after a number, in order
   * @param newest returns the highest number
   */
  next(read: (after: number) => SweptRow[], newest: () => number): number[] {
    const oldest = read(0);
    const further = oldest.length < SWEEP_ROWS ? [] : this.#further(oldest, read, newest);
    return [...oldest, ...further].filter(({ isOver }) => isOver === 1).map(({ seq }) => seq);
  }

  #further(
    oldest: SweptRow[],
    read: (after: number) => SweptRow[],
    newest: () => number,
  ): SweptRow[] {
    this.#after ??= Math.floor(this.random() * newest());
    const further = read(Math.max(this.#after, oldest.at(-1)?.seq ?? 0));
    // After the newest row, start again.
    this.#after = further.length < SWEEP_ROWS ? 0 : further.at(-1)?.seq;
    return further;
  }
}
