/** The table of tested versions. `canary.ts --record` writes its file, and `check-docs.ts` compares the pages with it. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const FILE = path.join(import.meta.dirname, "tested-versions.json");

/** The packages that an app installs with Perdure, and its tools, in the order of the table. */
export const TESTED = [
  "agents",
  "@cloudflare/think",
  "@cloudflare/computer",
  "ai",
  "zod",
  "@cloudflare/vitest-plugin",
  "wrangler",
] as const;

export type TestedRun = {
  /** The day of the run, e.g. `2026-11-22`. */
  readonly date: string;
  /** The tests that ran, e.g. `all tests`. */
  readonly ran: string;
  readonly versions: Readonly<Record<string, string>>;
};

/** The recorded runs, the newest first. */
export function testedRuns(): TestedRun[] {
  return JSON.parse(readFileSync(FILE, "utf8")) as TestedRun[];
}

/** Adds a run; an earlier run of the same versions is replaced. */
export function recordRun(run: TestedRun): void {
  const versions = JSON.stringify(run.versions);
  const others = testedRuns().filter((known) => JSON.stringify(known.versions) !== versions);
  writeFileSync(FILE, `${JSON.stringify([run, ...others], null, 2)}\n`);
}

/** The Markdown table of the recorded runs. */
export function testedTable(): string {
  const rows = testedRuns().map(({ date, ran, versions }) => [
    date,
    ...TESTED.map((name) => versions[name] ?? "-"),
    ran,
  ]);
  const head = ["Date", ...TESTED.map((name) => `\`${name}\``), "Passed"];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

const BEGIN = "<!-- tested versions: npm run canary -- --table -->\n";
const END = "\n<!-- end of tested versions -->";

/** The problem of the table in a page, or undefined. */
export function problemOfTable(markdown: string): string | undefined {
  const begin = markdown.indexOf(BEGIN);
  if (begin < 0) return undefined;
  const end = markdown.indexOf(END, begin);
  if (end < 0) return `The table of tested versions does not end with "${END.trim()}".`;
  const table = testedTable();
  if (markdown.slice(begin + BEGIN.length, end).trim() === table) return undefined;
  return `The table of tested versions differs from scripts/tested-versions.json. It should be:\n${table}`;
}
