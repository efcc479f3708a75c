/** Lists deliveries. Reads both tables of the outbox, and writes nothing. */

import { readFailure } from "../../core/failures.ts";
import { byTime, cursorsOf, type Page, type Position, pageOf } from "../../engine/page.ts";
import { type Destination, withoutSecrets } from "../destinations/index.ts";
import { idRangeOf, submissionOf } from "../event.ts";
import type { DeliveryInfo, DeliveryState } from "../types.ts";

/** Which deliveries are listed. */
export type DeliveryFilter = {
  readonly states: readonly DeliveryState["state"][];
  readonly key: string | undefined;
  readonly kind: string | undefined;
  readonly submissionId: string | undefined;
};

/** The state of a delivery, as SQLite has it. */
export type StateRow = {
  state: DeliveryState["state"];
  attempt: number;
  /** Since when it is in this state. */
  since: number;
  due_at: number | null;
  reason: string | null;
};

export type InfoRow = StateRow & { id: string; createdAt: number; destination: string };

const COLUMNS = "id, attempts AS attempt, created_at AS createdAt, destination";
/** `since` is the column that a list is sorted by. That of the waiting ones has no index: every delivery would pay for it. */
const WAITING = {
  select: `SELECT ${COLUMNS}, 'waiting' AS state, created_at AS since, due_at, last_error AS reason FROM perdure_outbox`,
  since: "created_at",
};
const ENDED = {
  select: `SELECT ${COLUMNS}, state, ended_at AS since, NULL AS due_at, reason FROM perdure_outbox_ended`,
  since: "ended_at",
};

/** Selects the {@link InfoRow} of the delivery with an id. */
export const STATE_OF_ID = `${WAITING.select} WHERE id = ?1 UNION ALL ${ENDED.select} WHERE id = ?1 LIMIT 1`;

export const DELIVERIES = cursorsOf("deliveries", byTime);

/** One page, newest first, after a position. */
export function listDeliveries(
  sql: SqlStorage,
  filter: DeliveryFilter,
  limit: number,
  after: Position | undefined,
): Page<DeliveryInfo> {
  const rows = [...new Set(filter.states)]
    .flatMap((state) => readState(sql, state, filter, limit + 1, after))
    .sort((one, other) => other.since - one.since || (one.id < other.id ? 1 : -1));
  return pageOf(rows, limit, infoOf, ({ since, id }) => DELIVERIES.at(since, id));
}

function readState(
  sql: SqlStorage,
  state: DeliveryState["state"],
  { key, kind, submissionId }: DeliveryFilter,
  limit: number,
  [time, id]: Position = [Number.MAX_SAFE_INTEGER, ""],
): InfoRow[] {
  const { select, since } = state === "waiting" ? WAITING : ENDED;
  // The few deliveries of a submission are found by the primary key: `+` keeps SQLite from the index by time.
  const prefix = submissionId === undefined ? "" : "+";
  const where = [`(${prefix}${since}, id) < (?, ?)`];
  const values: SqlStorageValue[] = [time, id];
  const only = (condition: string, ...bound: SqlStorageValue[]) => {
    where.push(condition);
    values.push(...bound);
  };
  if (state !== "waiting") only(`${prefix}state = ?`, state);
  if (submissionId !== undefined) {
    only("id > ? AND id < ? AND length(id) = ?", ...idRangeOf(submissionId));
  }
  if (key !== undefined) only("destination_key = ?", key);
  if (kind !== undefined) only("destination ->> 'kind' = ?", kind);
  const query = `${select} WHERE ${where.join(" AND ")} ORDER BY ${prefix}${since} DESC, id DESC LIMIT ?`;
  return sql.exec<InfoRow>(query, ...values, limit).toArray();
}

export function infoOf({ id, createdAt, destination, ...row }: InfoRow): DeliveryInfo {
  const submissionId = submissionOf(id);
  return {
    id,
    ...(submissionId !== undefined && { submissionId }),
    destination: withoutSecrets(JSON.parse(destination) as Destination),
    createdAt,
    ...stateOf(row),
  };
}

export function stateOf({ state, attempt, since, due_at, ...row }: StateRow): DeliveryState {
  const reason = row.reason === null ? null : readFailure(row.reason).message;
  if (state === "delivered") return { state, attempt, deliveredAt: since };
  if (state === "discarded") return { state, attempt, discardedAt: since, reason: reason ?? "" };
  if (state === "dead") return { state, attempt, diedAt: since, lastError: reason ?? "" };
  return { state, attempt, dueAt: due_at ?? since, ...(reason !== null && { lastError: reason }) };
}
