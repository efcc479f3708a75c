/**
 * What has been worked out before, up to a number of entries: the one that was
 * made first goes first. Reading one moves nothing: this is on the path of each
 * call, and what falls out is soon made again.
 */
export class BoundedCache<Value, Key = string> {
  readonly #entries = new Map<Key, Value>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** The value of a key, made by `make` where there is none. What `make` throws is not kept. */
  get(key: Key, make: () => Value): Value {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#entries.set(key, made);
    if (this.#entries.size > this.#max)
      this.#entries.delete(this.#entries.keys().next().value as Key);
    return made;
  }
}
