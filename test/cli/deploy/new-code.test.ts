/** `perdure check` and `perdure migrate` with a real project in a real `wrangler dev`. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { NewCode } from "../../../src/cli/deploy/new-code.ts";
import { newProject } from "../../../src/cli/deploy/project.ts";
import { given as deployed, json, perdure, servers, withCommandLine } from "../deployment.ts";
import { project, removeProjects } from "../fixtures.ts";
import { entries, expectClean, realProject } from "./real-project.ts";
import { agentWork, historyOf, itemOf, snapshotOf } from "./snapshots.ts";

withCommandLine();
afterEach(removeProjects);

const NOWHERE = "http://127.0.0.1:9/perdure";

const CONFIG = {
  name: "desk",
  main: "src/worker.ts",
  compatibility_date: "2026-01-01",
  compatibility_flags: ["nodejs_compat"],
  durable_objects: { bindings: [{ name: "Desk", class_name: "Desk" }] },
  workflows: [
    { name: "tickets", binding: "TICKETS", class_name: "Tickets" },
    { name: "gone", binding: "GONE", class_name: "Gone" },
  ],
  migrations: [{ tag: "v1", new_sqlite_classes: ["Desk"] }],
  routes: ["example.com/*"],
  triggers: { crons: ["* * * * *"] },
  ai: { binding: "AI" },
  hyperdrive: [{ binding: "DB", id: "none" }],
  containers: [{ class_name: "Desk", image: "./Dockerfile" }],
  secrets: { required: ["API_KEY"] },
  assets: { directory: "public" },
  alias: { ...entries(), "perdure/testing": "./src/replay.ts" },
};

const WORKER = `
import { WorkflowEntrypoint } from "cloudflare:workers";
import { DurableAgent } from "perdure/agent";
import { deployments } from "perdure/deploy";
export class Desk extends DurableAgent {
  static features = [deployments({ version: "8" })];
  onShipped() {}
}
export class Tickets extends WorkflowEntrypoint {}
export default { fetch: () => new Response("the app") };
`;

const REPLAY = `
export async function replayWorkflow(Class, history) {
  if (history.workflowId === "throws") throw new TypeError("no such step");
  if (history.workflowId === "spins") for (;;) {}
  const { output } = history.platform.find(({ name }) => name === "perdure:version") ?? {};
  const isError = history.workflowId === "bad" || output?.version === "9";
  const problem = {
    step: "ask", problem: "renamed-or-removed", severity: isError ? "error" : "warning",
    text: Class.name + " has no step ask.", remedy: "Keep it.",
  };
  return { problems: history.workflowId === "good" && !isError ? [] : [problem], replayed: [], at: "waits" };
}
`;

function given(changes: Readonly<Record<string, string>> = {}): string {
  return realProject({
    "wrangler.jsonc": JSON.stringify(CONFIG),
    "src/worker.ts": WORKER,
    "src/replay.ts": REPLAY,
    "public/index.html": "files never answer before the check",
    "public/health": "not this",
    ...changes,
  });
}

it("replays the histories with the new code, and asks a new object of each class what it lacks", async () => {
  const folder = given();
  const work = [
    itemOf("workflow", "good"),
    itemOf("workflow", "bad"),
    itemOf("workflow", "throws"),
    itemOf("delivery", "d-1", [{ what: "method", name: "onShipped" }]),
    itemOf("delivery", "d-2", [{ what: "method", name: "onPaid" }]),
    itemOf("submission", "s-1", [{ what: "feature", name: "limits" }]),
  ];
  const histories = ["good", "bad", "throws"].map((id) => historyOf("TICKETS", id));
  writeFileSync(
    path.join(folder, "open.json"),
    JSON.stringify(snapshotOf([agentWork("Desk", "main", work, histories)])),
  );
  const { code, out, err } = await perdure(
    NOWHERE,
    ["check", "--snapshot", "open.json", "--json"],
    {},
    folder,
  ).ended;
  expect(code, err).toBe(1);
  expect(JSON.parse(out)).toEqual({
    problems: [
      expect.objectContaining({ kind: "delivery", id: "d-2", problem: "method-gone" }),
      expect.objectContaining({ kind: "submission", id: "s-1", problem: "feature-gone" }),
      expect.objectContaining({
        ...{ agent: "Desk", name: "main", kind: "workflow", id: "bad", version: "7" },
        ...{ problem: "renamed-or-removed", severity: "error", text: "Tickets has no step ask." },
      }),
    ],
    checked: { agents: 1, items: 6, histories: 2, classes: 1 },
    notChecked: [
      {
        ...{ agent: "Desk", name: "main", id: "throws" },
        why: "it was not replayed: TypeError: no such step",
      },
    ],
  });
  expectClean(folder);
});

it("finds a class whose objects do not start", async () => {
  const folder = given({
    "src/worker.ts": WORKER.replace("onShipped() {}", "getScheduledTasks() { return {}; }"),
    "open.json": JSON.stringify(
      snapshotOf([agentWork("Desk", "main", [itemOf("submission", "s-1")])]),
    ),
  });
  const words = ["check", "--snapshot", "open.json", "--json"];
  const { code, out, err } = await perdure(NOWHERE, words, {}, folder).ended;
  expect(code, err + out).toBe(1);
  expect(JSON.parse(out).problems).toMatchObject([
    { kind: "class", id: "Desk", problem: "class-fails", severity: "error" },
  ]);
  expectClean(folder);
});

it("code that does not build ends with the error of Wrangler, and Ctrl+C leaves nothing behind", async () => {
  const folder = given({ "src/worker.ts": `${WORKER}\nimport "./nowhere.ts";` });
  writeFileSync(
    path.join(folder, "open.json"),
    JSON.stringify(
      snapshotOf([
        agentWork("Desk", "main", [itemOf("workflow", "good")], [historyOf("TICKETS", "good")]),
      ]),
    ),
  );
  const broken = await perdure(NOWHERE, ["check", "--snapshot", "open.json"], {}, folder).ended;
  expect(broken).toMatchObject({ code: 1, out: "" });
  expect(broken.err).toContain("The new code does not start: wrangler dev ");
  expect(broken.err).toContain('Could not resolve "./nowhere.ts"');
  expectClean(folder);
  const { child, ended } = perdure(NOWHERE, ["check", "--snapshot", "open.json"], {}, folder);
  await new Promise<void>((resolve) =>
    child.stderr.on("data", (text: string) => text.includes("Starting") && resolve()),
  );
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  child.kill("SIGINT");
  expect((await ended).code).toBe(130);
  expectClean(folder);
});

describe("a Worker that `build.command` makes", () => {
  const built = (command: string) => ({
    "wrangler.jsonc": JSON.stringify({
      ...CONFIG,
      main: "dist/worker.ts",
      build: { command, cwd: "tools", watch_dir: "src" },
    }),
    "tools/build.mjs": `import { cpSync } from "node:fs"; cpSync("../src", "../dist", { recursive: true }); console.log("built it");`,
    "open.json": JSON.stringify(
      snapshotOf([
        agentWork("Desk", "main", [itemOf("workflow", "bad")], [historyOf("TICKETS", "bad")]),
      ]),
    ),
  });
  const check = (folder: string) =>
    perdure(NOWHERE, ["check", "--snapshot", "open.json", "--json"], {}, folder).ended;

  it("is built first, and is what is checked", async () => {
    const folder = given({ ...built("node build.mjs"), "dist/worker.ts": "export default {};" });
    const { code, out, err } = await check(folder);
    expect(code, err + out).toBe(1);
    expect(err).toContain("built it");
    expect(JSON.parse(out)).toMatchObject({
      problems: [{ problem: "renamed-or-removed", text: "Tickets has no step ask." }],
      checked: { histories: 1, classes: 1 },
    });
    expectClean(folder);
  });

  it("is built also where it has never been", async () => {
    const { code, err, out } = await check(given(built("node build.mjs")));
    expect(code, err + out).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ checked: { histories: 1 } });
  });

  it("is replayed although it has a copy of Perdure in it", async () => {
    const step = { count: 1, kind: "do", status: "completed", startedAt: 1, endedAt: 2 } as const;
    const begun = { ...step, name: "perdure:version", output: { version: "1", changes: [] } };
    const receipt = { waitId: "w-1", eventType: "perdure-wait-w-1", proof: "p" };
    const platform = [
      begun,
      { ...step, name: "look up", output: 2 },
      { ...step, name: "perdure:run", output: "r" },
      { ...step, name: "confirm:approval-submit", output: receipt },
      { ...step, name: "confirm:approval-check-0", output: { end: null, at: 3 } },
      { ...step, name: "confirm:approval-wait", kind: "event", status: "open" } as const,
    ];
    const asked = [
      {
        ...{ kind: "approval", step: "confirm", waitId: "w-1", startedAt: 2 },
        request: { data: 2 },
      },
    ];
    const params = { __agentName: "main", __agentBinding: "Desk", __workflowName: "TICKETS" };
    const history = historyOf("TICKETS", "t-1", {
      ...{ version: "1", platform, asked, params: { ...params, taskParams: {} } },
    });
    const code = (look: string) => `
      import { DurableAgent } from "perdure/agent";
      import { deployments, versions } from "perdure/deploy";
      import { ThinkWorkflow } from "perdure/workflow";
      export class Desk extends DurableAgent { static features = [deployments({ version: "8" })]; }
      class First extends ThinkWorkflow {
        async run(event, step) {
          const data = await step.do("${look}", async () => 2);
          await step.approval("confirm", { data });
        }
      }
      export class Tickets extends versions({ "1": First }) {}
      export default { fetch: () => new Response("the app") };`;
    const alias = Object.entries(entries()).map(([name, file]) => `--alias:${name}=${file}`);
    const words = "npx esbuild src/worker.ts --bundle --outfile=dist/worker.js --format=esm";
    const rest = "--packages=external --log-level=error";
    const command = [words, rest, ...alias].join(" ");
    const workflows = CONFIG.workflows.slice(0, 1);
    const built = { main: "dist/worker.js", build: { command }, alias: entries(), workflows };
    const config = { ...CONFIG, ...built };
    const found = async (look: string) => {
      const folder = given({
        ...{ "wrangler.jsonc": JSON.stringify(config), "src/worker.ts": code(look) },
        "open.json": JSON.stringify(
          snapshotOf([
            agentWork("Desk", "main", [{ ...itemOf("workflow", "t-1"), version: "1" }], [history]),
          ]),
        ),
      });
      const { code: exit, out, err } = await check(folder);
      expect(out, err).toContain("problems");
      return { exit, ...JSON.parse(out) };
    };
    expect(await found("look up")).toMatchObject({
      exit: 0,
      problems: [],
      checked: { histories: 1 },
    });
    const renamed = await found("find");
    expect(renamed.exit).toBe(1);
    expect(renamed.problems[0]).toMatchObject({
      problem: "renamed-or-removed",
      severity: "error",
    });
  });

  it("ends the check where the build fails, or makes no such file", async () => {
    const fails = await check(given(built("node none.mjs")));
    expect(fails).toMatchObject({ code: 1 });
    expect(fails.out + fails.err).toContain(
      'build.command "node none.mjs" ended with the exit code 1',
    );
    const other = await check(given(built("node --version")));
    expect(other).toMatchObject({ code: 2 });
    expect(other.out + other.err).toContain('is "dist/worker.ts", which is no file');
  });
});

it("a check that was killed leaves a runtime, and the next one removes it", async () => {
  const folder = given({
    "open.json": JSON.stringify(
      snapshotOf([
        agentWork("Desk", "main", [itemOf("workflow", "good")], [historyOf("TICKETS", "good")]),
      ]),
    ),
  });
  const scratch = path.join(folder, ".wrangler", "perdure");
  const words = ["check", "--snapshot", "open.json"];
  const killed = perdure(NOWHERE, words, {}, folder);
  const pid = await until(() => {
    const [name] = existsSync(scratch) ? readdirSync(scratch) : [];
    const file = path.join(scratch, name ?? "", "runtime.json");
    return existsSync(file) && (JSON.parse(readFileSync(file, "utf8")).pid as number | undefined);
  });
  killed.child.kill("SIGKILL");
  await killed.ended;
  expect(() => process.kill(pid, 0)).not.toThrow();
  // That of a check which still runs is left alone.
  const running = await NewCode.start(newProject(folder, undefined));
  try {
    await until(() => !isAlive(pid));
    const { code, err } = await perdure(NOWHERE, words, {}, folder).ended;
    expect(code, err).toBe(0);
    expect(await running.replay(historyOf("TICKETS", "good"))).toMatchObject({ at: "waits" });
  } finally {
    running.stop();
  }
  expectClean(folder);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function until<Value>(read: () => Value | undefined | false): Promise<Value> {
  for (;;) {
    const value = read();
    if (value !== undefined && value !== false) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

it("a replay that never yields, and a start that takes too long, end with what has happened", async () => {
  const code = newProject(given(), undefined);
  await expect(NewCode.start(code, { startMs: 100, answerMs: 100 })).rejects.toThrow(
    "wrangler dev did not answer within 0.1 seconds",
  );
  const running = await NewCode.start(code, { startMs: 60_000, answerMs: 1_000 });
  try {
    expect(await running.replay(historyOf("TICKETS", "good"))).toMatchObject({ at: "waits" });
    const spins = running.replay(historyOf("TICKETS", "spins"));
    await expect(spins).rejects.toThrow("no answer within 1 seconds");
    const next = running.replay(historyOf("TICKETS", "good"));
    await expect(next).rejects.toThrow("the local runtime stopped answering before");
  } finally {
    running.stop();
  }
  expectClean(code.folder);
});

it("migrate replays the run as the other version, refuses what would strand it, and asks for the rest", async () => {
  const folder = given();
  const at = "agents/Desk/main";
  const step = { name: "perdure:version", count: 1, kind: "do", status: "completed", startedAt: 1 };
  const platform = [{ ...step, output: { version: "7", changes: ["tax"] } }] as const;
  const history = historyOf("TICKETS", "good", { platform: platform as never });
  const item = { ...itemOf("workflow", "good"), history };
  const url = await deployed({
    agents: json({ items: [{ agent: "Desk", name: "main" }] }),
    [`${at}/work/workflow%2Fgood`]: json(item),
    [`${at}/work/workflow%2Fplain`]: json({
      ...itemOf("workflow", "plain"),
      history: historyOf("TICKETS", "plain"),
    }),
    [`${at}/actions`]: json({ outcome: "done", count: 1, failed: [] }),
  });
  const posted: unknown[] = [];
  servers[0]?.prependListener("request", (request) => {
    let body = "";
    request.on("data", (bytes) => (body += bytes));
    request.on("end", () => request.method === "POST" && posted.push(JSON.parse(body)));
  });
  const migrate = (...words: string[]) =>
    perdure(url, ["migrate", "good", ...words, "--reason", "r"], {}, folder).ended;
  const refused = await migrate("--to", "9", "--yes");
  expect(refused.code).toBe(1);
  expect(refused.out).toContain("ERROR  Desk, workflow: Tickets has no step ask.");
  expect(refused.err).toContain("It was not migrated: the errors would strand it.");
  const dry = await migrate("--to", "8", "--dry-run");
  expect(dry).toMatchObject({ code: 0, out: "Replayed as version 8: no errors.\n" });
  const unanswered = await migrate("--to", "8");
  expect(unanswered).toMatchObject({ code: 2 });
  expect(unanswered.err).toContain("Pass --yes");
  expect(posted).toEqual([]);
  const done = await migrate("--to", "8", "--yes");
  expect(done).toMatchObject({ code: 0, out: expect.stringContaining("Done: 1 changed.") });
  expect(posted).toEqual([
    { action: { do: "migrate-workflow", workflowId: "good", version: "8" }, reason: "r" },
  ]);
  const plain = await perdure(url, ["migrate", "plain", "--to", "8"], {}, folder).ended;
  expect(plain).toMatchObject({ code: 1 });
  expect(plain.err).toContain("The workflow has reported no version");
  const unknown = await perdure(url, ["migrate", "other", "--to", "8"], {}, folder).ended;
  expect(unknown).toMatchObject({ code: 5 });
});

it("says what is missing: a configuration, the main module, Wrangler", async () => {
  const snapshot = JSON.stringify(
    snapshotOf([
      agentWork("Desk", "main", [itemOf("workflow", "good")], [historyOf("TICKETS", "good")]),
    ]),
  );
  const files = { "package.json": "{}", "open.json": snapshot };
  const check = (folder: string) =>
    perdure(NOWHERE, ["check", "--snapshot", "open.json"], {}, folder).ended;
  const bare = await check(project(files));
  expect(bare).toMatchObject({
    code: 2,
    err: expect.stringContaining("No Wrangler configuration"),
  });
  const config = { ...files, "wrangler.jsonc": JSON.stringify(CONFIG) };
  const unbuilt = await check(project(config));
  expect(unbuilt).toMatchObject({ code: 2 });
  expect(unbuilt.err).toContain('is "src/worker.ts", which is no file');
  const without = await check(project({ ...config, "src/worker.ts": WORKER }));
  expect(without).toMatchObject({ code: 1 });
  expect(without.err).toContain("Wrangler is not installed in ");
});
