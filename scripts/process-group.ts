/**
 * A program in its own process group, which is killed with all processes that it started. Ctrl-C in the terminal reaches only
 * the script that started it.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

const STOP_TIMEOUT_MS = 10_000;
const POLL_MS = 50;

export type Program = {
  /** Arguments of Node. */
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** The file to append its output to. */
  readonly log: string;
};

export class ProcessGroup {
  #process: ChildProcess | undefined;

  start({ args, cwd, env, log }: Program): void {
    const output = openSync(log, "a");
    this.#process = spawn(process.execPath, args, {
      cwd,
      detached: true,
      stdio: ["ignore", output, output],
      env,
    });
    closeSync(output);
  }

  /** False if it has ended, or was not started. */
  get running(): boolean {
    return (
      this.#process !== undefined &&
      this.#process.exitCode === null &&
      this.#process.signalCode === null
    );
  }

  /** Processor time of the group so far, in milliseconds; undefined without `/proc`. */
  get cpuMs(): number | undefined {
    const pid = this.#process?.pid;
    if (pid === undefined || process.platform !== "linux") return undefined;
    return readdirSync("/proc").reduce((total, entry) => total + cpuOf(entry, pid), 0);
  }

  /** Kills the whole group with SIGKILL, so that nothing can finish or flush. Resolves when the group has ended. */
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
      // Already ended.
    }
  }
}

/** Waits until `/health` of the program answers. */
export async function healthy(
  url: string,
  group: ProcessGroup,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await answers(url))) {
    signal.throwIfAborted();
    if (!group.running) throw new Error("The runtime ended before it answered.");
    if (Date.now() > deadline)
      throw new Error(`The runtime did not answer within ${timeoutMs / 1000} s.`);
    await delay(POLL_MS, undefined, { signal });
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/health`, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false;
  }
}

function groupLives(pid: number): boolean {
  try {
    process.kill(-pid, 0);
  } catch {
    return false;
  }
  // In a container, dead children of a dead parent may not be collected. They still count as members of their group.
  return (
    process.platform !== "linux" || readdirSync("/proc").some((entry) => isLivingMember(entry, pid))
  );
}

function isLivingMember(entry: string, group: number): boolean {
  const stat = statOf(entry, group);
  return stat !== undefined && stat[0] !== "Z";
}

/** Linux counts in hundredths of a second: those of the program, and those of the system for it. */
function cpuOf(entry: string, group: number): number {
  const stat = statOf(entry, group) ?? [];
  return (Number(stat[11] ?? 0) + Number(stat[12] ?? 0)) * 10;
}

/** The fields of a member's `/proc/<pid>/stat` after its name; undefined if it is not a member, or has ended. */
function statOf(entry: string, group: number): string[] | undefined {
  if (!/^\d+$/.test(entry)) return undefined;
  try {
    const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[2]) === group ? fields : undefined;
  } catch {
    return undefined;
  }
}

/** Below the ephemeral ports of Linux: a caller on such a port could connect to itself while no server listens. */
const PORTS = { from: 20_000, to: 32_000 } as const;
const MOST_TRIES = 100;

/** A free port outside of the ephemeral range. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const port = randomInt(PORTS.from, PORTS.to);
    if (await isFree(port)) return port;
  }
  throw new Error("No free port was found.");
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
