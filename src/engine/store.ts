/**
 * All SQL of jobs. Owns `perdure_jobs`: one table for all kinds, so that the rows of a kind are a range of the primary key, and lists,
 * retention and first-in-first-out need no index.
 *
 * Adding a job bills 2 rows (the row and its due time), and 1 each for a key, a parent and a topic; its end 1,
 * and 1 more where work is left to stop or an event has caused it. A change of the due time bills 2.
 */

import { rowOf, valuesOf } from "../core/sql.ts";
import { endOfPrefix } from "../core/text.ts";
import { type Job, type JobState, type NewJob, OPEN, statesBefore } from "./job.ts";
import { migrate, storedVersions, storeVersion } from "./migrations.ts";
import type { Page } from "./page.ts";
import type { Sweep } from "./sweep.ts";

const MODULE = "jobs";
/**
 * Numbered by their position; a published one is never edited. Columns that may be large come last: SQLite reads a large column to
 * reach those behind it. The number of a row is that of its kind times 2^44, plus its number within the kind.
 */
const MIGRATIONS = [
  `CREATE TABLE perdure_jobs (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL,
     key TEXT,
     state TEXT NOT NULL DEFAULT 'pending',
     reason TEXT,
     parent TEXT,
     topic TEXT,
     due_at INTEGER,
     expires_at INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     ended_at INTEGER,
     ended_by TEXT,
     data TEXT NOT NULL,
     request TEXT NOT NULL,
     result TEXT
   );
   CREATE UNIQUE INDEX perdure_jobs_key ON perdure_jobs (key) WHERE key IS NOT NULL;
   CREATE INDEX perdure_jobs_due ON perdure_jobs (seq >> 44, due_at) WHERE due_at IS NOT NULL;
   CREATE INDEX perdure_jobs_parent ON perdure_jobs (parent) WHERE parent IS NOT NULL AND ended_at IS NULL;
   CREATE INDEX perdure_jobs_topic ON perdure_jobs (topic) WHERE topic IS NOT NULL AND ended_at IS NULL;
   CREATE INDEX perdure_jobs_ended_by ON perdure_jobs (ended_by) WHERE ended_by IS NOT NULL;`,
] as const;

/** Rows of one kind. */
export const KIND_SIZE = 2 ** 44;
/** Names of kinds in `perdure_schema`, whose versions are their numbers. */
const KIND_PREFIX = "kind:";
const RADIX = 36;
const ID = /^([0-9a-z]{9,11})-[\w-]{22}$/;

const DUE =
  "FROM perdure_jobs INDEXED BY perdure_jobs_due WHERE due_at IS NOT NULL AND seq >> 44 =";
/** SQL for the jobs of a kind that are open, or have work to stop. Its binding is the number of the kind. */
export const LIVE = `${DUE} ?`;
const INSIDE =
  "FROM perdure_jobs INDEXED BY perdure_jobs_parent WHERE parent IS NOT NULL AND ended_at IS NULL AND parent =";
/** UTF-16 units of JSON in a list: what comes over RPC may have 32 MiB, and an object has 128 MB in all. */
const MAX_LISTED = 8_000_000;

export type JobQuery = {
  readonly kind: string;
  /** Only open ones, by the index of those. */
  readonly isOpen?: boolean;
  /** Only those that have ended for one of these reasons. The empty text stands for none. */
  readonly reasons?: readonly string[] | undefined;
  /** Only those that have this value at a JSON path of their data. */
  readonly data?: readonly [path: string, value: string] | undefined;
  /** The id of the job before the page. */
  readonly before?: string | undefined;
  readonly limit: number;
};

type Columns = {
  readonly key: string | null;
  readonly state: JobState;
  readonly reason: string | null;
  readonly due_at: number | null;
  readonly expires_at: number;
  readonly ended_at: number | null;
  readonly ended_by: string | null;
  readonly data: string;
  readonly result: string | null;
};

/** The table is made for the first job: most objects have none. Until then nothing is read. */
export class JobStore {
  readonly #sql: SqlStorage;
  #isMade = false;
  /** The numbers of the kinds that have stored a job, by their names. */
  #numbers: Map<string, number> | undefined;
  /** The number of the latest row of a kind, by the kind's number. */
  readonly #latest = new Map<number, number>();

  constructor(private readonly storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  /** @throws NewerSchemaError */
  start(): void {
    if (storedVersions(this.storage).has(MODULE)) this.#migrate();
  }

  #migrate(): void {
    migrate(this.storage, MODULE, MIGRATIONS);
  }

  /** Rows that a query selects; none where no job was ever stored. */
  query<Row extends Record<string, SqlStorageValue>>(
    query: string,
    ...bindings: SqlStorageValue[]
  ): Row[] {
    return this.#known.size === 0 ? [] : this.#sql.exec<Row>(query, ...bindings).toArray();
  }

  transaction<T>(work: () => T): T {
    return this.storage.transactionSync(work);
  }

  /** Names of the kinds that have stored jobs. */
  get kinds(): string[] {
    return [...this.#known.keys()];
  }

  /** The number of a kind; 0 for one that has stored no job. */
  numberOf(kind: string): number {
    return this.#known.get(kind) ?? 0;
  }

  /** A new id, which begins with the number of its row, so that no index has to hold it. Call it outside of transactions. */
  newId(kind: string): string {
    if (!this.#isMade) this.#migrate();
    this.#isMade = true;
    const number = this.#known.get(kind) ?? this.#add(kind);
    const query = `SELECT IFNULL(MAX(seq), ${number * KIND_SIZE}) FROM perdure_jobs WHERE seq < ?`;
    const latest =
      this.#latest.get(number) ??
      Math.max(
        valuesOf<number>(this.#sql, query, (number + 1) * KIND_SIZE)[0] ?? 0,
        number * KIND_SIZE,
      );
    this.#latest.set(number, latest + 1);
    const nonce = crypto.getRandomValues(new Uint8Array(16)).toBase64({ alphabet: "base64url" });
    return `${(latest + 1).toString(RADIX)}-${nonce.slice(0, 22)}`;
  }

  /** (new) → pending, in the caller's transaction. `added()` of the engine follows when it has committed. */
  add({ id, key, parent, topic, createdAt, expiresAt, data, request }: NewJob): Job {
    const added = this.#select(
      `INSERT INTO perdure_jobs (seq, id, key, parent, topic, due_at, expires_at, created_at, data, request)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
      ...bindId(id),
      key ?? null,
      parent ?? null,
      topic ?? null,
      expiresAt,
      expiresAt,
      createdAt,
      JSON.stringify(data),
      JSON.stringify(request),
    );
    return added[0] as Job;
  }

  /**
   * Changes a job, if it is in one of the states: without a new state while it is open, otherwise where it may move to the new one.
   *
   * @param from fewer states
   * @returns the job; undefined: it was in another state, and nothing has changed
   */
  change(
    id: string,
    changes: Partial<Columns>,
    from: readonly JobState[] = changes.state === undefined ? OPEN : statesBefore(changes.state),
  ): Job | undefined {
    const columns = Object.keys(changes).map((name) => `${name} = ?`);
    const states = from.map((state) => `'${state}'`);
    const query = `UPDATE perdure_jobs SET ${columns.join(", ")}
      WHERE ${BY_ID} AND state IN (${states.join(", ")}) RETURNING *`;
    return this.#select(query, ...Object.values(changes), ...bindId(id))[0];
  }

  /** When a live job is looked at next. Writes nothing where that is so already. */
  rest(id: string, dueAt: number): void {
    const query = `UPDATE perdure_jobs SET due_at = ?1 WHERE seq = ?2 AND id = ?3 AND due_at <> ?1`;
    this.#sql.exec(query, dueAt, ...bindId(id));
  }

  /** An ended job has nothing left to stop. */
  stopped(id: string): void {
    const query = `UPDATE perdure_jobs SET due_at = NULL
      WHERE ${BY_ID} AND due_at IS NOT NULL AND ended_at IS NOT NULL`;
    this.#sql.exec(query, ...bindId(id));
  }

  releaseKey(id: string): void {
    this.#sql.exec(`UPDATE perdure_jobs SET key = NULL WHERE ${BY_ID}`, ...bindId(id));
  }

  find(id: string): Job | undefined {
    return this.#select(`SELECT * FROM perdure_jobs WHERE ${BY_ID}`, ...bindId(id))[0];
  }

  findByKey(key: string): Job | undefined {
    return this.#select("SELECT * FROM perdure_jobs WHERE key = ?", key)[0];
  }

  /** Open jobs whose keys begin with one of these prefixes, each of which ends with a colon. */
  openWithPrefixes(prefixes: readonly string[]): Job[] {
    const query = "SELECT * FROM perdure_jobs WHERE key >= ? AND key < ? AND ended_at IS NULL";
    return prefixes.flatMap((prefix) => this.#select(query, prefix, endOfPrefix(prefix)));
  }

  /** Open jobs inside another. */
  inside(parent: string): Job[] {
    return this.#select(`SELECT * ${INSIDE} ?`, parent);
  }

  /** Jobs of a kind that are open, or have work to stop. */
  live(kind: string): Job[] {
    const number = this.numberOf(kind);
    return number === 0 ? [] : this.#select(`SELECT * ${LIVE}`, number);
  }

  hasLive(kind: string): boolean {
    return this.query(`SELECT 1 ${LIVE} LIMIT 1`, this.numberOf(kind)).length > 0;
  }

  /** Due jobs of any kind, of each the earliest. */
  due(now: number, limit: number): Job[] {
    const all = [...this.#known.values()].flatMap((number) =>
      this.#select(`SELECT * ${LIVE} AND due_at <= ? ORDER BY due_at LIMIT ?`, number, now, limit),
    );
    return all.sort((one, other) => (one.dueAt ?? 0) - (other.dueAt ?? 0));
  }

  /** When the next job of any kind is due, or null. */
  nextDue(): number | null {
    if (this.#known.size === 0) return null;
    const first = `SELECT due_at ${DUE} value ORDER BY due_at LIMIT 1`;
    const query = `SELECT MIN((${first})) FROM json_each(?)`;
    const numbers = JSON.stringify([...this.#known.values()]);
    return valuesOf<number | null>(this.#sql, query, numbers)[0] ?? null;
  }

  /** Newest first; fewer than the limit where they are large. */
  list({ kind, isOpen, reasons, data, before, limit }: JobQuery): Page<Job> {
    const number = this.numberOf(kind);
    const where = [isOpen ? `${LIVE} AND ended_at IS NULL` : "FROM perdure_jobs WHERE seq > ?"];
    const bindings: SqlStorageValue[] = [isOpen ? number : number * KIND_SIZE];
    const only = (condition: string, ...values: SqlStorageValue[]) => {
      where.push(condition);
      bindings.push(...values);
    };
    only("seq < ?", (number + 1) * KIND_SIZE);
    if (reasons)
      only("IFNULL(reason, '') IN (SELECT value FROM json_each(?))", JSON.stringify(reasons));
    if (data) only("data ->> ? = ?", ...data);
    if (before !== undefined)
      only(`seq < (SELECT seq FROM perdure_jobs WHERE ${BY_ID})`, ...bindId(before));
    const query = `SELECT * ${where.join(" AND ")} ORDER BY seq DESC LIMIT ?`;
    const jobs: Job[] = [];
    if (number === 0) return { items: jobs };
    let length = 0;
    for (const row of this.#sql.exec(query, ...bindings, limit + 1)) {
      for (const column of JSON_COLUMNS) length += String(row[column] ?? "").length;
      const last = jobs.at(-1);
      const isFull = jobs.length === limit || length > MAX_LISTED;
      if (last && isFull) return { items: jobs, cursor: last.id };
      jobs.push(this.#toJob(row));
    }
    return { items: jobs };
  }

  /** Deletes some of the jobs that have ended before that, and have nothing left to stop. */
  prune(endedBefore: number, sweep: Sweep): number {
    if (this.#known.size === 0) return 0;
    return sweep.prune(this.#sql, "due_at IS NULL AND ended_at < ?", endedBefore);
  }

  get #known(): Map<string, number> {
    if (!this.#numbers) {
      const stored = [...storedVersions(this.storage)].filter(([name]) =>
        name.startsWith(KIND_PREFIX),
      );
      const named = stored.map(([name, number]) => [name.slice(KIND_PREFIX.length), number]);
      this.#numbers = new Map(named as [string, number][]);
    }
    return this.#numbers;
  }

  /** Numbers a kind at its first job. */
  #add(kind: string): number {
    const number = Math.max(0, ...this.#known.values()) + 1;
    storeVersion(this.storage, KIND_PREFIX + kind, number);
    this.#known.set(kind, number);
    return number;
  }

  #select(query: string, ...bindings: SqlStorageValue[]): Job[] {
    return [...this.each(query, ...bindings)];
  }

  /** The jobs whose whole rows a query selects, read one by one: a job may be large. */
  *each(query: string, ...bindings: SqlStorageValue[]): Generator<Job> {
    if (this.#known.size === 0) return;
    for (const row of this.#sql.exec(query, ...bindings)) yield this.#toJob(row);
  }

  #toJob(columns: Record<string, SqlStorageValue>): Job {
    const { endedBy: _, ...job } = rowOf<Row>(columns, JSON_COLUMNS);
    const number = Math.floor(job.seq / KIND_SIZE);
    const kind = this.kinds.find((name) => this.numberOf(name) === number) ?? "";
    return { ...job, kind };
  }
}

const JSON_COLUMNS = ["data", "request", "result"];

type Row = Omit<Job, "kind"> & { readonly endedBy: string | undefined };

/** Finds a row by its id, which begins with the number of the row. */
const BY_ID = "seq = ? AND id = ?";

/** The values of the parameters of {@link BY_ID}. */
function bindId(id: string): [number, string] {
  const [, number = ""] = ID.exec(id) ?? [];
  // No row has the number -1.
  return [number === "" ? -1 : Number.parseInt(number, RADIX), id];
}
