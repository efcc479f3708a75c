/** The machine of the soak: a runtime that is killed and restarted with the same state, port and build. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { offline } from "../../../scripts/offline.ts";
import { freePort, healthy, ProcessGroup } from "../../../scripts/process-group.ts";
import type { HostOptions } from "./host.ts";

/** The time limit of a start on a busy machine with much pending work. */
const START_TIMEOUT_MS = 180_000;

export class Machine {
  readonly #vars: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync(path.join(tmpdir(), "perdure-soak-"));
  readonly #group = new ProcessGroup();
  #port = 0;

  /** @param vars the worker's variables */
  constructor(vars: Readonly<Record<string, string>>) {
    this.#vars = vars;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Once, before the first start. */
  async build(): Promise<void> {
    const wrangler = path.dirname(createRequire(import.meta.url).resolve("wrangler/package.json"));
    execFileSync(
      process.execPath,
      [
        path.join(wrangler, "bin", "wrangler.js"),
        ...["deploy", "--dry-run", "--outdir", path.join(this.#folder, "built")],
        ...["--config", path.join(import.meta.dirname, "wrangler.jsonc")],
      ],
      { env: offline, stdio: ["ignore", "pipe", "pipe"] },
    );
    this.#port = await freePort();
  }

  async start(signal: AbortSignal): Promise<void> {
    const options: HostOptions = {
      bundle: path.join(this.#folder, "built", "worker.js"),
      state: path.join(this.#folder, "state"),
      port: this.#port,
      vars: this.#vars,
    };
    this.#group.start({
      args: [path.join(import.meta.dirname, "host.ts"), JSON.stringify(options)],
      cwd: this.#folder,
      env: offline,
      log: this.#log,
    });
    await healthy(this.url, this.#group, { timeoutMs: START_TIMEOUT_MS, signal });
  }

  kill(): Promise<void> {
    return this.#group.kill();
  }

  destroy(): void {
    this.#group.killNow();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  log(): string {
    try {
      return readFileSync(this.#log, "utf8");
    } catch {
      // It was not started.
      return "";
    }
  }

  get #log(): string {
    return path.join(this.#folder, "runtime.log");
  }
}
