/** Fills a ledger by the thousands, and tells what each of its statements costs. */

import { isDeepStrictEqual } from "node:util";
import type { Meter } from "../../src/testing/index.ts";

/** One statement, and what it did to the storage. */
export type Statement = { query: string; rowsRead: number; rowsWritten: number };

type Noted = { query: string; cursor: ReturnType<Meter["exec"]> };

/** Writes down the statements of an object while it is asked to, with what each of them costs. */
export class Recorder {
  #noted: Noted[] | undefined;
  readonly #queries = new Set<string>();

  constructor(meter: Meter) {
    const exec = meter.exec.bind(meter);
    meter.exec = (query, run) => {
      const cursor = exec(query, run);
      if (this.#noted) this.#queries.add(query);
      this.#noted?.push({ query, cursor });
      return cursor;
    };
  }

  /** What `work` does. */
  async during(work: () => Promise<unknown>): Promise<Statement[]> {
    const noted: Noted[] = [];
    this.#noted = noted;
    await work();
    this.#noted = undefined;
    return noted.map(({ query, cursor: { rowsRead, rowsWritten } }) => ({
      query: query.replaceAll(/\s+/g, " ").trim(),
      rowsRead,
      rowsWritten,
    }));
  }

  /** How SQLite runs each statement about `table` so far, with the tables as they are now. */
  plans({ sql }: DurableObjectStorage, table: string): { query: string; steps: string[] }[] {
    const about = [...this.#queries].filter(
      (query) => query.includes(table) && /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)/.test(query),
    );
    return about.map((query) => ({
      query,
      steps: sql
        .exec<{ detail: string }>(
          `EXPLAIN QUERY PLAN ${query}`,
          // A plan does not depend on what is bound.
          ...Array.from(query.matchAll(/\?/g), () => 1),
        )
        .toArray()
        .map(({ detail }) => detail),
    }));
  }
}

const CHUNK = 100_000;

/** A ledger that is in use counts on in memory: the numbers of rows that are added behind its back keep clear of its own. */
const SEQ = "(SELECT IFNULL(MAX(seq), 0) FROM perdure_submissions) + 1000000 + i";

/** Adds ended submissions `e<from>` to `e<to>`, with the keys `ke<from>` to `ke<to>`. Returns how long it took. */
export async function fillEnded(
  storage: DurableObjectStorage,
  from: number,
  to: number,
): Promise<number> {
  const start = Date.now();
  for (let first = from; first <= to; first += CHUNK) {
    storage.sql.exec(
      `${numbers(first, Math.min(to, first + CHUNK - 1))}
       INSERT INTO perdure_submissions
         (seq, submission_id, idempotency_key, status, attempts, messages, created_at, started_at, settled_at)
       SELECT ${SEQ}, 'e' || i, 'ke' || i, 'completed', 1, '[]', 1, 1, 1 FROM numbers`,
    );
    await storage.sync();
  }
  return Date.now() - start;
}

/** Adds so many pending submissions. */
export function fillPending({ sql }: DurableObjectStorage, count: number, createdAt: number): void {
  if (count === 0) return;
  sql.exec(
    `${numbers(1, count)}
     INSERT INTO perdure_submissions (seq, submission_id, idempotency_key, messages, created_at)
     SELECT ${SEQ}, 'p' || i, 'kp' || i, '[]', ${createdAt} FROM numbers`,
  );
}

function numbers(from: number, to: number): string {
  return `WITH RECURSIVE numbers (i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM numbers WHERE i < ${to})`;
}

/** What each step costs at each size: a table for people, and the steps that do not cost the same everywhere. */
export class CostTable {
  readonly #rows = new Map<string, Map<string, Statement[]>>();

  add(step: string, size: string, statements: Statement[]): void {
    const row = this.#rows.get(step) ?? new Map<string, Statement[]>();
    this.#rows.set(step, row.set(size, statements));
  }

  /** Steps whose statements, or what they cost, depend on the size. */
  uneven(): string[] {
    return [...this.#rows].flatMap(([step, costs]) => {
      const [[firstSize, first] = ["", []], ...others] = costs;
      return others.flatMap(([size, other]) =>
        isDeepStrictEqual(other, first)
          ? []
          : [`${step}: ${show(first)} at ${firstSize}, ${show(other)} at ${size}`],
      );
    });
  }

  /** The statements of a step at the first size that do something to `table`. */
  statements(step: string, pattern: RegExp): Pick<Statement, "rowsRead" | "rowsWritten">[] {
    const [first] = this.#rows.get(step)?.values() ?? [];
    return (first ?? [])
      .filter(({ query }) => pattern.test(query))
      .map(({ rowsRead, rowsWritten }) => ({ rowsRead, rowsWritten }));
  }

  print(): void {
    const lines = [...this.#rows].map(([step, costs]) => {
      const cells = [...costs.values()].map((statements) => {
        const sum = (key: "rowsRead" | "rowsWritten") =>
          statements.reduce((total, statement) => total + statement[key], 0);
        return `${statements.length}/${sum("rowsRead")}/${sum("rowsWritten")}`.padStart(15);
      });
      return step.padEnd(32) + cells.join("");
    });
    const sizes = [...(this.#rows.values().next().value?.keys() ?? [])];
    const head = "ended+pending".padEnd(32) + sizes.map((size) => size.padStart(15)).join("");
    console.log(["statements/rows read/rows written", head, ...lines].join("\n"));
  }
}

function show(statements: Statement[]): string {
  return statements
    .map(({ query, rowsRead, rowsWritten }) => `${query.slice(0, 60)} (${rowsRead}/${rowsWritten})`)
    .join("; ");
}
