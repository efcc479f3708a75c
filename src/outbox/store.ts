/**
 * All SQL of the outbox. Owns `perdure_outbox` (entries still to be delivered)
 * and `perdure_dead_letters` (entries given up).
 *
 * Neither has an index beside its key. A delivered entry is deleted and a dead
 * one moves, so the live table is as long as what is under way: a scan of it
 * costs less than the index row that every single delivery would bill.
 */

import { migrate } from "../core/migrations.ts";
import type { DeadLetter, Destination, Entry } from "./types.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_outbox (
     id TEXT PRIMARY KEY,
     destination TEXT NOT NULL,
     payload TEXT NOT NULL,
     failures INTEGER NOT NULL DEFAULT 0,
     due_at INTEGER NOT NULL,
     last_error TEXT
   ) WITHOUT ROWID;
   CREATE TABLE perdure_dead_letters (
     id TEXT PRIMARY KEY,
     destination TEXT NOT NULL,
     payload TEXT NOT NULL,
     failures INTEGER NOT NULL,
     last_error TEXT NOT NULL,
     died_at INTEGER NOT NULL
   ) WITHOUT ROWID;`,
] as const;

type Row = { id: string; destination: string; payload: string; failures: number };
type DeadRow = Row & { last_error: string; died_at: number };

export class OutboxStore {
  constructor(private readonly storage: DurableObjectStorage) {}

  migrate(): void {
    migrate(this.storage, "outbox", MIGRATIONS);
  }

  /** Stores an entry, due at once. An id that is under way already stays as it is. */
  put(id: string, destination: Destination, payload: unknown, now: number): void {
    this.storage.sql.exec(
      "INSERT INTO perdure_outbox (id, destination, payload, due_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
      id,
      JSON.stringify(destination),
      JSON.stringify(payload),
      now,
    );
  }

  /**
   * Entries that are due, one for each destination, the longest waiting first.
   *
   * @param busy destinations to leave out: something is under way to them already
   */
  due(now: number, busy: readonly Destination[], limit: number): Entry[] {
    return this.storage.sql
      .exec<Row>(
        `SELECT id, destination, payload, failures, MIN(due_at) FROM perdure_outbox
         WHERE due_at <= ? AND destination NOT IN (SELECT value FROM json_each(?))
         GROUP BY destination ORDER BY MIN(due_at) LIMIT ?`,
        now,
        jsonOf(busy),
        limit,
      )
      .toArray()
      .map(toEntry);
  }

  /** When the next entry is due that is not for a busy destination, or null when there is none. */
  nextDue(busy: readonly Destination[]): number | null {
    const row = this.storage.sql
      .exec<{ due: number | null }>(
        `SELECT MIN(due_at) AS due FROM perdure_outbox
         WHERE destination NOT IN (SELECT value FROM json_each(?))`,
        jsonOf(busy),
      )
      .one();
    return row.due;
  }

  isEmpty(): boolean {
    return this.storage.sql.exec("SELECT 1 FROM perdure_outbox LIMIT 1").toArray().length === 0;
  }

  /** pending → delivered: the entry is forgotten. */
  delivered(id: string): void {
    this.storage.sql.exec("DELETE FROM perdure_outbox WHERE id = ?", id);
  }

  /** pending → pending: one more failure, due again at `time`. */
  retryAt(id: string, time: number, error: string): void {
    this.storage.sql.exec(
      "UPDATE perdure_outbox SET failures = failures + 1, due_at = ?, last_error = ? WHERE id = ?",
      time,
      error,
      id,
    );
  }

  /** pending → dead: the entry moves to the dead letters with its payload. */
  bury(id: string, error: string, now: number): void {
    this.storage.transactionSync(() => {
      this.storage.sql.exec(
        `INSERT OR REPLACE INTO perdure_dead_letters (id, destination, payload, failures, last_error, died_at)
         SELECT id, destination, payload, failures + 1, ?, ? FROM perdure_outbox WHERE id = ?`,
        error,
        now,
        id,
      );
      this.storage.sql.exec("DELETE FROM perdure_outbox WHERE id = ?", id);
    });
  }

  /** The dead letters, newest first. */
  dead(limit: number): DeadLetter[] {
    return this.storage.sql
      .exec<DeadRow>("SELECT * FROM perdure_dead_letters ORDER BY died_at DESC LIMIT ?", limit)
      .toArray()
      .map((row) => ({ ...toEntry(row), lastError: row.last_error, diedAt: row.died_at }));
  }
}

/** The destinations as they stand in the rows, as one bound parameter. */
function jsonOf(destinations: readonly Destination[]): string {
  return JSON.stringify(destinations.map((destination) => JSON.stringify(destination)));
}

function toEntry(row: Row): Entry {
  return {
    id: row.id,
    destination: JSON.parse(row.destination) as Destination,
    payload: JSON.parse(row.payload) as unknown,
    failures: row.failures,
  };
}
