/** Finds what retention may delete, in a bounded number of rows, whatever else is stored. Writes nothing. */

/** Rows that one look reads, at the oldest ones and once more further on. */
export const SWEEP_ROWS = 256;

/** A row by its number, and whether retention no longer keeps it. */
export type SweptRow = { readonly seq: number; readonly isOver: number };

/**
 * Looks at the oldest rows, and at some further ones that move on with each look: rows that may not be deleted would
 * otherwise hide those behind them. Where the further ones begin in a life is drawn, so that short lives reach all.
 */
export class Sweep {
  #after: number | undefined;

  /** @param random a number in [0, 1) */
  constructor(private readonly random: () => number) {}

  /**
   * Numbers of rows to delete.
   *
   * @param read the first {@link SWEEP_ROWS} rows after a number, in their order
   * @param newest the highest number
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
    // Behind the newest one it begins again.
    this.#after = further.length < SWEEP_ROWS ? 0 : further.at(-1)?.seq;
    return further;
  }
}
