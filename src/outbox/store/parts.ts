/**
 * Events that are too long for one row. Owns `perdure_outbox_parts`: an entry keeps its parts as a dead letter and after
 * its delivery, and its `payload` is NULL.
 */

import { partsOf } from "../../core/text.ts";

export function insertParts(sql: SqlStorage, id: string, text: string): void {
  for (const [part, content] of partsOf(text).entries()) {
    sql.exec("INSERT INTO perdure_outbox_parts VALUES (?, ?, ?)", id, part, content);
  }
}

export function joinedParts(sql: SqlStorage, id: string): string {
  const query = "SELECT text FROM perdure_outbox_parts WHERE id = ? ORDER BY part";
  const parts = sql.exec<{ text: string }>(query, id).toArray();
  return parts.map(({ text }) => text).join("");
}

export function deleteParts(sql: SqlStorage, id: string): void {
  sql.exec("DELETE FROM perdure_outbox_parts WHERE id = ?", id);
}

/** Deletes rows of a table with their parts, within the caller's transaction. Returns their ids. */
export function deleteWithParts(
  sql: SqlStorage,
  table: "perdure_dead_letters" | "perdure_delivered",
  condition: string,
  values: readonly SqlStorageValue[],
): string[] {
  const query = `DELETE FROM ${table} WHERE ${condition} RETURNING id, payload IS NULL AS isInParts`;
  const rows = sql.exec<{ id: string; isInParts: number }>(query, ...values).toArray();
  for (const { id, isInParts } of rows) if (isInParts) deleteParts(sql, id);
  return rows.map(({ id }) => id);
}
