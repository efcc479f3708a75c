/** Values that run again what has read them: an effect, or the rendering of a component. */

type Reader = { readonly run: () => void; readonly sources: Set<Set<Reader>> };
let current: Reader | undefined;

/** Runs a function whose reads count as those of this reader. */
function readAs<Result>(reader: Reader | undefined, run: () => Result): Result {
  const before = current;
  current = reader;
  try {
    return run();
  } finally {
    current = before;
  }
}

export function signal<Value>(initial: Value) {
  const readers = new Set<Reader>();
  let value = initial;
  return {
    get value(): Value {
      if (current) {
        readers.add(current);
        current.sources.add(readers);
      }
      return value;
    },
    set value(next: Value) {
      if (next === value) return;
      value = next;
      // One that another has stopped is not run.
      for (const reader of [...readers]) if (readers.has(reader)) reader.run();
    },
    peek: () => value,
  };
}

/** Runs a function now, and whenever a signal that it has read changes, until the returned function is called. */
export function effect(run: () => void): () => void {
  const sources = new Set<Set<Reader>>();
  const stop = () => {
    for (const readers of sources) readers.delete(reader);
    sources.clear();
  };
  const reader: Reader = {
    sources,
    run: () => {
      stop();
      readAs(reader, run);
    },
  };
  reader.run();
  return stop;
}

export const computed = <Value>(of: () => Value) => ({
  get value(): Value {
    return of();
  },
});

export const untracked = <Result>(run: () => Result): Result => readAs(undefined, run);
