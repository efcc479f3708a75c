/** `npx perdure` as users get it, which the driver runs before the deploy. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { build } from "tsdown";
import { cli } from "../../tsdown.config.ts";

/** A snapshot of all runs, or a check of it, takes less. */
const TIMEOUT_MS = 180_000;

export type Ran = { readonly code: number | null; readonly out: string; readonly err: string };

export class CommandLine {
  readonly folder = mkdtempSync(path.join(tmpdir(), "perdure-deploys-"));
  readonly #main = path.join(this.folder, "cli.js");

  async build(): Promise<void> {
    writeFileSync(path.join(this.folder, "package.json"), `{"type":"module"}`);
    await build({ ...cli, config: false, outDir: this.folder, logLevel: "error" });
  }

  /** @throws Error for one that has not ended in time */
  async run(cwd: string, ...args: string[]): Promise<Ran> {
    const child = spawn(process.execPath, [this.#main, ...args], {
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: TIMEOUT_MS,
    });
    const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
    const [code, out, err] = await Promise.all([closed, text(child.stdout), text(child.stderr)]);
    if (code === null)
      throw new Error(`perdure ${args.join(" ")} has not ended in ${TIMEOUT_MS / 1_000} s: ${err}`);
    return { code, out, err };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
