/** Selects the submissions that an operator's action with a filter changes. Reads ids only, and writes nothing. */

import { readFailure } from "../../core/failures.ts";
import { valuesOf } from "../../core/sql.ts";
import type { SubmissionFilter } from "../types.ts";
import { filterOf, LIST_SCAN, LIST_WINDOW } from "./history.ts";
import { QUEUED, SCHEDULED } from "./open.ts";

/** Open ones are cancelled. Those that have ended without an answer, and were not retried before, are retried. */
export type Change = "cancel" | "retry";

export const CHANGEABLE = {
  cancel: ["pending", "running"],
  retry: ["error", "aborted", "skipped"],
} as const satisfies Record<Change, NonNullable<SubmissionFilter["status"]>>;

const WHICH = {
  cancel: `seq IN (SELECT seq ${QUEUED} UNION ALL SELECT seq ${SCHEDULED})`,
  retry: "settled_at IS NOT NULL AND retried_by IS NULL",
} as const;

const ERROR_LENGTH = 500;

/** Checked by `SUBMISSION_FILTER`: times are epoch milliseconds. */
export type Selection = {
  readonly change: Change;
  readonly statuses: readonly string[];
  readonly filter: Pick<SubmissionFilter, "thread" | "metadata"> & {
    readonly createdAfter?: number;
    readonly createdBefore?: number;
  };
  /** Only failures whose name and text it returns true for. */
  readonly matches?: ((failure: string) => boolean) | undefined;
};

type Row = { seq: number; id: string; name: string | null; error: string | null };
export type Selected = { readonly seq: number; readonly id: string; readonly error: string };

export type Range = { readonly after: number; readonly until: number };

/** All rows as they are now. Those that are accepted later, e.g. by retries, are not in it. */
export function wholeRange(sql: SqlStorage): Range {
  const query = "SELECT IFNULL(MAX(seq), 0) FROM perdure_submissions";
  return { after: 0, until: valuesOf<number>(sql, query)[0] ?? 0 };
}

/**
 * Some of a selection: to cancel, the newest first, so that none starts in place of one that was cancelled before it; to
 * retry, the oldest first, so that they run in their order again.
 *
 * @returns `next` is the range that is left; undefined if there is nothing in it
 */
export function select(
  sql: SqlStorage,
  selection: Selection,
  range: Range,
  limit: number,
): { rows: Selected[]; next: Range | undefined } {
  const { where, bindings } = conditionsOf(selection);
  const isNewestFirst = selection.change === "cancel";
  const query = `SELECT seq, submission_id AS id, error_name AS name, substr(error, 1, ${ERROR_LENGTH}) AS error
    FROM perdure_submissions WHERE seq > ? AND seq <= ? AND ${where} ORDER BY seq ${isNewestFirst ? "DESC" : "ASC"}`;
  const rows: Selected[] = [];
  for (const window of windowsOf(sql, selection, range)) {
    for (const row of sql.exec<Row>(query, window.after, window.until, ...bindings)) {
      const error = `${row.name ?? "Error"}: ${readFailure(row.error ?? "").message}`;
      if (selection.matches?.(error) === false) continue;
      rows.push({ seq: row.seq, id: row.id, error });
      if (rows.length >= limit) return { rows, next: restOf(selection, range, row.seq) };
    }
    if (window.rest) return { rows, next: window.rest };
  }
  return { rows, next: undefined };
}

/** How many {@link select} would return in all, and the range that is left after {@link LIST_SCAN} rows. */
export function countSelected(
  sql: SqlStorage,
  selection: Selection,
  range: Range,
): { count: number; next: Range | undefined } {
  if (selection.matches) {
    const { rows, next } = select(sql, selection, range, LIST_WINDOW);
    return { count: rows.length, next };
  }
  const { where, bindings } = conditionsOf(selection);
  const query = `SELECT COUNT(*) FROM perdure_submissions WHERE seq > ? AND seq <= ? AND ${where}`;
  let count = 0;
  for (const { after, until, rest } of windowsOf(sql, selection, range)) {
    count += valuesOf<number>(sql, query, after, until, ...bindings)[0] ?? 0;
    if (rest) return { count, next: rest };
  }
  return { count, next: undefined };
}

/** The rest of a range after a row. Undefined: nothing is left. */
export function restOf({ change }: Selection, { after, until }: Range, seq = 0): Range | undefined {
  const rest = change === "cancel" ? { after, until: seq - 1 } : { after: seq, until };
  return rest.after < rest.until ? rest : undefined;
}

function conditionsOf({ change, statuses, filter }: Selection) {
  const { conditions, bindings } = filterOf({
    ...filter,
    statuses: statuses as Parameters<typeof filterOf>[0]["statuses"],
  });
  return { where: [WHICH[change], ...conditions].join(" AND "), bindings };
}

type Window = Range & {
  /** Set on the last window of a call that is not the last one of the range. */
  readonly rest?: Range;
};

/** The open ones are found by their index, so that one window has them all. */
function* windowsOf(sql: SqlStorage, selection: Selection, range: Range): Generator<Window> {
  if (selection.change === "cancel") {
    yield range;
    return;
  }
  const first = "SELECT MIN(seq) FROM perdure_submissions WHERE seq > ?";
  const { until } = range;
  let { after } = range;
  for (let scanned = LIST_WINDOW; after < until; scanned += LIST_WINDOW) {
    const next = valuesOf<number | null>(sql, first, after)[0];
    if (next === null || next === undefined || next > until) return;
    const end = Math.min(next + LIST_WINDOW - 1, until);
    const rest = scanned >= LIST_SCAN ? restOf(selection, range, end) : undefined;
    yield { after: next - 1, until: end, ...(rest && { rest }) };
    if (rest) return;
    after = end;
  }
}
