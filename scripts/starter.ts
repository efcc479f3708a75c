/**
 * `npm run starter`: runs the commands of the README's "The first agent" word for word in an empty folder, and the starter's tests
 * and types. Then runs those of "Use it in your app" in another one, and the commands that they print, for an agent on each host,
 * and operates the agent that they add. Makes agents of the SDK durable. Prints the time of each step. The README's `npm pack`
 * builds the package.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { offline } from "./offline.ts";

const root = path.join(import.meta.dirname, "..");
const URL = "http://localhost:8787/tickets";
const START_TIMEOUT_MS = 60_000;
const ANSWER_TIMEOUT_MS = 30_000;

const readme = readFileSync(path.join(root, "README.md"), "utf8");
const starter = (file: string) =>
  readFileSync(path.join(root, "examples/starter", file), "utf8").trimEnd();
for (const file of ["src/worker.ts", "wrangler.jsonc"]) {
  assert(readme.includes(`\n${starter(file)}\n\`\`\``), `README.md does not show ${file} as it is`);
}

const SDK_APP: Readonly<Record<string, string>> = {
  "wrangler.jsonc": `{ "name": "app", "main": "src/worker.ts", "compatibility_date": "2026-01-01" }`,
  "src/worker.ts": `import { AIChatAgent } from "@cloudflare/ai-chat";
import { Think } from "@cloudflare/think";
import { Agent } from "agents";
import { Lifecycle } from "agents/lifecycle";
import { convertToModelMessages, streamText } from "ai";
import { DurableObject } from "cloudflare:workers";

export class Chat extends AIChatAgent<Cloudflare.Env> {
  override async onChatMessage() {
    const messages = await convertToModelMessages(this.messages);
    return streamText({ model: "openai/gpt-4o-mini", messages }).toUIMessageStreamResponse();
  }
}

export class Counter extends Agent<Cloudflare.Env, { count: number }> {
  override initialState = { count: 0 };
}

export class Desk extends Think<Cloudflare.Env> {
  override getModel() {
    return "@cf/moonshotai/kimi-k2.7-code";
  }
}

export class Reports extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
}
`,
};

const scratch = mkdtempSync(path.join(tmpdir(), "perdure-starter-"));
let folder = path.join(scratch, "app");
/** Debian's Node is too old for wrangler. The dev dependency `node` has a newer one. */
const bin = path.join(root, "node_modules/node/bin");
const env = {
  ...offline,
  CI: "1",
  npm_config_prefer_offline: "true",
  PATH: `${bin}:${process.env.PATH}`,
};
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

symlinkSync(root, path.join(scratch, "perdure")); // the README's ../perdure
mkdirSync(folder);

const [copy = "", install = "", dev = ""] = commandsOf("cp -r");
const [post = "", get = ""] = commandsOf("curl -d");
const startedAt = performance.now();
run(copy);
run(install);
assert.match(readFileSync(path.join(folder, ".gitignore"), "utf8"), /^\.dev\.vars$/m);
let server = start(dev);
process.on("exit", stopServer);
await until(START_TIMEOUT_MS, "the server answers", async () => (await fetch(URL)).ok);
const { id } = JSON.parse(run(post)) as { id: string };
await until(ANSWER_TIMEOUT_MS, "the workflow has saved the ticket", async () => {
  const tickets = (await (await fetch(URL)).json()) as { id: string }[];
  return tickets.some((ticket) => ticket.id === id);
});
assert.deepEqual(JSON.parse(run(get)), [{ id, title: "Printer on fire", priority: "high" }]);
stopServer();
console.log(`${seconds()} s from an empty folder to a completed workflow`);
run("npm test");
run("npm run types");

folder = path.join(scratch, "project");
mkdirSync(folder);
const [packages = "", init = ""] = commandsOf("npm pack");
// The same clone, which the first npm pack has built.
const [pack = "", add = ""] = packages.split(" && ");
run(pack, { npm_config_ignore_scripts: "true" });
run(add);
await operate(init);

// Each other host, with what its own commands install.
for (const host of ["object", "chat", "think"]) {
  removeWorker();
  await ask(`${init} --host ${host}`);
  stopServer();
}

// Agents of the SDK, as they were before.
removeWorker();
mkdirSync(path.join(folder, "src"));
for (const [file, text] of Object.entries(SDK_APP)) writeFileSync(path.join(folder, file), text);
run("npm run types");
run("npx perdure init | git apply");
assert.match(readFileSync(path.join(folder, "src/worker.ts"), "utf8"), /extends DurableChatAgent/);
run("npm run types");
assert.equal(run("npx perdure init"), "Nothing to add. Pass --name to add another agent.\n");

/** Leaves the packages and package.json: a copy of the packages for each host would take minutes. */
function removeWorker(): void {
  for (const each of ["src", "wrangler.jsonc", ".wrangler"])
    rmSync(path.join(folder, each), { recursive: true });
}

/** Runs `perdure init` and the commands that it prints, until its Worker answers. */
async function ask(command: string): Promise<void> {
  const printed = run(`${command} 2>&1`).split("\nNext:\n")[1] ?? "";
  const commands = printed
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const curl = commands.pop() ?? "";
  const dev = commands.pop() ?? "";
  for (const each of commands) run(each);
  run("npm run types");
  server = start(dev);
  await until(
    START_TIMEOUT_MS,
    "the Worker answers",
    async () => (await fetch(URL)).status === 404,
  );
  assert.match(run(`${curl} --silent`), /"status":"completed"/);
}

async function operate(command: string): Promise<void> {
  writeFileSync(path.join(folder, ".dev.vars"), "PERDURE_TOKEN=the-token\n");
  await ask(command);
  const statusOf = (more: string) =>
    run(
      `curl --silent -o /dev/null -w '%{http_code}' -d hello -H 'Host: example.com' ${more} http://localhost:8787/ask`,
    );
  assert.equal(statusOf(""), "401");
  assert.equal(statusOf("-H 'Authorization: Bearer the-token'"), "200");
  assert.match(run("npx perdure report"), /^healthy/);
  const [{ submissionId }] = JSON.parse(run("npx perdure ls submissions --json")).items;
  assert.match(run(`npx perdure show ${submissionId}`), /completed/);
  // Accepted without a token, and completed submissions stay as they are.
  assert.match(
    run(`npx perdure retry ${submissionId} --reason "once more"`),
    /^Nothing has changed/,
  );
  run("npx perdure doctor");
  stopServer();
}

/** The commands of the README's block that begins so, without their comments. */
function commandsOf(start: string): string[] {
  const block = readme.split("```sh\n").find((text) => text.startsWith(start));
  assert(block, `README.md has no sh block that begins with ${start}`);
  const lines = block.slice(0, block.indexOf("```")).trim().split("\n");
  return lines.map((line) => line.replace(/ +#.*$/, ""));
}

function start(command: string) {
  step(command);
  return spawn("bash", ["-c", command], { cwd: folder, env, detached: true, stdio: "ignore" });
}

function stopServer(): void {
  if (server.exitCode !== null || server.signalCode !== null || !server.pid) return;
  process.kill(-server.pid, "SIGKILL");
  server.unref();
}

function seconds(): string {
  return ((performance.now() - startedAt) / 1000).toFixed(1).padStart(6);
}

function step(command: string): void {
  console.log(`${seconds()} s $ ${command}`);
}

/** Runs a command in the folder, and returns its output. */
function run(command: string, more: NodeJS.ProcessEnv = {}): string {
  step(command);
  const { status, stdout, stderr } = spawnSync("bash", ["-c", command], {
    cwd: folder,
    env: { ...env, ...more },
    encoding: "utf8",
  });
  if (status !== 0) {
    console.log(stdout, stderr);
    throw new Error(`\`${command}\` ended with ${status}`);
  }
  return stdout;
}

async function until(timeoutMs: number, what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + timeoutMs;
  let problem: unknown;
  while (performance.now() < end) {
    try {
      if (await isSo()) return;
    } catch (error) {
      problem = error; // not there yet
    }
    await sleep(200);
  }
  throw new Error(`Waited ${timeoutMs / 1000} s until ${what}`, { cause: problem });
}
