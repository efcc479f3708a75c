/**
 * The local Cloudflare runtime under the examples: `wrangler dev` in a process group of its own, its state in a temporary
 * folder. start(), kill() with SIGKILL, start() again on the same state and port; destroy() leaves nothing behind.
 */

import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
const POLL_MS = 50;

export class Runtime {
  readonly #state = mkdtempSync(join(tmpdir(), "perdure-example-"));
  readonly #log = join(this.#state, "wrangler.log");
  readonly #example: string;
  #port = 0;
  #process: ChildProcess | undefined;

  /**
   * @param example the folder with its wrangler.jsonc
   * @param secrets reach the worker through a file that only this user can read, never through a command line
   */
  constructor(example: string, secrets: Record<string, string> = {}) {
    this.#example = example;
    const lines = Object.entries(secrets).map(
      ([name, value]) => `${name}=${JSON.stringify(value)}\n`,
    );
    writeFileSync(this.#envFile, lines.join(""), { mode: 0o600 });
    writeFileSync(this.#config, configFor(example));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#port ||= await freePort();
    const log = openSync(this.#log, "a");
    const child = spawn(process.execPath, this.#command(), {
      cwd: this.#example,
      // A group of its own: killing it takes workerd along, and a Ctrl-C in the terminal reaches the demo only.
      detached: true,
      stdio: ["ignore", log, log],
      env: this.#environment(),
    });
    closeSync(log);
    this.#process = child;
    await this.#ready(child, signal);
  }

  /** SIGKILL to everything at once: no chance to finish, flush or say goodbye. Resolves when the group is gone. */
  async kill(): Promise<void> {
    const pid = this.#process?.pid;
    this.killNow();
    const deadline = Date.now() + STOP_TIMEOUT_MS;
    while (pid !== undefined && groupLives(pid)) {
      if (Date.now() > deadline)
        throw new Error(`Process group ${pid} is still there ${STOP_TIMEOUT_MS} ms after SIGKILL.`);
      await delay(POLL_MS);
    }
  }

  /** For exit handlers, which cannot wait. */
  killNow(): void {
    const pid = this.#process?.pid;
    this.#process = undefined;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // Gone already.
    }
  }

  destroy(): void {
    this.killNow();
    rmSync(this.#state, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  /** False once wrangler has ended by itself. */
  get running(): boolean {
    return (
      this.#process !== undefined &&
      this.#process.exitCode === null &&
      this.#process.signalCode === null
    );
  }

  logTail(lines: number): string {
    try {
      return readFileSync(this.#log, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
    } catch {
      return "";
    }
  }

  get #config(): string {
    return join(this.#state, "wrangler.json");
  }

  get #envFile(): string {
    return join(this.#state, "worker.env");
  }

  #command(): string[] {
    const wrangler = createRequire(import.meta.url).resolve("wrangler/package.json");
    return [
      join(dirname(wrangler), "bin", "wrangler.js"),
      "dev",
      ...["--config", this.#config],
      ...["--ip", "127.0.0.1", "--port", String(this.#port), "--inspector-port", "0"],
      ...["--persist-to", join(this.#state, "state")],
      ...["--env-file", this.#envFile],
      "--show-interactive-dev-session=false",
    ];
  }

  #environment(): NodeJS.ProcessEnv {
    // The keys go through the file; wrangler itself has no use for them.
    const { OPENAI_API_KEY: _openai, ANTHROPIC_API_KEY: _anthropic, ...inherited } = process.env;
    return {
      ...inherited,
      CI: "1",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_LOG_PATH: join(this.#state, "logs"),
      WRANGLER_REGISTRY_PATH: join(this.#state, "registry"),
    };
  }

  async #ready(child: ChildProcess, signal: AbortSignal): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (!(await this.#answers())) {
      signal.throwIfAborted();
      if (child.exitCode !== null)
        throw new Error(`wrangler dev ended with code ${child.exitCode} before it answered.`);
      if (Date.now() > deadline)
        throw new Error(`wrangler dev did not answer within ${START_TIMEOUT_MS / 1000} s.`);
      await delay(POLL_MS, undefined, { signal });
    }
  }

  async #answers(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2_000) })).ok;
    } catch {
      return false;
    }
  }
}

/**
 * The example's own configuration, made to work from another folder: wrangler builds next to its configuration, and one
 * that is killed leaves its build behind.
 */
function configFor(example: string): string {
  const text = readFileSync(join(example, "wrangler.jsonc"), "utf8").replace(/^\s*\/\/.*$/gm, "");
  const config = JSON.parse(text) as { main: string };
  return JSON.stringify({ ...config, main: join(example, config.main) });
}

function groupLives(pid: number): boolean {
  try {
    process.kill(-pid, 0);
  } catch {
    return false;
  }
  // In a container nobody may collect the dead children of a dead parent; they still count as members of their group.
  return (
    process.platform !== "linux" || readdirSync("/proc").some((entry) => isLivingMember(entry, pid))
  );
}

function isLivingMember(entry: string, group: number): boolean {
  if (!/^\d+$/.test(entry)) return false;
  try {
    const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
    const [state, , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(pgrp) === group && state !== "Z";
  } catch {
    return false;
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => {
        if (address && typeof address === "object") resolve(address.port);
        else reject(new Error("No free port was found."));
      });
    });
  });
}
