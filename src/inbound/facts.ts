/** What a health report knows of the log of inbound deliveries. Reads a bounded number of rows, and writes nothing. */

import { causeOf } from "../core/failures.ts";
import type { StoredVerdict } from "./states.ts";
import type { InboundFailure } from "./types.ts";

/** Rows that one report reads at most, the newest ones. */
const MOST_READ = 10_000;
/** Deliveries that have failed, and are kept one by one. */
const MOST_FAILED = 1_000;

/** A delivery that was refused, or whose handler has not ended. */
export type FailedDelivery = {
  readonly source: string;
  readonly id: string;
  readonly verdict: StoredVerdict;
  readonly storedAt: number;
  readonly error: InboundFailure;
  readonly cause: string;
  /** How many later deliveries of its source were accepted and have ended. */
  readonly acceptedSince: number;
};

export type InboundFacts = {
  readonly counts: Readonly<Record<StoredVerdict, number>>;
  /** Newest first. */
  readonly failed: readonly FailedDelivery[];
};

type Row = {
  source: string;
  id: string;
  verdict: StoredVerdict;
  storedAt: number;
  error: string | null;
};

export function inboundFacts(sql: SqlStorage): InboundFacts {
  const counts = { accepted: 0, filtered: 0, refused: 0 };
  const failed: FailedDelivery[] = [];
  // The table is made with the first delivery.
  const table = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_inbound'").toArray();
  if (table.length === 0) return { counts, failed };
  /** By source, how many have been accepted and have ended. */
  const accepted = new Map<string, number>();
  const rows = sql.exec<Row>(
    `SELECT source, id, verdict, stored_at AS storedAt, error FROM perdure_inbound ORDER BY seq DESC LIMIT ${MOST_READ}`,
  );
  for (const { source, id, verdict, storedAt, error } of rows) {
    counts[verdict]++;
    const acceptedSince = accepted.get(source) ?? 0;
    if (verdict === "accepted" && error === null) accepted.set(source, acceptedSince + 1);
    if (error === null || failed.length >= MOST_FAILED) continue;
    const cause = causeOf(failureText(error));
    failed.push({ source, id, verdict, storedAt, error: failureIn(error), cause, acceptedSince });
  }
  return { counts, failed };
}

/** What a filter by cause compares: the name and the message of a stored failure. */
export function failureText(error: string | null): string {
  if (error === null) return "";
  const { name, message } = failureIn(error);
  return `${name}: ${message}`;
}

function failureIn(text: string): InboundFailure {
  try {
    return JSON.parse(text) as InboundFailure;
  } catch {
    return { name: "Error", message: text.slice(0, 500) };
  }
}
