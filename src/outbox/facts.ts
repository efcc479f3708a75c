/** What a health report knows of the outbox. Reads a bounded number of rows, and writes nothing. */

import { type Cause, causeOf, readFailure } from "../core/failures.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import { type Destination, type Destinations, withoutSecrets } from "./destinations/index.ts";
import { STILL_WAITING } from "./errors.ts";
import { ALERT_PREFIX } from "./event.ts";
import type { EndpointStore } from "./store/endpoints.ts";
import type { Endpoint } from "./types.ts";

/** Waiting rows and dead letters that one report reads at most, each. */
const MOST_READ = 10_000;
/** Groups of the same destination and cause that are kept apart. */
const MOST_GROUPS = 200;
const MOST_IDS = 10;
/** Characters of an error. */
const ERROR_LENGTH = 500;
/** Attempts in a row that a crash may have interrupted, from which on one delivery is likely to be the cause. */
const POISON_AFTER = 2;

/** Deliveries of one destination with the same cause. */
export type DeliveryGroup = {
  /** Of the destination. */
  readonly key: string;
  readonly destination: Destination | undefined;
  /** What the app does to install its kind of destination, as a sentence without its full stop; undefined: it is installed. */
  readonly remedy: string | undefined;
  readonly state: "waiting" | "dead";
  /** Empty for deliveries that have not failed. */
  readonly error: string;
  /** The cause that was stored with the error; undefined for most errors, and for those of an older version. */
  readonly failure: Cause | undefined;
  /** The common text of errors that differ in ids and numbers only. */
  readonly cause: string;
  readonly count: number;
  /** The first was put, or became a dead letter, at this time. */
  readonly since: number;
  readonly ids: readonly string[];
  /** Attempts of the one that was attempted most often. */
  readonly attempts: number;
  /** Whether a crash may have interrupted two attempts in a row. */
  readonly isPoison: boolean;
  readonly isUncertain: boolean;
};

export type OutboxFacts = {
  readonly waiting: number;
  readonly deadLetters: number;
  readonly groups: readonly DeliveryGroup[];
  /** The URLs that are not healthy. */
  readonly endpoints: readonly Endpoint[];
  /** Of these, the URLs that want no more events. */
  readonly gone: readonly string[];
  readonly maxWaiting: number;
};

type Row = {
  id: string;
  key: string;
  state: "waiting" | "dead";
  attempts: number;
  interruptions: number;
  since: number;
  isUncertain: number;
  error: string | null;
};

/** Columns before the destination and the event, which are large. */
const WAITING = `SELECT id, destination_key AS key, 'waiting' AS state, attempts - earlier_attempts AS attempts, interruptions,
    created_at AS since, 0 AS isUncertain, substr(last_error, 1, ${ERROR_LENGTH}) AS error
  FROM perdure_outbox LIMIT ${MOST_READ}`;
const DEAD = `SELECT id, destination_key AS key, state, attempts, 0 AS interruptions, ended_at AS since,
    is_uncertain AS isUncertain, substr(reason, 1, ${ERROR_LENGTH}) AS error
  FROM perdure_outbox_ended WHERE state = 'dead' ORDER BY ended_at DESC, id DESC LIMIT ${MOST_READ}`;

const GONE =
  "SELECT url FROM perdure_endpoints WHERE disabled_at IS NOT NULL AND reason LIKE '#answered/%'";

type FactSource = {
  readonly loop: WorkLoop;
  readonly destinations: Destinations;
  readonly limits: { readonly maxWaiting: number };
  readonly stores: { readonly endpoints: EndpointStore };
};

export function outboxFacts({
  loop,
  destinations: kinds,
  limits,
  stores,
}: FactSource): OutboxFacts {
  const { sql } = loop.lifecycle.storage;
  const remedyOf = ({ kind }: Destination) =>
    kinds.installed.includes(kind) ? undefined : kinds.remedyOf(kind);
  const endpoints = stores.endpoints.list();
  const counts = { waiting: 0, dead: 0 };
  const groups = new Map<string, DeliveryGroup & { ids: string[] }>();
  for (const query of [WAITING, DEAD]) {
    for (const row of sql.exec<Row>(query)) {
      counts[row.state]++;
      // Telemetry that waits for other deliveries has not failed.
      add(groups, row.error === STILL_WAITING ? { ...row, error: null } : row);
    }
  }
  const destinations = destinationsOf(sql, groups.values());
  return {
    waiting: counts.waiting,
    deadLetters: counts.dead,
    groups: Array.from(groups.values(), (group) => {
      const destination = destinations.get(group.key);
      return { ...group, destination, remedy: destination && remedyOf(destination) };
    }),
    gone: endpoints.some(({ state }) => state === "disabled")
      ? Array.from(sql.exec<{ url: string }>(GONE), ({ url }) => url)
      : [],
    endpoints,
    maxWaiting: limits.maxWaiting,
  };
}

function add(groups: Map<string, DeliveryGroup & { ids: string[] }>, row: Row): void {
  const { id, key, state, attempts, since } = row;
  const isPoison = row.interruptions >= POISON_AFTER;
  const isUncertain = row.isUncertain === 1;
  const { message: error, cause: failure } = readFailure(row.error ?? "");
  const cause = causeOf(error);
  // A receiver's answer may be another one each time.
  const isAlert = id.startsWith(ALERT_PREFIX);
  const parts = [state, key, isPoison, isUncertain, isAlert, groups.size < MOST_GROUPS && cause];
  const name = JSON.stringify(parts);
  const known = groups.get(name);
  // Above the limit, only groups of new destinations are left out.
  if (!known && groups.size >= 2 * MOST_GROUPS) return;
  const ids = known?.ids ?? [];
  if (ids.length < MOST_IDS) ids.push(id);
  groups.set(name, {
    key,
    destination: undefined,
    remedy: undefined,
    state,
    error: known?.error ?? error,
    failure: known?.failure ?? failure,
    cause: known?.cause ?? cause,
    count: (known?.count ?? 0) + 1,
    since: Math.min(since, known?.since ?? since),
    ids,
    attempts: Math.max(attempts, known?.attempts ?? 0),
    isPoison,
    isUncertain,
  });
}

/** The destination of each key, read from one row. A corrupt one is left out. */
function destinationsOf(sql: SqlStorage, groups: Iterable<DeliveryGroup>) {
  const ids = [...new Map(Array.from(groups, ({ key, ids }) => [key, ids[0]])).values()];
  const found = new Map<string, Destination>();
  if (ids.length === 0) return found;
  const rows = sql.exec<{ key: string; destination: string }>(
    `SELECT destination_key AS key, destination FROM perdure_outbox WHERE id IN (SELECT value FROM json_each(?1))
     UNION ALL
     SELECT destination_key, destination FROM perdure_outbox_ended WHERE id IN (SELECT value FROM json_each(?1))`,
    JSON.stringify(ids),
  );
  for (const { key, destination } of rows) {
    try {
      found.set(key, withoutSecrets(JSON.parse(destination) as Destination));
    } catch (error) {
      console.warn(`[perdure] the destination ${key} of a stored delivery cannot be read:`, error);
    }
  }
  return found;
}
