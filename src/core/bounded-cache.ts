/** A cache with a maximal number of entries: the oldest one is dropped first, whether it was read or not. */
export class BoundedCache<Value, Key = string> {
  readonly #entries = new Map<Key, Value>();

  constructor(private readonly max: number) {}

  /** The value of a key; `make` makes a missing one. */
  get(key: Key, make: () => Value): Value {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#entries.set(key, made);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.max) this.#entries.delete(oldest as Key);
    return made;
  }
}
