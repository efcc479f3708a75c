/**
 * All SQL of the endpoints: the URLs that webhooks go to. Owns `perdure_endpoints`, which has a row for each one that is
 * not healthy. A delivery to a healthy endpoint writes nothing here.
 *
 *   healthy ── failure ──► failing ── 410, or disabled by hand ──► disabled
 *      ▲                      │                                       │
 *      └────── success ───────┘◄───────── enabled by hand ────────────┘ (to healthy)
 */

import { type Failure, readFailure, storedFailure } from "../../core/failures.ts";
import { byId, cursorsOf, type Page, pageOf } from "../../engine/page.ts";
import type { Endpoint } from "../types.ts";

export const ENDPOINTS = cursorsOf("endpoints", byId);

type Row = {
  key: string;
  url: string;
  failing_since: number;
  held_until: number | null;
  disabled_at: number | null;
  reason: string;
};

type Reason = Pick<Failure, "message" | "cause">;

export class EndpointStore {
  /** All rows, read once: there are only those of unhealthy endpoints. */
  #rows: Map<string, Row> | undefined;

  constructor(private readonly sql: SqlStorage) {}

  /** Deletes those that began to fail before a time and have no waiting entries. */
  prune(time: number): void {
    const isOld = ({ disabled_at, failing_since }: Row) =>
      disabled_at === null && failing_since < time;
    if (![...this.#known.values()].some(isOld)) return;
    this.#rows = undefined;
    this.sql.exec(
      `DELETE FROM perdure_endpoints WHERE disabled_at IS NULL AND failing_since < ? AND NOT EXISTS
         (SELECT 1 FROM perdure_outbox WHERE destination_key = key)`,
      time,
    );
  }

  keys(): Iterable<string> {
    return this.#known.keys();
  }

  list(): Endpoint[] {
    return [...this.#known.values()].map(toEndpoint);
  }

  /** By URL, after that of the page before. */
  page(limit: number, after = ""): Page<Endpoint> {
    const found = [...this.#known.values()].filter(({ url }) => url > after);
    const sorted = found.toSorted((a, b) => (a.url < b.url ? -1 : 1));
    return pageOf(sorted, limit, toEndpoint, ({ url }) => ENDPOINTS.at(url));
  }

  get(key: string, url: string): Endpoint {
    const row = this.#known.get(key);
    return row ? toEndpoint(row) : { url, state: "healthy" };
  }

  isDisabled(key: string): boolean {
    return typeof this.#known.get(key)?.disabled_at === "number";
  }

  /** Keys of those whose Retry-After has not passed. */
  held(now: number): string[] {
    return this.#heldRows(now).map(({ key }) => key);
  }

  /** When the next of these can be attempted again, or null. */
  nextRelease(now: number): number | null {
    const times = this.#heldRows(now).map(({ held_until }) => held_until ?? now);
    return times.length > 0 ? Math.min(...times) : null;
  }

  #heldRows(now: number): Row[] {
    return [...this.#known.values()].filter(({ held_until }) => (held_until ?? 0) > now);
  }

  /** failing → healthy. Returns whether it was not healthy. */
  succeeded(key: string): boolean {
    if (!this.#known.has(key) || this.isDisabled(key)) return false;
    this.#delete(key);
    return true;
  }

  /**
   * healthy → failing. Returns whether the app is to be informed: it was healthy, or its secret has another problem.
   *
   * @param heldUntil until when its Retry-After asks not to be called, or null
   */
  failed(
    key: string,
    url: string,
    failure: Reason,
    now: number,
    heldUntil: number | null,
  ): boolean {
    const row = this.#known.get(key);
    if (row && row.disabled_at !== null) return false;
    // A secret is repaired in this app, and not at the receiver: its owner needs the latest reason.
    const reason = storedFailure(failure);
    const isNews =
      row === undefined || (row.reason !== reason && [row.reason, reason].some(isOfSecret));
    if (!isNews && heldUntil === null) return false;
    const latest = isNews ? reason : row.reason;
    const failing_since = row?.failing_since ?? now;
    this.#write({
      key,
      url,
      failing_since,
      held_until: heldUntil,
      disabled_at: null,
      reason: latest,
    });
    return isNews;
  }

  /** any → disabled. */
  disable(key: string, url: string, failure: Reason, now: number): void {
    const failing_since = this.#known.get(key)?.failing_since ?? now;
    const reason = storedFailure(failure);
    this.#write({ key, url, failing_since, held_until: null, disabled_at: now, reason });
  }

  /** any → healthy. Returns since when it was failing, or undefined. */
  enable(key: string): number | undefined {
    const since = this.#known.get(key)?.failing_since;
    if (since !== undefined) this.#delete(key);
    return since;
  }

  get #known(): Map<string, Row> {
    if (!this.#rows) {
      const rows = this.sql.exec<Row>("SELECT * FROM perdure_endpoints ORDER BY url").toArray();
      this.#rows = new Map(rows.map((row) => [row.key, row]));
    }
    return this.#rows;
  }

  #write(row: Row): void {
    this.sql.exec(
      `INSERT OR REPLACE INTO perdure_endpoints (key, url, failing_since, held_until, disabled_at, reason)
       VALUES (?, ?, ?, ?, ?, ?)`,
      row.key,
      row.url,
      row.failing_since,
      row.held_until,
      row.disabled_at,
      row.reason,
    );
    this.#known.set(row.key, row);
  }

  #delete(key: string): void {
    this.sql.exec("DELETE FROM perdure_endpoints WHERE key = ?", key);
    this.#known.delete(key);
  }
}

const isOfSecret = (reason: string) => readFailure(reason).cause?.code === "secret-missing";

function toEndpoint({ url, failing_since, held_until, disabled_at, ...row }: Row): Endpoint {
  const reason = readFailure(row.reason).message;
  if (disabled_at !== null) return { url, state: "disabled", since: disabled_at, reason };
  return {
    url,
    state: "failing",
    since: failing_since,
    reason,
    ...(held_until !== null && { heldUntil: held_until }),
  };
}
