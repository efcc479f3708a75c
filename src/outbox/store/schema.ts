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
   CREATE TABLE perdure_outbox_ended (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     state TEXT NOT NULL,
     seq INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     ended_at INTEGER NOT NULL,
     is_notified INTEGER,
     is_uncertain INTEGER NOT NULL DEFAULT 0,
     trace_parent TEXT,
     reason TEXT,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE INDEX perdure_outbox_ended_by_time ON perdure_outbox_ended (state, ended_at, id);
   CREATE INDEX perdure_outbox_to_notify ON perdure_outbox_ended (id) WHERE is_notified = 0;
   CREATE TABLE perdure_endpoints (
     key TEXT PRIMARY KEY,
     url TEXT NOT NULL,
     failing_since INTEGER NOT NULL,
     held_until INTEGER,
     disabled_at INTEGER,
     reason TEXT NOT NULL
   ) WITHOUT ROWID;`,
] as const;
