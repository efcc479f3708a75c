/**
 * Writes `perdure_waits`, by transition verbs only: open → one of the ends, once. Opening bills 4 rows (the row, its
 * id, its key or its parent, the open ones), 1 more with a topic; a note 1 (2 where it wakes at another time), closing 1, 2 more
 * where what has ended it is stored.
 */

import { earliest } from "../../core/clock.ts";
import type { Json } from "../../core/json.ts";
import { rowOf, valuesOf } from "../../core/sql.ts";
import { endOfPrefix } from "../../core/text.ts";
import { migrate } from "../../engine/migrations.ts";
import type { Page } from "../../engine/page.ts";
import type { Sweep } from "../../engine/sweep.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import { RESTARTED } from "./closings.ts";
import type { Closing, Wait, WaitWorkflow } from "./protocol.ts";

/** Numbered by their position; a published one is never edited. Columns that may be large come last. */
const MIGRATIONS = [
  `CREATE TABLE perdure_waits (
     seq INTEGER PRIMARY KEY,
     wait_id TEXT NOT NULL UNIQUE,
     idempotency_key TEXT,
     kind TEXT NOT NULL,
     status TEXT NOT NULL DEFAULT 'open',
     run TEXT NOT NULL,
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     step TEXT NOT NULL,
     parent TEXT,
     proof TEXT NOT NULL,
     wake_at INTEGER NOT NULL,
     expires_at INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     settled_at INTEGER,
     done_at INTEGER,
     topic TEXT,
     answered_by TEXT,
     state TEXT,
     request TEXT NOT NULL,
     result TEXT
   );
   CREATE UNIQUE INDEX perdure_waits_key ON perdure_waits (idempotency_key) WHERE idempotency_key IS NOT NULL;
   CREATE INDEX perdure_waits_live ON perdure_waits (kind, wake_at) WHERE done_at IS NULL;
   CREATE INDEX perdure_waits_inside ON perdure_waits (parent) WHERE done_at IS NULL AND parent IS NOT NULL;
   CREATE INDEX perdure_waits_topic ON perdure_waits (topic) WHERE done_at IS NULL AND topic IS NOT NULL;
   CREATE INDEX perdure_waits_answered ON perdure_waits (answered_by) WHERE answered_by IS NOT NULL;`,
] as const;

/** Live waits, by their own index: the planner would walk all rows. */
const LIVE = "FROM perdure_waits INDEXED BY perdure_waits_live WHERE done_at IS NULL";
const INSIDE =
  "FROM perdure_waits INDEXED BY perdure_waits_inside WHERE done_at IS NULL AND settled_at IS NULL AND parent =";

const WITH_TOPIC =
  "FROM perdure_waits INDEXED BY perdure_waits_topic WHERE done_at IS NULL AND topic IS NOT NULL AND";

/** UTF-16 units of JSON in a list: what comes over RPC may have 32 MiB, and an object has 128 MB in all. */
const MOST_LISTED = 8_000_000;

export type NewWait = {
  readonly waitId: string;
  /** None for a wait inside another one. */
  readonly idempotencyKey: string | undefined;
  readonly kind: string;
  readonly run: string;
  readonly workflow: WaitWorkflow;
  readonly parent: string | undefined;
  readonly request: Json;
  readonly expiresAt: number;
  /** Finds the open wait. */
  readonly topic?: string | undefined;
};

export type WaitQuery = {
  readonly kind: string;
  readonly isOpen?: boolean;
  readonly statuses?: readonly Wait["status"][] | undefined;
  readonly instance?: string | undefined;
  /** Only those that were opened before this one. */
  readonly before?: string | undefined;
  readonly limit: number;
};

export class WaitStore {
  readonly #kinds: string;

  /** @param kinds those whose waits have rows */
  constructor(
    private readonly storage: DurableObjectStorage,
    kinds: readonly string[],
  ) {
    this.#kinds = JSON.stringify(kinds);
  }

  migrate(): void {
    migrate(this.storage, "waits", MIGRATIONS);
  }

  transaction<T>(work: () => T): T {
    return this.storage.transactionSync(work);
  }

  /** (new) → open. */
  open(wait: NewWait, now: number): Wait {
    return this.#one(
      `INSERT INTO perdure_waits
         (wait_id, idempotency_key, kind, run, workflow, instance, step, parent, proof, request, wake_at, expires_at, created_at, topic)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
      wait.waitId,
      wait.idempotencyKey ?? null,
      wait.kind,
      wait.run,
      wait.workflow.name,
      wait.workflow.id,
      wait.workflow.stepName,
      wait.parent ?? null,
      crypto.randomUUID(),
      JSON.stringify(wait.request),
      wait.expiresAt,
      wait.expiresAt,
      now,
      wait.topic ?? null,
    ) as Wait;
  }

  /** open → open, for another run, with its own timeout. */
  takeOver(waitId: string, run: string, expiresAt: number): Wait | undefined {
    return this.#select(
      `UPDATE perdure_waits SET run = ?1, expires_at = ?2, wake_at = IIF(wake_at = expires_at, ?2, MIN(wake_at, ?2))
       WHERE settled_at IS NULL AND seq IN
         (SELECT seq FROM perdure_waits WHERE wait_id = ?3 UNION ALL SELECT seq ${INSIDE} ?3) RETURNING *`,
      run,
      expiresAt,
      waitId,
    ).find((wait) => wait.waitId === waitId);
  }

  /** open → open: its workflow was restarted, and the new run has not asked for it yet. */
  leave(waitId: string, run: string, wakeAt: number): void {
    this.storage.sql.exec(
      `UPDATE perdure_waits SET run = ?1, wake_at = MIN(wake_at, ?2)
       WHERE wait_id = ?3 AND run = ?4 AND settled_at IS NULL`,
      RESTARTED,
      wakeAt,
      waitId,
      run,
    );
  }

  /** cancelled → open: its run had ended, and continues. */
  reopen(waitId: string, run: string, expiresAt: number): Wait | undefined {
    return this.#one(
      `UPDATE perdure_waits SET status = 'open', run = ?1, result = NULL, settled_at = NULL, done_at = NULL,
         expires_at = ?2, wake_at = ?2
       WHERE wait_id = ?3 AND status = 'cancelled' RETURNING *`,
      run,
      expiresAt,
      waitId,
    );
  }

  /**
   * open → closed, once.
   *
   * @param isDone false if something runs for it that must be stopped
   */
  close(
    waitId: string,
    { status, result }: Closing,
    { now, isDone }: { now: number; isDone: boolean },
  ): Wait | undefined {
    return this.#one(
      `UPDATE perdure_waits SET status = ?1, result = ?2, settled_at = ?3, done_at = ?4, wake_at = IIF(?4 IS NULL, ?3, wake_at)
       WHERE wait_id = ?5 AND settled_at IS NULL RETURNING *`,
      status,
      JSON.stringify(result),
      now,
      isDone ? now : null,
      waitId,
    );
  }

  /** closed → closed, with nothing left to stop. */
  done(waitId: string, now: number): void {
    const query = "UPDATE perdure_waits SET done_at = ? WHERE wait_id = ? AND done_at IS NULL";
    this.storage.sql.exec(query, now, waitId);
  }

  /** completed → failed: its step could not take the result, which stays readable for its own run. */
  refuse(waitId: string): void {
    const query =
      "UPDATE perdure_waits SET status = 'failed' WHERE wait_id = ? AND status = 'completed'";
    this.storage.sql.exec(query, waitId);
  }

  /** open → open, with new state of its kind. */
  note(waitId: string, state: Json): Wait | undefined {
    return this.#one(
      "UPDATE perdure_waits SET state = ? WHERE wait_id = ? AND settled_at IS NULL RETURNING *",
      JSON.stringify(state),
      waitId,
    );
  }

  /** An open wait is due at that time, or when it expires. Writes nothing if it is already. */
  restUntil(waitId: string, time: number | null): void {
    this.storage.sql.exec(
      `UPDATE perdure_waits SET wake_at = MIN(expires_at, ?1)
       WHERE wait_id = ?2 AND settled_at IS NULL AND wake_at <> MIN(expires_at, ?1)`,
      time ?? Number.MAX_SAFE_INTEGER,
      waitId,
    );
  }

  /** It is due at that time. Writes nothing if it is already. */
  wakeAt(waitId: string, time: number): void {
    this.storage.sql.exec(
      "UPDATE perdure_waits SET wake_at = ?1 WHERE wait_id = ?2 AND done_at IS NULL AND wake_at <> ?1",
      time,
      waitId,
    );
  }

  releaseKey(waitId: string): void {
    const query = "UPDATE perdure_waits SET idempotency_key = NULL WHERE wait_id = ?";
    this.storage.sql.exec(query, waitId);
  }

  find(waitId: string): Wait | undefined {
    return this.#one("SELECT * FROM perdure_waits WHERE wait_id = ?", waitId);
  }

  findByKey(idempotencyKey: string): Wait | undefined {
    return this.#one("SELECT * FROM perdure_waits WHERE idempotency_key = ?", idempotencyKey);
  }

  /** Open ones with one of these topics, of each topic the oldest first. Read one by one: a wait may be large. */
  *withTopics(topics: readonly string[], limit: number): Generator<Wait> {
    const query = `SELECT * ${WITH_TOPIC} topic IN (SELECT value FROM json_each(?)) LIMIT ?`;
    for (const row of this.storage.sql.exec(query, JSON.stringify(topics), limit)) {
      yield toWait(row);
    }
  }

  countOfTopic(topic: string, limit: number): number {
    const query = `SELECT COUNT(*) FROM (SELECT 1 ${WITH_TOPIC} topic = ? LIMIT ?)`;
    return valuesOf<number>(this.storage.sql, query, topic, limit)[0] ?? 0;
  }

  /**
   * An open wait of each group of topics that begin with the same characters. Reads two rows of each group.
   *
   * @param start with what the topics of all groups begin
   * @param length of the common beginning of a group
   */
  oneOfEachTopic(start: string, length: number): Wait[] {
    // "~" comes after all characters of a topic.
    const next = (after: string) =>
      `(SELECT topic ${WITH_TOPIC} topic > ${after} AND topic < ?1 || '~' ORDER BY topic LIMIT 1)`;
    return this.#select(
      `WITH RECURSIVE first (topic) AS (
         SELECT ${next("?1")}
         UNION ALL SELECT ${next("SUBSTR(first.topic, 1, ?2) || '~'")} FROM first WHERE first.topic IS NOT NULL
       )
       SELECT * FROM perdure_waits WHERE seq IN
         (SELECT (SELECT seq ${WITH_TOPIC} topic = first.topic LIMIT 1) FROM first WHERE first.topic IS NOT NULL)`,
      start,
      length,
    );
  }

  answeredBy(waitId: string, key: string): void {
    const query = "UPDATE perdure_waits SET answered_by = ? WHERE wait_id = ?";
    this.storage.sql.exec(query, key, waitId);
  }

  hasAnswered(key: string): boolean {
    const query = "SELECT 1 FROM perdure_waits WHERE answered_by = ? LIMIT 1";
    return valuesOf(this.storage.sql, query, key).length > 0;
  }

  nextWake(): number | null {
    return earliest(this.wakes().map(({ time }) => time));
  }

  /** Each kind that has live waits, and when the first of them is due. */
  wakes(): { kind: string; time: number }[] {
    const first = `SELECT wake_at ${LIVE} AND kind = value ORDER BY wake_at LIMIT 1`;
    const query = `SELECT value AS kind, (${first}) AS time FROM json_each(?)`;
    const rows = this.storage.sql.exec(query, this.#kinds).toArray();
    return rows.filter(({ time }) => time !== null) as { kind: string; time: number }[];
  }

  /** Due waits, of each kind the earliest. */
  due(now: number, limit: number): Wait[] {
    const first = `SELECT seq ${LIVE} AND kind = value AND wake_at <= ?2 ORDER BY wake_at LIMIT ?3`;
    const query = `SELECT perdure_waits.* FROM json_each(?1) CROSS JOIN perdure_waits WHERE seq IN (${first}) ORDER BY wake_at`;
    return this.#select(query, this.#kinds, now, limit);
  }

  ofInstance({ workflow, instance }: InstanceOf): Wait[] {
    return this.#select(
      `SELECT * ${LIVE} AND settled_at IS NULL AND instance = ? AND workflow = ?`,
      instance,
      workflow,
    );
  }

  /** Open ones whose keys begin with one of these prefixes, each of which ends with a colon. */
  withPrefixes(prefixes: readonly string[]): Wait[] {
    const query = `SELECT * FROM perdure_waits
      WHERE idempotency_key >= ? AND idempotency_key < ? AND settled_at IS NULL`;
    return prefixes.flatMap((prefix) => this.#select(query, prefix, endOfPrefix(prefix)));
  }

  inside(parent: string): Wait[] {
    return this.#select(`SELECT * ${INSIDE} ?`, parent);
  }

  live(kinds: readonly string[]): Wait[] {
    const query = `SELECT * ${LIVE} AND kind IN (SELECT value FROM json_each(?))`;
    return this.#select(query, JSON.stringify(kinds));
  }

  /** Newest first; fewer than the limit where they are large. */
  list({ kind, isOpen, statuses, instance, before, limit }: WaitQuery): Page<Wait> {
    // The open ones are few, whatever else is kept.
    const from = isOpen ? `${LIVE} AND settled_at IS NULL AND` : "FROM perdure_waits WHERE";
    const where = [`${from} kind = ?`];
    const bindings: SqlStorageValue[] = [kind];
    const only = (condition: string, value: SqlStorageValue) => {
      where.push(condition);
      bindings.push(value);
    };
    if (statuses) only("status IN (SELECT value FROM json_each(?))", JSON.stringify(statuses));
    if (instance !== undefined) only("instance = ?", instance);
    if (before !== undefined) {
      only("seq < (SELECT seq FROM perdure_waits WHERE wait_id = ?)", before);
    }
    const query = `SELECT * ${where.join(" AND ")} ORDER BY seq DESC LIMIT ?`;
    const waits: Wait[] = [];
    let length = 0;
    for (const row of this.storage.sql.exec(query, ...bindings, limit + 1)) {
      for (const column of JSON_COLUMNS) length += String(row[column] ?? "").length;
      const last = waits.at(-1);
      const isFull = waits.length === limit || length > MOST_LISTED;
      if (last && isFull) return { items: waits, cursor: last.waitId };
      waits.push(toWait(row));
    }
    return { items: waits };
  }

  /** Forgets some of the closed ones that are older than that, whatever is open. */
  prune(settledBefore: number, sweep: Sweep): void {
    sweep.prune(this.storage.sql, "done_at < ?", settledBefore);
  }

  #select(query: string, ...bindings: SqlStorageValue[]): Wait[] {
    return Array.from(this.storage.sql.exec(query, ...bindings), toWait);
  }

  #one(query: string, ...bindings: SqlStorageValue[]): Wait | undefined {
    return this.#select(query, ...bindings)[0];
  }
}

const JSON_COLUMNS = ["request", "state", "result"];

type Row = Omit<Wait, "workflow" | "isLive"> & {
  readonly workflow: string;
  readonly instance: string;
  readonly step: string;
  readonly doneAt: number | undefined;
};

function toWait(columns: Record<string, SqlStorageValue>): Wait {
  const {
    workflow: name,
    instance: id,
    step: stepName,
    doneAt,
    ...row
  } = rowOf<Row>(columns, JSON_COLUMNS);
  return { ...row, workflow: { name, id, stepName }, isLive: doneAt === undefined };
}
