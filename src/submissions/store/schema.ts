/** The tables of the ledger. */

/**
 * A published migration is never edited. Columns that may be large come last: SQLite reads all pages of a row up to the last
 * column that a statement needs.
 */
export const MIGRATIONS = [
  `CREATE TABLE perdure_submissions (
     seq INTEGER PRIMARY KEY,
     submission_id TEXT NOT NULL,
     idempotency_key TEXT,
     status TEXT NOT NULL DEFAULT 'pending',
     attempts INTEGER NOT NULL DEFAULT 0,
     thread TEXT NOT NULL DEFAULT 'main',
     created_at INTEGER NOT NULL,
     started_at INTEGER,
     settled_at INTEGER,
     due_at INTEGER,
     rank INTEGER NOT NULL DEFAULT 0,
     not_before INTEGER,
     expires_at INTEGER,
     budget INTEGER,
     resets INTEGER NOT NULL DEFAULT 0,
     waits INTEGER NOT NULL DEFAULT 0,
     rollback_state TEXT,
     is_refused INTEGER NOT NULL DEFAULT 0,
     is_generated INTEGER NOT NULL DEFAULT 0,
     is_retry INTEGER NOT NULL DEFAULT 0,
     merged_into TEXT,
     retried_by TEXT,
     batch TEXT,
     debounce_key TEXT,
     debounce_until INTEGER,
     run TEXT,
     channel TEXT,
     request_id TEXT,
     message_id TEXT,
     finish_reason TEXT,
     trace_parent TEXT,
     waiting_for TEXT,
     limits TEXT,
     retry TEXT,
     usage TEXT,
     error_name TEXT,
     error TEXT,
     notify TEXT,
     metadata TEXT,
     output TEXT,
     timeline TEXT,
     answer TEXT,
     messages TEXT NOT NULL
   );
   CREATE UNIQUE INDEX perdure_submissions_id ON perdure_submissions (submission_id) WHERE is_generated = 0;
   CREATE UNIQUE INDEX perdure_submissions_key ON perdure_submissions (idempotency_key)
     WHERE idempotency_key IS NOT NULL;
   CREATE INDEX perdure_submissions_open ON perdure_submissions (thread, rank, seq)
     WHERE settled_at IS NULL AND not_before IS NULL;
   CREATE INDEX perdure_submissions_scheduled ON perdure_submissions (not_before)
     WHERE settled_at IS NULL AND not_before IS NOT NULL;
   CREATE UNIQUE INDEX perdure_submissions_debounce ON perdure_submissions (debounce_key)
     WHERE debounce_key IS NOT NULL AND settled_at IS NULL;
   CREATE INDEX perdure_submissions_merged ON perdure_submissions (merged_into)
     WHERE merged_into IS NOT NULL AND settled_at IS NULL;
   CREATE INDEX perdure_submissions_rollback ON perdure_submissions (seq) WHERE rollback_state = 'pending';
   CREATE INDEX perdure_submissions_batch ON perdure_submissions (batch)
     WHERE batch IS NOT NULL AND settled_at IS NULL;
   CREATE TABLE perdure_batches (
     batch TEXT PRIMARY KEY,
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     event_type TEXT,
     proof TEXT,
     fails_fast INTEGER NOT NULL DEFAULT 0
   ) WITHOUT ROWID;
   CREATE TABLE perdure_attempts (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     attempt INTEGER NOT NULL,
     started_at INTEGER NOT NULL,
     ended_at INTEGER NOT NULL,
     error_name TEXT NOT NULL,
     follow TEXT NOT NULL,
     usage TEXT,
     error TEXT NOT NULL,
     timeline TEXT,
     given TEXT,
     PRIMARY KEY (seq, attempt)
   ) WITHOUT ROWID;
   CREATE TABLE perdure_tool_calls (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     ordinal INTEGER NOT NULL,
     attempt INTEGER NOT NULL,
     started_at INTEGER NOT NULL,
     ended_at INTEGER,
     tool_call_id TEXT NOT NULL,
     call_key TEXT,
     tool TEXT NOT NULL,
     input_digest TEXT NOT NULL,
     outcome TEXT,
     input TEXT NOT NULL,
     value TEXT,
     PRIMARY KEY (seq, ordinal)
   ) WITHOUT ROWID;
   CREATE TABLE perdure_tool_steps (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     ordinal INTEGER NOT NULL,
     step TEXT NOT NULL,
     value TEXT,
     PRIMARY KEY (seq, ordinal, step)
   ) WITHOUT ROWID;`,
] as const;
