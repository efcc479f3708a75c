/** The tables of the log of arrivals. */

/** Numbered by their position; a published one is never edited. Columns that may be large come last. */
export const MIGRATIONS = [
  `CREATE TABLE perdure_inbound (
     seq INTEGER PRIMARY KEY,
     source TEXT NOT NULL,
     id TEXT NOT NULL,
     type TEXT NOT NULL,
     verdict TEXT NOT NULL,
     bytes INTEGER NOT NULL,
     hash TEXT NOT NULL,
     received_at INTEGER NOT NULL,
     stored_at INTEGER NOT NULL,
     duplicates INTEGER NOT NULL DEFAULT 0,
     replays INTEGER NOT NULL DEFAULT 0,
     has_conflict INTEGER NOT NULL DEFAULT 0,
     body_bytes INTEGER NOT NULL,
     kept_bytes INTEGER NOT NULL,
     emptied INTEGER NOT NULL,
     replay_of TEXT,
     error TEXT,
     calls TEXT NOT NULL,
     body TEXT,
     UNIQUE (source, id)
   );
   CREATE TABLE perdure_refusals (
     hour INTEGER NOT NULL,
     source TEXT NOT NULL,
     reason TEXT NOT NULL,
     count INTEGER NOT NULL,
     first_at INTEGER NOT NULL,
     PRIMARY KEY (hour, source, reason)
   ) WITHOUT ROWID;`,
] as const;
