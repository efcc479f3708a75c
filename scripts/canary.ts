/**
 * Tests Perdure with the newest versions of its peers, in a copy outside of the work tree: `npm run canary`, or with only some
 * test files: `npm run canary -- test/workflow/steps/prompt.test.ts`. Exit code 1 when the install, the types, the bundle or
 * a test fails.
 *
 *   --keep      do not remove the copy
 *   --record    add the versions to the table of tested versions when all passes
 *   --table     print that table as Markdown, and test nothing
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { offline } from "./offline.ts";
import { recordRun, TESTED, testedTable } from "./tested-versions.ts";

const root = path.join(import.meta.dirname, "..");
const { values, positionals: testFiles } = parseArgs({
  options: {
    keep: { type: "boolean", default: false },
    record: { type: "boolean", default: false },
    table: { type: "boolean", default: false },
  },
  allowPositionals: true,
});

if (values.table) console.log(testedTable());
else canary();

function canary(): void {
  const copy = mkdtempSync(path.join(tmpdir(), "perdure-canary-"));
  process.on("exit", () => {
    if (values.keep) console.log(`The copy is in ${copy}`);
    else rmSync(copy, { recursive: true, force: true });
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

  copySources(copy);
  setVersions(copy, newestVersions());
  const failed = stepsToRun().find(([, args]) => !npm(copy, args));
  const versions = failed?.[0] === "install" ? undefined : installedVersions(copy);
  if (versions) {
    console.log("\nVersions:");
    for (const name of TESTED) console.log(`  ${name.padEnd(28)} ${describe(name, versions)}`);
  }
  if (failed) {
    console.log(`canary: FAILED at ${failed[0]}`);
    process.exitCode = 1;
    return;
  }
  const ran =
    testFiles.length === 0 ? "all tests" : `types, bundle, ${testFiles.length} test files`;
  if (values.record && versions) {
    recordRun({ date: new Date().toISOString().slice(0, 10), ran, versions });
  }
  console.log(`canary: passed (${ran})`);
}

/** `npm test` has the types and the bundle among its checks. */
function stepsToRun(): [name: string, args: string[]][] {
  const install: [string, string[]] = ["install", ["install", "--no-audit", "--no-fund"]];
  if (testFiles.length === 0) return [install, ["tests", ["test"]]];
  return [
    install,
    ["types", ["run", "check:types"]],
    ["bundle", ["run", "check:bundle"]],
    ["tests", ["run", "test:unit", "--", ...testFiles]],
  ];
}

/** All files of the work tree that are tracked or could be. */
function copySources(copy: string): void {
  const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], {
    cwd: root,
    encoding: "utf8",
  });
  for (const file of listed.split("\0").filter(Boolean)) {
    cpSync(path.join(root, file), path.join(copy, file));
  }
  // Some checks ask git for the files.
  execFileSync("git", ["init", "--quiet"], { cwd: copy });
}

function newestVersions(): Record<string, string> {
  const newest = TESTED.map((name) => {
    const version = execFileSync("npm", ["view", name, "dist-tags.latest"], { encoding: "utf8" });
    return [name, version.trim()];
  });
  return Object.fromEntries(newest);
}

/** As exact dev dependencies. The ranges of the peers stay, so that a version outside of them fails the install. */
function setVersions(copy: string, versions: Record<string, string>): void {
  const file = path.join(copy, "package.json");
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  Object.assign(manifest.devDependencies, versions);
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
}

function npm(copy: string, args: string[]): boolean {
  console.log(`\n$ npm ${args.join(" ")}`);
  return spawnSync("npm", args, { cwd: copy, env: offline, stdio: "inherit" }).status === 0;
}

function installedVersions(folder: string): Record<string, string> {
  const versions = TESTED.map((name) => {
    const file = path.join(folder, "node_modules", name, "package.json");
    return [name, JSON.parse(readFileSync(file, "utf8")).version];
  });
  return Object.fromEntries(versions);
}

/** The version, and the one of the work tree if that is another. */
function describe(name: string, versions: Record<string, string>): string {
  const { [name]: ours } = installedVersions(root);
  return versions[name] === ours
    ? `${ours} (as in package-lock.json)`
    : `${versions[name]} (was ${ours})`;
}
