/** What a new project has besides its Worker: package.json, tsconfig.json and .gitignore. It completes existing ones. */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { applyEdits, modify } from "jsonc-parser";
import { isPlainObject } from "../../core/options/options.ts";
import { IGNORED, SCRIPTS, TSCONFIG } from "./templates.ts";

export type FileChange = { readonly file: string; readonly text: string; readonly what: string };

/** What the scripts need. */
export const DEV_PACKAGES = ["wrangler", "typescript", "@cloudflare/workers-types"];

/**
 * @param manifest the contents of package.json
 * @param name of the project
 */
export function scaffold(
  folder: string,
  manifest: Readonly<Record<string, unknown>>,
  name: string,
): FileChange[] {
  const at = (each: string) => path.join(folder, each);
  const read = (each: string) =>
    existsSync(at(each)) ? readFileSync(at(each), "utf8") : undefined;
  const changes: FileChange[] = [];
  const add = (each: string, before: string | undefined, text: string, what: string) => {
    if (text === before) return;
    const did = before === undefined ? `Created ${each}` : `Added to ${each}:`;
    changes.push({ file: at(each), text, what: `${did} ${what}` });
  };
  const before = read("package.json");
  add(
    "package.json",
    before,
    manifestWith(before, manifest, name),
    'with "type": "module" and scripts',
  );
  if (read("tsconfig.json") === undefined)
    add("tsconfig.json", undefined, TSCONFIG, "for npm run types");
  const ignore = read(".gitignore");
  const has = new Set(ignore?.split(/\r?\n/).map((line) => line.trim().replace(/^\/|[/*]+$/g, "")));
  const lines = IGNORED.filter((each) => !has.has(each.replace(/[/*]+$/, "")));
  const start = ignore === undefined || ignore === "" || ignore.endsWith("\n") ? "" : "\n";
  if (lines.length > 0)
    add(".gitignore", ignore, `${ignore ?? ""}${start}${lines.join("\n")}\n`, lines.join(", "));
  return changes;
}

/** Keeps what package.json has, except the `"type": "commonjs"` that `npm init` writes: there is no source yet. */
function manifestWith(
  before: string | undefined,
  manifest: Readonly<Record<string, unknown>>,
  name: string,
): string {
  const scripts = isPlainObject(manifest.scripts) ? manifest.scripts : {};
  const missing = Object.entries(SCRIPTS).filter(([script]) => scripts[script] === undefined);
  const isNew = before === undefined;
  const values: [string[], unknown][] = [
    ...(isNew
      ? ([
          [["name"], name],
          [["private"], true],
        ] as [string[], unknown][])
      : []),
    ...(manifest.type === "module" ? [] : ([[["type"], "module"]] as [string[], unknown][])),
    ...missing.map(([script, command]): [string[], unknown] => [["scripts", script], command]),
  ];
  const formattingOptions = { insertSpaces: true, tabSize: 2 };
  const text = values.reduce(
    (all, [at, value]) => applyEdits(all, modify(all, at, value, { formattingOptions })),
    before ?? "{}\n",
  );
  return text;
}
