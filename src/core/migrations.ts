/**
 * Numbered, append-only migrations, one list per room. Owns the table
 * `perdure_schema`; a room's tables belong to the room.
 */

/** Thrown when storage was written by a newer Perdure than the one that runs. */
export class NewerSchemaError extends Error {
  override readonly name = "NewerSchemaError";
  constructor(
    readonly room: string,
    readonly stored: number,
    readonly known: number,
  ) {
    super(
      `The stored schema of "${room}" is version ${stored}, and this Perdure knows up to ${known}. ` +
        "Deploy the version of Perdure that wrote it, or a newer one; nothing was changed.",
    );
  }
}

/**
 * Brings a room's tables to the newest version. `migrations[n]` takes version
 * n to n + 1; a published one is never edited. All steps that are due and the
 * new version commit together.
 *
 * @throws NewerSchemaError when a newer version of the code has been here.
 */
export function migrate(
  storage: DurableObjectStorage,
  room: string,
  migrations: readonly string[],
): void {
  const { sql } = storage;
  sql.exec(
    "CREATE TABLE IF NOT EXISTS perdure_schema (room TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
  );
  const [row] = sql
    .exec<{ version: number }>("SELECT version FROM perdure_schema WHERE room = ?", room)
    .toArray();
  const stored = row?.version ?? 0;
  if (stored > migrations.length) throw new NewerSchemaError(room, stored, migrations.length);
  if (stored === migrations.length) return;
  storage.transactionSync(() => {
    for (const migration of migrations.slice(stored)) sql.exec(migration);
    sql.exec(
      "INSERT INTO perdure_schema (room, version) VALUES (?, ?) ON CONFLICT (room) DO UPDATE SET version = excluded.version",
      room,
      migrations.length,
    );
  });
}
