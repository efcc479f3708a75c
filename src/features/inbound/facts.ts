/** What a health report knows of the log of arrivals. Reads a bounded number of rows, and makes no table. */

import { causeOf } from "../../core/failures.ts";
import { parsedJson } from "../../core/json.ts";
import { type RefusedSource, refusedSources } from "./refusals.ts";
import type { StoredVerdict } from "./states.ts";
import type { InboundFailure } from "./types.ts";

/** Rows that one report reads at most, the newest ones. */
const MOST_READ = 1_000;
/** Duplicates are counted for arrivals of this time. */
const REPEATED_MS = 24 * 3_600_000;

/** An arrival that was refused, or whose handler has not ended. */
export type FailedArrival = {
  readonly source: string;
  readonly id: string;
  readonly verdict: StoredVerdict;
  readonly storedAt: number;
  readonly error: InboundFailure;
  readonly cause: string;
  /** How many later arrivals of its source were accepted and have ended. */
  readonly acceptedSince: number;
};

/** Duplicates of one source among the arrivals of the last 24 hours. */
type Repeats = {
  readonly source: string;
  arrivals: number;
  count: number;
  /** Whether one had another body than the first. */
  hasConflict: boolean;
  /** The arrival that was sent again most often. */
  most: { readonly id: string; readonly storedAt: number; readonly duplicates: number };
};

export type InboundFacts = {
  /** `held` is left out where there are none. */
  readonly counts: Readonly<Record<Exclude<StoredVerdict, "held">, number>> & {
    readonly held?: number;
  };
  /** Newest first. */
  readonly failed: readonly FailedArrival[];
  readonly repeats: readonly Repeats[];
  readonly refused: readonly RefusedSource[];
};

type Row = {
  source: string;
  id: string;
  verdict: StoredVerdict;
  storedAt: number;
  duplicates: number;
  hasConflict: number;
  error: string | null;
};

export function inboundFacts(sql: SqlStorage, now: number): InboundFacts {
  const counts: Record<Exclude<StoredVerdict, "held">, number> & { held?: number } = {
    accepted: 0,
    filtered: 0,
    refused: 0,
  };
  const failed: FailedArrival[] = [];
  // The tables are made with the first arrival, and those that a new version adds with the first one after it.
  const query =
    "SELECT name FROM sqlite_master WHERE name IN ('perdure_inbound', 'perdure_refusals')";
  const tables = sql.exec<{ name: string }>(query).toArray();
  if (tables.length === 0) return { counts, failed, repeats: [], refused: [] };
  const repeats = new Map<string, Repeats>();
  /** By source, how many have been accepted and have ended. */
  const accepted = new Map<string, number>();
  const rows = sql.exec<Row>(
    `SELECT source, id, verdict, stored_at AS storedAt, duplicates, has_conflict AS hasConflict, error
     FROM perdure_inbound ORDER BY seq DESC LIMIT ${MOST_READ}`,
  );
  for (const row of rows) {
    const { source, id, verdict, storedAt, error } = row;
    counts[verdict] = (counts[verdict] ?? 0) + 1;
    if (now - storedAt < REPEATED_MS) count(repeats, row);
    const acceptedSince = accepted.get(source) ?? 0;
    if (verdict === "accepted" && error === null) accepted.set(source, acceptedSince + 1);
    if (error === null) continue;
    const cause = causeOf(failureText(error));
    failed.push({ source, id, verdict, storedAt, error: failureIn(error), cause, acceptedSince });
  }
  const refused = tables.length === 2 ? refusedSources(sql, now) : [];
  return { counts, failed, repeats: [...repeats.values()], refused };
}

function count(repeats: Map<string, Repeats>, row: Row): void {
  const { source, duplicates, hasConflict } = row;
  const known = repeats.get(source);
  const found = known ?? { source, arrivals: 0, count: 0, hasConflict: false, most: row };
  found.arrivals++;
  found.count += duplicates;
  found.hasConflict ||= hasConflict === 1;
  if (duplicates > found.most.duplicates) found.most = row;
  repeats.set(source, found);
}

/** The text that a filter by cause compares: the name and the message of a stored failure. */
export function failureText(error: string | null): string {
  if (error === null) return "";
  const { name, message } = failureIn(error);
  return `${name}: ${message}`;
}

function failureIn(text: string): InboundFailure {
  const stored = parsedJson(text) as InboundFailure | undefined;
  return stored ?? { name: "Error", message: text.slice(0, 500) };
}
