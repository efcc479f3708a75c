/**
 * Writes the table of differences into docs/migration.md, from the list that `test/peers` compares with.
 * With `--check` it only fails if the page is not up to date.
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Difference, differences } from "../test/peers/differences.ts";

const page = path.join(import.meta.dirname, "../docs/migration.md");
const START = "<!-- differences:start -->";
const END = "<!-- differences:end -->";

/** One table for each area. */
function tables(): string {
  const areas = [...new Set(differences.map(({ area }) => area))];
  return areas.map((area) => tableOf(area)).join("\n\n");
}

function tableOf(area: Difference["area"]): string {
  const rows = differences
    .filter((difference) => difference.area === area)
    .map(
      ({ name, builtIn, perdure, reason }) => `| ${name} | ${builtIn} | ${perdure} | ${reason} |`,
    );
  const title = `### ${area[0]?.toUpperCase()}${area.slice(1)}`;
  return [title, "", "| | Think | Perdure | Why |", "|---|---|---|---|", ...rows].join("\n");
}

const found = readFileSync(page, "utf8");
const start = found.indexOf(START);
const end = found.indexOf(END);
if (start < 0 || end < start)
  throw new Error(`docs/migration.md needs ${START} and ${END}, in this order.`);
const written = `${found.slice(0, start)}${START}\n\n${tables()}\n\n${found.slice(end)}`;
if (!process.argv.includes("--check")) writeFileSync(page, written);
else if (written !== found) {
  console.error(
    "docs/migration.md is not up to date with test/peers/differences.ts; run `npm run fix:docs`.",
  );
  process.exitCode = 1;
}
