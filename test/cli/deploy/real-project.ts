/** Projects that a real `wrangler dev` runs, with the sources of the package. */

import { existsSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { project } from "../fixtures.ts";

const ROOT = path.join(import.meta.dirname, "../../..");

/** Where the entries of the package are: it is not built here. */
export function entries(): Record<string, string> {
  const { compilerOptions } = JSON.parse(readFileSync(path.join(ROOT, "tsconfig.json"), "utf8"));
  const paths = Object.entries<string[]>(compilerOptions.paths);
  return Object.fromEntries(paths.map(([name, [file = ""]]) => [name, path.join(ROOT, file)]));
}

/** @returns its folder */
export function realProject(files: Readonly<Record<string, string>>): string {
  const folder = project({ "package.json": '{ "name": "desk", "type": "module" }', ...files });
  symlinkSync(path.join(ROOT, "node_modules"), path.join(folder, "node_modules"));
  return folder;
}

/** Nothing of a check stays in the project. */
export function expectClean(folder: string): void {
  const scratch = path.join(folder, ".wrangler", "perdure");
  expect(existsSync(scratch) ? readdirSync(scratch) : []).toEqual([]);
}
