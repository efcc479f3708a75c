/** Deliveries as they are listed. Reads the three tables of the outbox, and writes nothing. */

import { byteLength } from "../../core/json.ts";
import { digest } from "../../core/text.ts";
import { cursorOf, readCursor } from "../filters.ts";
import type {
  DeliveryInfo,
  DeliveryPage,
  DeliveryState,
  Destination,
  WorkflowDestination,
} from "../types.ts";

/** Which deliveries: all of them, where nothing is said. */
export type Listed = {
  readonly states: readonly DeliveryState["state"][];
  readonly key: string | undefined;
  readonly kind: Destination["kind"] | undefined;
  readonly submissionId: string | undefined;
};

/** Where a delivery is, as SQLite has it. */
export type StateRow = {
  state: DeliveryState["state"];
  attempt: number;
  /** Since when it is in this state. */
  since: number;
  due_at: number | null;
  why: string | null;
};

type Row = StateRow & { id: string; created_at: number; destination: string };

type Source = {
  readonly states: readonly DeliveryState["state"][];
  readonly select: string;
  /** The column of `since`. */
  readonly since: string;
};

const COLUMNS = "id, attempts AS attempt, created_at, destination";
/** The waiting ones have no index by time, which each delivery would pay for. */
const SOURCES: readonly Source[] = [
  {
    states: ["waiting"],
    select: `SELECT ${COLUMNS}, 'waiting' AS state, created_at AS since, due_at, last_error AS why FROM perdure_outbox`,
    since: "created_at",
  },
  {
    states: ["dead"],
    select: `SELECT ${COLUMNS}, 'dead' AS state, died_at AS since, NULL AS due_at, last_error AS why FROM perdure_dead_letters`,
    since: "died_at",
  },
  {
    states: ["delivered", "discarded"],
    select: `SELECT ${COLUMNS}, iif(discarded_because IS NULL, 'delivered', 'discarded') AS state, delivered_at AS since,
      NULL AS due_at, discarded_because AS why FROM perdure_delivered`,
    since: "delivered_at",
  },
];

/** One page, the newest first, from behind the cursor on. */
export function listDeliveries(
  sql: SqlStorage,
  listed: Listed,
  limit: number,
  cursor: string | undefined,
): DeliveryPage {
  const after = cursor === undefined ? undefined : readCursor(cursor);
  const rows = SOURCES.filter(({ states }) => states.some((one) => listed.states.includes(one)))
    // One more tells whether there is another page.
    .flatMap((source) => rowsOf(sql, source, listed, limit + 1, after))
    .sort((one, other) => other.since - one.since || (one.id < other.id ? 1 : -1));
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    deliveries: page.map(toInfo),
    ...(last && rows.length > limit && { cursor: cursorOf(last.since, last.id) }),
  };
}

function rowsOf(
  sql: SqlStorage,
  { select, since, states }: Source,
  { key, kind, submissionId, states: wanted }: Listed,
  limit: number,
  [time, id]: readonly [number, string] = [Number.MAX_SAFE_INTEGER, ""],
): Row[] {
  // The few deliveries of a submission are found by their ids, and the index by time is left aside.
  const by = submissionId === undefined ? since : `+${since}`;
  const where = [`(${by}, id) < (?, ?)`];
  const values: SqlStorageValue[] = [time, id];
  const only = (condition: string, ...bound: SqlStorageValue[]) => {
    where.push(condition);
    values.push(...bound);
  };
  if (submissionId !== undefined) {
    const from = prefixOf(submissionId);
    only("id > ? AND id < ? AND length(id) = ?", from, `${from}~`, [...from].length + UUID_LENGTH);
  }
  if (key !== undefined) only("destination_key = ?", key);
  if (kind !== undefined) only("destination ->> 'kind' = ?", kind);
  const isOne = states.length > 1 && !states.every((state) => wanted.includes(state));
  if (isOne) only(`discarded_because IS ${wanted.includes("discarded") ? "NOT NULL" : "NULL"}`);
  const query = `${select} WHERE ${where.join(" AND ")} ORDER BY ${by} DESC, id DESC LIMIT ?`;
  return sql.exec<Row>(query, ...values, limit).toArray();
}

function toInfo({ id, created_at: createdAt, destination, ...row }: Row): DeliveryInfo {
  const { proof: _, ...to } = JSON.parse(destination) as WorkflowDestination;
  const submissionId = submissionOf(id);
  return {
    id,
    ...(submissionId !== undefined && { submissionId }),
    destination: to as Destination,
    createdAt,
    ...stateOf(row),
  };
}

export function stateOf({ state, attempt, since, due_at, why }: StateRow): DeliveryState {
  if (state === "delivered") return { state, attempt, deliveredAt: since };
  if (state === "discarded") return { state, attempt, discardedAt: since, reason: why ?? "" };
  if (state === "dead") return { state, attempt, diedAt: since, lastError: why ?? "" };
  return { state, attempt, dueAt: due_at ?? since, ...(why !== null && { lastError: why }) };
}

/**
 * A new delivery id for an event of a submission. It begins with the submission's id, so that the primary key finds
 * its deliveries. The UUID at its end is there because receivers may listen to several agents.
 */
export function deliveryIdOf(submissionId: string): string {
  return `${prefixOf(submissionId)}${crypto.randomUUID()}`;
}

const PREFIX = "submission:";
const DIGEST = "sha256:";
/** Of a submission's id that is part of a delivery id, which travels in headers. */
const MAX_ID_BYTES = 200;
const UUID_LENGTH = 36;

function prefixOf(submissionId: string): string {
  const isShort = byteLength(submissionId) <= MAX_ID_BYTES;
  return `${PREFIX}${isShort ? submissionId : DIGEST + digest(submissionId)}/`;
}

/** The submission that a delivery tells of, where its id says so. */
function submissionOf(id: string): string | undefined {
  if (!id.startsWith(PREFIX) || id.startsWith(PREFIX + DIGEST)) return undefined;
  return id.slice(PREFIX.length, -UUID_LENGTH - 1);
}
