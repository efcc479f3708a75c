/**
 * Writes the tables of the documentation that are made of data: the differences to Think into docs/migration.md, from the list
 * that `test/peers` compares with, and what each host cannot do into docs/hosts.md, from the data of its errors.
 * With `--check` it only fails if a page is not up to date.
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { LIMITATIONS } from "../src/hosts/limitations.ts";
import { type Difference, differences } from "../test/peers/differences.ts";

/** One table for each area. */
function differenceTables(): string {
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

function limitationTable(): string {
  const rows = Object.entries(LIMITATIONS).flatMap(([host, options]) =>
    Object.entries(options).map(
      ([option, alternative]) => `| \`${host}\` | \`${option}\` | ${alternative} |`,
    ),
  );
  return ["| host | option | use instead |", "|---|---|---|", ...rows].join("\n");
}

function write(name: string, mark: string, source: string, table: string): void {
  const page = path.join(import.meta.dirname, "../docs", name);
  const found = readFileSync(page, "utf8");
  const [START, END] = [`<!-- ${mark}:start -->`, `<!-- ${mark}:end -->`];
  const start = found.indexOf(START);
  const end = found.indexOf(END);
  if (start < 0 || end < start)
    throw new Error(`docs/${name} needs ${START} and ${END}, in this order.`);
  const written = `${found.slice(0, start)}${START}\n\n${table}\n\n${found.slice(end)}`;
  if (!process.argv.includes("--check")) writeFileSync(page, written);
  else if (written !== found) {
    console.error(`docs/${name} is not up to date with ${source}; run \`npm run fix:docs\`.`);
    process.exitCode = 1;
  }
}

write("migration.md", "differences", "test/peers/differences.ts", differenceTables());
write("hosts.md", "limitations", "src/hosts/limitations.ts", limitationTable());
