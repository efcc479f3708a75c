/** `npx perdure`, in this process or one of its own, and deployments whose API answers as a test says. */

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { build } from "tsdown";
import { afterAll, afterEach, beforeAll, vi } from "vitest";
import { runCommand } from "../../src/cli/program.ts";
import { cli } from "../../tsdown.config.ts";

export const folder = mkdtempSync(path.join(tmpdir(), "perdure-cli-"));
export const CLI = path.join(folder, "cli.js");

/** Call it in each file: files share this module. */
export function withCommandLine(): void {
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, "package.json"), `{"type":"module"}`);
    await build({ ...cli, config: false, outDir: folder, logLevel: "error" });
  }, 60_000);
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
}

export const REF = { agent: "Shop", name: "main" };
export const AGENT = "agents/Shop/main";

export type Answer = (path: string, response: ServerResponse) => void;
export const json = (value: unknown, status = 200): Answer => {
  return (_, response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
};
export const failing = (status: number, name: string, message: string) =>
  json({ error: { name, message } }, status);

export const servers: ReturnType<typeof createServer>[] = [];
/** A deployment whose API answers so, by the paths below `/api/`; `agents` has one agent. */
export async function given(answers: Readonly<Record<string, Answer>>): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const { pathname, search } = new URL(request.url ?? "", "http://here");
      const route = pathname.replace("/perdure/api/", "");
      const answer = answers[route] ?? (route === "agents" ? json({ items: [REF] }) : undefined);
      (answer ?? failing(404, "NotFound", `No ${route}.`))(search, response);
    });
  });
  // Commands in this process share its connections. One that is busy for seconds must find them open.
  server.keepAliveTimeout = 0;
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/perdure`;
}

type Ended = { readonly code: number | null; readonly out: string; readonly err: string };

const environment = (url: string, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
  PATH: process.env.PATH,
  PERDURE_URL: url,
  PERDURE_TOKEN: "t0ken",
  ...env,
});

/**
 * Starts a process without a terminal, as a script or a CI job does.
 * @param cwd the project's folder, for commands that read one
 */
export function perdure(
  url: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = {},
  cwd: string = process.cwd(),
) {
  const child = spawn(process.execPath, [CLI, ...words], {
    cwd,
    env: environment(url, env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const texts = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (texts.out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (texts.err += text));
  const ended = new Promise<Ended>((resolve) =>
    child.on("close", (code) => resolve({ code, ...texts })),
  );
  return { child, ended };
}

/** Runs a command in this process, which takes a tenth of the time of a process. One at a time. */
export async function run(
  url: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  const kept = { argv: process.argv, env: process.env, exitCode: process.exitCode };
  const texts = { out: "", err: "" };
  const writes = (["out", "err"] as const).map((name) =>
    vi.spyOn(process[`std${name}`], "write").mockImplementation((text) => {
      texts[name] += text;
      return true;
    }),
  );
  process.argv = [process.execPath, CLI, ...words];
  process.env = environment(url, env);
  process.exitCode = undefined;
  try {
    await runCommand();
    return { code: Number(process.exitCode ?? 0), ...texts };
  } finally {
    Object.assign(process, kept);
    for (const write of writes) write.mockRestore();
  }
}
