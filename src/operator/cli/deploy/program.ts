/** A program in its own process group, and the folder that it works in: both end with this process, whatever ends it. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { stripVTControlCharacters } from "node:util";

/** Lines and characters of the output that errors show. */
const SHOWN_LINES = 30;
const SHOWN_CHARACTERS = 4_000;
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

export class Program {
  readonly #process: ChildProcess;
  readonly #log: string;
  readonly #clean = () => this.#end();

  /**
   * @param args of Node
   * @param folder is removed when the program is stopped
   */
  constructor(
    args: readonly string[],
    readonly folder: string,
    { cwd, env }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ) {
    this.#log = path.join(folder, "output.log");
    process.on("exit", this.#clean);
    for (const [signal, code] of Object.entries(SIGNALS)) process.on(signal, leave(code));
    const output = openSync(this.#log, "a");
    // A group of its own: Ctrl+C reaches this process alone, which then ends the whole group.
    const stdio = ["ignore", output, output] as const;
    this.#process = spawn(process.execPath, args, { cwd, env, stdio: [...stdio], detached: true });
    closeSync(output);
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** What it has printed so far, without colours. */
  get output(): string {
    return stripVTControlCharacters(readFileSync(this.#log, "utf8"));
  }

  /** What it has printed from its first error on; without one, the end. */
  get outputShown(): string {
    const lines = this.output.trimEnd().split("\n");
    const error = lines.findIndex((line) => line.includes("[ERROR]"));
    const shown = error < 0 ? lines.slice(-SHOWN_LINES) : lines.slice(error, error + SHOWN_LINES);
    return shown.join("\n").slice(0, SHOWN_CHARACTERS);
  }

  /** Kills it with all processes that it has started, and removes its folder. */
  stop(): void {
    process.off("exit", this.#clean);
    for (const [signal, code] of Object.entries(SIGNALS)) process.off(signal, leave(code));
    this.#end();
  }

  #end(): void {
    const { pid } = this.#process;
    if (pid !== undefined) killGroup(pid);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

const leaving = new Map<number, () => void>();
/** The same function each time, so that it can be taken back. It runs the handlers of "exit". */
function leave(code: number): () => void {
  const known = leaving.get(code) ?? (() => process.exit(code));
  leaving.set(code, known);
  return known;
}

function killGroup(pid: number): void {
  if (process.platform === "win32") {
    spawnSync("taskkill", ["/pid", String(pid), "/T", "/F"]);
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    // It has ended.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
