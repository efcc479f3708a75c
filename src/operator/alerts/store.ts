/** The findings that were announced or wait for it. Owns the table `perdure_alerts`. */

import { migrate } from "../../engine/migrations.ts";
import type { Finding } from "../protocol.ts";
import type { Alert } from "./decide.ts";

/** A published migration is never edited. */
const MIGRATIONS = [
  `CREATE TABLE perdure_alerts (
     key TEXT PRIMARY KEY,
     first_at INTEGER NOT NULL,
     announced_at INTEGER,
     over_at INTEGER,
     finding TEXT NOT NULL
   ) WITHOUT ROWID`,
] as const;

type Row = {
  key: string;
  firstAt: number;
  announcedAt: number | null;
  overAt: number | null;
  finding: string;
};

export function readAlerts(storage: DurableObjectStorage): Alert[] {
  migrate(storage, "alerts", MIGRATIONS);
  const rows = storage.sql.exec<Row>(
    "SELECT key, first_at AS firstAt, announced_at AS announcedAt, over_at AS overAt, finding FROM perdure_alerts",
  );
  return Array.from(rows, (row) => ({ ...row, finding: JSON.parse(row.finding) as Finding }));
}

/** Writes the rows that differ. */
export function writeAlerts(
  { sql }: DurableObjectStorage,
  before: readonly Alert[],
  after: readonly Alert[],
): void {
  const kept = new Set(after.map(({ key }) => key));
  for (const { key } of before)
    if (!kept.has(key)) sql.exec("DELETE FROM perdure_alerts WHERE key = ?", key);
  const known = new Map(before.map((alert) => [alert.key, alert]));
  for (const alert of after) {
    const { key, firstAt, announcedAt, overAt, finding } = alert;
    const old = known.get(key);
    const isSame =
      old?.firstAt === firstAt && old.announcedAt === announcedAt && old.overAt === overAt;
    if (isSame) continue;
    sql.exec(
      "INSERT OR REPLACE INTO perdure_alerts (key, first_at, announced_at, over_at, finding) VALUES (?, ?, ?, ?, ?)",
      key,
      firstAt,
      announcedAt,
      overAt,
      JSON.stringify(finding),
    );
  }
}
