/**
 * `npm test`: runs the checks and the tests, some at the same time. Prints a line per check and process, the output of a failed
 * one at once, and the counts. A failed check counts as one failed test. `-- --fast`, as `npm run test:fast`: types, lint, and
 * the tests that need neither Think nor long waits. `-- --long`, as `npm run test:long`: the tests that `npm test` leaves out, as they take long.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fastProcesses, longProcesses, type TestProcess, testProcesses } from "../test/manifest.ts";
import { offline } from "./offline.ts";

const MEMORY = "/dev/shm";
const ROOM_BYTES = 2 * 1024 ** 3;

/**
 * The folder of the local runtimes' storage: in memory if there is space, because otherwise every commit waits for the disk.
 * Tests crash objects, never the machine, so this loses nothing.
 */
function storageRoot(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    if (bavail * bsize >= ROOM_BYTES) return MEMORY;
  } catch {
    // Only Linux has it.
  }
  return tmpdir();
}

const scratch = mkdtempSync(path.join(storageRoot(), "perdure-test-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

/** Runs Vitest with a report file. */
function tests(run: TestProcess): string[] {
  const chosen = run.projects.flatMap((project) => ["--project", project]);
  const report = `--outputFile.json=${reportOf(run.name)}`;
  const reporters = ["--reporter=default", "--reporter=json", report];
  return ["test:unit", ...chosen, ...reporters, ...run.files];
}

function reportOf(name: string): string {
  return path.join(scratch, `${name.replaceAll(" ", "-")}.json`);
}

type Check = readonly [name: string, script: string[]];

const TYPES: Check = ["types", ["check:types"]];
const LINT: Check = ["lint", ["check:lint"]];
const IMPORTS: Check = ["imports", ["check:imports"]];
const DOCS: Check = ["docs", ["check:docs"]];

const [isFast, isLong] = ["--fast", "--long"].map((flag) => process.argv.includes(flag));

function chosen(): { processes: TestProcess[]; checks: Check[] } {
  if (isFast) return { processes: fastProcesses(), checks: [TYPES, LINT, IMPORTS] };
  if (isLong) return { processes: longProcesses(), checks: [] };
  return { processes: testProcesses(), checks: [TYPES, LINT, IMPORTS, DOCS] };
}

/** Tests wait half of the time: five at once keep two cores busy. More would only slow each other down. */
const SLOTS = 5;
/** Others wait until the first file of these has ended: on a busy machine, more runtimes at once would not start in time. */
const FIRST = 3;
const FIRST_FILE = /[✓×❯]/;

const { processes, checks } = chosen();
const tested = processes.map((one): Check => [one.name, tests(one)]);

type End = { readonly name: string; readonly isOk: boolean; readonly output: string };

/** Vitest gives a runtime 60 or 90 seconds to start, whatever its options. A busy machine needs more: no test has run then. */
const NOT_STARTED = /\[vitest-pool(-runner)?\]: Timeout /;
const MAX_STARTS = 4;

/** Runs a script of package.json, and prints how it ended. `onFile` is called when the first file of tests has ended. */
async function run([name, [script = "", ...args]]: Check, onFile = () => {}): Promise<End> {
  const startedAt = performance.now();
  const env = { ...offline, TMPDIR: scratch };
  for (let starts = 1; ; starts++) {
    const child = spawn("npm", ["run", "--silent", script, "--", ...args], { env });
    const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      if (FIRST_FILE.test(chunk)) onFile();
    });
    const printed = await Promise.all([text(child.stdout), text(child.stderr)]);
    const isOk = (await closed) === 0;
    const output = printed.join("");
    const { passed, failed } = readCounts(name);
    const hasStarted = isOk || passed + failed > 0 || !NOT_STARTED.test(output);
    if (!hasStarted && starts < MAX_STARTS) {
      console.log(`     ${name.padEnd(9)} did not start in time, and starts again`);
      continue;
    }
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${isOk ? "ok  " : "FAIL"} ${name.padEnd(9)} ${seconds.padStart(6)} s`);
    if (!isOk) console.log(output);
    return { name, isOk, output };
  }
}

/** Vitest's counts of a process; none of a check, or if the process ended before it wrote them. */
function readCounts(name: string): { passed: number; failed: number } {
  const report = reportOf(name);
  if (!existsSync(report)) return { passed: 0, failed: 0 };
  const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8"));
  return { passed: numPassedTests, failed: numFailedTests };
}

/** `crash matrix total: 131 points, 0 wrong`, as each file of the crash matrix prints it. */
const CRASHES = /^crash matrix total: (\d+) points, (\d+) wrong$/gm;

/** The sum over all files. */
function readCrashes(outputs: readonly string[]): string {
  const found = outputs.flatMap((output) => [...output.matchAll(CRASHES)]);
  const sum = (group: number) => found.reduce((total, match) => total + Number(match[group]), 0);
  return `crash points tried: ${sum(1)}, found wrong: ${sum(2)}`;
}

const ends: End[] = [];
const first = tested.splice(0, FIRST).map((one) => {
  const { promise: started, resolve } = Promise.withResolvers<void>();
  return { started, ended: run(one, resolve).finally(resolve) };
});
/** Runs what is left, one after the other. */
async function work(): Promise<void> {
  for (let next = tested.shift(); next; next = tested.shift()) ends.push(await run(next));
}
async function check(): Promise<void> {
  for (const one of checks) ends.push(await run(one));
}
const started = Promise.all(first.map((one) => one.started));
await Promise.all([
  ...first.map(({ ended }) => ended.then((end) => ends.push(end)).then(work)),
  check().then(work),
  ...Array.from({ length: SLOTS - FIRST - 1 }, () => started.then(work)),
]);

if (isLong) console.log(readCrashes(ends.map(({ output }) => output)));
let passed = 0;
let failed = 0;
for (const { name, isOk } of ends) {
  const counts = readCounts(name);
  passed += counts.passed;
  if (isOk) continue;
  failed += Math.max(counts.failed, 1);
  console.log(`FAIL ${name}: its output is above`);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
