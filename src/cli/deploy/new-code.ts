/** The new code of a project in `wrangler dev`, on this machine only: it replays histories, and says what its agents lack. */

import { randomInt, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Need, Replay, WorkflowHistory } from "../../features/deploy/types.ts";
import { CliError, EXIT } from "../context.ts";
import { plain } from "../print/text.ts";
import { workflowsIn } from "../project/config.ts";
import { Program, removeAbandoned } from "./program.ts";
import type { NewProject } from "./project.ts";
import { configOf, KEY_HEADER, wrapperOf } from "./wrapper.ts";

/** Time limits: of a start, and of one replay or the start of one object. A test lowers them. */
const LIMITS = { startMs: 120_000, answerMs: 30_000 };
/** So long a build that has failed may take to succeed: Wrangler builds again when files change. */
const BROKEN_MS = 3_000;
/** While Wrangler builds, requests wait. */
const HEALTH_MS = 2_000;
const POLL_MS = 100;
/** Below the ephemeral ports of Linux: a caller on such a port could connect to itself while no server listens. */
const PORTS = { from: 20_000, to: 32_000 } as const;
const MOST_TRIES = 100;

export class NewCode {
  /** Why it answers no more. */
  #isGone: string | undefined;

  private constructor(
    private readonly program: Program,
    private readonly url: string,
    private readonly key: string,
    private readonly limits: typeof LIMITS,
    /** What to do where it does not start. */
    private readonly remedy: readonly string[],
  ) {}

  /**
   * Starts it. Call `stop()` at the end; a signal that ends this process stops it, too.
   *
   * @throws CliError with what Wrangler has printed of it
   */
  static async start(project: NewProject, limits = LIMITS): Promise<NewCode> {
    const { folder, settings, environment } = project;
    const wrangler = wranglerOf(folder);
    const key = randomUUID();
    const parent = path.join(folder, ".wrangler", "perdure");
    removeAbandoned(parent);
    const scratch = path.join(parent, `check-${process.pid}-${key.slice(0, 8)}`);
    const port = await freePort();
    mkdirSync(scratch, { recursive: true });
    const main = path.relative(scratch, project.main).split(path.sep).join("/");
    const workflows = workflowsIn(settings).filter(({ className }) => project.exports(className));
    writeFileSync(path.join(scratch, "check.js"), wrapperOf({ main, workflows, key }));
    const config = path.join(scratch, "wrangler.json");
    const base = path.dirname(project.file);
    const changed = configOf(settings, base, path.join(scratch, "check.js"), project.exports);
    writeFileSync(config, JSON.stringify(changed));
    const secrets = secretsFile(folder, environment);
    const args = [
      ...[wrangler, "dev", "--config", config, "--local", "--ip", "127.0.0.1"],
      ...[
        "--port",
        String(port),
        "--inspector-port",
        "0",
        "--persist-to",
        path.join(scratch, "state"),
      ],
      ...(secrets === undefined ? [] : ["--env-file", secrets]),
      "--show-interactive-dev-session=false",
    ];
    const program = new Program(args, scratch, { cwd: folder, env: environmentOf(scratch) });
    const code = new NewCode(
      program,
      `http://127.0.0.1:${port}`,
      key,
      limits,
      buildRemedy(project),
    );
    try {
      await code.#started();
    } catch (error) {
      code.stop();
      throw error;
    }
    return code;
  }

  /** @throws NoAnswerError */
  replay(history: WorkflowHistory): Promise<Replay> {
    return this.#ask("replay", history);
  }

  /**
   * What a new object of a class lacks.
   * @param binding of the class
   * @throws NoAnswerError
   */
  lacks(binding: string, needs: readonly Need[]): Promise<readonly Need[]> {
    return this.#ask("lacks", { binding, needs });
  }

  stop(): void {
    this.program.stop();
  }

  async #started(): Promise<void> {
    const { program, limits } = this;
    const deadline = Date.now() + limits.startMs;
    let brokenAt: number | undefined;
    const failed = (what: string) => {
      const lines = program.outputShown.split("\n").map((line) => `  ${plain(line)}`);
      const text = `The new code does not start: wrangler dev ${what}. Its output:`;
      return new CliError(EXIT.found, [text, ...lines, ...this.remedy].join("\n"));
    };
    while (!(await this.#isHealthy())) {
      if (!program.isRunning) throw failed("ended before it answered");
      if (program.output.includes("[ERROR]")) brokenAt ??= Date.now();
      const broken = Date.now() - (brokenAt ?? Date.now());
      if (broken > BROKEN_MS) throw failed("reports an error");
      if (Date.now() > deadline)
        throw failed(`did not answer within ${limits.startMs / 1_000} seconds`);
      await delay(POLL_MS);
    }
  }

  async #isHealthy(): Promise<boolean> {
    try {
      const headers = { [KEY_HEADER]: this.key };
      const response = await fetch(`${this.url}/health`, {
        headers,
        signal: AbortSignal.timeout(HEALTH_MS),
      });
      return response.ok && (await response.text()) === "ready";
    } catch {
      return false;
    }
  }

  async #ask<Answer>(what: "replay" | "lacks", asked: object): Promise<Answer> {
    if (this.#isGone !== undefined) throw new NoAnswerError(this.#isGone);
    let answer: { readonly found: Answer } | { readonly error: string };
    try {
      const response = await fetch(`${this.url}/${what}`, {
        method: "POST",
        headers: { [KEY_HEADER]: this.key, "content-type": "application/json" },
        body: JSON.stringify(asked),
        signal: AbortSignal.timeout(this.limits.answerMs),
      });
      answer = (await response.json()) as typeof answer;
    } catch (cause) {
      // Code that never yields stops the runtime for all.
      const hangs = !(await this.#isHealthy());
      if (hangs) this.#isGone = "the local runtime stopped answering before";
      const why =
        (cause as Error).name === "TimeoutError"
          ? `no answer within ${this.limits.answerMs / 1_000} seconds`
          : `the local runtime failed: ${(cause as Error).message}`;
      throw new NoAnswerError(why, { cause, hangs });
    }
    if ("error" in answer) throw new NoAnswerError(answer.error, { isAnswer: true });
    return answer.found;
  }
}

/** The new code has not said what it was asked. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
  /** Whether the local runtime answers nothing any more since then. */
  readonly hangs: boolean;
  /** Whether the new code has answered, by an error. */
  readonly isAnswer: boolean;
  constructor(
    message: string,
    {
      hangs = false,
      isAnswer = false,
      ...options
    }: ErrorOptions & { readonly hangs?: boolean; readonly isAnswer?: boolean } = {},
  ) {
    super(message, options);
    this.hangs = hangs;
    this.isAnswer = isAnswer;
  }
}

/** Wrangler does not build what Vite does, such as an import with `?raw`. */
function buildRemedy({ folder, file }: NewProject): string[] {
  const names = ["ts", "mts", "js", "mjs"].map((end) => `vite.config.${end}`);
  const vite = names.find((name) => existsSync(path.join(folder, name)));
  if (vite === undefined || path.dirname(file) !== folder) return [];
  return [
    `This project has ${vite}. Build it first, e.g. by npx vite build: check runs the configuration that the build writes. Or pass --config.`,
  ];
}

function wranglerOf(folder: string): string {
  try {
    const manifest = createRequire(path.join(folder, "package.json")).resolve(
      "wrangler/package.json",
    );
    return path.join(path.dirname(manifest), "bin", "wrangler.js");
  } catch {
    const remedy = "Run npm install --save-dev wrangler: the new code runs in wrangler dev.";
    throw new CliError(EXIT.found, `Wrangler is not installed in ${folder}. ${remedy}`);
  }
}

/** The local secrets, which Wrangler looks for beside the configuration. */
function secretsFile(folder: string, environment: string | undefined): string | undefined {
  const names = environment === undefined ? [] : [`.dev.vars.${environment}`];
  const found = [...names, ".dev.vars", ".env"].map((name) => path.join(folder, name));
  return found.find((file) => existsSync(file));
}

/** Wrangler gets no credentials, and keeps all that it writes in the folder. */
function environmentOf(scratch: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(PERDURE_TOKEN|(CLOUDFLARE|CF)_.*|NODE_OPTIONS|FORCE_COLOR)$/.test(name),
  );
  return {
    ...Object.fromEntries(kept),
    CI: "1",
    NO_COLOR: "1",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    WRANGLER_SEND_METRICS: "false",
    WRANGLER_LOG_PATH: path.join(scratch, "logs"),
    WRANGLER_REGISTRY_PATH: path.join(scratch, "registry"),
  };
}

async function freePort(): Promise<number> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const port = randomInt(PORTS.from, PORTS.to);
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port was found from ${PORTS.from} to ${PORTS.to}.`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
