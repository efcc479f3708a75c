/**
 * Writes `perdure_deployments`, one row for each version that the object has started with, and `perdure_workflow_versions`, one
 * row for each run of a workflow that `versions()` exports.
 */

import { valuesOf } from "../../core/sql.ts";
import { migrate } from "../../engine/migrations.ts";
import type { Version } from "./types.ts";

/** Numbered by their position; a published one is never edited. */
const MIGRATIONS = [
  `CREATE TABLE perdure_deployments (seq INTEGER PRIMARY KEY, version TEXT NOT NULL, since INTEGER NOT NULL);
   CREATE TABLE perdure_workflow_versions (
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     version TEXT,
     began_at INTEGER NOT NULL,
     PRIMARY KEY (workflow, instance)
   ) WITHOUT ROWID;`,
] as const;

/** Older ones are forgotten: work from before them has no version. With a deploy every hour it is about a month. */
const MOST_DEPLOYMENTS = 1_000;
/** Runs that a new run looks at, to forget those that have ended long ago. */
const SWEPT = 10;

export type Deployment = { readonly version: string; readonly since: number };
export type RunName = { readonly workflow: string; readonly instance: string };

export class DeployStore {
  /** Where the next sweep continues. */
  #swept: RunName = { workflow: "", instance: "" };

  constructor(private readonly storage: DurableObjectStorage) {}

  migrate(): void {
    migrate(this.storage, "deployments", MIGRATIONS);
  }

  /** The object has started with a version. Writes nothing where it is that of the last start. */
  started(version: string, now: number): void {
    const { sql } = this.storage;
    const [last] = this.deployments(1);
    if (last?.version === version) return;
    sql.exec("INSERT INTO perdure_deployments (version, since) VALUES (?, ?)", version, now);
    const old = "SELECT MAX(seq) FROM perdure_deployments";
    sql.exec(`DELETE FROM perdure_deployments WHERE seq <= (${old}) - ?`, MOST_DEPLOYMENTS);
  }

  /** The versions that the object has started with, the last start first. A version may come back. */
  deployments(limit = MOST_DEPLOYMENTS): Deployment[] {
    const query = "SELECT version, since FROM perdure_deployments ORDER BY seq DESC LIMIT ?";
    return this.storage.sql.exec<Deployment>(query, limit).toArray();
  }

  /** A run has begun with a version, or is migrated to it. */
  setRun({ workflow, instance }: RunName, version: Version, now: number): void {
    this.storage.sql.exec(
      `INSERT INTO perdure_workflow_versions (workflow, instance, version, began_at) VALUES (?, ?, ?, ?)
       ON CONFLICT (workflow, instance) DO UPDATE SET version = excluded.version WHERE version IS NOT excluded.version`,
      workflow,
      instance,
      version,
      now,
    );
  }

  /** The version that continues a run. Undefined for one whose class `versions()` does not export. */
  versionOfRun({ workflow, instance }: RunName): Version | undefined {
    const query =
      "SELECT version FROM perdure_workflow_versions WHERE workflow = ? AND instance = ?";
    return valuesOf<Version>(this.storage.sql, query, workflow, instance)[0];
  }

  /** The versions that continue these runs, by their ids. */
  versionsOfRuns(runs: readonly RunName[]): Map<string, Version> {
    type Row = { instance: string; version: Version };
    const rows = this.storage.sql.exec<Row>(
      `SELECT instance, version FROM json_each(?) CROSS JOIN perdure_workflow_versions
       ON instance = value ->> 'instance' AND workflow = value ->> 'workflow'`,
      JSON.stringify(runs),
    );
    return new Map(Array.from(rows, ({ instance, version }) => [instance, version]));
  }

  /** Forgets some of the runs that are over. */
  sweep(isOver: (run: RunName, beganAt: number) => boolean): void {
    const { sql } = this.storage;
    const { workflow, instance } = this.#swept;
    const query =
      "SELECT workflow, instance, began_at AS beganAt FROM perdure_workflow_versions WHERE (workflow, instance) > (?, ?) LIMIT ?";
    const runs = sql
      .exec<RunName & { beganAt: number }>(query, workflow, instance, SWEPT)
      .toArray();
    this.#swept = (runs.length === SWEPT && runs.at(-1)) || { workflow: "", instance: "" };
    for (const run of runs.filter((each) => isOver(each, each.beganAt)))
      sql.exec(
        "DELETE FROM perdure_workflow_versions WHERE workflow = ? AND instance = ?",
        run.workflow,
        run.instance,
      );
  }
}
