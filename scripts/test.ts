/**
 * `npm test`: every check in order, cheapest first, up to the first that fails. Prints a line per stage, the output of a
 * failed one, and last the counts. A stage that fails outside the tests counts as one failed.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { offline } from "./offline.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "perdure-test-"));
const report = path.join(scratch, "vitest.json");

const STAGES: readonly (readonly [name: string, script: string, ...args: string[]])[] = [
  ["types", "check:types"],
  ["lint", "check:lint"],
  ["imports", "check:imports"],
  ["unused", "check:unused"],
  ["tests", "test:unit", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`],
  ["bundle", "check:bundle"],
];

/** What Vitest wrote, or nothing when it did not come so far. */
function readCounts(): { passed: number; failed: number } {
  try {
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8"));
    return { passed: numPassedTests, failed: numFailedTests };
  } catch {
    return { passed: 0, failed: 0 };
  }
}

let passed = 0;
let failed = 0;
for (const [name, script, ...args] of STAGES) {
  const startedAt = performance.now();
  const { status, stdout, stderr } = spawnSync("npm", ["run", "--silent", script, "--", ...args], {
    encoding: "utf8",
    env: offline,
    maxBuffer: 256 * 1024 * 1024,
  });
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${status === 0 ? "ok  " : "FAIL"} ${name.padEnd(8)} ${seconds.padStart(6)} s`);
  if (name === "tests") ({ passed, failed } = readCounts());
  if (status !== 0) {
    console.log(`${stdout}${stderr}`);
    failed = Math.max(failed, 1);
    break;
  }
}
rmSync(scratch, { recursive: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
