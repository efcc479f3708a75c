/**
 * A reporter of Vitest that compares test/acceptance/coverage.md with the tests that have run: a row for each guarantee of
 * docs/guarantees.md, a column for each host. `npm run test:acceptance` fails where a cell is neither covered nor excused in
 * test/acceptance/exceptions.json, or where the file is stale; `npm run fix:coverage` writes it.
 */

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Reporter, TestModule } from "vitest/node";
import { HOST_TITLES, NESTED_TITLES } from "../test/acceptance/app/titles.ts";
import { filesOf } from "../test/manifest.ts";

const root = path.join(import.meta.dirname, "..");
const FILE = "test/acceptance/coverage.md";
/** Longer titles first: each contains those of its parents. */
const TITLES = [...HOST_TITLES, ...NESTED_TITLES].toSorted((a, b) => b.length - a.length);

type Test = { readonly name: string; readonly fullName: string; readonly file: string };
/** Reasons by guarantee and host. */
type Exceptions = Readonly<Record<string, Readonly<Record<string, string>>>>;

const read = (file: string) => readFileSync(path.join(root, file), "utf8");

/** The numbers of the guarantees, with their texts. */
function readGuarantees(): ReadonlyMap<string, string> {
  const rows = read("docs/guarantees.md").matchAll(/^\| ([LOIWSM]\d) \| (.*) \|$/gm);
  return new Map([...rows].map(([, number = "", text = ""]) => [number, text]));
}

/** Numbers at the start of a test's name: `L1 O2: a submission ...`. */
function parseNumbers(name: string): readonly string[] {
  return /^((?:[LOIWSM]\d )*[LOIWSM]\d):/.exec(name)?.[1]?.split(" ") ?? [];
}

function findTitle({ fullName }: Test): string | undefined {
  return TITLES.find((title) => fullName.includes(title));
}

/** A test's name without its numbers and its host. */
function describeTest({ name, file }: Test, title: string): string {
  const text = name.replace(/^[^:]*: /, "").replace(`on ${title}, `, "");
  return `${text} (\`${path.posix.relative("test/acceptance", file)}\`)`;
}

/** The page, and the cells that are neither covered nor excused. */
function makePage(tests: readonly Test[]): { page: string; missing: string[] } {
  const exceptions = JSON.parse(read("test/acceptance/exceptions.json")) as Exceptions;
  const missing: string[] = [];
  const rows: string[] = [];
  const lists: string[] = [];
  for (const [number, text] of readGuarantees()) {
    const own = tests.filter(({ name }) => parseNumbers(name).includes(number));
    const cells = [...HOST_TITLES, ...NESTED_TITLES].map((title) => {
      const count = own.filter((test) => findTitle(test) === title).length;
      const reason = exceptions[number]?.[title];
      if (count > 0 && reason !== undefined)
        missing.push(`${number} on ${title} has tests and an exception`);
      if (count === 0 && reason === undefined && HOST_TITLES.includes(title))
        missing.push(`${number} on ${title} has no test and no exception`);
      return count > 0 ? String(count) : (reason ?? "");
    });
    rows.push(`| ${number} | ${cells.join(" | ")} |`);
    const names = own.map((test) => describeTest(test, findTitle(test) ?? ""));
    const sorted = [...new Set(names)].toSorted((a, b) => a.localeCompare(b, "en"));
    lists.push(`## ${number}\n\n${text}\n\n${sorted.map((name) => `- ${name}`).join("\n")}`);
  }
  const titles = [...HOST_TITLES, ...NESTED_TITLES];
  const page = [
    "# Guarantees and their tests",
    "Made by `npm run fix:coverage`: how many tests prove each guarantee of [docs/guarantees.md](../../docs/guarantees.md) on each\nhost. Sub-agents of sub-agents repeat a part of them.",
    [`| | ${titles.join(" | ")} |`, `|${"---|".repeat(titles.length + 1)}`, ...rows].join("\n"),
    ...lists,
  ].join("\n\n");
  return { page: `${page}\n`, missing };
}

function listTests(module: TestModule): Test[] {
  const file = path.relative(root, module.moduleId).replaceAll(path.sep, "/");
  return [...module.children.allTests()]
    .filter((test) => test.result().state !== "skipped")
    .map(({ name, fullName }) => ({ name, fullName, file }));
}

/** True for a run of all of the project's tests, false for a choice of files or names. */
function isWhole(modules: readonly TestModule[]): boolean {
  const ran = new Set(modules.map(({ moduleId }) => path.relative(root, moduleId)));
  return filesOf("acceptance").every((file) => ran.has(file)) && !process.argv.includes("-t");
}

export default class CoverageReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (!isWhole(modules)) return;
    const { page, missing } = makePage(modules.flatMap(listTests));
    for (const line of missing) console.error(`${FILE}: ${line}`);
    if (process.env.PERDURE_COVERAGE === "write") writeFileSync(path.join(root, FILE), page);
    else if (read(FILE) !== page)
      missing.push(`${FILE} is not of these tests. Run npm run fix:coverage, and commit it.`);
    if (missing.length === 0) return;
    console.error(missing.at(-1));
    process.exitCode = 1;
  }
}
