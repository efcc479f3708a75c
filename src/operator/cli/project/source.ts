/** The files of a project: its sources, and the names of its local secrets. */

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { hasConfig } from "./config.ts";

const SOURCE = /\.[cm]?[jt]sx?$/;
const SKIPPED = new Set(["node_modules", "dist", "build", "test", "tests", "coverage"]);
/** Files that are read at most. */
export const MAX_FILES = 500;

export const isFile = (file: string) =>
  statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;

/** The file that a relative import means. */
export function resolve(folder: string, specifier: string): string | undefined {
  const base = path.join(folder, specifier);
  const stem = base.replace(/\.[cm]?jsx?$/, "");
  const tried = [base, ...[".ts", ".tsx", ".mts", ".js", ".mjs"].map((end) => stem + end)];
  tried.push(path.join(base, "index.ts"), path.join(base, "index.js"));
  return tried.find(isFile);
}

/** The source files of a project, without its tests, and without Workers that have a configuration of their own. */
export function sourcesOf(folder: string): string[] {
  const files: string[] = [];
  const visit = (at: string) => {
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      if (files.length >= MAX_FILES) return;
      const full = path.join(at, entry.name);
      const isSkipped = entry.name.startsWith(".") || SKIPPED.has(entry.name);
      if (entry.isDirectory() && !isSkipped && !hasConfig(full)) visit(full);
      if (entry.isFile() && SOURCE.test(entry.name) && !/\.(test|spec|config)\./.test(entry.name)) {
        files.push(full);
      }
    }
  };
  visit(folder);
  return files;
}

/** The names in .dev.vars, or in .env where there is none: Wrangler reads one of them. */
export function localSecrets(folder: string): ReadonlySet<string> {
  const file = [".dev.vars", ".env"].map((name) => path.join(folder, name)).find(existsSync);
  if (file === undefined) return new Set();
  const lines = readFileSync(file, "utf8").matchAll(/^\s*(?:export\s+)?([A-Za-z_]\w*)\s*[=:]/gm);
  return new Set([...lines].map(([, name = ""]) => name));
}
