/** Finds the rows that retention may delete. Reads a bounded number of rows and writes none. */

/** Rows of one read. A sweep reads at most twice. */
export const SWEEP_ROWS = 256;

/** A row's number, and whether retention may delete it. */
export type SweptRow = { readonly seq: number; readonly isOver: number };

/**
 * Reads the oldest rows, and a window of later rows that moves on with each sweep: otherwise rows that must stay would
 * hide the ones behind them. The window starts at random, so that objects that restart often also reach every row.
 */
export class Sweep {
  #after: number | undefined;

  /** @param random returns a number in [0, 1) */
  constructor(private readonly random: () => number) {}

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
