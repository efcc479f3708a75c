/** Reads and inserts rows. Columns are in snake case, and names in camel case. */

/** The first column of each row that a query returns. */
export function valuesOf<Value extends SqlStorageValue>(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Value[] {
  return Array.from(sql.exec(query, ...bindings).raw<[Value]>(), ([value]) => value);
}

/** Names by column: many rows have the same columns. */
const names = new Map<string, string>();

/** NULL is undefined, and JSON is parsed. */
export function rowOf<Row extends object>(
  columns: Record<string, SqlStorageValue>,
  jsonColumns: readonly string[],
): Row {
  const entries = Object.entries(columns).map(([column, value]) => {
    let name = names.get(column);
    if (name === undefined) {
      name = column.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
      names.set(column, name);
    }
    const isJson = value !== null && jsonColumns.includes(column);
    return [name, isJson ? JSON.parse(value as string) : (value ?? undefined)];
  });
  return Object.fromEntries(entries) as Row;
}

/** `task_id` for `taskId`. */
export const columnOf = (name: string) =>
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Inserts a row. Undefined is NULL, objects are stored as JSON, true as 1, and false as 0. */
export function insert(sql: SqlStorage, table: string, row: object): void {
  const given = Object.entries(row).filter(([, value]) => value !== undefined && value !== null);
  const columns = given.map(([name]) => columnOf(name));
  const values = given.map(([, value]) => {
    if (typeof value === "object") return JSON.stringify(value);
    return typeof value === "boolean" ? Number(value) : value;
  });
  const marks = values.map(() => "?").join(", ");
  sql.exec(`INSERT INTO ${table} (${columns.join(", ")}) VALUES (${marks})`, ...values);
}
