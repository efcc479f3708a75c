/** The tables of the outbox. Large columns come last: SQLite reads a row's large column to reach the columns behind it. */

export const MIGRATIONS = [
  `CREATE TABLE perdure_outbox (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     seq INTEGER NOT NULL,
     due_at INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL DEFAULT 1,
     started INTEGER NOT NULL DEFAULT 1,
     interruptions INTEGER NOT NULL DEFAULT 0,
     earlier_attempts INTEGER NOT NULL DEFAULT 0,
     created_at INTEGER NOT NULL,
     queued_at INTEGER NOT NULL,
     unsure_since INTEGER,
     trace_parent TEXT,
     last_error TEXT,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE TABLE perdure_outbox_parts (
     id TEXT NOT NULL,
     part INTEGER NOT NULL,
     text TEXT NOT NULL,
     PRIMARY KEY (id, part)
   ) WITHOUT ROWID;
   CREATE TABLE perdure_dead_letters (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     seq INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     died_at INTEGER NOT NULL,
     is_notified INTEGER NOT NULL DEFAULT 0,
     is_uncertain INTEGER NOT NULL,
     trace_parent TEXT,
     last_error TEXT NOT NULL,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE INDEX perdure_dead_letters_by_time ON perdure_dead_letters (died_at, id);
   CREATE INDEX perdure_dead_letters_to_notify ON perdure_dead_letters (id) WHERE is_notified = 0;
   CREATE TABLE perdure_delivered (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     attempts INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     delivered_at INTEGER NOT NULL,
     is_whole INTEGER NOT NULL,
     discard_reason TEXT,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE INDEX perdure_delivered_by_time ON perdure_delivered (delivered_at, id);
   CREATE TABLE perdure_endpoints (
     key TEXT PRIMARY KEY,
     url TEXT NOT NULL,
     failing_since INTEGER NOT NULL,
     held_until INTEGER,
     disabled_at INTEGER,
     reason TEXT NOT NULL
   ) WITHOUT ROWID;`,
] as const;
