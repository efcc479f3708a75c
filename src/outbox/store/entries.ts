/**
 * All SQL of waiting entries. Owns `perdure_outbox`.
 *
 * The table has no index beside its key. An entry that has ended leaves it, so it is short, and reading all of it now and then costs
 * less than an index row for every delivery: a row written is billed as much as 1,000 rows read. The payload is the last column, so
 * reading skips it.
 */

import { type Failure, storedFailure } from "../../core/failures.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { PART_LENGTH } from "../../core/text.ts";
import { migrate } from "../../engine/migrations.ts";
import { deleteValue, readValue, writeValue } from "../../engine/values.ts";
import { MAX_LOADED, MAX_LOADED_PER_KEY, type ReadyEntry } from "../delivery/ready-queue.ts";
import { isWebhookKey } from "../delivery/slots.ts";
import type { Destination } from "../destinations/index.ts";
import { InvalidEventError, WorkflowExistsError } from "../errors.ts";
import type { DeliveryInfo, DeliveryState } from "../types.ts";
import { type InfoRow, infoOf, STATE_OF_ID, stateOf } from "./listing.ts";
import { MIGRATIONS } from "./schema.ts";

/** Values of `started`. An insert counts as started, because the first attempt follows without a write. */
const NOT_STARTED = 0;
const STARTED = 1;
/** No other attempt was in flight when it started, and none has started since. */
const STARTED_ALONE = 2;
/** After so many interrupted attempts in a row an entry is tried alone. */
export const SUSPECT_AFTER = 2;

/** Names a long event among the large values. */
export const ownerOf = (id: string) => `delivery:${id}`;

export type NewEntry = {
  readonly id: string;
  /** The key of its destination. */
  readonly key: string;
  readonly destination: Destination;
  /** The event as JSON. */
  readonly payload: string;
  /** Whether the entries behind it wait for it. */
  readonly isOrdered: boolean;
  /** The `traceparent` of its requests. */
  readonly traceParent?: string | undefined;
};

/** A waiting entry. Times are epoch milliseconds. */
export type OutboxEntry = NonNullable<ReturnType<EntryStore["get"]>>;

type Row = {
  key: string;
  dueAt: number;
  /** The number of the attempt that is in flight or comes next. */
  attempt: number;
  /** Attempts in a row that a crash of the object may have interrupted. */
  interruptions: number;
  /** Attempts that do not count: those before a redrive, and interrupted ones. */
  earlierAttempts: number;
  /** When it was put. */
  createdAt: number;
  /** When it was put or redriven. */
  queuedAt: number;
  /** When the first attempt began whose outcome is not known; null: there is none. */
  unsureSince: number | null;
  traceParent: string | null;
  started: number;
  isOrdered: number;
  destination: string;
  payload: string | null;
};

/** The first word of the destination key. */
const KIND = "substr(destination_key, 1, instr(destination_key || ' ', ' ') - 1)";
/** Entries of other kinds stay as they are, until a feature installs their kind again. */
const IS_INSTALLED = `${KIND} IN (SELECT value FROM json_each(?))`;

export class EntryStore {
  readonly #sql: SqlStorage;
  #lastSeq: number | undefined;
  /**
   * An upper bound of the waiting entries; undefined: to be counted. Counted again where it reaches the limit. Rolled-back
   * puts are counted, and no rolled-back end: 0 is exact.
   */
  #maxWaiting: number | undefined;

  /** @param installed the kinds of destinations that can be delivered to */
  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly installed: () => readonly string[],
  ) {
    this.#sql = storage.sql;
  }

  migrate(): void {
    migrate(this.storage, "outbox", MIGRATIONS);
  }

  /** (new) → waiting, due at once. Returns false for an id that waits or is a dead letter already; nothing changes then. */
  put({ id, key, destination, payload, isOrdered, traceParent }: NewEntry, now: number): boolean {
    const isInRow = payload.length <= PART_LENGTH;
    const put = this.#sql.exec(
      `INSERT INTO perdure_outbox (id, destination_key, seq, due_at, is_ordered, created_at, queued_at, trace_parent, destination, payload)
       SELECT ?1, ?2, ?3, ?4, ?5, ?4, ?4, ?6, ?7, ?8
       WHERE NOT EXISTS (SELECT 1 FROM perdure_outbox_ended WHERE id = ?1 AND state = 'dead')
       ON CONFLICT (id) DO NOTHING RETURNING id`,
      id,
      key,
      this.#nextSeq(now),
      now,
      isOrdered ? 1 : 0,
      traceParent ?? null,
      JSON.stringify(destination),
      isInRow ? payload : null,
    );
    if (put.toArray().length === 0) {
      this.#refuseForAnother(id, key, destination);
      return false;
    }
    if (this.#maxWaiting !== undefined) this.#maxWaiting++;
    if (isInRow) return true;
    // A delivered entry with this id may have been kept: the two cannot share a value.
    const kept = "DELETE FROM perdure_outbox_ended WHERE id = ? AND payload IS NULL RETURNING 1";
    if (this.#sql.exec(kept, id).toArray().length > 0) deleteValue(this.#sql, ownerOf(id));
    writeValue(this.#sql, ownerOf(id), payload);
    return true;
  }

  /**
   * @throws InvalidEventError for an id that another destination's event has
   * @throws WorkflowExistsError for a start, if another Workflow's start has it
   */
  #refuseForAnother(id: string, key: string, to: Destination): void {
    const known = this.#sql.exec<{ key: string; destination: string }>(
      `SELECT destination_key AS key, destination FROM perdure_outbox WHERE id = ?1
       UNION ALL SELECT destination_key, destination FROM perdure_outbox_ended WHERE id = ?1 AND state = 'dead'`,
      id,
    );
    const found = known.toArray().find((entry) => entry.key !== key);
    if (!found) return;
    const holder = JSON.parse(found.destination) as Destination;
    const areStarts = to.kind === "workflow-start" && holder.kind === "workflow-start";
    if (areStarts && to.instance === holder.instance) {
      throw new WorkflowExistsError(to, { holder: holder.workflow });
    }
    const other = JSON.stringify(`${id}/2`);
    const problem = `an event for another destination has this id. Use a different id for each, e.g. ${other}`;
    throw new InvalidEventError(invalidMessage("id", JSON.stringify(id), problem));
  }

  /**
   * Ready entries, in the order of put() within each destination: the first of every destination, then the second of
   * every destination, and so on up to a limit. So no destination is left out because of another's backlog. An ordered
   * entry is not ready before all earlier ones of its destination are.
   *
   * @param startedAt attempts that started before this time are not repeated at once: they were interrupted
   * @param except keys of destinations and ids of entries to leave out
   */
  ready(
    now: number,
    startedAt: number,
    except: { keys: readonly string[]; ids: readonly string[] },
  ): ReadyEntry[] {
    return this.#sql
      .exec<{ id: string; key: string; isSuspect: number }>(
        `SELECT id, destination_key AS key, isSuspect FROM (
           SELECT *, ROW_NUMBER() OVER (PARTITION BY destination_key ORDER BY seq) AS place FROM (
             SELECT id, destination_key, seq, due_at, is_ordered,
               interruptions >= ${SUSPECT_AFTER} AND (started = ${NOT_STARTED} OR due_at >= ?) AS isSuspect,
               MAX(due_at) OVER (PARTITION BY destination_key ORDER BY seq) AS all_due_at
             FROM perdure_outbox
             WHERE destination_key NOT IN (SELECT value FROM json_each(?))
               AND id NOT IN (SELECT value FROM json_each(?))
               AND ${IS_INSTALLED}
           ) WHERE iif(is_ordered, all_due_at, due_at) <= ?
         ) WHERE place <= ? ORDER BY place, seq LIMIT ?`,
        startedAt,
        JSON.stringify(except.keys),
        JSON.stringify(except.ids),
        this.#installed,
        now,
        MAX_LOADED_PER_KEY,
        MAX_LOADED,
      )
      .toArray()
      .map(({ id, key, isSuspect }) => ({
        id,
        key,
        isSuspect: isSuspect === 1 && !isWebhookKey(key),
      }));
  }

  get(id: string) {
    const [found] = this.#sql
      .exec<Row>(
        `SELECT destination_key AS key, due_at AS dueAt, attempts AS attempt, started, interruptions,
           earlier_attempts AS earlierAttempts, is_ordered AS isOrdered, created_at AS createdAt, queued_at AS queuedAt,
           unsure_since AS unsureSince, trace_parent AS traceParent, destination, payload
         FROM perdure_outbox WHERE id = ?`,
        id,
      )
      .toArray();
    if (!found) return undefined;
    const { started, isOrdered, traceParent, destination, payload, ...row } = found;
    return {
      ...row,
      id,
      /** Whether the attempt may have started: a first one since its insert, another one since its claim. */
      isStarted: started !== NOT_STARTED,
      isOrdered: isOrdered === 1,
      traceParent: traceParent ?? undefined,
      destination: JSON.parse(destination) as Destination,
      payload: payload ?? readValue(this.#sql, ownerOf(id)),
      isInParts: payload === null,
    };
  }

  /** The event of an entry in any state, as JSON; undefined for an unknown id. */
  read(id: string): string | undefined {
    const [row] = this.#sql
      .exec<{ payload: string | null }>(
        `SELECT payload FROM perdure_outbox WHERE id = ?1
         UNION ALL SELECT payload FROM perdure_outbox_ended WHERE id = ?1 LIMIT 1`,
        id,
      )
      .toArray();
    return row && (row.payload ?? readValue(this.#sql, ownerOf(id)));
  }

  /** The state of a delivery; null for an unknown id. */
  inspect(id: string): DeliveryState | null {
    const [row] = this.#sql.exec<InfoRow>(STATE_OF_ID, id).toArray();
    return row ? stateOf(row) : null;
  }

  /** {@link inspect}, with the destination. */
  info(id: string): DeliveryInfo | null {
    const [row] = this.#sql.exec<InfoRow>(STATE_OF_ID, id).toArray();
    return row ? infoOf(row) : null;
  }

  /** When the next entry becomes due, and whether any entry waits. */
  waiting(now: number): { next: number | null; isEmpty: boolean } {
    const query = `SELECT MIN(due_at) FILTER (WHERE due_at > ?) AS next, COUNT(*) AS count FROM perdure_outbox WHERE ${IS_INSTALLED}`;
    const { next, count } = this.#sql
      .exec<{ next: number | null; count: number }>(query, now, this.#installed)
      .one();
    return { next, isEmpty: count === 0 };
  }

  /** The number of waiting entries where it has reached `limit`; undefined below. */
  countAtLimit(limit: number): number | undefined {
    if (this.#maxWaiting === undefined || this.#maxWaiting >= limit) this.#count();
    const waiting = this.#maxWaiting ?? 0;
    return waiting >= limit ? waiting : undefined;
  }

  has(id: string): boolean {
    const query = "SELECT 1 FROM perdure_outbox WHERE id = ?";
    return this.#sql.exec(query, id).toArray().length > 0;
  }

  /** Whether there is no entry that can be delivered. */
  isEmpty(): boolean {
    if (this.#maxWaiting === 0) return true;
    const query = `SELECT 1 FROM perdure_outbox WHERE ${IS_INSTALLED} LIMIT 1`;
    return this.#sql.exec(query, this.#installed).toArray().length === 0;
  }

  get #installed(): string {
    return JSON.stringify(this.installed());
  }

  /** How many entries wait, by the kind of destination. */
  waitingByKind(): { kind: string; waiting: number }[] {
    const query = `SELECT ${KIND} AS kind, COUNT(*) AS waiting FROM perdure_outbox GROUP BY kind`;
    return this.#sql.exec<{ kind: string; waiting: number }>(query).toArray();
  }

  /** How many entries wait, and when the oldest of them was put. */
  stats(): { waiting: number; oldestAt: number | null } {
    const query = "SELECT COUNT(*) AS waiting, MIN(created_at) AS oldestAt FROM perdure_outbox";
    return this.#sql.exec<{ waiting: number; oldestAt: number | null }>(query).one();
  }

  /** waiting → waiting: the attempt with this number starts. */
  start(id: string, attempt: number, isAlone: boolean): void {
    this.#sql.exec(
      "UPDATE perdure_outbox SET attempts = ?, started = ? WHERE id = ?",
      attempt,
      isAlone ? STARTED_ALONE : STARTED,
      id,
    );
  }

  /** The attempt continues, and others may start. */
  noLongerAlone(id: string): void {
    this.#sql.exec(
      `UPDATE perdure_outbox SET started = ${STARTED} WHERE id = ? AND started = ${STARTED_ALONE}`,
      id,
    );
  }

  /** The entry whose attempt was alone when the object crashed. Read before this object instance starts any. */
  startedAlone(): string | undefined {
    const query = `SELECT id FROM perdure_outbox WHERE started = ${STARTED_ALONE} LIMIT 1`;
    return this.#sql.exec<{ id: string }>(query).toArray()[0]?.id;
  }

  /**
   * waiting → waiting: a crash may have interrupted an attempt.
   *
   * @param isFree whether the attempt does not count towards `maxAttempts`
   */
  interrupted(
    id: string,
    dueAt: number,
    interruptions: number,
    isFree: boolean,
    error: string,
  ): void {
    this.#sql.exec(
      `UPDATE perdure_outbox SET attempts = attempts + 1, earlier_attempts = earlier_attempts + ?, started = ${NOT_STARTED},
         interruptions = ?, due_at = ?, last_error = ? WHERE id = ?`,
      isFree ? 1 : 0,
      interruptions,
      dueAt,
      error,
      id,
    );
  }

  /** Before the first request that cannot be taken back: its outcome may never be known. */
  unsure(id: string, now: number): void {
    const query = "UPDATE perdure_outbox SET unsure_since = ifnull(unsure_since, ?) WHERE id = ?";
    this.#sql.exec(query, now, id);
  }

  /**
   * waiting → waiting: an attempt has failed, and the next one is due at `time`.
   *
   * @param unsureSince of the entry, after the attempt
   */
  retryAt(
    id: string,
    time: number,
    error: Pick<Failure, "message" | "cause">,
    unsureSince: number | null,
  ): void {
    this.#sql.exec(
      `UPDATE perdure_outbox SET attempts = attempts + 1, started = ${NOT_STARTED}, interruptions = 0, due_at = ?,
         last_error = ?, unsure_since = ? WHERE id = ?`,
      time,
      storedFailure(error),
      unsureSince,
      id,
    );
  }

  /** waiting → waiting, due now: all entries of a destination. */
  retryAllNow(key: string, now: number): void {
    this.#sql.exec(
      "UPDATE perdure_outbox SET due_at = ?1 WHERE destination_key = ?2 AND due_at > ?1",
      now,
      key,
    );
  }

  /** waiting → waiting, due now. Returns whether the entry was waiting for a later time. */
  retryNow(id: string, now: number): boolean {
    const query =
      "UPDATE perdure_outbox SET due_at = ?1 WHERE id = ?2 AND due_at > ?1 RETURNING id";
    return this.#sql.exec(query, now, id).toArray().length > 0;
  }

  /** So many entries wait no more, and that has committed. */
  left(count: number): void {
    if (this.#maxWaiting !== undefined) this.#maxWaiting -= count;
  }

  /** Grows with every entry, over restarts as well, even when the clock was set back in between. */
  #nextSeq(now: number): number {
    if (this.#lastSeq === undefined) this.#count();
    this.#lastSeq = Math.max((this.#lastSeq ?? 0) + 1, now * 1_000);
    return this.#lastSeq;
  }

  /** Both in one statement, because it reads the whole table. */
  #count(): void {
    const query = "SELECT ifnull(MAX(seq), 0) AS seq, COUNT(*) AS count FROM perdure_outbox";
    const { seq, count } = this.#sql.exec<{ seq: number; count: number }>(query).one();
    this.#lastSeq = Math.max(this.#lastSeq ?? 0, seq);
    this.#maxWaiting = count;
  }

  /** Dead letters were redriven: the number of waiting entries is no longer known. */
  countAgain(): void {
    this.#maxWaiting = undefined;
  }
}
