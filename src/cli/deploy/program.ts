/** A program in its own process group, and the folder that it works in: both end with this process, whatever ends it. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
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
    note(this.folder, undefined);
    this.#process = spawn(process.execPath, args, { cwd, env, stdio: [...stdio], detached: true });
    note(this.folder, this.#process.pid);
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

/** Who runs a program in a folder: for the next check, where this one is killed. */
type Note = { readonly host: string; readonly owner: number; readonly pid?: number };

const NOTE = "runtime.json";

function note(folder: string, pid: number | undefined): void {
  const noted: Note = { host: hostname(), owner: process.pid, ...(pid !== undefined && { pid }) };
  writeFileSync(path.join(folder, NOTE), JSON.stringify(noted));
}

/** Ends the programs of processes that are gone, and removes their folders. @param parent the folder of these folders */
export function removeAbandoned(parent: string): void {
  for (const name of existsSync(parent) ? readdirSync(parent) : []) {
    const folder = path.join(parent, name);
    const { host, owner, pid } = readNote(folder);
    // Processes of other machines, which may share the folder, are not known here.
    if (host !== hostname() || owner === undefined || commandOf(owner) !== undefined) continue;
    // The system may have given the number to another process.
    if (pid !== undefined && commandOf(pid)?.includes(folder)) killGroup(pid);
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

function readNote(folder: string): Partial<Note> {
  try {
    return JSON.parse(readFileSync(path.join(folder, NOTE), "utf8")) as Note;
  } catch {
    return {};
  }
}

/** The command line of a process. Undefined: it has ended. */
function commandOf(pid: number): string | undefined {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH" ? undefined : "";
  }
  const file = `/proc/${pid}/cmdline`;
  if (existsSync(file)) return readFileSync(file, "utf8").replaceAll("\0", " ");
  return spawnSync("ps", ["-o", "command=", "-p", String(pid)], { encoding: "utf8" }).stdout ?? "";
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
