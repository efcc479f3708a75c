/**
 * Bundles each example like a deploy, without an account or a network. An example with an import that does not resolve, or a
 * package that workerd cannot load, fails here instead of at its first deploy.
 */
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { offline } from "./offline.ts";

const root = path.join(import.meta.dirname, "..");
const wrangler = path.join(
  path.dirname(createRequire(import.meta.url).resolve("wrangler/package.json")),
  "bin/wrangler.js",
);
const configs = globSync("examples/*/wrangler.jsonc", { cwd: root }).sort();
if (configs.length === 0) throw new Error("No examples/*/wrangler.jsonc to bundle");

for (const config of configs) {
  const outdir = mkdtempSync(path.join(tmpdir(), "perdure-bundle-"));
  const args = [wrangler, "deploy", "--dry-run", "--outdir", outdir];
  // Its paths lead to the sources, also for an example with a tsconfig of its own: there may be no dist/ yet, or an old one.
  args.push("--tsconfig", path.join(root, "tsconfig.json"));
  const { status } = spawnSync(process.execPath, args, {
    // A build of the example's own runs in its folder.
    cwd: path.join(root, path.dirname(config)),
    env: offline,
    stdio: "inherit",
  });
  const bytes = readdirSync(outdir)
    .filter((file) => file.endsWith(".js"))
    .reduce((sum, file) => sum + statSync(path.join(outdir, file)).size, 0);
  rmSync(outdir, { recursive: true });
  if (status !== 0) process.exit(status ?? 1);
  console.log(`${config}: ${Math.round(bytes / 1024)} KiB of JavaScript before compression`);
}
