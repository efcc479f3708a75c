/**
 * Writes the tables of the documentation that are made of data: the differences to Think into docs/migration.md, from the list
 * that `test/peers` compares with, what each host cannot do into docs/hosts.md, from the data of its errors, and what a
 * million prompts and a start cost into docs/cost.md, from the counts that the tests and the bench check.
 * With `--check` it only fails if a page is not up to date.
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { COLD_STATEMENTS, ENTRIES, EVALUATION, FEATURES } from "../bench/start-costs.ts";
import { LIMITATIONS } from "../src/hosts/limitations.ts";
import {
  CONVERSATION_COSTS,
  PROMPT_COSTS,
  type PromptCost,
} from "../test/contract/prompt-costs.ts";
import { type Difference, differences } from "../test/peers/differences.ts";
import { LAYERS } from "./modules.ts";

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

/** Dollars for one, of the Workers Paid plan, as docs/cost.md says. */
const PRICE = {
  step: 0.8 / 100_000,
  rowWritten: 1 / 1e6,
  rowRead: 0.001 / 1e6,
  request: 0.15 / 1e6,
  gigabyteSecond: 12.5 / 1e6,
  workflow: 0.3 / 1e6,
  cpuMs: 0.02 / 1e6,
};
/** Assumptions for one prompt: calls of the object and its alarms, how long it is awake, CPU of the Workflow. */
const ASSUMED = { requests: 5, awakeSeconds: 5, gigabytes: 0.128, cpuMs: 10 };

function costTable(): string {
  const million = 1e6;
  const row = (name: string, { rowsWritten, rowsRead, setAlarms, steps }: PromptCost) => {
    const parts = [
      steps * PRICE.step,
      // Each setAlarm() is billed as a row.
      (rowsWritten + setAlarms) * PRICE.rowWritten + rowsRead * PRICE.rowRead,
      ASSUMED.requests * PRICE.request + PRICE.workflow + ASSUMED.cpuMs * PRICE.cpuMs,
      ASSUMED.awakeSeconds * ASSUMED.gigabytes * PRICE.gigabyteSecond,
    ].map((dollars) => dollars * million);
    const all = parts.reduce((sum, part) => sum + part, 0);
    return `| ${[name, ...[...parts, all].map((dollars) => dollars.toFixed(2))].join(" | ")} |`;
  };
  return [
    "| dollars for a million | steps | rows | requests, CPU | awake | all |",
    "|---|---|---|---|---|---|",
    ...Object.entries(PROMPT_COSTS).map(([host, cost]) =>
      row(`\`${host.replace(" with ", "` with `")}\``, cost),
    ),
    row("`perdure/think`, in the conversation", CONVERSATION_COSTS.perdure),
    row("`@cloudflare/think` 0.23, in the conversation", CONVERSATION_COSTS.builtIn),
  ].join("\n");
}

function startTable(): string {
  const entries = Object.entries(ENTRIES).map(([names, { kB }]) => {
    const shown = names.replaceAll(/perdure\/\w+/g, "`$&`");
    return `| ${shown} | ${kB} kB |`;
  });
  const features = Object.entries(FEATURES).map(
    ([name, { kB }]) => `| \`${name}()\`, above \`perdure/object\` | ${kB} kB |`,
  );
  const evaluations = Object.entries(EVALUATION).map(
    ([name, { extends: base, atMost }]) =>
      `| CPU time to evaluate an app with \`${name}\` | ${atMost} times that with \`${base}\` |`,
  );
  const cold = `| SQL statements of the first turn of a Think agent after a restart, above those of a later one | ${COLD_STATEMENTS} |`;
  return ["| | at most |", "|---|---|", ...entries, ...features, ...evaluations, cold].join("\n");
}

/** The layers from the ground up. */
function layerTable(): string {
  const rows = Object.entries(LAYERS).map(
    ([layer, contents]) => `| \`src/${layer}\` | ${contents} |`,
  );
  return ["| Layer | Contents |", "|---|---|", ...rows].join("\n");
}

function write(name: string, mark: string, source: string, table: string): void {
  const page = path.join(import.meta.dirname, "..", name);
  const found = readFileSync(page, "utf8");
  const [START, END] = [`<!-- ${mark}:start -->`, `<!-- ${mark}:end -->`];
  const start = found.indexOf(START);
  const end = found.indexOf(END);
  if (start < 0 || end < start)
    throw new Error(`${name} needs ${START} and ${END}, in this order.`);
  const written = `${found.slice(0, start)}${START}\n\n${table}\n\n${found.slice(end)}`;
  if (!process.argv.includes("--check")) writeFileSync(page, written);
  else if (written !== found) {
    console.error(`${name} is not up to date with ${source}; run \`npm run fix:docs\`.`);
    process.exitCode = 1;
  }
}

write("docs/migration.md", "differences", "test/peers/differences.ts", differenceTables());
write("docs/hosts.md", "limitations", "src/hosts/limitations.ts", limitationTable());
write("docs/cost.md", "start", "bench/start-costs.ts", startTable());
write("docs/cost.md", "dollars", "test/contract/prompt-costs.ts", costTable());
write("CONTRIBUTING.md", "modules", "scripts/modules.ts", layerTable());
