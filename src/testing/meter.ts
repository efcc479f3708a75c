/**
 * Counts what an object does to its storage, and can stop it there. Stands in
 * front of `ctx.storage` before the object is constructed, so that it sees
 * every statement of every library in it.
 */

export type Count = {
  statements: number;
  rowsRead: number;
  rowsWritten: number;
  setAlarms: number;
  /** Keys written or deleted through the key-value interface, which is not SQL and billed as rows, too. */
  keysWritten: number;
};

export class Meter {
  #cursors: { query: string; cursor: SqlStorageCursor<Record<string, SqlStorageValue>> }[] = [];
  #statements = 0;
  #keysWritten = 0;
  #setAlarms = 0;
  /** Called before each write with its number since the last {@link reset}; may throw or abort. */
  onWrite: ((write: number, what: string) => void) | undefined;
  /** Called after each write, with the same number. */
  onWritten: ((write: number, what: string) => void) | undefined;
  #writes = 0;

  reset(): void {
    this.#cursors = [];
    this.#statements = 0;
    this.#keysWritten = 0;
    this.#setAlarms = 0;
    this.#writes = 0;
  }

  read(): Count {
    const sum = (key: "rowsRead" | "rowsWritten") =>
      this.#cursors.reduce((total, { cursor }) => total + cursor[key], 0);
    return {
      statements: this.#statements,
      rowsRead: sum("rowsRead"),
      rowsWritten: sum("rowsWritten"),
      setAlarms: this.#setAlarms,
      keysWritten: this.#keysWritten,
    };
  }

  exec(query: string, run: () => SqlStorageCursor<Record<string, SqlStorageValue>>) {
    const isWrite = /^\s*(INSERT|UPDATE|DELETE|REPLACE)/i.test(query);
    this.#statements++;
    const cursor = isWrite ? this.#write(query, run) : run();
    this.#cursors.push({ query, cursor });
    return cursor;
  }

  /** Rows written by statements that `isCounted`. */
  rowsWrittenBy(isCounted: (query: string) => boolean): number {
    return this.#cursors
      .filter(({ query }) => isCounted(query))
      .reduce((total, { cursor }) => total + cursor.rowsWritten, 0);
  }

  /** How many statements `isCounted`. */
  statementsOf(isCounted: (query: string) => boolean): number {
    return this.#cursors.filter(({ query }) => isCounted(query)).length;
  }

  put<T>(keys: number, run: () => T): T {
    this.#keysWritten += keys;
    return this.#write("put", run);
  }

  setAlarm<T>(run: () => T): T {
    this.#setAlarms++;
    return this.#write("setAlarm", run);
  }

  #write<T>(what: string, run: () => T): T {
    const write = ++this.#writes;
    this.onWrite?.(write, what);
    const result = run();
    this.onWritten?.(write, what);
    return result;
  }
}

/** Puts a meter in front of an object's storage. Call it before `super(ctx, env)`. */
export function metered(ctx: DurableObjectState, meter: Meter): DurableObjectState {
  const { storage } = ctx;
  const sql = intercept(storage.sql, {
    exec: (target, query: string, ...bindings: SqlStorageValue[]) =>
      meter.exec(query, () => target.exec(query, ...bindings)),
  });
  const wrapped = intercept(
    storage,
    {
      put: (target, ...args: [string | Record<string, unknown>, ...unknown[]]) => {
        const keys = typeof args[0] === "string" ? 1 : Object.keys(args[0]).length;
        return meter.put(keys, () =>
          (target.put as (...args: unknown[]) => Promise<void>).apply(target, args),
        );
      },
      delete: (target, ...args: [string | string[], ...unknown[]]) => {
        const keys = typeof args[0] === "string" ? 1 : args[0].length;
        return meter.put(keys, () =>
          (target.delete as (...args: unknown[]) => Promise<boolean>).apply(target, args),
        );
      },
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
