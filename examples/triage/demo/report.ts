/** The output and the checks of the demo: progress, the table of results, and the proof that nothing ran twice. */

import type { AgentReport, DeliveryReport } from "../src/triage.ts";
import type { Delivery } from "./feed.ts";

const LOG_INTERVAL_MS = 2_000;
const FAILED = ["errored", "terminated"];

export interface Totals {
  deliveries: number;
  complete: number;
  failed: number;
  waiting: number;
  turnsRunning: number;
  workflows: number;
  modelCalls: number;
  modelAnswers: number;
  labelWrites: number;
  labelRequests: number;
}

export function totalsOf(reports: AgentReport[]): Totals {
  const rows = reports.flatMap((report) => report.deliveries);
  const sum = (value: (row: DeliveryReport) => number) =>
    rows.reduce((total, row) => total + value(row), 0);
  return {
    deliveries: rows.length,
    complete: rows.filter((row) => row.status === "complete").length,
    failed: rows.filter(hasFailed).length,
    waiting: rows.filter((row) => row.status === "waiting").length,
    turnsRunning: reports.reduce((total, report) => total + report.turnsRunning.length, 0),
    workflows: reports.reduce((total, report) => total + report.workflows, 0),
    modelCalls: sum((row) => row.modelCalls),
    modelAnswers: sum((row) => row.modelAnswers),
    labelWrites: sum((row) => row.labelWrites),
    labelRequests: sum((row) => row.labelRequests),
  };
}

export function hasFailed(row: DeliveryReport): boolean {
  return row.status === "errored" || FAILED.includes(row.platformStatus ?? "");
}

/** Settled in the agent and, if requested, on the platform. */
export function isSettled(row: DeliveryReport): boolean {
  return (
    hasFailed(row) ||
    (row.status === "complete" && (row.platformStatus ?? "complete") === "complete")
  );
}

export interface Expectation {
  feed: Delivery[];
  kills: number;
  /** The offline model answers every call, so each delivery needs exactly one. A provider may fail and be called again. */
  exactCalls: boolean;
}

/** The problems of the results, as sentences. */
export function problemsIn(
  reports: AgentReport[],
  { feed, kills, exactCalls }: Expectation,
): string[] {
  const rows = new Map(
    reports.flatMap((report) => report.deliveries).map((row) => [row.delivery, row]),
  );
  const problems = feed.flatMap(({ id }) =>
    problemsOf(id, rows.get(id), kills === 0 && exactCalls),
  );
  const totals = totalsOf(reports);
  if (totals.deliveries !== feed.length)
    problems.push(`${totals.deliveries} deliveries are stored, and ${feed.length} were posted.`);
  // An agent runs one turn at a time, so a kill interrupts at most one turn of each.
  const cuttable = kills * reports.length;
  const repeated = totals.modelCalls - totals.deliveries;
  if (exactCalls && repeated > cuttable) {
    problems.push(
      `${repeated} model calls were repeated, more than the ${cuttable} turns that ${kills} kills can cut off.`,
    );
  }
  return problems;
}

function problemsOf(id: string, row: DeliveryReport | undefined, onceEach: boolean): string[] {
  if (!row) return [`${id}: never arrived.`];
  const problems: string[] = [];
  if (hasFailed(row))
    problems.push(`${id}: the workflow failed: ${row.error ?? "no reason given"}`);
  else if (!isSettled(row))
    problems.push(
      `${id}: not complete: ${row.status}, on the platform ${row.platformStatus ?? "unknown"}.`,
    );
  else if (row.labelWrites !== 1)
    problems.push(`${id}: its labels were written ${row.labelWrites} times.`);
  if (onceEach && row.modelCalls > 1)
    problems.push(`${id}: the model was called ${row.modelCalls} times.`);
  if (onceEach && row.labelRequests > 1)
    problems.push(`${id}: the step apply-labels ran ${row.labelRequests} times.`);
  return problems;
}

/** Counters that changed although every delivery was repeated. */
export function differences(before: Totals, after: Totals): string[] {
  const names = Object.keys(before) as (keyof Totals)[];
  return names
    .filter((name) => before[name] !== after[name])
    .map((name) => `The second posting moved ${name} from ${before[name]} to ${after[name]}.`);
}

export function table(rows: DeliveryReport[], width: number): string {
  const cells = rows.map((row) => [
    row.delivery.slice(0, 8),
    `${row.event}.${row.action}`,
    `${row.repository.split("/")[1]}#${row.number}`,
    row.triage?.title ?? "",
    row.triage?.labels.join(", ") ?? "",
    row.triage?.severity ?? "",
    row.approvedBy ? `${row.status}, approved` : row.status,
  ]);
  const head = ["DELIVERY", "EVENT", "SUBJECT", "TITLE", "LABELS", "SEVERITY", "STATUS"];
  const widths = columnWidths([head, ...cells], width);
  const rule = widths.map((columns) => "-".repeat(columns));
  return [head, rule, ...cells]
    .map((line) =>
      line
        .map((cell, at) => pad(cell, widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Columns as wide as their widest cell. If the table is too wide, the widest column shrinks. */
function columnWidths(lines: string[][], width: number): number[] {
  const widths = (lines[0] ?? []).map((_, at) =>
    Math.max(...lines.map((line) => line[at]?.length ?? 0)),
  );
  const gaps = 2 * (widths.length - 1);
  while (widths.reduce((sum, columns) => sum + columns, gaps) > width && Math.max(...widths) > 8) {
    const widest = widths.indexOf(Math.max(...widths));
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

function pad(cell: string, columns: number): string {
  return (cell.length > columns ? `${cell.slice(0, columns - 1)}…` : cell).padEnd(columns);
}

/** One line that is updated on a terminal; in a log, a new line from time to time. */
export class Progress {
  readonly #startedAt = Date.now();
  #shown = "";
  #loggedAt = 0;

  get elapsed(): string {
    return `${((Date.now() - this.#startedAt) / 1000).toFixed(1)} s`;
  }

  update(text: string): void {
    const line = `${this.elapsed.padStart(8)}  ${text}`;
    if (process.stdout.isTTY) {
      process.stdout.write(`\r\x1b[K${line.slice(0, (process.stdout.columns ?? 80) - 1)}`);
    } else if (text !== this.#shown && Date.now() - this.#loggedAt >= LOG_INTERVAL_MS) {
      console.log(line);
      this.#loggedAt = Date.now();
    }
    this.#shown = text;
  }

  /** Prints a permanent line. */
  note(text: string): void {
    this.clear();
    console.log(`${this.elapsed.padStart(8)}  ${text}`);
  }

  clear(): void {
    if (process.stdout.isTTY && this.#shown !== "") process.stdout.write("\r\x1b[K");
    this.#shown = "";
  }
}
