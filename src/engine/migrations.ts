/** Numbered, append-only migrations, one list per module. Owns the table `perdure_schema`. */

/** Thrown when storage was written by a newer Perdure than the one that runs. */
export class NewerSchemaError extends Error {
  override readonly name = "NewerSchemaError";
  constructor(
    readonly module: string,
    readonly stored: number,
    readonly known: number,
  ) {
    super(
      `Invalid schema version ${stored} of "${module}" in storage: this version of Perdure supports up to ${known}. ` +
        "Deploy the version of Perdure that wrote it, or a newer one. Nothing was changed.",
    );
  }
}

/**
 * The versions of all modules: one read for each object instance. Null after a migration, whose transaction an outer one may
 * roll back: then each module reads.
 */
const versions = new WeakMap<DurableObjectStorage, ReadonlyMap<string, number> | null>();

/**
 * Migrates a module's tables to the newest version. `migrations[n]` migrates version n to n + 1; never edit a published
 * one. All migrations and the new version commit in one transaction.
 *
 * @throws NewerSchemaError when a newer version of Perdure wrote the storage
 */
export function migrate(
  storage: DurableObjectStorage,
  module: string,
  migrations: readonly string[],
): void {
  const stored = storedVersion(storage, module);
  if (stored === migrations.length) return;
  versions.set(storage, null);
  if (stored > migrations.length) throw new NewerSchemaError(module, stored, migrations.length);
  storage.transactionSync(() => {
    const { sql } = storage;
    for (const migration of migrations.slice(stored)) sql.exec(migration);
    sql.exec(
      "INSERT INTO perdure_schema (module, version) VALUES (?, ?) ON CONFLICT (module) DO UPDATE SET version = excluded.version",
      module,
      migrations.length,
    );
  });
}

/** All tables were deleted: the next {@link migrate} makes them again. */
export function forgetVersions(storage: DurableObjectStorage): void {
  versions.delete(storage);
}

/** The version of a module's tables in storage; 0 if it has none. */
export function storedVersion(storage: DurableObjectStorage, module: string): number {
  return storedVersions(storage).get(module) ?? 0;
}

/** All versions in storage, by what they are of. */
export function storedVersions(storage: DurableObjectStorage): ReadonlyMap<string, number> {
  const known = versions.get(storage);
  const all = known ?? readVersions(storage.sql);
  if (known === undefined) versions.set(storage, all);
  return all;
}

/** Stores a version outside of a migration. Call it outside of a transaction. */
export function storeVersion(storage: DurableObjectStorage, name: string, version: number): void {
  readVersions(storage.sql);
  storage.sql.exec("INSERT INTO perdure_schema (module, version) VALUES (?, ?)", name, version);
  versions.set(storage, null);
}

function readVersions(sql: SqlStorage): ReadonlyMap<string, number> {
  sql.exec(
    "CREATE TABLE IF NOT EXISTS perdure_schema (module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
  );
  const query = "SELECT module, version FROM perdure_schema";
  const rows = sql.exec<{ module: string; version: number }>(query);
  return new Map(Array.from(rows, (row) => [row.module, row.version]));
}
