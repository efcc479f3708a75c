/** What a health report knows of the ledger. Reads a bounded number of rows, and writes nothing. */

import { type Cause, causeOf, readFailure } from "../core/failures.ts";
import { type RecentFacts, recentFacts } from "./recent.ts";
import type { SubmissionStatus } from "./states.ts";
import { QUEUED, SCHEDULED } from "./store/open.ts";

/** Rows that one report reads at most: the open ones, and the newest of all. */
const MOST_OPEN = 10_000;
const MOST_READ = 1_000;
/** Open submissions whose latest failed attempt is read. */
const MOST_TRIED = 500;
/** Causes that are kept apart. More of them are counted by their names. */
const MOST_ERRORS = 500;
const MOST_IDS = 10;
/** Characters of an error. */
const ERROR_LENGTH = 500;
const HOUR_MS = 3_600_000;
const HOURS = 24;

/** A submission that has not ended, and whose time has come or that waits for a retry. */
export type OpenSubmission = {
  readonly submissionId: string;
  readonly thread: string;
  readonly status: "pending" | "running";
  readonly createdAt: number;
  /** When it is due; a scheduled one has its time here until it starts. */
  readonly dueAt: number | null;
  /** Whether it waits for a limit that agents share. */
  readonly isLimited: boolean;
  /** Attempts that have started. */
  readonly attempts: number;
  /** Attempts that neither failed nor were reset by the platform: crashes of the object ended them. */
  readonly crashes: number;
  /** The latest failed attempt. */
  readonly failed?: FailedAttempt;
  /** When a running one last made progress. */
  readonly progressAt?: number;
};

type FailedAttempt = {
  readonly errorName: string;
  readonly error: string;
  /** The cause that was stored with the error; undefined for most errors, and for those of an older version. */
  readonly failure: Cause | undefined;
  readonly at: number;
};

/** Submissions that ended with the same cause in the last 24 hours, and that were not submitted again. */
export type FailedSubmissions = {
  readonly errorName: string;
  readonly failure: Cause | undefined;
  readonly cause: string;
  /** Of the latest one. */
  readonly error: string;
  readonly count: number;
  /** When the first and the latest one ended. */
  readonly since: number;
  readonly latest: number;
  /** When the first one was accepted. */
  readonly createdAt: number;
  readonly ids: readonly string[];
};

export type SubmissionFacts = {
  /** Of the newest rows; `pending` and `running` of all. */
  readonly counts: Readonly<Record<SubmissionStatus, number>>;
  /** Ends of the last 24 hours, oldest hour first. */
  readonly hourly: { readonly completed: readonly number[]; readonly failed: readonly number[] };
  readonly failed: readonly FailedSubmissions[];
  /** When the oldest of the newest rows was accepted, where there are older ones. */
  readonly countedFrom: number | undefined;
  /** By thread, in the order of their turns. */
  readonly open: readonly OpenSubmission[];
  readonly recent: RecentFacts;
  readonly storage: StorageFacts;
  readonly limits: SubmissionLimits;
};

type StorageFacts = {
  /** Of the object's database. */
  readonly bytes: number;
  /** Submissions that are stored, at most. */
  readonly submissions: number;
};

type SubmissionLimits = {
  readonly maxPending: number;
  readonly maxConcurrentTurns: number;
  readonly stallTimeoutMs: number;
  /** Of retention. */
  readonly maxAgeMs: number;
  readonly maxCount: number;
};

export type FactSource = {
  readonly sql: SqlStorage;
  readonly limits: SubmissionLimits;
  /** When a running submission last made progress, where this object instance runs it. */
  readonly progressAt: (seq: number) => number | undefined;
};

export function submissionFacts(
  { sql, limits, progressAt }: FactSource,
  now: number,
): SubmissionFacts {
  const open = openOf(sql, progressAt);
  const { counts, oldest, ...ended } = endedOf(sql, now);
  const { scheduled, stored } = sql.exec<{ scheduled: number; stored: number }>(TOTALS).one();
  const running = open.filter(({ status }) => status === "running").length;
  return {
    ...ended,
    countedFrom: stored > MOST_READ ? oldest : undefined,
    counts: { ...counts, running, pending: open.length - running + scheduled },
    open,
    recent: recentFacts(sql, now),
    storage: { bytes: sql.databaseSize, submissions: stored },
    limits,
  };
}

/** What is stored, by the numbers of the first and the last row. */
const TOTALS = `SELECT (SELECT COUNT(*) ${SCHEDULED}) AS scheduled,
  IFNULL((SELECT MAX(seq) FROM perdure_submissions) - (SELECT MIN(seq) FROM perdure_submissions) + 1, 0) AS stored`;

type OpenRow = {
  seq: number;
  id: string;
  thread: string;
  status: "pending" | "running";
  created: number;
  started: number | null;
  due: number | null;
  attempts: number;
  resets: number;
  limited: number;
};

function openOf(sql: SqlStorage, progressAt: FactSource["progressAt"]): OpenSubmission[] {
  const rows = sql
    .exec<OpenRow>(
      `SELECT seq, submission_id AS id, thread, status, created_at AS created, started_at AS started, due_at AS due,
         attempts - waits AS attempts, resets - waits AS resets, due_at > 0 AND waiting_for IS NOT NULL AS limited ${QUEUED} AND merged_into IS NULL ORDER BY thread, rank, seq LIMIT ${MOST_OPEN}`,
    )
    .toArray();
  const failures = failuresOf(
    sql,
    rows.filter(({ attempts, status }) => attempts > (status === "running" ? 1 : 0)),
  );
  return rows.map(
    ({ seq, id, thread, status, created, started, due, attempts, resets, limited }) => {
      const failed = failures.get(seq);
      const ended = attempts - (status === "running" ? 1 : 0);
      return {
        submissionId: id,
        thread,
        status,
        createdAt: created,
        dueAt: due,
        isLimited: limited === 1,
        attempts,
        crashes: Math.max(0, ended - resets - (failed?.count ?? 0)),
        ...(failed && { failed }),
        ...(status === "running" && { progressAt: progressAt(seq) ?? started ?? created }),
      };
    },
  );
}

/** The latest failed attempt of each, and how many there are. */
function failuresOf(sql: SqlStorage, tried: readonly OpenRow[]) {
  type Row = { seq: number; count: number; attempt: number; errorName: string; error: string };
  type Failed = Row & FailedAttempt;
  if (tried.length === 0) return new Map<number, Failed>();
  const seqs = tried.slice(0, MOST_TRIED).map(({ seq }) => seq);
  // SQLite takes the other columns from the row that has the MAX().
  const rows = sql.exec<Row & { at: number }>(
    `SELECT seq, COUNT(*) AS count, MAX(attempt) AS attempt, ended_at AS at, error_name AS errorName,
       substr(error, 1, ${ERROR_LENGTH}) AS error
     FROM perdure_attempts WHERE seq IN (SELECT value FROM json_each(?)) GROUP BY seq`,
    JSON.stringify(seqs),
  );
  return new Map(
    Array.from(rows, (row): [number, Failed] => {
      const { message: error, cause: failure } = readFailure(row.error);
      return [row.seq, { ...row, error, failure }];
    }),
  );
}

type EndedRow = {
  id: string;
  status: SubmissionStatus;
  created: number;
  settled: number | null;
  isRetried: number;
  errorName: string | null;
  error: string | null;
};

/** Of the newest rows, whatever their status. */
function endedOf(sql: SqlStorage, now: number) {
  const counts = { pending: 0, running: 0, completed: 0, error: 0, aborted: 0, skipped: 0 };
  const hourly = { completed: Array(HOURS).fill(0), failed: Array(HOURS).fill(0) };
  const failed = new Map<string, FailedSubmissions & { ids: string[] }>();
  let oldest = now;
  const rows = sql.exec<EndedRow>(
    `SELECT submission_id AS id, status, created_at AS created, settled_at AS settled, retried_by IS NOT NULL AS isRetried,
       error_name AS errorName, iif(status = 'error', substr(error, 1, ${ERROR_LENGTH}), NULL) AS error
     FROM perdure_submissions ORDER BY seq DESC LIMIT ${MOST_READ}`,
  );
  for (const { id, status, created, settled, isRetried, errorName, error: stored } of rows) {
    counts[status]++;
    oldest = created;
    if (settled === null) continue;
    const hour = HOURS - 1 - Math.floor((now - settled) / HOUR_MS);
    if (hour < 0) continue;
    const ends = status === "completed" ? hourly.completed : hourly.failed;
    if (status === "completed" || status === "error") ends[Math.min(hour, HOURS - 1)]++;
    if (status !== "error" || isRetried) continue;
    const name = errorName ?? "Error";
    const { message: error, cause: failure } = readFailure(stored ?? "");
    const own = causeOf(`${name}: ${error}`);
    const cause = failed.size < MOST_ERRORS || failed.has(own) ? own : name;
    const known = failed.get(cause);
    const ids = known?.ids ?? [];
    if (ids.length < MOST_IDS) ids.push(id);
    const isLatest = !known || settled > known.latest;
    failed.set(cause, {
      errorName: name,
      cause,
      error: isLatest ? error : known.error,
      failure: isLatest ? failure : known.failure,
      count: (known?.count ?? 0) + 1,
      since: Math.min(settled, known?.since ?? settled),
      latest: Math.max(settled, known?.latest ?? settled),
      createdAt: Math.min(created, known?.createdAt ?? created),
      ids,
    });
  }
  return {
    counts,
    oldest,
    hourly: hourly as SubmissionFacts["hourly"],
    failed: [...failed.values()],
  };
}
