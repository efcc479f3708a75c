/**
 * Values that are too long for their rows, in parts. Owns `perdure_values`, which the first of them makes. Whoever deletes the row
 * that a value belongs to deletes the value.
 */

import { valuesOf } from "../core/sql.ts";
import { type Part, partsOf } from "../core/text.ts";

const TABLE = `CREATE TABLE IF NOT EXISTS perdure_values (
  owner TEXT NOT NULL,
  part INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (owner, part)
) WITHOUT ROWID;`;

/**
 * Stores a value, in the transaction that marks its row.
 *
 * @param owner names the row, e.g. `delivery:7`
 * @param trigger SQL of a trigger that deletes values with their rows
 */
export function writeValue(sql: SqlStorage, owner: string, text: string, trigger = ""): void {
  sql.exec(TABLE + trigger);
  for (const [part, piece] of partsOf(text).entries())
    sql.exec("INSERT INTO perdure_values (owner, part, text) VALUES (?, ?, ?)", owner, part, piece);
}

/** The whole value. Read it on demand: those of all rows of a query may exceed the memory. */
export function readValue(sql: SqlStorage, owner: string): string {
  const query = "SELECT text FROM perdure_values WHERE owner = ? ORDER BY part";
  return valuesOf<string>(sql, query, owner).join("");
}

/** A part of a value, from 0 on; undefined behind the last one. */
export function readPart(sql: SqlStorage, owner: string, part: number): Part | undefined {
  const query = `SELECT text, (SELECT MAX(part) + 1 FROM perdure_values WHERE owner = piece.owner) AS parts
    FROM perdure_values AS piece WHERE owner = ? AND part = ?`;
  return sql.exec<Part>(query, owner, part).toArray()[0];
}

export function deleteValue(sql: SqlStorage, owner: string): void {
  sql.exec("DELETE FROM perdure_values WHERE owner = ?", owner);
}
