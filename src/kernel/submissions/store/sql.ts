/** Reads single values. */

/** The first column of each row that a query returns. */
export function valuesOf<Value extends SqlStorageValue>(
  sql: SqlStorage,
  query: string,
  ...bindings: SqlStorageValue[]
): Value[] {
  return Array.from(sql.exec(query, ...bindings).raw<[Value]>(), ([value]) => value);
}
