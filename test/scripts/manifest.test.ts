import { execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { filesOf, longProcesses, projects, TWICE, testProcesses } from "../manifest.ts";

const root = path.join(import.meta.dirname, "../..");
const all = globSync(["test/**/*.test.ts", "examples/triage/test/**/*.test.ts"], { cwd: root });

/** What Vitest would run. */
function listed(): { projectName: string; file: string }[] {
  const args = ["exec", "--no", "--", "vitest", "list", "--filesOnly", "--json"];
  return JSON.parse(execFileSync("npm", args, { cwd: root, encoding: "utf8" }));
}

it("Vitest runs each test file in one project, and in two where the manifest says so", () => {
  const files = listed().map(({ file }) => path.relative(root, file));
  expect(files.sort()).toEqual([...all, ...Object.values(TWICE).flat()].sort());
});

it("npm test and npm run test:long run each file of their projects in one process", () => {
  const processes = [...testProcesses(), ...longProcesses()];
  const started = new Set(processes.flatMap((one) => one.projects));
  expect(projects.filter((name) => !started.has(name))).toEqual([
    "browser",
    "runtimes",
    "replays",
    "acceptance",
    "contract",
    "triage",
  ]);
  const files = [...started].flatMap(filesOf);
  expect(processes.flatMap((one) => one.files).sort()).toEqual(files.sort());
});
