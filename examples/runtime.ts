/**
 * The local Cloudflare runtime of the examples: `wrangler dev` in its own process group, with its state in a temporary folder.
 * start(), kill() with SIGKILL, and start() again with the same state and port. destroy() removes everything.
 */

import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { freePort, healthy, ProcessGroup } from "../scripts/process-group.ts";

/** The time limit of a start on a busy machine with much pending work. */
const START_TIMEOUT_MS = 180_000;
/** The local explorer of `wrangler dev`. */
const WORKFLOWS = "/cdn-cgi/local/explorer/api/workflows";
/** Of a workflow, in one page of the explorer. */
const MAX_INSTANCES = 100;
const ENDED = ["complete", "errored", "terminated"];

export class Runtime {
  readonly #state = mkdtempSync(join(tmpdir(), "perdure-example-"));
  readonly #log = join(this.#state, "wrangler.log");
  readonly #group = new ProcessGroup();
  readonly #example: string;
  #port = 0;

  /**
   * @param example the folder with its wrangler.jsonc
   * @param secrets are passed in a file that only this user can read, never in a command line
   */
  constructor(example: string, secrets: Record<string, string> = {}) {
    this.#example = example;
    const lines = Object.entries(secrets).map(
      ([name, value]) => `${name}=${JSON.stringify(value)}\n`,
    );
    writeFileSync(this.#envFile, lines.join(""), { mode: 0o600 });
    writeFileSync(this.config, configFor(example));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#port ||= await freePort();
    this.#group.start({
      args: this.#command(),
      cwd: this.#example,
      env: this.#environment(),
      log: this.#log,
    });
    await healthy(this.url, this.#group, { timeoutMs: START_TIMEOUT_MS, signal });
  }

  /**
   * Resumes the workflows after a restart, as Cloudflare does after a machine failure. The local engine resumes a workflow
   * only when it receives an event, so each one gets an event that no workflow waits for.
   *
   * @returns the number of workflows that have not ended
   */
  async resume(signal: AbortSignal): Promise<number> {
    const workflows = await explore<{ name: string }[]>(`${this.url}${WORKFLOWS}`, { signal });
    const counts = workflows.map(({ name }) => this.#resume(name, signal));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  /** Sends an event to each instance of the workflow that has not ended, and returns their number. */
  async #resume(workflow: string, signal: AbortSignal): Promise<number> {
    const instances = `${this.url}${WORKFLOWS}/${workflow}/instances`;
    type Instance = { id: string; status: string };
    const listed = await explore<Instance[]>(`${instances}?per_page=${MAX_INSTANCES}`, { signal });
    const open = listed.filter(({ status }) => !ENDED.includes(status));
    const init = { method: "POST", body: "{}", signal };
    const sent = open.map(({ id }) => fetch(`${instances}/${id}/events/resume`, init));
    for (const { ok, status, url } of await Promise.all(sent)) {
      // A kill can interrupt the creation of an instance. Its agent creates it again.
      if (!ok && status !== 404) throw new Error(`${url}: ${status}`);
    }
    return open.length;
  }

  /** Kills the whole group with SIGKILL, so that nothing can finish or flush. Resolves when the group has ended. */
  kill(): Promise<void> {
    return this.#group.kill();
  }

  destroy(): void {
    this.#group.killNow();
    rmSync(this.#state, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  /** False once wrangler has ended by itself. */
  get running(): boolean {
    return this.#group.running;
  }

  /** Processor time since the last start, in milliseconds; undefined if it is unknown. */
  get cpuMs(): number | undefined {
    return this.#group.cpuMs;
  }

  logTail(lines: number): string {
    try {
      return readFileSync(this.#log, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
    } catch {
      return "";
    }
  }

  /** Changes the configuration. A running Worker is loaded again. */
  editConfig(edit: (config: Config) => Config): void {
    const config = JSON.parse(readFileSync(this.config, "utf8")) as Config;
    const edited = edit(config);
    if (edited.main !== config.main) rmSync(this.#builds, { recursive: true, force: true });
    writeFileSync(this.config, JSON.stringify(edited, null, 2));
  }

  /** The file that the runtime reads. */
  get config(): string {
    return join(this.#state, "wrangler.json");
  }

  get #builds(): string {
    return join(this.#state, ".wrangler", "tmp");
  }

  get #envFile(): string {
    return join(this.#state, "worker.env");
  }

  #command(): string[] {
    const wrangler = createRequire(import.meta.url).resolve("wrangler/package.json");
    // A killed wrangler leaves its build. A restart runs the same code, and bundling takes most of a start.
    const [built] = globSync(join(this.#builds, "dev-*", "*.js"));
    return [
      join(dirname(wrangler), "bin", "wrangler.js"),
      "dev",
      ...(built === undefined ? [] : [built, "--no-bundle"]),
      ...["--config", this.config],
      ...["--ip", "127.0.0.1", "--port", String(this.#port), "--inspector-port", "0"],
      ...["--persist-to", join(this.#state, "state")],
      ...["--env-file", this.#envFile],
      "--show-interactive-dev-session=false",
    ];
  }

  #environment(): NodeJS.ProcessEnv {
    // The keys are in the file; wrangler itself does not need them.
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
}

/** The parts of a Wrangler configuration that examples change. */
export type Config = {
  readonly main: string;
  readonly vars?: Readonly<Record<string, string>> | undefined;
  readonly durable_objects: { readonly bindings: readonly object[] };
  readonly workflows: readonly object[];
  readonly migrations: readonly object[];
  readonly queues?: object;
};

/** A run of an example. With `crash`, the runtime is killed meanwhile. */
export type Run = {
  readonly runtime: Runtime;
  readonly crash: boolean;
  readonly signal: AbortSignal;
};

/** Calls the local explorer, and returns the result. */
async function explore<T>(url: string, init: RequestInit): Promise<T> {
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { result: T }).result;
}

/** GET, or POST with a body. */
export async function call<T>(runtime: Runtime, path: string, body?: object): Promise<T> {
  const init = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${runtime.url}/${path}`, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/**
 * The example's configuration, adapted to another folder: wrangler builds next to its configuration, and a killed one
 * does not remove its build.
 */
function configFor(example: string): string {
  const text = readFileSync(join(example, "wrangler.jsonc"), "utf8").replace(/^\s*\/\/.*$/gm, "");
  // The page of an example is built for `wrangler dev` only.
  const { assets: _, build: _build, ...config } = JSON.parse(text) as Record<string, string>;
  return JSON.stringify({ ...config, main: join(example, config.main ?? "") });
}
