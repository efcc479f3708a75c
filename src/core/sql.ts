/** Reads rows. */

/** The first column of each row that a query returns. */
export function valuesOf<Value extends SqlStorageValue>(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Value[] {
  return Array.from(sql.exec(query, ...bindings).raw<[Value]>(), ([value]) => value);
}

/** `wait_id` of SQLite is `waitId` here, NULL is undefined, and JSON is parsed. */
export function rowOf<Row extends object>(
  columns: Record<string, SqlStorageValue>,
  jsonColumns: readonly string[],
): Row {
  const entries = Object.entries(columns).map(([column, value]) => {
    const name = column.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const isJson = value !== null && jsonColumns.includes(column);
    return [name, isJson ? JSON.parse(value as string) : (value ?? undefined)];
  });
  return Object.fromEntries(entries) as Row;
}
