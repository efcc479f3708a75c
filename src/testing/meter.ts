/** Counts an object's storage operations. It wraps `ctx.storage` before the construction, so it sees every statement of every library. */

type Cursor = SqlStorageCursor<Record<string, SqlStorageValue>>;

/** Intercepts an object's storage operations. */
export interface StorageObserver {
  /** One or more statements in one text. */
  exec(query: string, run: () => Cursor): Cursor;
  /** `keys` keys are put or deleted. */
  put<T>(keys: number, run: () => T): T;
  setAlarm<T>(run: () => T): T;
}

/** Counts since the last {@link Meter.reset}. */
export type Count = {
  /** Calls of `sql.exec`. */
  statements: number;
  /** As billed by the platform. */
  rowsRead: number;
  /** As billed by the platform: index entries count as well. */
  rowsWritten: number;
  /** Each is billed as a row written. */
  setAlarms: number;
  /** Keys written or deleted by the key-value API, which are billed as rows. */
  keysWritten: number;
};

/** Whether a statement changes rows. */
export function isWrite(query: string): boolean {
  return /^\s*(INSERT|UPDATE|DELETE|REPLACE)/i.test(query);
}

const ZERO = { statements: 0, setAlarms: 0, keysWritten: 0, writes: 0 };

/** Counts statements, rows and alarms of one object. Keeps each cursor until the next {@link reset}, because its counts grow while it is read. */
export class Meter implements StorageObserver {
  #cursors: { query: string; cursor: Cursor }[] = [];
  #counts = { ...ZERO };
  /** Called before each write with its number since the last {@link reset}; may throw or abort. */
  onWrite: ((write: number, what: string) => void) | undefined;
  /** Called after each write, with the same number. */
  onWritten: ((write: number, what: string) => void) | undefined;

  /** Counts from zero again. */
  reset(): void {
    this.#cursors = [];
    this.#counts = { ...ZERO };
  }

  /** The counts so far, without rows that a cursor has not returned yet. */
  read(): Count {
    const { statements, setAlarms, keysWritten } = this.#counts;
    const rowsRead = this.#cursors.reduce((total, { cursor }) => total + cursor.rowsRead, 0);
    const rowsWritten = this.rowsWrittenBy(() => true);
    return { statements, rowsRead, rowsWritten, setAlarms, keysWritten };
  }

  exec(query: string, run: () => Cursor): Cursor {
    this.#counts.statements++;
    const cursor = isWrite(query) ? this.#write(query, run) : run();
    this.#cursors.push({ query, cursor });
    return cursor;
  }

  /** Rows written by the statements for which `isCounted` returns true. */
  rowsWrittenBy(isCounted: (query: string) => boolean): number {
    return this.#cursors
      .filter(({ query }) => isCounted(query))
      .reduce((total, { cursor }) => total + cursor.rowsWritten, 0);
  }

  /** The number of statements for which `isCounted` returns true. */
  statementsOf(isCounted: (query: string) => boolean): number {
    return this.#cursors.filter(({ query }) => isCounted(query)).length;
  }

  put<T>(keys: number, run: () => T): T {
    this.#counts.keysWritten += keys;
    return this.#write("put", run);
  }

  setAlarm<T>(run: () => T): T {
    this.#counts.setAlarms++;
    return this.#write("setAlarm", run);
  }

  #write<T>(what: string, run: () => T): T {
    const write = ++this.#counts.writes;
    this.onWrite?.(write, what);
    const result = run();
    this.onWritten?.(write, what);
    return result;
  }
}

/** Wraps an object's storage with a meter, and returns the same `ctx`. Call it in the constructor: `super(metered(ctx, meter), env)`. */
export function metered(ctx: DurableObjectState, meter: StorageObserver): DurableObjectState {
  const { storage } = ctx;
  const sql = intercept(storage.sql, {
    exec: (target, query: string, ...bindings: SqlStorageValue[]) =>
      meter.exec(query, () => target.exec(query, ...bindings)),
  });
  const write =
    (verb: "put" | "delete") =>
    (target: DurableObjectStorage, ...args: [string | object, ...unknown[]]) => {
      // One key, an object of keys and values, or a list of keys.
      const keys = typeof args[0] === "string" ? 1 : Object.keys(args[0]).length;
      const method = target[verb] as (...args: unknown[]) => Promise<unknown>;
      return meter.put(keys, () => method.apply(target, args));
    };
  const wrapped = intercept(
    storage,
    {
      put: write("put"),
      delete: write("delete"),
      setAlarm: (target, ...args: Parameters<DurableObjectStorage["setAlarm"]>) => {
        return meter.setAlarm(() => target.setAlarm(...args));
      },
    },
    { sql },
  );
  Object.defineProperty(ctx, "storage", { value: wrapped, configurable: true });
  return ctx;
}

type Handlers<T> = { [Key in keyof T]?: (target: T, ...args: never[]) => unknown };

function intercept<T extends object>(target: T, handlers: Handlers<T>, values: Partial<T> = {}): T {
  return new Proxy(target, {
    get(object, key) {
      if (key in values) return values[key as keyof T];
      const handler = handlers[key as keyof T] as
        | ((target: T, ...args: unknown[]) => unknown)
        | undefined;
      if (handler) return (...args: unknown[]) => handler(object, ...args);
      const value = Reflect.get(object, key) as unknown;
      return typeof value === "function" ? value.bind(object) : value;
    },
  });
}
