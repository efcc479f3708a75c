/** A cache with a maximal number of entries: the oldest one is dropped first, whether it was read or not. */
export class BoundedCache<Value, Key = string> {
  readonly #entries = new Map<Key, Value>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** The value of a key; `make` makes a missing one. */
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
