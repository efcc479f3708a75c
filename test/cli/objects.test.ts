import { readFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { init } from "../../src/cli/init/init.ts";
import { checked, configOf, filesOf, problemsOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const AGENT = `import { DurableAgent } from "perdure/agent";
import { limit, limits } from "perdure/limits";
export class Shop extends DurableAgent {
  static override readonly features = [limits({ limits: [limit("openai", { requests: "10 per minute" })] })];
}
`;
const KEEPER = `export { LimitKeeper } from "perdure/limits";\n`;
const CONFIG = configOf(["Shop"]);
const manifest = JSON.stringify({ dependencies: { perdure: "*", agents: "*", ai: "*", zod: "*" } });

const run = (folder: string, options = {}) =>
  init({ folder, now: new Date("2026-11-23T12:00:00Z"), ...options });
const shop = (files: Readonly<Record<string, string>> = {}) =>
  project({ "package.json": manifest, "wrangler.jsonc": CONFIG, "src/index.ts": AGENT, ...files });

const EXPORT =
  "limits() needs the class LimitKeeper of perdure/limits, which src/index.ts does not export";
const BINDING =
  "limits() needs the binding LIMIT_KEEPER of the class LimitKeeper, which wrangler.jsonc does not have";
const MIGRATION = "No migration in wrangler.jsonc creates the class LimitKeeper";

describe("a project with limits()", () => {
  it("is incomplete for doctor without the keeper's export, binding and migration", () => {
    expect(problemsOf(checked(shop()))).toEqual([EXPORT, BINDING, MIGRATION]);
  });

  it("gets all three by init, in one run, and doctor finds nothing more", () => {
    const folder = shop();
    const { done, diff } = run(folder);
    expect(done).toEqual([
      "Added to src/index.ts: the export of LimitKeeper",
      "Added to wrangler.jsonc: the binding LIMIT_KEEPER; the migration v2, which creates the class LimitKeeper",
    ]);
    expect(diff).toBe("");
    expect(filesOf(folder)["src/index.ts"]).toBe(`${AGENT}\n${KEEPER}`);
    const { durable_objects, migrations } = JSON.parse(filesOf(folder)["wrangler.jsonc"] ?? "");
    expect(durable_objects.bindings).toContainEqual({
      name: "LIMIT_KEEPER",
      class_name: "LimitKeeper",
    });
    expect(migrations).toEqual([
      { tag: "v1", new_sqlite_classes: ["Shop"] },
      { tag: "v2", new_sqlite_classes: ["LimitKeeper"] },
    ]);
    expect(problemsOf(checked(folder))).toEqual([]);
    expect(run(folder).done).toEqual([]);
  });

  it("gets them in wrangler.toml", () => {
    const toml = `name = "app"
main = "src/index.ts"
compatibility_date = "2026-01-01"
compatibility_flags = ["nodejs_compat"]

[[durable_objects.bindings]]
name = "Shop"
class_name = "Shop"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["Shop"]
`;
    const folder = project({
      "package.json": manifest,
      "wrangler.toml": toml,
      "src/index.ts": AGENT,
    });
    run(folder);
    expect(problemsOf(checked(folder))).toEqual([]);
    expect(filesOf(folder)["wrangler.toml"]).toContain('new_sqlite_classes = [ "LimitKeeper" ]');
    expect(run(folder).done).toEqual([]);
  });

  it("keeps the name that it gives the binding or the class", () => {
    const folder = shop({
      "src/index.ts": `${AGENT.replace("] })]", '], keeper: "BUDGETS" })]')}\nexport { LimitKeeper as Keeper } from "perdure/limits";\n`,
    });
    expect(run(folder).done).toEqual([
      "Added to wrangler.jsonc: the binding BUDGETS; the migration v2, which creates the class Keeper",
    ]);
    expect(problemsOf(checked(folder))).toEqual([]);
  });

  it("needs no class of its own where the binding is another Worker's", () => {
    const config = JSON.parse(CONFIG);
    config.durable_objects.bindings.push({
      name: "LIMIT_KEEPER",
      class_name: "LimitKeeper",
      script_name: "other",
    });
    const folder = shop({ "wrangler.jsonc": JSON.stringify(config) });
    expect(problemsOf(checked(folder))).toEqual([]);
    expect(run(folder).done).toEqual([]);
  });

  it("is told of a binding with a wrong class, and by init of environments", () => {
    const config = { ...JSON.parse(CONFIG), env: { live: {} } };
    const folder = shop({
      "src/index.ts": AGENT + KEEPER,
      "wrangler.jsonc": JSON.stringify(config),
    });
    expect(run(folder, { dryRun: true }).byHand).toContain(
      "Add the binding LIMIT_KEEPER to durable_objects.bindings of each environment that needs it (live): environments inherit no bindings.",
    );
    config.durable_objects.bindings.push({ name: "LIMIT_KEEPER", class_name: "Shop" });
    const wrong = shop({
      "src/index.ts": AGENT + KEEPER,
      "wrangler.jsonc": JSON.stringify(config),
    });
    expect(problemsOf(checked(wrong))).toContain(
      'The binding LIMIT_KEEPER has the class "Shop", and limits() needs LimitKeeper',
    );
  });

  it("gets a new agent and a keeper in one run, each with its migration", () => {
    const folder = shop();
    run(folder, { name: "Second", host: "agent" });
    const files = filesOf(folder);
    expect(files["src/index.ts"]).toBe(`${AGENT}\nexport { Second } from "./second";\n\n${KEEPER}`);
    expect(JSON.parse(files["wrangler.jsonc"] ?? "").migrations).toEqual([
      { tag: "v1", new_sqlite_classes: ["Shop"] },
      { tag: "v2", new_sqlite_classes: ["Second"] },
      { tag: "v3", new_sqlite_classes: ["LimitKeeper"] },
    ]);
  });

  it("keeps the export when init makes a class of the same file durable", () => {
    const both = `import { Agent } from "agents";\n${AGENT}export class Plain extends Agent {}\n`;
    const folder = shop({ "src/index.ts": both, "wrangler.jsonc": configOf(["Shop", "Plain"]) });
    run(folder, { apply: true });
    const text = readFileSync(path.join(folder, "src/index.ts"), "utf8");
    expect(text).toContain("export class Plain extends DurableAgent");
    expect(text).toContain(KEEPER);
    expect(problemsOf(checked(folder))).toEqual([]);
  });
});

describe("a class that submits with options of limits", () => {
  const submitting = (options: string) => `import { DurableAgent } from "perdure/agent";
export class Shop extends DurableAgent {
  ask() { return this.submitMessages("hello", ${options}); }
}
`;
  const PROBLEM =
    "Shop (src/index.ts:2) submits with concurrency, rate, singleton or budget.usd, but it installs no limits()";

  it.each([
    '{ rate: { key: "a", limit: "10 per minute" } }',
    '{ concurrency: { key: "a", limit: 1 }, singleton: "skip" }',
    "{ budget: { usd: 0.5 } }",
  ])("needs limits() for %s", (options) => {
    expect(problemsOf(checked(shop({ "src/index.ts": submitting(options) })))).toEqual([PROBLEM]);
  });

  it.each(["{ budget: { tokens: 1000 } }", '{ metadata: { rate: "high" } }', "options"])(
    "needs none for %s",
    (options) => {
      expect(problemsOf(checked(shop({ "src/index.ts": submitting(options) })))).toEqual([]);
    },
  );
});

describe("a project with deployments()", () => {
  const METADATA =
    "deployments() needs the binding CF_VERSION_METADATA, which wrangler.jsonc does not have";
  const agent = (options: string) => `import { DurableAgent } from "perdure/agent";
import { deployments } from "perdure/deploy";
export class Shop extends DurableAgent {
  static override readonly features = [deployments(${options})];
}
`;
  const found = (options: string, config = CONFIG) =>
    problemsOf(checked(shop({ "src/index.ts": agent(options), "wrangler.jsonc": config })));

  it("does not start without a version: neither the Worker's metadata nor its own", () => {
    expect(found("")).toEqual([METADATA]);
    expect(
      found("", CONFIG.replace("{", '{ "version_metadata": { "binding": "VERSION" },')),
    ).toEqual([METADATA]);
  });

  it("is complete with the binding, or with a version of its own", () => {
    const bound = '{ "version_metadata": { "binding": "CF_VERSION_METADATA" },';
    expect(found("", CONFIG.replace("{", bound))).toEqual([]);
    expect(found('{ version: "7" }')).toEqual([]);
  });
});
