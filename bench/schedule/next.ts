/**
 * How many next occurrences a second are computed, by form (S2): ours, and for the forms that they have, Croner's with
 * a zone and those made by hand with Luxon. Times are only told, and none fails; the tests count the work instead.
 *
 *     node bench/schedule/next.ts --ms 500
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { build } from "tsdown";

const { values } = parseArgs({ options: { ms: { type: "string", default: "500" } } });

// Bundled, as an app's code is: the sources have TypeScript that Node does not strip.
const folder = mkdtempSync(path.join(tmpdir(), "perdure-bench-"));
try {
  await build({
    config: false,
    entry: { forms: path.join(import.meta.dirname, "forms.ts") },
    outDir: folder,
    format: "esm",
    platform: "node",
    dts: false,
    logLevel: "error",
    deps: { alwaysBundle: [/./] },
    outputOptions: { entryFileNames: "[name].mjs" },
  });
  const { run } = (await import(path.join(folder, "forms.mjs"))) as typeof import("./forms.ts");
  run(Number(values.ms));
} finally {
  rmSync(folder, { recursive: true });
}
