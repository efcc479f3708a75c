/** `perdure check` of a project that another program builds, such as Vite: with the build's own configuration. */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { entries, expectClean, realProject } from "../../cli/deploy/real-project.ts";
import { agentWork, historyOf, itemOf, snapshotOf } from "../../cli/deploy/snapshots.ts";
import { perdure, withCommandLine } from "../../cli/deployment.ts";
import { removeProjects } from "../../cli/fixtures.ts";

withCommandLine();
afterEach(removeProjects);

const NOWHERE = "http://127.0.0.1:9/perdure";

const CONFIG = {
  name: "desk",
  compatibility_date: "2026-01-01",
  compatibility_flags: ["nodejs_compat"],
  durable_objects: { bindings: [{ name: "Desk", class_name: "Desk" }] },
  workflows: [{ name: "tickets", binding: "TICKETS", class_name: "Tickets" }],
  migrations: [{ tag: "v1", new_sqlite_classes: ["Desk"] }],
};

const WORKER = `
import { DurableAgent } from "perdure/agent";
import { deployments, versions } from "perdure/deploy";
import { ThinkWorkflow } from "perdure/workflow";
import prompt from "./prompt.md?raw";
export class Desk extends DurableAgent {
  static features = [deployments({ version: "7" })];
  onShipped() { return prompt; }
}
class TicketsV7 extends ThinkWorkflow {
  async run(event, step) {
    await step.do("one", async () => 1);
    await step.waitForEvent("paid", { type: "paid" });
  }
}
export class Tickets extends versions({ "7": TicketsV7 }) {}
export default { fetch: () => new Response(prompt) };
`;

/** As agents passes them. */
const PARAMS = {
  ...{ __agentName: "main", __agentBinding: "Desk", __workflowName: "TICKETS" },
  __agentOrigin: { kind: "agent", version: 1, binding: "Desk", name: "main" },
};

const step = (name: string, output: unknown) => ({
  ...{ name, count: 1, kind: "do", status: "completed", startedAt: 1, endedAt: 2, output },
});

/** A project with one open run and one open delivery. */
function given(): string {
  const platform = [step("perdure:version", { version: "7", changes: [] }), step("one", 1)];
  const history = historyOf("TICKETS", "open", { params: PARAMS, platform: platform as never });
  const work = [
    itemOf("workflow", "open"),
    itemOf("delivery", "d-1", [{ what: "method", name: "onShipped" }]),
    itemOf("delivery", "d-2", [{ what: "method", name: "onPaid" }]),
  ];
  return realProject({
    "wrangler.jsonc": JSON.stringify({ ...CONFIG, main: "src/worker.ts", alias: entries() }),
    "src/worker.ts": WORKER,
    "src/prompt.md": "# A text",
    "vite.config.ts": "export default {};",
    "open.json": JSON.stringify(snapshotOf([agentWork("Desk", "main", work, [history])])),
  });
}

/** As the plugin of Cloudflare for Vite does: the whole Worker in one file, with its own configuration. */
function builds(folder: string, more: object = {}): void {
  const source = WORKER.replace(
    'import prompt from "./prompt.md?raw"',
    'const prompt = "# A text"',
  );
  writeFileSync(path.join(folder, "src/index.js"), source);
  const config = { ...CONFIG, main: "src/index.js", alias: entries() };
  writeFileSync(path.join(folder, "build.json"), JSON.stringify(config));
  const wrangler = path.join(folder, "node_modules/wrangler/bin/wrangler.js");
  const args = ["deploy", "--dry-run", "--config", "build.json", "--outdir", "dist/desk"];
  const env = { ...process.env, CI: "1", WRANGLER_SEND_METRICS: "false" };
  execFileSync(process.execPath, [wrangler, ...args], { cwd: folder, env, stdio: "pipe" });
  const rules = [{ type: "ESModule", globs: ["**/*.js", "**/*.mjs"] }];
  // The wrapper imports perdure/testing, which is not installed here.
  const built = { ...CONFIG, main: "index.js", no_bundle: true, rules, alias: entries(), ...more };
  writeFileSync(
    path.join(folder, "dist/desk/wrangler.json"),
    JSON.stringify({ ...built, topLevelName: "desk", userConfigPath: "../../wrangler.jsonc" }),
  );
}

/** As the build does, for `wrangler deploy`. */
function redirects(folder: string): void {
  mkdirSync(path.join(folder, ".wrangler/deploy"), { recursive: true });
  const redirect = { configPath: "../../dist/desk/wrangler.json" };
  writeFileSync(path.join(folder, ".wrangler/deploy/config.json"), JSON.stringify(redirect));
}

const check = (folder: string, ...words: string[]) =>
  perdure(NOWHERE, ["check", "--snapshot", "open.json", "--json", ...words], {}, folder).ended;

const FOUND = {
  problems: [expect.objectContaining({ kind: "delivery", id: "d-2", problem: "method-gone" })],
  checked: { agents: 1, items: 3, histories: 1, classes: 1 },
  notChecked: [],
};

it("follows the configuration that a build has written, and says when the build was made", async () => {
  const folder = given();
  const unbuilt = await check(folder);
  expect(unbuilt.code).toBe(1);
  expect(unbuilt.err).toContain(
    "This project has vite.config.ts. Build it first, e.g. by npx vite build: check runs the configuration that the build writes. Or pass --config.",
  );
  builds(folder);
  redirects(folder);
  const { out, err } = await check(folder);
  expect(JSON.parse(out), err).toEqual(FOUND);
  expect(err).toMatch(
    /^Checking the build in dist\/desk\/wrangler\.json of \d{4}-\d\d-\d\dT\S+Z\./m,
  );
  expectClean(folder);
});

it("takes a configuration by --config", async () => {
  const folder = given();
  builds(folder);
  const { out, err } = await check(folder, "--config", "dist/desk/wrangler.json");
  expect(JSON.parse(out), err).toEqual(FOUND);
  const missing = await check(folder, "--config", "dist/none.json");
  expect(missing.code).toBe(2);
  expect(missing.err).toContain("Cannot read");
});

it("refuses a build that is gone, or that is of another environment", async () => {
  const folder = given();
  redirects(folder);
  const gone = await check(folder);
  expect(gone.code).toBe(2);
  expect(gone.err).toContain("which is no file. Build the project again, or pass --config.");
  builds(folder, { targetEnvironment: "staging" });
  const other = await check(folder, "--env", "production");
  expect(other.code).toBe(2);
  expect(other.err).toContain(
    'The build in dist/desk/wrangler.json is for the environment "staging", not "production". Build it with CLOUDFLARE_ENV=production.',
  );
});
