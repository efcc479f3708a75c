/** Projects in folders of their own, and what doctor finds in them. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { checkBindings, checkFlags, checkMigrations } from "../../src/cli/doctor/checks.ts";
import { checkHosts } from "../../src/cli/doctor/hosts.ts";
import type { CheckResult, Project } from "../../src/cli/doctor/project.ts";
import { checkSecrets } from "../../src/cli/doctor/secrets.ts";
import { Sources } from "../../src/cli/project/classes.ts";
import { readConfig, settingsOf } from "../../src/cli/project/config.ts";

const scratch: string[] = [];

/** Call it after each test. */
export function removeProjects(): void {
  for (const folder of scratch.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** @returns its folder */
export function project(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(path.join(tmpdir(), "perdure-cli-"));
  scratch.push(folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  return folder;
}

/** The texts of a project's files. */
export const filesOf = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map((each) => path.join(each.parentPath, each.name))
      .map((file) => [path.relative(folder, file), readFileSync(file, "utf8")]),
  );

export function checked(folder: string, environment?: string): CheckResult[] {
  const config = readConfig(folder);
  if (!config) throw new Error("no configuration");
  const settings = settingsOf(config, environment);
  const each: Project = { folder, file: config.file, settings, sources: new Sources(folder) };
  return [
    ...checkFlags(each),
    ...checkBindings(each),
    ...checkMigrations(each),
    ...checkHosts(each),
    ...checkSecrets(each),
  ];
}

/** Findings with a level that is a problem. */
export const problemsOf = (results: readonly CheckResult[]) =>
  results.filter(({ level }) => level !== "ok" && level !== "skipped").map(({ text }) => text);

/** A configuration with these classes as Durable Objects, each created with SQLite, and these as Workflows. */
export function configOf(objects: readonly string[], workflows: readonly string[] = []): string {
  return JSON.stringify({
    name: "app",
    main: "src/index.ts",
    compatibility_date: "2026-01-01",
    compatibility_flags: ["nodejs_compat"],
    durable_objects: { bindings: objects.map((name) => ({ name, class_name: name })) },
    workflows: workflows.map((name) => ({ name, binding: name, class_name: name })),
    migrations: [{ tag: "v1", new_sqlite_classes: objects }],
  });
}
