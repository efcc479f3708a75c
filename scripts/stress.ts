/**
 * `npm run stress`: runs `npm test` three times beside four processes that burn CPU, as on a machine that is busy with other work.
 * Prints the output of each run, and the sum. Exit code 1 if a test failed in any of them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

const RUNS = 3;
const BURNERS = 4;
const COUNTS = /^(\d+) passed, (\d+) failed$/;

/** The run in progress, in a process group of its own, so that the exit handler reaches what it started. */
let tests: ChildProcess | undefined;

process.on("exit", () => {
  try {
    if (tests?.pid !== undefined) process.kill(-tests.pid, "SIGKILL");
  } catch {
    // It has ended just now.
  }
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.on(signal, () => process.exit(1));

/** Ends by itself when this script is gone, also after a SIGKILL: its parent is another one then. */
const BURN = `
  const parent = process.ppid;
  while (process.ppid === parent) for (let n = 0; n < 1e8; n++);
`;
// One session for all burners: Linux shares the CPU among sessions first, and four would leave a fifth of it to all tests.
for (let burner = 0; burner < BURNERS; burner++)
  spawn(process.execPath, ["-e", BURN], { stdio: "ignore" });

/** Runs `npm test`. A run without counts is a failed one. */
async function run(): Promise<{ passed: number; failed: number }> {
  const child = spawn("npm", ["test"], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  tests = child;
  const closed = new Promise<number | null>((resolve) => child.once("close", resolve));
  // Its id may be that of another process then.
  child.once("close", () => {
    tests = undefined;
  });
  let counts: RegExpExecArray | null = null;
  if (child.stdout)
    for await (const line of createInterface({ input: child.stdout })) {
      console.log(line);
      counts = COUNTS.exec(line) ?? counts;
    }
  const isOk = (await closed) === 0;
  const failed = Number(counts?.[2] ?? 0);
  return { passed: Number(counts?.[1] ?? 0), failed: isOk ? failed : Math.max(failed, 1) };
}

const results: { passed: number; failed: number; minutes: number }[] = [];
for (let nth = 1; nth <= RUNS; nth++) {
  const startedAt = performance.now();
  const { passed, failed } = await run();
  const minutes = (performance.now() - startedAt) / 60_000;
  results.push({ passed, failed, minutes });
  console.log(
    `run ${nth} of ${RUNS}: ${passed} passed, ${failed} failed, ${minutes.toFixed(1)} min`,
  );
}
const sum = (name: "passed" | "failed") => results.reduce((total, one) => total + one[name], 0);
console.log(`${RUNS} runs beside load: ${sum("passed")} passed, ${sum("failed")} failed`);
process.exit(sum("failed") > 0 ? 1 : 0);
