/**
 * `npm test`: every check in order, cheapest first, up to the first that fails. Prints a line per stage, the output of a
 * failed one, and last the counts. A stage that fails outside the tests counts as one failed.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { offline } from "./offline.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "perdure-test-"));

/** Some of Vitest's projects, or a part of one. */
type Run = { readonly projects: readonly string[]; readonly shard?: string };

/** Test runs wait more than they compute: five processes side by side keep two cores busy. */
const RUNS: readonly Run[] = [
  { projects: ["rooms"] },
  { projects: ["pure", "scheduler", "triage"] },
  { projects: ["think"], shard: "1/3" },
  { projects: ["think"], shard: "2/3" },
  { projects: ["think"], shard: "3/3" },
];

/** Vitest, which also leaves a report. */
function tests(run: Run): string[] {
  const chosen = run.projects.flatMap((project) => ["--project", project]);
  const shard = run.shard === undefined ? [] : [`--shard=${run.shard}`];
  const report = `--outputFile.json=${reportOf(run)}`;
  return ["test:unit", ...chosen, ...shard, "--reporter=default", "--reporter=json", report];
}

function reportOf(run: Run): string {
  return path.join(scratch, `${RUNS.indexOf(run)}.json`);
}

/** Each has scripts that run side by side. */
const STAGES: readonly (readonly [name: string, ...scripts: string[][]])[] = [
  ["types", ["check:types"]],
  ["lint", ["check:lint"]],
  ["imports", ["check:imports"]],
  ["unused", ["check:unused"]],
  ["tests", ...RUNS.map(tests)],
  ["bundle", ["check:bundle"]],
];

/** Runs a script of package.json. Returns what it printed, and whether it succeeded. */
async function run([script = "", ...args]: string[]): Promise<{ isOk: boolean; output: string }> {
  const child = spawn("npm", ["run", "--silent", script, "--", ...args], { env: offline });
  const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
  const output = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { isOk: (await closed) === 0, output: output.join("") };
}

/** What Vitest wrote, or nothing when it did not come so far. */
function readCounts(run: Run): { passed: number; failed: number } {
  try {
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(reportOf(run), "utf8"));
    return { passed: numPassedTests, failed: numFailedTests };
  } catch {
    return { passed: 0, failed: 0 };
  }
}

let passed = 0;
let failed = 0;
for (const [name, ...scripts] of STAGES) {
  const startedAt = performance.now();
  const ends = await Promise.all(scripts.map(run));
  const isOk = ends.every((end) => end.isOk);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${isOk ? "ok  " : "FAIL"} ${name.padEnd(8)} ${seconds.padStart(6)} s`);
  for (const run of name === "tests" ? RUNS : []) {
    const counts = readCounts(run);
    passed += counts.passed;
    failed += counts.failed;
  }
  if (!isOk) {
    for (const end of ends) if (!end.isOk) console.log(end.output);
    failed = Math.max(failed, 1);
    break;
  }
}
rmSync(scratch, { recursive: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
