/**
 * `npm run mutants`: plants ten faults, one at a time, in a copy of the work tree, and runs the acceptance tests that have to
 * catch each. Exit code 1 when the tests fail without a fault, or pass with one.
 *
 *   --every 5          plants every fifth fault
 *   --only lost-wake   plants one
 */
import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { offline } from "./offline.ts";

/** Source text that is replaced, which its file must contain exactly once. */
type Edit = { readonly file: string; readonly find: string; readonly replace: string };

type Fault = {
  readonly name: string;
  /** Consequence for a user. */
  readonly harm: string;
  readonly edits: readonly Edit[];
  /** Acceptance file that has to catch it. */
  readonly file: string;
  /** Regular expression for the full names of its tests. */
  readonly test: string;
};

const OBJECT = "test/acceptance/contract/object.test.ts";
const CRASH = "test/acceptance/crash/crash.test.ts";

const STORE = "src/submissions/store/store.ts";
const ENGINE = "src/submissions/turns/turn-engine.ts";
const SETTLEMENT = "src/submissions/turns/settlement.ts";

const FAULTS: readonly Fault[] = [
  {
    name: "missing-fence",
    harm: "a turn that was cancelled continues with its effects",
    edits: [
      {
        file: STORE,
        find: "SELECT 1 FROM perdure_submissions\n                   WHERE seq = ? AND status = 'running' AND attempts = ?",
        replace:
          "SELECT 1 FROM perdure_submissions\n                   WHERE seq = ? AND attempts = ?",
      },
    ],
    file: OBJECT,
    test: "L2 L5: a durable tool runs no further step",
  },
  {
    name: "uncounted-attempt",
    harm: "a turn that crashes its object runs forever",
    edits: [
      {
        file: STORE,
        find: "SET status = 'running', attempts = attempts + 1, started_at = ?, due_at = NULL, debounce_key = NULL",
        replace:
          "SET status = 'running', attempts = MAX(attempts, 1), started_at = ?, due_at = NULL, debounce_key = NULL",
      },
    ],
    file: OBJECT,
    test: "L8: a turn that got 429",
  },
  {
    name: "event-outside-transaction",
    harm: "a crash after the end of a turn loses its notification",
    edits: [
      {
        file: SETTLEMENT,
        find: "      const rows = end();\n      for (const row of rows) {\n        entries += this.#enqueue(row) + this.#enqueueForBatch(row);\n",
        replace:
          "      const rows = end();\n      setTimeout(() => {\n        for (const row of rows) this.#enqueue(row) + this.#enqueueForBatch(row);\n        this.flush();\n      });\n      for (const row of rows) {\n",
      },
    ],
    file: CRASH,
    test: "durable.*submitMessages with an output",
  },
  {
    name: "lost-wake",
    harm: "a crash after the acceptance leaves a submission that never starts",
    edits: [
      {
        file: ENGINE,
        find: "const armed = wake.request(first);",
        replace: "const armed = Promise.resolve(first);",
      },
    ],
    file: CRASH,
    test: "durable.*submitMessages with an output",
  },
  {
    name: "claim-without-lane",
    harm: "two turns of a thread run at the same time",
    edits: [
      {
        file: ENGINE,
        find: "return live.length + this.#recovery.countIn(thread) < concurrency;",
        replace: "return live.length >= 0;",
      },
    ],
    file: OBJECT,
    test: "L4: turns of a thread run one at a time",
  },
  {
    name: "unbounded-retry",
    harm: "a model that always fails is called forever",
    edits: [
      {
        file: "src/submissions/turns/next-attempt.ts",
        find: "if (!transient || attempts >= maxAttempts || !mayActAgain(turn))",
        // Not forever: an object that never rests would keep the test run from ending.
        replace: "if (!transient || attempts >= maxAttempts + 50 || !mayActAgain(turn))",
      },
    ],
    file: OBJECT,
    test: "L8 L9: a turn that keeps failing",
  },
  {
    name: "unrecorded-tool-result",
    harm: "after a crash the model is not told the result of a tool that has run",
    edits: [
      {
        file: "src/submissions/turns/tool-replay.ts",
        find: "      store.toolCalls.end(seq, ordinal, end, clock.now());\n",
        replace: '      if ("error" in end) store.toolCalls.end(seq, ordinal, end, clock.now());\n',
      },
    ],
    file: OBJECT,
    test: "L6: after a crash the model gets the result",
  },
  {
    name: "late-end",
    harm: "a late answer overwrites the end of a cancelled turn",
    edits: [
      {
        file: STORE,
        find: "WHERE seq = ? AND status = ? AND attempts = ? RETURNING *`,\n      status,",
        replace: "WHERE seq = ? AND ? <> '' AND attempts = ? RETURNING *`,\n      status,",
      },
    ],
    file: OBJECT,
    test: "L2 L5: a model that ignores its abort",
  },
  {
    name: "forgotten-joined",
    harm: "a submission that joined a turn never ends",
    edits: [
      {
        file: SETTLEMENT,
        find: "      .joinedTo(submissionId)\n      .flatMap(",
        replace: "      .joinedTo(submissionId)\n      .slice(0, 0)\n      .flatMap(",
      },
    ],
    file: OBJECT,
    test: "L1 L4: a steering submission joins",
  },
  {
    name: "wait-closed-twice",
    harm: "the second decision about an approval replaces the first",
    edits: [
      {
        file: "src/engine/engine.ts",
        find: "if (!found || found.endedAt !== undefined) return [];",
        replace: "if (!found) return [];",
      },
      {
        file: "src/engine/store.ts",
        find: "{BY_ID} AND state IN (",
        replace: "{BY_ID} AND 'pending' IN (",
      },
    ],
    file: OBJECT,
    test: "W1 W4: an approval is decided once",
  },
];

/** Catches a run that hangs. */
const LIMIT_MS = 10 * 60_000;
const root = path.join(import.meta.dirname, "..");
const { values } = parseArgs({
  options: { every: { type: "string", default: "1" }, only: { type: "string" } },
});
const chosen = FAULTS.filter(({ name }, index) =>
  values.only === undefined ? index % Number(values.every) === 0 : name === values.only,
);
if (chosen.length === 0) {
  const names = FAULTS.map(({ name }) => name).join(", ");
  console.error(`No fault is called ${values.only}. There are: ${names}.`);
  process.exit(2);
}

const copy = copyTree();
const whole = await runTests(chosen);
if (whole.failed.length > 0 || whole.passed === 0) {
  console.log(whole.output);
  console.log("FAIL without a fault: the acceptance tests have to pass first.");
  process.exit(1);
}
console.log(`ok   ${seconds(whole.ms)} without a fault: ${whole.passed} tests passed`);

let missed = 0;
for (const fault of chosen) {
  const undo = plant(fault);
  const { passed, failed, output, ms } = await runTests([fault]);
  undo();
  const isCaught = failed.length > 0;
  if (!isCaught) {
    missed++;
    // Failing to start is not catching.
    if (passed === 0) console.log(output);
  }
  const found = isCaught ? `caught by ${failed.length}: ${failed[0]}` : `NOT CAUGHT: ${fault.harm}`;
  console.log(`${isCaught ? "ok  " : "FAIL"} ${seconds(ms)} ${fault.name}: ${found}`);
}
console.log(`${chosen.length - missed} faults caught, ${missed} missed`);
process.exitCode = missed > 0 ? 1 : 0;

/** Copies the tracked and new files to a folder that is removed at exit, so that no fault can stay in the work tree. */
function copyTree(): string {
  const folder = mkdtempSync(path.join(realpathSync(tmpdir()), "perdure-mutants-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
  const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], {
    cwd: root,
    encoding: "utf8",
  });
  for (const file of listed.split("\0").filter(Boolean)) {
    cpSync(path.join(root, file), path.join(folder, file));
  }
  symlinkSync(path.join(root, "node_modules"), path.join(folder, "node_modules"));
  execFileSync(process.execPath, ["scripts/generate.ts"], { cwd: folder });
  return folder;
}

/** Plants a fault. Returns how to remove it. */
function plant({ name, edits }: Fault): () => void {
  const before = edits.map(({ file, find, replace }) => {
    const target = path.join(copy, file);
    const source = readFileSync(target, "utf8");
    const count = source.split(find).length - 1;
    if (count !== 1) {
      throw new Error(
        `${name}: ${file} contains the replaced text ${count} times, expected once. Adapt the fault to the code.`,
      );
    }
    writeFileSync(
      target,
      source.replace(find, () => replace),
    );
    return () => writeFileSync(target, source);
  });
  return () => {
    for (const undo of before) undo();
  };
}

type TestRun = {
  readonly passed: number;
  /** Full names of the failed tests. */
  readonly failed: readonly string[];
  readonly output: string;
  readonly ms: number;
};

/** Runs the tests of some faults. Crashes happen at every write. */
async function runTests(faults: readonly Fault[]): Promise<TestRun> {
  const startedAt = performance.now();
  const report = path.join(copy, "report.json");
  rmSync(report, { force: true });
  const vitest = path.join(root, "node_modules/vitest/vitest.mjs");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const files = new Set(faults.map(({ file }) => file));
  const names = new Set(faults.map(({ test }) => test));
  const chosen = [...files, "--project", "acceptance", "-t", [...names].join("|")];
  const env = { ...offline, VITE_PERDURE_CRASH_STRIDE: "1" };
  const child = spawn(process.execPath, [vitest, "run", ...chosen, ...reporters], {
    timeout: LIMIT_MS,
    cwd: copy,
    env,
  });
  const closed = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const output = (await Promise.all([text(child.stdout), text(child.stderr)])).join("");
  await closed;
  const ms = performance.now() - startedAt;
  try {
    const { numPassedTests, testResults } = JSON.parse(readFileSync(report, "utf8")) as Report;
    const failed = testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ status }) => status === "failed")
      .map(({ fullName }) => fullName);
    return { passed: numPassedTests, failed, output, ms };
  } catch {
    return { passed: 0, failed: [], output, ms };
  }
}

type Report = {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
};

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1).padStart(6)} s`;
}
