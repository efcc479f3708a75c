/**
 * Entries that are ready for delivery, in memory: a bounded number, by id, in one queue for each destination. Returns the
 * next entry whose destination is free, the destinations in turn, and decides when to load more from storage. That reads
 * all waiting rows, so it happens as seldom as possible.
 */

export type ReadyEntry = {
  readonly id: string;
  /** The key of its destination. */
  readonly key: string;
  /** The object may not have survived its last attempts: it is tried alone. */
  readonly isSuspect: boolean;
};

/** Entries that one load returns: of one destination, and of all. */
export const MAX_LOADED_PER_KEY = 64;
export const MAX_LOADED = 512;
/** Entries that may be queued without a load, each some 200 bytes of memory. */
const MAX_QUEUED = 1_024;

/** The first entry of every destination comes before the second of any. */
export type Loaded = {
  readonly found: readonly ReadyEntry[];
  /** Keys of destinations that were left out. */
  readonly skipped: readonly string[];
};

export class ReadyQueue {
  /** By destination key; the first in the map is next. */
  readonly #queues = new Map<string, ReadyEntry[]>();
  #count = 0;
  /** Whether storage may have ready entries of a destination that has none in memory. */
  #mayHaveMore = true;
  /** Destinations without an entry in memory, of which storage may have ready ones. */
  readonly #unloaded = new Set<string>();
  /** Destinations of which storage may have more ready entries than memory. */
  #partial = new Set<string>();

  /** @param load reads ready entries of all destinations but these, without those in flight */
  constructor(private readonly load: (exceptKeys: readonly string[]) => Loaded) {}

  /** Entries may have become ready. */
  expectMore(): void {
    this.#mayHaveMore = true;
  }

  /**
   * Adds a new entry, where memory has all earlier ones of its destination; else it is loaded later. Its transaction may
   * still be rolled back: then there is no row when its turn comes.
   *
   * @param isOrdered whether only storage can tell which entries precede it
   * @param isBusy whether the destination cannot take an entry now
   */
  add(entry: ReadyEntry, isOrdered: boolean, isBusy: boolean): void {
    const { key } = entry;
    const { length } = this.#queues.get(key) ?? [];
    const hasAll = !this.#mayHaveMore && !this.#partial.has(key) && !isOrdered;
    if (hasAll && length < MAX_LOADED_PER_KEY && this.#count < MAX_QUEUED) {
      this.#append([entry]);
      return;
    }
    this.#partial.add(key);
    if (length === 0 && !isBusy) this.#unloaded.add(key);
  }

  /**
   * Removes and returns the next entry for which `isFree`, considering the first one of each destination.
   *
   * @param isWorthLoading whether an entry of this destination could start, so that a load is worth its cost
   */
  next(
    isFree: (first: ReadyEntry) => boolean,
    isWorthLoading: (key: string) => boolean,
  ): ReadyEntry | undefined {
    const next = this.first(isFree);
    if (next || !(this.#mayHaveMore || [...this.#unloaded].some(isWorthLoading))) return next;
    this.#loadMore();
    return this.first(isFree);
  }

  /** {@link next} without a load. */
  first(isFree: (first: ReadyEntry) => boolean): ReadyEntry | undefined {
    return this.#take(isFree, this.#queues);
  }

  /** {@link first}, starting with the destination whose turn would come last. */
  last(isFree: (first: ReadyEntry) => boolean): ReadyEntry | undefined {
    return this.#take(isFree, [...this.#queues].reverse());
  }

  /** Whether this holds for the first entry of any destination in memory. */
  some(is: (first: ReadyEntry) => boolean): boolean {
    return [...this.#queues.values()].some(([first]) => first !== undefined && is(first));
  }

  /** A destination can take an entry again. */
  freed(key: string): void {
    if (!this.#queues.has(key) && this.#partial.has(key)) this.#unloaded.add(key);
  }

  /** Drops the entries of a destination from memory. They are loaded again when they are ready. */
  drop(key: string): void {
    this.#count -= this.#queues.get(key)?.length ?? 0;
    this.#queues.delete(key);
    this.#partial.add(key);
  }

  clear(): void {
    this.#queues.clear();
    this.#count = 0;
    this.#mayHaveMore = true;
  }

  #take(
    isFree: (first: ReadyEntry) => boolean,
    queues: Iterable<[string, ReadyEntry[]]>,
  ): ReadyEntry | undefined {
    for (const [key, queue] of queues) {
      const [next] = queue;
      if (!next || !isFree(next)) continue;
      queue.shift();
      this.#count--;
      this.#queues.delete(key);
      if (queue.length > 0) this.#queues.set(key, queue);
      return next;
    }
    return undefined;
  }

  #loadMore(): void {
    const { found, skipped } = this.load([...this.#queues.keys()]);
    this.#append(found);
    this.#unloaded.clear();
    const keys = new Set(found.map(({ key }) => key));
    const isCut = found.length >= MAX_LOADED;
    const isPartial = (key: string) =>
      isCut || this.#queues.get(key)?.length === MAX_LOADED_PER_KEY;
    this.#partial = new Set([...skipped, ...[...keys].filter(isPartial)]);
    // Cut among the first entries of destinations: there may be destinations without any in memory.
    this.#mayHaveMore = isCut && keys.size === found.length;
  }

  #append(entries: readonly ReadyEntry[]): void {
    this.#count += entries.length;
    for (const entry of entries) {
      const queue = this.#queues.get(entry.key);
      if (queue) queue.push(entry);
      else this.#queues.set(entry.key, [entry]);
    }
  }
}
