/** The results of a run, as a Markdown table and as JSON. No I/O. */

import { type Result, verdictOf } from "./result.ts";

export type Found = { readonly measure: string; readonly does: string; readonly results: Result[] };

export type Run = {
  /** When it began, in ISO 8601. */
  readonly date: string;
  /** The commit that was measured. */
  readonly commit: string;
  readonly machine: Readonly<Record<string, string | number>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly seconds: number;
  readonly found: readonly Found[];
};

const HEAD = ["measure", "unit", "built-in", "Perdure", "to reach", ""];

export function markdownOf({ date, commit, machine, versions, seconds, found }: Run): string {
  const list = (values: Readonly<Record<string, string | number>>) =>
    Object.entries(values)
      .map(([name, value]) => `${name} ${value}`)
      .join(", ");
  const rows = found.flatMap(({ results }) => results.map(cellsOf));
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [
    "# What `npm run bench` measured",
    "",
    `${date}, commit ${commit}, in ${Math.round(seconds)} s, on ${list(machine)}; ${list(versions)}.`,
    "",
    "Counts and sizes fail the run above their limits. Times are those of this run on this machine, and fail it only below a floor.",
    "",
    line(HEAD),
    line(HEAD.map(() => "---")),
    ...rows.map(line),
    "",
    ...floors(found),
  ].join("\n");
}

export function jsonOf(run: Run): string {
  const found = run.found.map(({ results, ...measure }) => ({
    ...measure,
    results: results.map((result) => ({ ...result, verdict: verdictOf(result) })),
  }));
  return `${JSON.stringify({ ...run, found }, null, 2)}\n`;
}

/** One result in one line, for the terminal. */
export function lineOf(result: Result): string {
  const [what = "", unit, builtIn, perdure, goal, verdict] = cellsOf(result);
  const beside = builtIn === "" ? "" : `, built-in ${builtIn}`;
  const toReach = goal === "" ? "" : ` (${goal})`;
  return `  ${(verdict ?? "").padEnd(7)}${what}: ${perdure} ${unit}${beside}${toReach}`;
}

/** The failures of the run. */
export function failuresOf(found: readonly Found[]): string[] {
  return found.flatMap(({ results }) =>
    results.filter((result) => verdictOf(result) === "FAILED").map(lineOf),
  );
}

function cellsOf(result: Result): string[] {
  const { what, unit, perdure, builtIn } = result;
  const shown = builtIn === undefined ? "" : numberOf(builtIn);
  return [what, unit, shown, numberOf(perdure), goalOf(result), verdictOf(result)];
}

function goalOf({ limit }: Result): string {
  if (!limit) return "";
  if (limit.kind === "reported") return limit.goal;
  const { atMost, floor } = limit;
  return `at most ${numberOf(atMost)}${floor ? `; floor ${numberOf(floor.atMost)}` : ""}`;
}

function floors(found: readonly Found[]): string[] {
  return found.flatMap(({ results }) =>
    results.flatMap(({ what, limit }) =>
      limit?.kind === "exact" && limit.floor
        ? [`The floor of ${what}: ${limit.floor.why}`, ""]
        : [],
    ),
  );
}

function numberOf(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
