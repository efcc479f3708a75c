/** What a project's sources say, read as text: the classes that its Worker exports, and the secrets that it names. */

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { hasConfig } from "./config.ts";

const SOURCE = /\.[cm]?[jt]sx?$/;
const SKIPPED = new Set(["node_modules", "dist", "build", "test", "tests", "coverage"]);
/** Files that are read at most, and the bytes of each. */
export const MAX_FILES = 500;
const MAX_BYTES = 1_048_576;

export type Exports = {
  readonly names: ReadonlySet<string>;
  /** Whether it exports everything of a package, so that a missing name proves nothing. */
  readonly isOpen: boolean;
};

/** The names that a file exports, also by `export * from "./other"`. Undefined for a file that cannot be read. */
export function exportsOf(file: string): Exports | undefined {
  const names = new Set<string>();
  const seen = new Set<string>();
  let isOpen = false;
  const visit = (at: string) => {
    if (seen.has(at) || seen.size >= MAX_FILES) return;
    seen.add(at);
    const text = codeOf(at);
    for (const [, name = ""] of text.matchAll(
      /\bexport\s+(?:declare\s+)?(?:abstract\s+)?(?:class|const|let|var|function\*?|async\s+function)\s+([\w$]+)/g,
    )) {
      names.add(name);
    }
    for (const [, list = ""] of text.matchAll(/\bexport\s*\{([^}]*)\}/g)) {
      for (const part of list.split(",")) {
        const name = part.trim().split(/\s+/).at(-1);
        if (name && !part.trim().startsWith("type ")) names.add(name);
      }
    }
    for (const [, specifier = ""] of text.matchAll(/\bexport\s*\*\s*from\s*["']([^"']+)["']/g)) {
      const target = specifier.startsWith(".") ? resolve(path.dirname(at), specifier) : undefined;
      if (target === undefined) isOpen = true;
      else visit(target);
    }
  };
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return undefined;
  visit(file);
  return { names, isOpen };
}

/** The file that a relative import means. */
export function resolve(folder: string, specifier: string): string | undefined {
  const base = path.join(folder, specifier);
  const stem = base.replace(/\.[cm]?jsx?$/, "");
  const tried = [base, ...[".ts", ".tsx", ".mts", ".js", ".mjs"].map((end) => stem + end)];
  tried.push(path.join(base, "index.ts"), path.join(base, "index.js"));
  return tried.find((each) => existsSync(each) && statSync(each).isFile());
}

export type NamedSecret = { readonly name: string; readonly file: string; readonly line: number };

/** The secrets that options name, e.g. `secret: "HOOK_SECRET"` or `headers: "OTLP_HEADERS"`, each once. */
export function secretsOf(folder: string): NamedSecret[] {
  const found = new Map<string, NamedSecret>();
  for (const file of sourcesOf(folder)) {
    const text = codeOf(file);
    const options =
      /\b(?:\w*[sS]ecrets?|headers|apiKey|botToken|token)\s*:\s*(\[[^\]]*\]|["'][^"']+["'])/g;
    for (const match of text.matchAll(options)) {
      for (const [, name = ""] of match[1]?.matchAll(/["']([A-Z][A-Z0-9_]{2,99})["']/g) ?? []) {
        const line = text.slice(0, match.index).split("\n").length;
        if (!found.has(name)) found.set(name, { name, file: path.relative(folder, file), line });
      }
    }
  }
  return [...found.values()];
}

/** The entries of Perdure that sources import, e.g. `perdure/think`. */
export function entriesOf(folder: string): ReadonlySet<string> {
  const texts = sourcesOf(folder).map(codeOf);
  return new Set(texts.flatMap((text) => text.match(/(?<=["'])perdure\/\w+(?=["'])/g) ?? []));
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

/** Strings, templates, regular expressions and comments. */
const TOKEN =
  /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\/|\/(?<=(?:[(,=:[!&|?]\s*|\breturn\s+)\/)(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\//g;

const blanked = (text: string) => text.replace(/[^\n]/g, " ");

/** The text of a file with blanks for its comments, so that lines and offsets stay. Of anything that is no file, no text. */
export function codeOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found?.isFile() || found.size > MAX_BYTES) return "";
  return readFileSync(file, "utf8").replace(TOKEN, (found) =>
    /^\/[/*]/.test(found) ? blanked(found) : found,
  );
}

/** The same with blanks for the contents of strings, templates and regular expressions. */
export function withoutTexts(code: string): string {
  return code.replace(TOKEN, (found) => `${found[0]}${blanked(found.slice(1, -1))}${found.at(-1)}`);
}

/** The names in .dev.vars, or in .env where there is none: Wrangler reads one of them. */
export function localSecrets(folder: string): ReadonlySet<string> {
  const file = [".dev.vars", ".env"].map((name) => path.join(folder, name)).find(existsSync);
  if (file === undefined) return new Set();
  const lines = readFileSync(file, "utf8").matchAll(/^\s*(?:export\s+)?([A-Za-z_]\w*)\s*[=:]/gm);
  return new Set([...lines].map(([, name = ""]) => name));
}
