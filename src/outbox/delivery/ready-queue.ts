/**
 * What is due, in memory: a bounded number of entries, known by id, in a line
 * for each destination. Hands out the next one whose destination is free, the
 * destinations in turn, and knows when the rows have to be looked through for
 * more: as seldom as it can, because that reads all that waits.
 */

/** An entry whose time has come. */
export type Due = {
  readonly id: string;
  readonly key: string;
  /** The object may not have survived its last attempts: it is tried alone. */
  readonly isSuspect: boolean;
};

/** Entries that one look brings into line: of one destination, and in all. */
export const PER_DESTINATION = 64;
export const AT_ONCE = 512;
/** Entries that may be in line without a look, each some 200 bytes of memory. */
const IN_LINE = 1_024;

/** What a look has found, the first of every destination before the second of any, and destinations that it left out. */
export type Look = { readonly found: readonly Due[]; readonly leftOut: readonly string[] };

export class ReadyQueue {
  /** By destination key; the one that is first in the map is next. */
  readonly #lines = new Map<string, Due[]>();
  #count = 0;
  /** Whether something may be due of any destination that has nobody in line. */
  #mayFindMore = true;
  /** Destinations of which something may be due, and nobody is in line. */
  readonly #missing = new Set<string>();
  /** Destinations of which more may be due than is in line. */
  #longer = new Set<string>();

  /** @param look finds what is due of destinations other than these, and not under way */
  constructor(private readonly look: (except: readonly string[]) => Look) {}

  /** Something may have become due. */
  expect(): void {
    this.#mayFindMore = true;
  }

  /**
   * One that was put is due. It is in line at once where all of its
   * destination is. It may be rolled back: then there is no row when its turn comes.
   *
   * @param isOrdered whether the rows alone can tell who is before it
   * @param isBusy whether something is under way to its destination
   */
  add(due: Due, isOrdered: boolean, isBusy: boolean): void {
    const { key } = due;
    const line = this.#lines.get(key) ?? [];
    const isAllInLine = !this.#mayFindMore && !this.#longer.has(key) && !isOrdered;
    if (isAllInLine && line.length < PER_DESTINATION && this.#count < IN_LINE) this.#append([due]);
    else {
      this.#longer.add(key);
      if (line.length === 0 && !isBusy) this.#missing.add(key);
    }
  }

  /**
   * Takes out the first of the destination whose turn it is among those whose first one may be attempted.
   *
   * @param isWanted whether it is worth a look to find one of this destination
   */
  next(isFree: (first: Due) => boolean, isWanted: (key: string) => boolean): Due | undefined {
    const next = this.first(isFree);
    if (next || !(this.#mayFindMore || [...this.#missing].some(isWanted))) return next;
    this.#lookForMore();
    return this.first(isFree);
  }

  /** The same among what is in line already. */
  first(isFree: (first: Due) => boolean): Due | undefined {
    return this.#take(isFree, this.#lines);
  }

  /** The same, beginning with the destination whose turn would come last. */
  last(isFree: (first: Due) => boolean): Due | undefined {
    return this.#take(isFree, [...this.#lines].reverse());
  }

  /** Whether there is a destination in line for whose first one this is true. */
  some(is: (first: Due) => boolean): boolean {
    return [...this.#lines.values()].some(([first]) => first !== undefined && is(first));
  }

  /** A destination is free again. */
  freed(key: string): void {
    if (!this.#lines.has(key) && this.#longer.has(key)) this.#missing.add(key);
  }

  /** Who is in line for a destination is forgotten, and read again when its time has come. */
  drop(key: string): void {
    this.#count -= this.#lines.get(key)?.length ?? 0;
    this.#lines.delete(key);
    this.#longer.add(key);
  }

  /** All are read again, with those who come before them now. */
  clear(): void {
    this.#lines.clear();
    this.#count = 0;
    this.#mayFindMore = true;
  }

  #take(isFree: (first: Due) => boolean, lines: Iterable<[string, Due[]]>): Due | undefined {
    for (const [key, line] of lines) {
      const [next] = line;
      if (!next || !isFree(next)) continue;
      line.shift();
      this.#count--;
      this.#lines.delete(key);
      if (line.length > 0) this.#lines.set(key, line);
      return next;
    }
    return undefined;
  }

  #lookForMore(): void {
    const { found, leftOut } = this.look([...this.#lines.keys()]);
    this.#append(found);
    this.#missing.clear();
    const keys = new Set(found.map(({ key }) => key));
    const isCut = found.length >= AT_ONCE;
    const isLonger = (key: string) => isCut || this.#lines.get(key)?.length === PER_DESTINATION;
    this.#longer = new Set([...leftOut, ...[...keys].filter(isLonger)]);
    // Where it was cut among the first ones, there may be destinations of which there is none.
    this.#mayFindMore = isCut && keys.size === found.length;
  }

  #append(entries: readonly Due[]): void {
    this.#count += entries.length;
    for (const entry of entries) {
      const line = this.#lines.get(entry.key);
      if (line) line.push(entry);
      else this.#lines.set(entry.key, [entry]);
    }
  }
}
