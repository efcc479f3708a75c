/** The files of a project: its sources, and the names of its local secrets. */

import { readdirSync, readFileSync, statSync } from "node:fs";
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

export type LocalSecrets = {
  /** `.dev.vars`, or `.env` where there is none: Wrangler reads one of them. */
  readonly file: string;
  readonly values: ReadonlyMap<string, string>;
  /** Lines that Wrangler leaves out. They may hold secrets, so none is shown. */
  readonly problems: readonly string[];
};

const VARIABLE =
  /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*(?:=|:[ \t])[ \t]*("(?:\\[\s\S]|[^"\\])*"|'[^']*'|`[^`]*`|[^#\r\n]*)/gm;

export function localSecrets(folder: string): LocalSecrets {
  const names = [".dev.vars", ".env"];
  const file = names.find((name) => isFile(path.join(folder, name))) ?? ".dev.vars";
  const text = isFile(path.join(folder, file)) ? readFileSync(path.join(folder, file), "utf8") : "";
  const values = new Map(
    [...text.matchAll(VARIABLE)].map(([, name = "", value = ""]) => [
      name,
      value.trim().replace(/^(["'`])([\s\S]*)\1$/, "$2"),
    ]),
  );
  const others = text.replace(VARIABLE, (line) => line.replace(/[^\n]/g, "")).split("\n");
  const problems = others.flatMap((line, at) =>
    /^\s*(#|$)/.test(line) ? [] : [`Line ${at + 1} of ${file} is not NAME=value`],
  );
  return { file, values, problems };
}
