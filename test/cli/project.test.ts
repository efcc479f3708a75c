import { readFileSync, rmSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { afterEach, expect, it } from "vitest";
import {
  checkBindings,
  checkFlags,
  checkMigrations,
  checkNode,
  checkVersions,
} from "../../src/cli/doctor/checks.ts";
import { doctor } from "../../src/cli/doctor/doctor.ts";
import { checkSecrets } from "../../src/cli/doctor/secrets.ts";
import { addAgent } from "../../src/cli/init/edits.ts";
import { type InitOptions, init } from "../../src/cli/init/init.ts";
import { Sources } from "../../src/cli/project/classes.ts";
import { ProjectError, parseConfig, readConfig } from "../../src/cli/project/config.ts";
import { OperatorError } from "../../src/operator/client.ts";
import { ANY_CHARACTER } from "../support/characters.ts";
import { checked, configOf, filesOf, problemsOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const NOW = new Date("2026-11-23T12:00:00Z");
const run = (folder: string, options: Partial<InitOptions> = {}) =>
  init({ folder, now: NOW, ...options });

const CONFIG = `{
  // The shop's Worker.
  "name": "shop", // and its name
  "main": "src/index.ts",
  "compatibility_date": "2026-01-01",
  "durable_objects": {
    "bindings": [
      { "name": "Cart", "class_name": "Cart" }, // carts
    ],
  },
  /* in order */
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Cart"] }],
}
`;
const MAIN = `import { Cart } from "./cart";\nexport { Cart };\nexport default { fetch: () => new Response() };\n`;

it("init adds the flag, a binding, a migration and the agent, and keeps every comment", () => {
  const folder = project({
    "wrangler.jsonc": CONFIG,
    "src/index.ts": MAIN,
    "src/cart.ts": "export class Cart {}",
  });
  const { done, byHand } = run(folder);
  expect(done).toEqual([
    "Added to wrangler.jsonc: the flag nodejs_compat; the binding Assistant; the migration v2, which creates the class Assistant",
    "Created src/assistant.ts with the agent Assistant on perdure/agent",
    "Added to src/index.ts: the export of Assistant",
  ]);
  expect(byHand.join("\n")).toContain("npm install agents");
  const { "wrangler.jsonc": text = "", "src/index.ts": main } = filesOf(folder);
  for (const comment of [
    "// The shop's Worker.",
    "// and its name",
    "// carts",
    "/* in order */",
  ]) {
    expect(text).toContain(comment);
  }
  expect(main).toBe(`${MAIN}\nexport { Assistant } from "./assistant";\n`);
  expect(problemsOf(checked(folder))).toEqual([]);
});

it("init adds the flag that is missing to a project that has agents", () => {
  const agent = `import { DurableAgent } from "perdure/agent";\nexport class Desk extends DurableAgent {}\n`;
  const config = configOf(["Desk"]).replace('["nodejs_compat"]', "[]");
  const folder = project({ "wrangler.jsonc": config, "src/index.ts": agent });
  expect(run(folder).diff).toContain('"nodejs_compat"');
  expect(problemsOf(checked(folder))).toEqual(["The flag nodejs_compat is missing"]);
  expect(run(folder, { apply: true }).done).toEqual([
    "Added to wrangler.jsonc: the flag nodejs_compat",
  ]);
  expect(problemsOf(checked(folder))).toEqual([]);
  expect(run(folder, { apply: true })).toMatchObject({ done: [], diff: "" });

  const toml = `main = "src/index.ts"\ncompatibility_date = "2026-01-01"\ncompatibility_flags = ["x"]\n`;
  const byHand = run(project({ "wrangler.toml": toml, "src/index.ts": agent })).byHand;
  expect(byHand).toContain('Add "nodejs_compat" to compatibility_flags.');
});

it("a second init changes nothing, and a dry run writes nothing", () => {
  const folder = project({ "wrangler.jsonc": CONFIG, "src/index.ts": MAIN });
  const before = filesOf(folder);
  expect(run(folder, { dryRun: true }).done).toHaveLength(3);
  expect(filesOf(folder)).toEqual(before);
  run(folder);
  const after = filesOf(folder);
  expect(run(folder).done).toEqual([]);
  expect(filesOf(folder)).toEqual(after);
});

it("init edits a wrangler.toml, and says what it leaves to do", () => {
  const toml = `name = "shop"\nmain = "src/index.ts"\ncompatibility_date = "2026-01-01"\ncompatibility_flags = ["x"]\n\n[[migrations]]\ntag = "v4"\nnew_sqlite_classes = ["Cart"] # carts\n\n[env.staging]\nname = "s"\n`;
  const folder = project({ "wrangler.toml": toml, "src/index.ts": "export default {}" });
  const { byHand } = run(folder);
  expect(byHand[0]).toContain("(staging)");
  expect(byHand[1]).toBe('Add "nodejs_compat" to compatibility_flags.');
  const { "wrangler.toml": text = "" } = filesOf(folder);
  expect(text).toContain("# carts");
  expect(text).toContain('tag = "v5"');
  expect(problemsOf(checked(folder))).toEqual(["The flag nodejs_compat is missing"]);
  const inline = parseConfig(
    "/x/wrangler.toml",
    `migrations = [{ tag = "v1", new_sqlite_classes = ["A"] }]\n`,
  );
  const edited = addAgent(inline, "Assistant", "2026-11-23");
  expect(edited.byHand).toEqual([
    'Add { tag = "v2", new_sqlite_classes = ["Assistant"] } to migrations.',
  ]);
  expect(() => parseConfig("/x/wrangler.toml", edited.text)).not.toThrow();
});

it("init creates a class again that a later migration has deleted or renamed", () => {
  for (const later of [
    { deleted_classes: ["Assistant"] },
    { renamed_classes: [{ from: "Assistant", to: "Other" }] },
  ]) {
    const migrations = [
      { tag: "v1", new_sqlite_classes: ["Assistant"] },
      { tag: "v2", ...later },
    ];
    const folder = project({
      "wrangler.json": JSON.stringify({ ...JSON.parse(configOf([])), migrations }),
      "src/index.ts": "export default {}",
    });
    run(folder);
    expect(problemsOf(checked(folder))).toEqual([]);
  }
});

it("init refuses a bad name, an existing file and a broken configuration, and writes nothing", () => {
  for (const [files, options, message] of [
    [{}, { name: "my agent" }, /Invalid name "my agent": expected the name of a class/],
    [
      { "wrangler.jsonc": CONFIG, "src/index.ts": MAIN, "src/assistant.ts": "" },
      {},
      /src\/assistant.ts exists/,
    ],
    [{ "wrangler.jsonc": "{ nope" }, {}, /Invalid .*wrangler.jsonc, line 1/],
    [{ "wrangler.toml": "a = 1\nb = " }, {}, /Invalid .*wrangler.toml, line 2/],
    [
      { "wrangler.jsonc": CONFIG, "src/index.ts": MAIN, "package.json": "{" },
      {},
      /Invalid .*package.json/,
    ],
  ] as const) {
    const folder = project(files);
    const before = filesOf(folder);
    expect(() => run(folder, options)).toThrow(message);
    expect(filesOf(folder)).toEqual(before);
  }
});

it("doctor misses the peers of the entries that are imported, and finds a second version of agents", () => {
  const version = (text: string) => `{ "version": "${text}" }`;
  const folder = project({
    "src/index.ts": `import { DurableThink } from "perdure/think";\n// "perdure/mcp"`,
    "node_modules/agents/package.json": version("0.32.0"),
    "node_modules/@cloudflare/think/package.json": version("0.23.0"),
    "node_modules/@cloudflare/think/node_modules/agents/package.json": version("0.34.0"),
  });
  const peers = {
    agents: "*",
    "@cloudflare/think": "*",
    "@cloudflare/computer": ">=0.8",
    "@modelcontextprotocol/server": "*",
  };
  const optional = new Set(Object.keys(peers).slice(1));
  expect(checkVersions(new Sources(folder), peers, optional).map(({ text }) => text)).toEqual([
    "@cloudflare/computer is not installed; expected >=0.8",
    "There are two versions of agents: 0.32.0, and 0.34.0 for @cloudflare/think",
  ]);
});

it("doctor misses every package that docs/install.md names for Think", () => {
  const folder = project({ "src/index.ts": `import { DurableThink } from "perdure/think";` });
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(
    readFileSync("package.json", "utf8"),
  );
  const optional = new Set(Object.keys(peerDependenciesMeta));
  const missing = problemsOf(checkVersions(new Sources(folder), peerDependencies, optional));
  expect(missing.map((text) => text.split(" ")[0])).toEqual([
    "@cloudflare/computer",
    "@cloudflare/think",
    "agents",
    "ai",
    "just-bash",
    "zod",
  ]);
});

it("init changes no project of a folder above, and nothing where a file cannot be written", () => {
  const folder = project({
    "wrangler.jsonc": CONFIG,
    "inner/note.txt": "",
    "src/index.ts": "export {};",
  });
  const before = filesOf(folder);
  expect(() => run(path.join(folder, "inner"))).toThrow(
    /is within the project .*npm init here first/,
  );
  expect(filesOf(folder)).toEqual(before);
  const blocked = project({
    "wrangler.jsonc": CONFIG.replace("src/index.ts", "lib/index.ts"),
    lib: "",
  });
  const was = filesOf(blocked);
  expect(() => run(blocked)).toThrow(/^Nothing was changed: /);
  expect(filesOf(blocked)).toEqual(was);
});

it("init names the Worker in a configuration without one, once", () => {
  const folder = project({
    "wrangler.jsonc": `{ "name": "site", "assets": { "directory": "public" } }`,
  });
  expect(run(folder).done.join()).toContain("main src/worker.ts");
  expect(readConfig(folder)?.settings.main).toBe("src/worker.ts");
  expect(run(folder).done).toEqual([]);
});

it("init adds to any JSON configuration so that it has the agent, and everything it had", () => {
  const name = fc.stringMatching(/^[A-Z][a-z]{0,8}$/);
  const bindings = fc
    .array(name, { maxLength: 3 })
    .map((names) => names.map((each) => ({ name: each, class_name: each })));
  const config = fc.record(
    {
      compatibility_flags: fc.array(fc.constantFrom("a", "nodejs_compat")),
      compatibility_date: fc.constant("2026-01-01"),
      durable_objects: fc.record({ bindings }, { requiredKeys: [] }),
      migrations: fc.array(
        fc.record({ tag: fc.constantFrom("v1", "v7", "x"), new_sqlite_classes: fc.array(name) }),
      ),
      vars: fc.dictionary(fc.string(), fc.string()),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(config, name, fc.constantFrom(0, 2, "\t"), (settings, agent, indent) => {
      const { text } = addAgent(
        parseConfig("/x/wrangler.jsonc", JSON.stringify(settings, null, indent)),
        agent,
        "2026-11-23",
      );
      const again = parseConfig("/x/wrangler.jsonc", text);
      const { durable_objects, migrations, compatibility_flags } = again.settings as Record<
        string,
        never
      >;
      expect(JSON.stringify(durable_objects)).toContain(`"class_name":"${agent}"`);
      expect(JSON.stringify(migrations)).toContain(`"${agent}"`);
      expect(compatibility_flags).toContain("nodejs_compat");
      // By JSON.parse(), which keeps a name such as __proto__.
      expect(JSON.parse(text).vars).toEqual(settings.vars);
      expect(addAgent(again, agent, "2026-11-23")).toMatchObject({ text, added: [] });
    }),
  );
});

it("doctor names a missing flag, date, export and migration, and a class without SQLite", () => {
  const folder = project({
    "wrangler.jsonc": `{ "main": "src/index.ts", "compatibility_flags": [], "compatibility_date": "2023-01-01",
      "durable_objects": { "bindings": [
        { "name": "Cart", "class_name": "Cart" }, { "name": "AGENT", "class_name": "SupportAgent" },
        { "name": "Old", "class_name": "Old" }, { "name": "Far", "class_name": "Far", "script_name": "other" } ] },
      "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Cart"], "new_classes": ["Old"] }] }`,
    "src/index.ts": `// export class SupportAgent\nimport { Agent } from "agents";\nexport class Cart {}\nexport class Old extends Agent {}`,
  });
  const found = checked(folder).filter(({ level }) => level === "error" || level === "warning");
  expect(found).toMatchObject([
    { check: "flags", text: "The flag nodejs_compat is missing" },
    {
      check: "flags",
      text: '"compatibility_date" is "2023-01-01"; expected a date from 2025-01-01',
    },
    {
      check: "bindings",
      text: "The binding AGENT needs the class SupportAgent, which src/index.ts does not export",
    },
    {
      check: "bindings",
      level: "warning",
      text: "The binding AGENT is not named like its class SupportAgent",
    },
    { check: "migrations", text: "No migration in wrangler.jsonc creates the class SupportAgent" },
    { check: "migrations", text: "The class Old was created without SQLite, which Perdure needs" },
  ]);
});

it("doctor follows renamed and deleted classes, exports of other files, and environments", () => {
  const folder = project({
    "wrangler.jsonc": `{ "main": "src/index.ts", "compatibility_flags": ["nodejs_compat"], "compatibility_date": "2026-01-01",
      "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Old", "Gone"] },
        { "tag": "v2", "renamed_classes": [{ "from": "Old", "to": "Agent" }], "deleted_classes": ["Gone"] }],
      "env": { "staging": { "durable_objects": { "bindings": [
        { "name": "Agent", "class_name": "Agent" }, { "name": "Gone", "class_name": "Gone" }] } } } }`,
    "src/index.ts": `export * from "./agents/index.js";`,
    "src/agents/index.ts": `class A {}\nexport { A as Agent, type Gone };`,
  });
  expect(problemsOf(checked(folder))).toEqual(["No Durable Object binding in wrangler.jsonc"]);
  expect(problemsOf(checked(folder, "staging"))).toEqual([
    "The binding Gone needs the class Gone, which src/index.ts does not export",
    "No migration in wrangler.jsonc creates the class Gone",
  ]);
  expect(() => checked(folder, "nope")).toThrow(/No environment "nope" .*\(there are: staging\)/);
});

it("doctor compares the installed versions with the ranges, and skips optional packages", () => {
  const folder = project({
    "node_modules/agents/package.json": `{ "version": "0.30.0" }`,
    "node_modules/ai/package.json": `{ "version": "7.1.0" }`,
  });
  const peers = { agents: ">=0.32 <1", ai: "^7.0.0", zod: "^4.0.0", think: "^1.0.0" };
  expect(checkVersions(new Sources(folder), peers, new Set(["think"]))).toEqual([
    {
      check: "versions",
      level: "error",
      text: "agents 0.30.0 is not in the range >=0.32 <1",
      remedy: 'npm install "agents@>=0.32 <1"',
    },
    {
      check: "versions",
      level: "error",
      text: "zod is not installed; expected ^4.0.0",
      remedy: 'npm install "zod@^4.0.0"',
    },
  ]);
  expect(checkNode("20.19.0").level).toBe("warning");
  expect(checkNode("22.12.0").level).toBe("ok");
});

it("doctor names each secret that the sources name and .dev.vars lacks, with its line, and prints no value", () => {
  const folder = project({
    "wrangler.jsonc": `{ "secrets": { "required": ["DECLARED"] } }`,
    "src/a.ts": `\ngithub({ secret: ["HOOK_SECRET", "HOOK_SECRET_OLD"] });\n// slack({ secret: "COMMENTED" })\ntraces({ headers: "OTLP_HEADERS" });`,
    ".dev.vars": `HOOK_SECRET=the value\n`,
  });
  const results = checked(folder).filter(({ check }) => check === "secrets");
  expect(problemsOf(results)).toEqual([
    "wrangler.jsonc names the secret DECLARED, which .dev.vars does not have",
    "src/a.ts:2 names the secret HOOK_SECRET_OLD, which .dev.vars does not have",
    "src/a.ts:4 names the secret OTLP_HEADERS, which .dev.vars does not have",
  ]);
  expect(JSON.stringify(results)).not.toContain("the value");
  expect(new Sources(folder).secrets).toHaveLength(3);
});

it("doctor adds the report's findings about the project, and says when it could not ask", async () => {
  const folder = project({});
  const manifest = path.join(import.meta.dirname, "../../package.json");
  const asked = (report: () => Promise<never>) => doctor({ folder, manifest, client: { report } });
  const fix = { text: "Deploy again." };
  const finding = {
    agent: "A",
    name: "main",
    severity: "error",
    title: "Work waits.",
    cause: "No alarm.",
    fix,
  };
  const findings = [
    { ...finding, code: "work-without-alarm" },
    { ...finding, code: "failing-submissions" },
  ];
  const results = await asked(async () => ({ findings, agents: [] }) as never);
  expect(results.filter(({ check }) => check === "report")).toEqual([
    {
      check: "report",
      level: "error",
      text: "A/main: Work waits. No alarm.",
      remedy: "Deploy again.",
    },
  ]);
  expect(problemsOf(results)).toContain(`No Wrangler configuration in ${folder}`);
  const failing = (status: number) =>
    asked(() => Promise.reject(new OperatorError(status, "No answer from http://127.0.0.1:8787")));
  expect((await failing(0)).at(-1)).toMatchObject({ check: "report", level: "skipped" });
  expect((await failing(401)).at(-1)?.remedy).toContain("PERDURE_TOKEN");
});

it("hostile sources and configurations end in a result or a ProjectError", () => {
  fc.assert(
    fc.property(fc.string({ unit: ANY_CHARACTER }), fc.json(), (text, json) => {
      const folder = project({ "a.ts": `${text} secret: ["${text}` });
      expect(new Sources(folder).exportsOf(path.join(folder, "a.ts"))).toBeDefined();
      expect(new Sources(folder).secrets).toBeDefined();
      for (const file of ["/x/wrangler.toml", "/x/wrangler.jsonc"]) {
        for (const each of [text, json]) {
          try {
            const config = parseConfig(file, each);
            const { settings } = config;
            const all = { folder, file, settings, sources: new Sources(folder) };
            checkFlags(all);
            checkBindings(all);
            checkMigrations(all);
            checkSecrets(all);
            addAgent(config, "Assistant", "2026-11-23");
          } catch (error) {
            if (!(error instanceof ProjectError)) throw error;
          }
        }
      }
      rmSync(folder, { recursive: true });
    }),
    { numRuns: 300 },
  );
});
