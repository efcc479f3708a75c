/**
 * `npm test`: runs every check, the cheap ones first, and stops after the first stage with a failure. Prints a line per check,
 * the output of a failed check, and the counts. A failed check counts as one failed test.
 *
 * With `--fast`, as `npm run test:fast`: types, lint, and the tests that need neither Think nor long waits.
 * With `--strict`, as `npm run prove`: a test that fails beside the others fails the run, also if it passes alone.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fastProcesses, type TestProcess, testProcesses } from "../test/manifest.ts";
import { offline } from "./offline.ts";
import { repeatOf, resultOf, type TestReport } from "./repeat.ts";

const root = path.join(import.meta.dirname, "..");
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

const isFast = process.argv.includes("--fast");
const isStrict = process.argv.includes("--strict");
const PROCESSES = isFast ? fastProcesses() : testProcesses();

/** Runs Vitest with a report file. */
function tests(run: TestProcess): string[] {
  const chosen = run.projects.flatMap((project) => ["--project", project]);
  const report = `--outputFile.json=${reportOf(run)}`;
  const reporters = ["--reporter=default", "--reporter=json", report];
  return ["test:unit", ...chosen, ...reporters, ...run.files];
}

function reportOf(run: TestProcess): string {
  return path.join(scratch, `${run.name.replaceAll(" ", "-")}.json`);
}

type Check = readonly [name: string, script: string[]];

const FAST_CHECKS: readonly Check[] = [
  ["types", ["check:types"]],
  ["lint", ["check:lint"]],
  ["imports", ["check:imports"]],
];
const SLOW_CHECKS: readonly Check[] = [
  ["unused", ["check:unused"]],
  ["docs", ["check:docs"]],
];

/** The stages. Checks of a stage run in parallel. */
const STAGES: readonly (readonly Check[])[] = [
  isFast ? FAST_CHECKS : [...FAST_CHECKS, ...SLOW_CHECKS],
  PROCESSES.map((run): Check => [run.name, tests(run)]),
];

/** Runs a script of package.json. Returns what it printed, and whether it succeeded. */
async function run([name, [script = "", ...args]]: Check): Promise<{
  isOk: boolean;
  output: string;
}> {
  const startedAt = performance.now();
  const env = { ...offline, TMPDIR: scratch };
  const child = spawn("npm", ["run", "--silent", script, "--", ...args], { env });
  const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
  const output = await Promise.all([text(child.stdout), text(child.stderr)]);
  const isOk = (await closed) === 0;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${isOk ? "ok  " : "FAIL"} ${name.padEnd(8)} ${seconds.padStart(6)} s`);
  return { isOk, output: output.join("") };
}

/** The report of Vitest, or an empty one if there is none. */
function readReport(run: TestProcess): TestReport {
  try {
    return JSON.parse(readFileSync(reportOf(run), "utf8"));
  } catch {
    return { numPassedTests: 0, numFailedTests: 0, testResults: [] };
  }
}

/**
 * Runs the files with a failed test once more, without the other processes: a test that measures time may fail where eight
 * processes share two cores. A defect fails again.
 * @returns the failed tests, if all have passed now; undefined if the run has failed
 */
async function passedAlone(
  tested: TestProcess,
  output: string,
): Promise<readonly string[] | undefined> {
  const repeat = repeatOf(readReport(tested), output, (file) => readFileSync(file, "utf8"));
  if (!repeat) return undefined;
  const files = repeat.files.map((file) => path.relative(root, file));
  const alone: TestProcess = { name: `${tested.name} alone`, projects: tested.projects, files };
  const end = await run([alone.name, tests(alone)]);
  if (end.isOk) return repeat.tests;
  console.log(end.output);
  return undefined;
}

/** `crash matrix total: 131 points, 0 wrong`, as each file of the crash matrix prints it. */
const CRASHES = /^crash matrix total: (\d+) points, (\d+) wrong$/gm;

/** The sum over all files. */
function readCrashes(outputs: readonly string[]): string {
  const found = outputs.flatMap((output) => [...output.matchAll(CRASHES)]);
  const sum = (group: number) => found.reduce((total, match) => total + Number(match[group]), 0);
  return `crash points tried: ${sum(1)}, found wrong: ${sum(2)}`;
}

let isOk = true;
const outputs: string[] = [];
const late: string[] = [];
for (const stage of STAGES) {
  const ends = await Promise.all(stage.map(run));
  outputs.push(...ends.map(({ output }) => output));
  for (const [index, end] of ends.entries()) {
    if (end.isOk) continue;
    console.log(end.output);
    const tested = PROCESSES.find(({ name }) => name === stage[index]?.[0]);
    const names = tested && (await passedAlone(tested, end.output));
    if (names) late.push(...names);
    else isOk = false;
  }
  if (!isOk) break;
}
if (!isFast) console.log(readCrashes(outputs));
const { lines, failed } = resultOf(PROCESSES.map(readReport), late, { isOk, isStrict });
for (const line of lines) console.log(line);
process.exitCode = failed > 0 ? 1 : 0;
