/** The table of jobs, which the first job makes. */

import { JobStore } from "../../src/engine/store.ts";

/** All stored jobs. */
export function jobsIn(sql: SqlStorage): Record<string, SqlStorageValue>[] {
  const made = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_jobs'").toArray();
  return made.length === 0 ? [] : sql.exec("SELECT * FROM perdure_jobs").toArray();
}

/** Makes the table, and the number of a kind. For tests that write rows themselves. */
export function makeJobs(storage: DurableObjectStorage, kind: string): void {
  new JobStore(storage).newId(kind);
}
