/**
 * A history of changes. SQL triggers write it in the same commit as each change, so no crash can separate them. Owns the tables
 * `perdure_testing_*`, which exist only in objects of crash scenarios.
 */

/** One change of a submission's status; `before` is null when it was accepted. */
export type Change = { id: string; before: string | null; after: string };

/** One entry that was put into the outbox; the payload is null if it is stored in parts. */
export type Put = { id: string; destination: string; payload: string | null };

const HISTORIES: Readonly<Record<string, string>> = {
  perdure_submissions: `
    CREATE TABLE IF NOT EXISTS perdure_testing_changes (id TEXT NOT NULL, before TEXT, after TEXT NOT NULL);
    CREATE TRIGGER IF NOT EXISTS perdure_testing_accepted AFTER INSERT ON perdure_submissions
    BEGIN INSERT INTO perdure_testing_changes VALUES (NEW.submission_id, NULL, NEW.status); END;
    CREATE TRIGGER IF NOT EXISTS perdure_testing_changed AFTER UPDATE OF status ON perdure_submissions
    WHEN OLD.status IS NOT NEW.status OR OLD.settled_at IS NOT NULL
    BEGIN INSERT INTO perdure_testing_changes VALUES (NEW.submission_id, OLD.status, NEW.status); END`,
  perdure_outbox: `
    CREATE TABLE IF NOT EXISTS perdure_testing_puts (id TEXT NOT NULL, destination TEXT NOT NULL, payload TEXT);
    CREATE TRIGGER IF NOT EXISTS perdure_testing_put AFTER INSERT ON perdure_outbox
    BEGIN INSERT INTO perdure_testing_puts VALUES (NEW.id, NEW.destination, NEW.payload); END`,
};

/** Whether a statement is the last one of a module's migrations. */
export function isMigration(query: string): boolean {
  return query.includes("INTO perdure_schema");
}

/** Creates the triggers for the tables that exist. */
export function keepHistory(sql: SqlStorage): void {
  for (const [table, history] of Object.entries(HISTORIES)) {
    if (hasTable(sql, table)) sql.exec(history);
  }
}

export function hasTable(sql: SqlStorage, table: string): boolean {
  const found = sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", table);
  return found.toArray().length > 0;
}
