/**
 * `npm run prove`: runs `npm test`, and then in full what it and `.ci/run` shorten, one after the other. It takes hours. Prints a
 * line for each with its counts, and the output of a failed one, and continues. test/support/sizes.ts lists the variables.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { offline } from "./offline.ts";

type Proof = { readonly file: string; readonly sizes: Readonly<Record<string, number>> };

const PROOFS: readonly Proof[] = [
  { file: "test/acceptance/crash/crash.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/acceptance/model/ledger.test.ts", sizes: { ACCEPTANCE_RUNS: 100 } },
  { file: "test/acceptance/model/outbox.test.ts", sizes: { ACCEPTANCE_RUNS: 200 } },
  { file: "test/acceptance/model/schedules.test.ts", sizes: { ACCEPTANCE_RUNS: 200 } },
  { file: "test/submissions/crash.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/outbox/crash.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/workflow/waits/crash.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/scheduler/crash.test.ts", sizes: { CRASH_STRIDE: 1 } },
  {
    file: "test/outbox/destinations/workflow-start-crash.test.ts",
    sizes: { CRASH_STRIDE: 1 },
  },
  { file: "test/hosts/think/crash/crash-starts.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/hosts/think/crash/crash-arrivals.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/hosts/think/testing.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/operator/actions/crash.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/hosts/think/turns/crash-turns.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/hosts/think/turns/crash-tools.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/workflow/steps/crash-prompts.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/workflow/steps/crash-waits.test.ts", sizes: { CRASH_STRIDE: 1 } },
  { file: "test/workflow/steps/prompt-all.test.ts", sizes: { BATCH_ITEMS: 1_000 } },
  { file: "test/testing/replay/model.test.ts", sizes: { REPLAY_STRIDE: 1 } },
  { file: "test/testing/replay/same-code.test.ts", sizes: { REPLAY_STRIDE: 1 } },
  { file: "test/cli/deploy/deploys.test.ts", sizes: { ALL_DEPLOYS: 1 } },
  { file: "test/operator/actions/bulk.test.ts", sizes: { BULK_ITEMS: 10_000 } },
  { file: "test/submissions/model.test.ts", sizes: { MODEL_RUNS: 1_000 } },
  { file: "test/outbox/model.test.ts", sizes: { OUTBOX_MODEL_RUNS: 500 } },
  { file: "test/scheduler/model.test.ts", sizes: { SCHEDULER_MODEL_RUNS: 200 } },
  { file: "test/workflow/waits/model.test.ts", sizes: { WAITS_RUNS: 1_000 } },
  { file: "test/features/streams/thread-followers.test.ts", sizes: { FOLLOWERS_RUNS: 200 } },
  { file: "test/features/inbound/model.test.ts", sizes: { INBOUND_RUNS: 1_000 } },
  { file: "test/workflow/waits/prompt-batches.test.ts", sizes: { BATCH_RUNS: 200 } },
  { file: "test/workflow/names.test.ts", sizes: { NAMES_RUNS: 400 } },
  {
    file: "test/submissions/store/scale.test.ts",
    sizes: { SCALE_ROWS: 1_000_000, SCALE_LOAD: 10_000 },
  },
  { file: "test/outbox/scale.test.ts", sizes: { OUTBOX_LOAD: 10_000 } },
  { file: "test/features/limits/simulation/simulation.test.ts", sizes: { LIMITS_AGENTS: 10_000 } },
  { file: "test/features/limits/keeper/keeper.test.ts", sizes: { LIMITS_KEYS: 1_000_000 } },
  { file: "test/features/limits/keeper/book-model.test.ts", sizes: { LIMITS_RUNS: 20_000 } },
  { file: "test/scheduler/calendar/range.test.ts", sizes: { SCHEDULE_RUNS: 10_000 } },
  {
    file: "test/scheduler/calendar/proof.test.ts",
    sizes: { SCHEDULE_RUNS: 10_000, SCHEDULE_FULL: 1 },
  },
];

/** Scripts of package.json that `.ci/run` runs with smaller numbers. */
const SCRIPTS: readonly (readonly [script: string, ...args: string[]])[] = [
  ["test:long"],
  ["soak", "--seconds", "600"],
  ["soak:webhooks"],
  ["soak:limits"],
  ["batches"],
  ["bench", "--only", "submit-rate", "--only", "evaluation"],
  ["deploys"],
  ["examples", "--crash"],
  ["mutants"],
];

/** The time limits in the tests are for the short form. */
const LIMIT_MS = 24 * 3_600_000;
const scratch = mkdtempSync(path.join(tmpdir(), "perdure-prove-"));

/** Runs a script of package.json, and prints how it ended. */
async function run(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<boolean> {
  const startedAt = performance.now();
  const child = spawn("npm", ["run", "--silent", ...args], { env: { ...offline, ...env } });
  const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
  const output = await Promise.all([text(child.stdout), text(child.stderr)]);
  const isOk = (await closed) === 0;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  console.log(`${isOk ? "ok  " : "FAIL"} ${seconds.padStart(6)} s ${name}`);
  if (!isOk) console.log(output.join(""));
  return isOk;
}

/** @returns how many tests passed; undefined if one failed */
async function prove({ file, sizes }: Proof): Promise<number | undefined> {
  const report = path.join(scratch, `${path.basename(file)}.json`);
  const chosen = Object.entries(sizes).map(([name, value]) => [`VITE_PERDURE_${name}`, `${value}`]);
  const env = { ...Object.fromEntries(chosen), VITE_PERDURE_LIMIT_MS: `${LIMIT_MS}` };
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const variables = chosen.map((pair) => pair.join("=")).join(" ");
  const isOk = await run(`${file} ${variables}`, ["test:unit", "--", file, ...reporters], env);
  return isOk ? JSON.parse(readFileSync(report, "utf8")).numPassedTests : undefined;
}

const short = spawn("npm", ["test"], { env: offline, stdio: "inherit" });
let passed = 0;
let failed = (await new Promise((resolve) => short.on("close", resolve))) === 0 ? 0 : 1;
for (const proof of PROOFS) {
  const count = await prove(proof);
  passed += count ?? 0;
  if (count === undefined) failed++;
}
for (const [script, ...args] of SCRIPTS)
  if (!(await run([script, ...args].join(" "), [script, "--", ...args], {}))) failed++;
rmSync(scratch, { recursive: true });
console.log(`${passed} passed, ${failed} runs failed`);
process.exitCode = failed > 0 ? 1 : 0;
