/** A real deployment with open work, and the deploys that `perdure check` judges: from the snapshot to the exit code. */

import { writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Runtime } from "../../../examples/runtime.ts";
import { HANG_MS, sizeOf } from "../../support/sizes.ts";
import { perdure as started, withCommandLine } from "../deployment.ts";
import { removeProjects } from "../fixtures.ts";
import { entries, expectClean, realProject } from "./real-project.ts";

withCommandLine();

const CONFIG = {
  name: "desk",
  main: "src/worker.ts",
  compatibility_date: "2026-11-01",
  compatibility_flags: ["nodejs_compat"],
  durable_objects: { bindings: [{ name: "Desk", class_name: "Desk" }] },
  workflows: [{ name: "refunds", binding: "REFUNDS", class_name: "Refunds" }],
  migrations: [{ tag: "v1", new_sqlite_classes: ["Desk"] }],
  alias: entries(),
};

const WORKER = `
import { getAgentByName } from "agents";
import { DurableAgent } from "perdure/agent";
import { deployments, versions } from "perdure/deploy";
import { operations, operator } from "perdure/operator";
import { ThinkWorkflow } from "perdure/workflow";
import { z } from "zod";

export class Desk extends DurableAgent {
  static features = [deployments({ version: "1" }), operations()];
  refund(id) {
    return this.runWorkflow("REFUNDS", { amount: 5 }, { id });
  }
}

class First extends ThinkWorkflow {
  async run({ payload }, step) {
    const rate = await step.do("look up", async () => 2);
    const { payload: decided } = await step.approval("confirm", {
      title: "Refund?",
      data: { amount: payload.amount * rate },
      schema: z.object({ amount: z.number() }),
      timeout: "7 days",
    });
    await step.do("pay", async () => decided.amount);
  }
}

export class Refunds extends versions({ "1": First }) {}

const operators = operator({
  agents: { Desk: { namespace: (env) => env.Desk, names: ["front"] } },
  authorize: () => ({ id: "test", can: "act" }),
});

export default {
  async fetch(request, env) {
    const answer = await operators(request, env);
    if (answer) return answer;
    if (new URL(request.url).pathname === "/health") return new Response("ready");
    const desk = await getAgentByName(env.Desk, "front");
    return Response.json(await desk.refund("r-1"));
  },
};
`;

let folder: string;
let runtime: Runtime;

const perdure = (...words: string[]) => started(`${runtime.url}/perdure`, words, {}, folder).ended;
const deployed = (code: string) => writeFileSync(path.join(folder, "src/worker.ts"), code);

beforeAll(async () => {
  folder = realProject({ "wrangler.jsonc": JSON.stringify(CONFIG), "src/worker.ts": WORKER });
  // The code that it runs does not change with that of the project.
  const old = realProject({ "wrangler.jsonc": JSON.stringify(CONFIG), "src/worker.ts": WORKER });
  runtime = new Runtime(old);
  await runtime.start(AbortSignal.timeout(2 * HANG_MS));
  // Its version is recorded then. The SDK has the times of workflows in whole seconds.
  await perdure("drain");
  await delay(1_000);
  const started = await fetch(`${runtime.url}/start`);
  if (!started.ok) throw new Error(`${started.status}: ${await started.text()}`);
  const deadline = performance.now() + HANG_MS;
  for (let asked = 0; asked === 0; ) {
    const { out, err } = await perdure("ls", "approvals", "--json");
    asked = JSON.parse(out).items.length;
    if (performance.now() > deadline) throw new Error(`No approval was asked for: ${err}`);
  }
  const { code, err } = await perdure("snapshot", "--out", path.join(folder, "work.json"));
  expect(code, err).toBe(0);
}, 5 * HANG_MS);

afterAll(() => {
  runtime?.destroy();
  removeProjects();
});

const check = async () => {
  const { code, out, err } = await perdure("check", "--snapshot", "work.json", "--json");
  expectClean(folder);
  expect(out, err).not.toBe("");
  const { problems, checked, notChecked } = JSON.parse(out);
  expect({ checked, notChecked }, out).toMatchObject({ checked: { histories: 1 }, notChecked: [] });
  return { code, found: problems.map((each: { kind: string; problem: string }) => each.problem) };
};

it("finds nothing in the same code, asked live", async () => {
  deployed(WORKER);
  const live = await perdure("check");
  expect(live.code, live.out + live.err).toBe(0);
  expect(live.out).toContain("No errors");
  expectClean(folder);
});

it("finds a step that was renamed after the run had passed it", async () => {
  deployed(WORKER.replace('"look up"', '"find"'));
  const { code, found } = await check();
  expect(code).toBe(1);
  expect(found).toContain("renamed-or-removed");
});

const SECOND = WORKER.replace('versions({ "1": First })', 'versions({ "1": First, "2": Second })');
/** A second version of the class, which differs from the first one by these words. */
const second = (from: string, to: string) => {
  const [, first = ""] = /(class First [\s\S]*?\n}\n)/.exec(WORKER) ?? [];
  const changed = first.replace("class First", "class Second").replace(from, to);
  return SECOND.replace("export class Refunds", `${changed}\nexport class Refunds`);
};

// Each is a start of Wrangler of its own, and proved without one by configuration.test.ts and by test/testing/replay.
if (sizeOf("ALL_DEPLOYS", 0) > 0) {
  it("finds nothing in a step that the run has not reached", async () => {
    deployed(WORKER.replace('"pay"', '"transfer"'));
    expect(await check()).toEqual({ code: 0, found: [] });
  });

  it("finds a class that was renamed without its migration", async () => {
    const config = {
      ...CONFIG,
      durable_objects: { bindings: [{ name: "Desk", class_name: "HelpDesk" }] },
      migrations: [
        { tag: "v1", new_sqlite_classes: ["Desk"] },
        { tag: "v2", new_sqlite_classes: ["HelpDesk"] },
      ],
    };
    writeFileSync(path.join(folder, "wrangler.jsonc"), JSON.stringify(config));
    deployed(WORKER.replace("class Desk", "class HelpDesk"));
    const { code, found } = await check();
    expect({ code, found: new Set(found) }).toEqual({ code: 1, found: new Set(["class-renamed"]) });
  });

  it("keeps a run at its version, and refuses the deploy that takes it away", async () => {
    writeFileSync(path.join(folder, "wrangler.jsonc"), JSON.stringify(CONFIG));
    deployed(second('"look up"', '"find"'));
    expect(await check()).toEqual({ code: 0, found: [] });
    deployed(WORKER.replace('{ "1": First }', '{ "2": First }'));
    expect(await check()).toEqual({ code: 1, found: ["unknown-version"] });
  });
}

it("migrate replays the run as the other version, and changes only what can continue", async () => {
  deployed(second('"look up"', '"find"'));
  const refused = await perdure("migrate", "r-1", "--to", "2", "--reason", "r", "--yes");
  expect(refused.code, refused.err).toBe(1);
  expect(refused.out).toContain("ERROR  Desk, workflow: ");
  deployed(second('"pay"', '"transfer"'));
  const done = await perdure("migrate", "r-1", "--to", "2", "--reason", "r", "--yes");
  expect(done, done.err).toMatchObject({ code: 0 });
  const { out } = await perdure("snapshot");
  const [agent] = JSON.parse(out).agents;
  expect(agent.work.find(({ kind }: { kind: string }) => kind === "workflow").version).toBe("2");
});

it("drain counts the open work of each version", async () => {
  const { out } = await perdure("drain", "--json");
  expect(JSON.parse(out).versions).toMatchObject([
    { version: "2", current: 0, open: { workflow: 1 }, isSafeToDelete: false },
    { version: "1", current: 1, open: { approval: 1 }, isSafeToDelete: false },
  ]);
});
