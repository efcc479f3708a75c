import path from "node:path";
import fc from "fast-check";
import { afterEach, expect, it } from "vitest";
import { checkVersions } from "../../src/cli/doctor/checks.ts";
import { checkHosts } from "../../src/cli/doctor/hosts.ts";
import { Sources } from "../../src/cli/project/classes.ts";
import { checked, configOf, problemsOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const hostsOf = (folder: string) =>
  checked(folder).filter(({ check, level }) => check === "hosts" && level === "ok")[0]?.text;

const OBJECT = `import { Lifecycle } from "agents/lifecycle";
import { DurableObject } from "cloudflare:workers";
import { type DurableVerbs, durable } from "perdure/object";

export class Reports extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, { model: "openai/gpt-4o-mini" });
}
export interface Reports extends DurableVerbs {}
`;

const CHAT = `import { convertToModelMessages, streamText } from "ai";
import { DurableChatAgent } from "perdure/chat";

export class Chat extends DurableChatAgent<Env, { open: { count: number } }> {
  override async onChatMessage() {
    const messages = await convertToModelMessages(this.messages);
    return streamText(this.durable({ model: "m", messages })).toUIMessageStreamResponse();
  }
}
`;

it("doctor recognises the classes of every host, by any import, and finds nothing wrong", () => {
  const names = ["Shop", "Desk", "Support", "Chat", "Coder", "Reports", "Nightly"];
  const folder = project({
    "wrangler.jsonc": configOf(names, ["ReportWorkflow", "ShopWorkflow"]),
    "src/index.ts": `
      export * from "./shop.js";
      export { Support, default as Coder } from "./agents";
      export { Chat } from "./chat";
      import { Reports } from "./reports";
      import { ReportWorkflow as Weekly } from "./workflows";
      export { Nightly, ShopWorkflow } from "./workflows";
      export { Reports, Weekly as ReportWorkflow };
      export default { fetch: () => new Response("class Ghost extends DurableThink {") };`,
    "src/shop.ts": `
      import { withAudit } from "./audit";
      import { DurableThink as Base } from "perdure/think";
      // class Old extends Base {}
      /* class Older extends Base {} */
      const text = \`class Oldest extends \${Base.name} {\`;
      export class Shop extends withAudit(Base)<Env> {}
      export class Desk extends Shop implements Closable {}`,
    "src/agents.ts": `
      import * as agent from "perdure/agent";
      import { DurableChatAgent } from "./base";
      export class Support extends agent.DurableAgent<Env, { count: number }> {}
      export default class extends DurableChatAgent<Env> {}`,
    "src/base.ts": `export { DurableChatAgent } from "perdure/chat";`,
    "src/chat.ts": CHAT,
    "src/reports.ts": OBJECT,
    "src/workflows.ts": `
      import { durable as make } from "perdure/object";
      import { DurableWorkflow, ThinkWorkflow } from "perdure/workflow";
      import type { Reports as Target } from "./reports";
      import { Desk } from "@/shop";
      import { Reports } from "./reports";
      export class ReportWorkflow extends DurableWorkflow<Target, { day: string }> {}
      export class ShopWorkflow extends ThinkWorkflow<Desk> {}
      export class Nightly extends Reports { readonly more = /[{"']/.test("{"); }`,
  });
  expect(problemsOf(checked(folder))).toEqual([]);
  expect(hostsOf(folder)?.split(", ").sort()).toEqual([
    "Chat on perdure/chat",
    "Desk on perdure/think",
    "Nightly on perdure/object",
    "Reports on perdure/object",
    "Shop on perdure/think",
    "Support on perdure/agent",
    "default on perdure/chat",
  ]);
});

it("doctor reports no other host's needs to an app without Think, and names the peers of each host", () => {
  const version = (text: string) => `{ "version": "${text}" }`;
  const peers = {
    agents: "*",
    "@cloudflare/ai-chat": ">=0.12",
    "@cloudflare/think": "*",
    react: ">=18",
  };
  const optional = new Set(Object.keys(peers).slice(1));
  const missing = (text: string, more = {}) =>
    problemsOf(
      checkVersions(
        new Sources(
          project({
            "src/index.ts": text,
            "node_modules/agents/package.json": version("0.32.0"),
            ...more,
          }),
        ),
        peers,
        optional,
      ),
    );
  for (const entry of ["agent", "object", "workflow"]) {
    expect(missing(`import { X } from "perdure/${entry}";\n// "perdure/think"`)).toEqual([]);
  }
  expect(missing(CHAT)).toEqual(["@cloudflare/ai-chat is not installed; expected >=0.12"]);
  expect(missing(`import { useThread } from 'perdure/react';`)).toEqual([
    "react is not installed; expected >=18",
  ]);
  const chat = "node_modules/@cloudflare/ai-chat";
  expect(
    missing(CHAT, {
      [`${chat}/package.json`]: version("0.12.2"),
      [`${chat}/node_modules/agents/package.json`]: version("0.34.0"),
    }),
  ).toEqual(["There are two versions of agents: 0.32.0, and 0.34.0 for @cloudflare/ai-chat"]);
});

it("doctor asks nothing of Durable Objects that have no part in Perdure", () => {
  const folder = project({
    "wrangler.jsonc": JSON.stringify({
      ...JSON.parse(configOf([])),
      durable_objects: {
        bindings: [
          { name: "CARTS", class_name: "Cart" },
          { name: "REPORT_STORE", class_name: "Reports" },
          { name: "HELP", class_name: "Support" },
        ],
      },
      migrations: [
        { tag: "v1", new_classes: ["Cart"], new_sqlite_classes: ["Reports", "Support"] },
      ],
    }),
    "src/index.ts": `export { Cart } from "./cart";
      export { Reports } from "./reports";
      export { Support } from "./support";`,
    "src/cart.ts": `import { DurableObject } from "cloudflare:workers";
      export class Cart extends DurableObject<Env> { durable(item: string) { return this.save(item); } }`,
    "src/reports.ts": OBJECT,
    "src/support.ts": `import { DurableAgent } from "perdure/agent";
      export class Support extends DurableAgent<Env> {}`,
  });
  // A plain object finds its binding by its id, and an agent by its name.
  expect(problemsOf(checked(folder))).toEqual([
    "The binding HELP is not named like its class Support",
  ]);
});

it("doctor finds a class on a host without a binding, and not of sub-agents, bases or code that nothing imports", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["Desk", "Support"]),
    "src/index.ts": `import { Desk } from "./desk";
      import type { Forgotten } from "./forgotten";
      import { Team as Support } from "./desk";
      export { Desk, Support };
      export { Store as ReportStore } from "./store";
      export type Namespace = DurableObjectNamespace<Forgotten>;`,
    "src/desk.ts": `import { DurableThink } from "perdure/think";
      import { Helper as Assistant, Extractor, Named, Writer, Reader } from "./helpers";
      const KINDS = { Writer, read: Reader };
      abstract class Base extends DurableThink<Env> {}
      class Common extends Base {}
      export class Team extends Common {}
      export class Desk extends Common {
        async help() {
          await this.dynamicAgents.get(Assistant, "one");
          await this.step.agentTool("extract", Extractor, { input: "x" });
          await this.step.agentTool("named", "Named", { input: "x" });
          await this.dynamicAgents.get(KINDS[this.kind], "two");
          await this.ctx.exports.Exported.getByName("main").help();
        }
      }`,
    "src/helpers.ts": `import { DurableAgent } from "perdure/agent";
      export class Helper extends DurableAgent<Env> {}
      export class Extractor extends DurableAgent<Env> {}
      export class Named extends DurableAgent<Env> {}
      export class Writer extends DurableAgent<Env> {}
      export class Reader extends DurableAgent<Env> {}
      export class Exported extends DurableAgent<Env> {}`,
    "src/store.ts": OBJECT.replaceAll("Reports", "Store"),
    "src/forgotten.ts": `import { DurableChatAgent as Chat } from "perdure/chat";
      export class Other {}
      export class Forgotten extends Chat<Env> {}`,
    "src/unused.ts": `import { DurableAgent } from "perdure/agent";
      export class Unused extends DurableAgent<Env> {}`,
    "other-worker/wrangler.toml": `name = "other"`,
    "other-worker/index.ts": `import { DurableAgent } from "perdure/agent";
      export class Elsewhere extends DurableAgent<Env> {}`,
  });
  const found = checked(folder).filter(({ level }) => level === "error");
  expect(found).toEqual([
    {
      check: "bindings",
      level: "error",
      text: "No Durable Object binding has the class Forgotten (src/forgotten.ts:3), which extends DurableChatAgent",
      remedy:
        'Add { "name": "Forgotten", "class_name": "Forgotten" } to durable_objects.bindings in wrangler.jsonc, and the class to a migration. Do so as well where only another Worker binds it.',
    },
    expect.objectContaining({
      text: "No Durable Object binding has the class Store (src/store.ts:5), which calls durable()",
      remedy: expect.stringContaining('"class_name": "ReportStore"'),
    }),
  ]);
  expect(hostsOf(folder)).not.toContain("Elsewhere");
});

it("doctor finds workflows of the wrong kind for their class", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["Reports", "Support"], ["A", "B", "C", "D", "E", "F", "G"]),
    "src/index.ts": `import { AgentWorkflow } from "agents/workflows";
      import { DurableAgent } from "perdure/agent";
      import * as workflow from "perdure/workflow";
      import { ThinkWorkflow as Flow } from "perdure/workflow";
      import type { Reports as Store } from "./reports";
      export { Reports } from "./reports";
      export class Support extends DurableAgent<Env> {}
      export class A extends Flow<Store, { day: string }> {}
      export class B extends workflow.DurableWorkflow<Support> {}
      export class C extends AgentWorkflow<Store> {}
      export class D extends Flow<Support> {}
      export class E extends workflow.DurableWorkflow<Store> {}
      // class X extends Flow<Store> {}
      class Both<Target> extends Flow<Target> {}
      export class F extends Both<Store> {}
      export class G extends Flow<Unknown> {}`,
    "src/reports.ts": OBJECT,
  });
  const found = checked(folder).filter(({ level }) => level === "error");
  expect(found.map(({ text }) => text)).toEqual([
    "A (src/index.ts:8) extends ThinkWorkflow, and its object Reports is a plain Durable Object",
    "B (src/index.ts:9) extends DurableWorkflow, and its agent Support extends DurableAgent",
    "C (src/index.ts:10) extends AgentWorkflow, and its object Reports is a plain Durable Object",
    "F (src/index.ts:15) extends ThinkWorkflow, and its object Reports is a plain Durable Object",
  ]);
  expect(found[0]).toMatchObject({
    check: "hosts",
    remedy:
      "Extend DurableWorkflow of perdure/workflow: only an agent can start a class that extends ThinkWorkflow.",
  });
  expect(found[1]).toMatchObject({
    check: "hosts",
    remedy:
      "Extend ThinkWorkflow of perdure/workflow: only a plain object can start a class that extends DurableWorkflow.",
  });
});

it("doctor hints at a chat whose streamText() does not go through durable()", () => {
  const bare = CHAT.replace(`this.durable({ model: "m", messages })`, `{ model: "m", messages }`);
  expect(bare).not.toBe(CHAT);
  const chats = {
    bare: bare.replaceAll("Chat extends", "Bare extends"),
    aliased: bare
      .replace("streamText }", "streamText as stream }")
      .replace(
        "streamText({",
        "stream<Tools>(\n{ ...(signal && { signal }), tools: { ...this.mcp.getAITools() },",
      )
      .replace("Chat extends", "Aliased extends"),
    declared: bare
      .replace("return", "const options = { tools: { ...all }, messages }; return")
      .replace(/streamText\(\{.*?\}\)/, "streamText(options)")
      .replace("Chat extends", "Declared extends"),
    commented: bare
      .replace("return", "// this.durable({})\n return")
      .replace("Chat extends", "Commented extends"),
  };
  const fine = {
    fine: CHAT.replace("Chat extends", "Fine extends"),
    variable: CHAT.replace("return", "const settings = this.durable({ model }); return")
      .replace(/streamText\(this\.durable\(.*?\}\)\)/, "streamText({ ...settings })")
      .replace("Chat extends", "Variable extends"),
    helper: CHAT.replace(/this\.durable\(\{.*?\}\)/, "optionsOf(this)").replace(
      "Chat extends",
      "Helper extends",
    ),
    spread: bare
      .replace("streamText({", "streamText({ ...optionsOf(this),")
      .replace("Chat extends", "Spread extends"),
    plain: bare
      .replace(
        `{ DurableChatAgent } from "perdure/chat"`,
        `{ AIChatAgent as DurableChatAgent } from "@cloudflare/ai-chat"`,
      )
      .replace("Chat extends", "Plain extends"),
  };
  const all = { ...chats, ...fine };
  const names = Object.keys(all).map((name) => `${name[0]?.toUpperCase()}${name.slice(1)}`);
  const folder = project({
    "wrangler.jsonc": configOf(names),
    "src/index.ts": Object.keys(all)
      .map((name) => `export * from "./${name}";`)
      .join("\n"),
    ...Object.fromEntries(Object.entries(all).map(([name, text]) => [`src/${name}.ts`, text])),
  });
  const found = checked(folder).filter(({ level }) => level !== "ok");
  expect(found.map(({ text }) => text).sort()).toEqual([
    "Aliased (src/aliased.ts:4) calls streamText() without this.durable()",
    "Bare (src/bare.ts:4) calls streamText() without this.durable()",
    "Commented (src/commented.ts:4) calls streamText() without this.durable()",
    "Declared (src/declared.ts:4) calls streamText() without this.durable()",
  ]);
  expect(found[0]).toMatchObject({ check: "hosts", level: "warning" });
  expect(found[0]?.remedy).toBe(
    "Call streamText(this.durable({ ... })): submissions need it for steering, budgets and structured answers, and so that a crash repeats no tool.",
  );
});

it("doctor finds durable(this) in a class without a Lifecycle", () => {
  const without = OBJECT.replace(/ {2}readonly lifecycle.*\n/, "");
  const folder = project({
    "wrangler.jsonc": configOf(["Bad", "Good", "Child", "Own", "Foreign"]),
    "src/index.ts": `export { Bad } from "./bad";
      export { Good, Child } from "./good";
      export { Own } from "./own";
      export { Foreign } from "./foreign";`,
    "src/bad.ts": without.replaceAll("Reports", "Bad"),
    "src/good.ts": `import { Lifecycle as Life } from "agents/lifecycle";
      import { DurableObject } from "cloudflare:workers";
      import { durable as make } from "perdure/object";
      class Base extends DurableObject<Env> { lifecycle = Life.install(this); }
      export class Child extends Base { readonly durable = make(this, {}); }
      export class Good extends DurableObject<Env> {
        readonly lifecycle = Life.install(this);
        readonly made = make(this, {});
      }`,
    "src/own.ts": without
      .replaceAll("Reports", "Own")
      .replace("readonly durable", "readonly lifecycle = lifecycleOf(this);\n  readonly durable"),
    "src/foreign.ts": without
      .replaceAll("Reports", "Foreign")
      .replace(`{ DurableObject } from "cloudflare:workers"`, `{ DurableObject } from "our-base"`),
  });
  expect(checked(folder).filter(({ level }) => level !== "ok")).toEqual([
    {
      check: "hosts",
      level: "error",
      text: "Bad (src/bad.ts:5) calls durable(this), but has no Lifecycle",
      remedy:
        "Add a field before it: readonly lifecycle = Lifecycle.install(this), with Lifecycle of agents/lifecycle.",
    },
  ]);
});

it("doctor knows a bundle's classes no better than those of a package", () => {
  const folder = project({
    "wrangler.jsonc": configOf([])
      .replace("src/index.ts", "dist/index.js")
      .replace('"bindings":[]', '"bindings":[{"name":"HELP","class_name":"Support"}]')
      .replace('"new_sqlite_classes":[]', '"new_classes":["Support"]'),
    "dist/index.js": `import { DurableObject } from "cloudflare:workers";
      var Agent = class extends DurableObject {};
      var Support = class extends Agent {};
      export { Support };`,
    "src/index.ts": `import { DurableAgent } from "perdure/agent";
      class Support extends DurableAgent {}
      export default Support`,
  });
  expect(problemsOf(checked(folder))).toEqual([
    "The binding HELP is not named like its class Support",
    "The class Support was created without SQLite, which Perdure needs",
  ]);
  const sources = new Sources(folder);
  const file = path.join(folder, "src/index.ts");
  expect(sources.findExport(file, "default")).toBe(sources.find(file, "Support"));
});

it("doctor reads a project that is broken as far as it can", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["Shop", "Gone"]),
    "src/index.ts": `export * from "./missing";
      export { Shop } from "./shop";
      import { Loop } from "./loop";
      export { Gone } from "./gone`,
    "src/shop.ts": `import { DurableThink } from "perdure/think";
      export class Shop extends DurableThink<Env { getModel() { return "`,
    "src/loop.ts": `export * from "./loop"; export class Loop extends Loop {} class A extends B {} class B extends A {}`,
  });
  expect(problemsOf(checked(folder))).toEqual([
    expect.stringMatching(/^Cannot parse src\/index\.ts, line 4: /),
    expect.stringMatching(/^Cannot parse src\/shop\.ts, line 2: /),
  ]);
  const empty = project({ "wrangler.jsonc": configOf(["Shop"]) });
  const sources = new Sources(empty);
  expect(checkHosts({ folder: empty, file: "", settings: {}, sources })).toMatchObject([
    { check: "hosts", level: "skipped" },
  ]);
});

it("hostile sources end in results, also long ones", () => {
  const long = `import ${" ".repeat(20_000)}x\n${"class ".repeat(5_000)}\n${"import ".repeat(1_000)}`;
  expect(new Sources(project({ "a.ts": long })).classes).toEqual([]);
  const word = fc.constantFrom(
    ..."class export default abstract extends import from { } ( ) < > , ; A B DurableThink perdure/think".split(
      " ",
    ),
    ...['"./a"', "'", "`", "/", "*/", "/*", "//", "\n", "streamText(", "durable(this", "=>", "${"],
    `import { DurableChatAgent } from "perdure/chat";`,
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 40 }), (words) => {
      const folder = project({
        "wrangler.jsonc": configOf(["A", "B"], ["C"]),
        "src/index.ts": words.join(" "),
        "src/a.ts": words.reverse().join(" "),
      });
      expect(checked(folder)).toBeDefined();
      removeProjects();
    }),
    { numRuns: 300 },
  );
});

it("doctor misses operations() where the project mounts the operators' page", () => {
  const imports = `import { operations } from "perdure/operator";
import { codemode } from "perdure/codemode";
import { DurableAgent } from "perdure/agent";
import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { durable } from "perdure/object";
const FEATURES = [operations()];
`;
  const classes = `export class With extends DurableAgent { static override readonly features = [operations()]; }
export class Heir extends With {}
export class Shared extends DurableAgent { static override readonly features = FEATURES; }
export class Plain extends DurableObject {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, { model: "m", features: [operations()] });
}
export class Without extends DurableAgent {}
export class Other extends DurableAgent { static override readonly features = [codemode()]; }
export class Bare extends DurableObject {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, { model: "m" });
}
class Sub extends DurableAgent {}
export const tool = agentTool(Sub);
`;
  const names = ["With", "Heir", "Shared", "Plain", "Without", "Other", "Bare"];
  const problems = (mount: string) =>
    problemsOf(
      checked(
        project({
          "wrangler.jsonc": configOf(names),
          "src/index.ts": `export * from "./agents";\n${mount}`,
          "src/agents.ts": `${imports}${classes}`,
        }),
      ),
    );
  expect(problems("")).toEqual([]);
  expect(problems(`import type { OperatorOptions } from "perdure/operator";`)).toEqual([]);
  for (const [from, name] of [
    ["dashboard", "dashboard"],
    ["operator", "operator"],
    ["mcp", "operatorMcp"],
  ]) {
    const found = problems(`import { ${name} } from "perdure/${from}";`);
    expect(found).toEqual(
      ["Without (src/agents.ts:15)", "Other (src/agents.ts:16)", "Bare (src/agents.ts:17)"].map(
        (cls) =>
          `${cls} is bound, and the project mounts ${name}(), but it installs no operations()`,
      ),
    );
  }
});

it("doctor misses schedules() where a class declares tasks, and followers() where the project serves streams", () => {
  const classes = `import { schedules } from "perdure/scheduler";
import { followers } from "perdure/streams";
import { DurableAgent } from "perdure/agent";
import { DurableThink } from "perdure/think";
import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { durable } from "perdure/object";
export class With extends DurableAgent {
  static override readonly features = [followers({ max: 7 }), schedules()];
  override getScheduledTasks() { return {}; }
}
export class Heir extends With { override async getScheduledTasks(): Promise<object> { return super.getScheduledTasks(); } }
export class Preset extends DurableThink {
  static override readonly features = [followers()];
  override getScheduledTasks() { return {}; }
}
export class Plain extends DurableObject {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, { model: "m", features: [followers(), schedules({ tasks: () => this.tasks() })] });
}
export class Without extends DurableAgent {
  static override readonly features = [followers()];
  override getScheduledTasks() { return {}; }
}
export class Calls extends DurableAgent {
  static override readonly features = [followers({ max: Math.max(1, 2) })];
  list() { return this.getScheduledTasks(); }
}
export class Unseen extends DurableAgent { static override readonly features = [schedules()]; }
`;
  const names = ["With", "Heir", "Preset", "Plain", "Without", "Calls", "Unseen"];
  const found = checked(
    project({
      "wrangler.jsonc": configOf(names),
      "src/index.ts": `export * from "./agents";\nimport { streams } from "perdure/streams";`,
      "src/agents.ts": classes,
    }),
  );
  expect(found.filter(({ level }) => level !== "ok")).toEqual([
    {
      check: "hosts",
      level: "error",
      text: "Without (src/agents.ts:21) declares getScheduledTasks(), but it installs no schedules()",
      remedy:
        "Add to the class: static override readonly features = [schedules()], with schedules of perdure/scheduler.",
    },
    {
      check: "hosts",
      level: "warning",
      text: "Unseen (src/agents.ts:29) is bound, and the project mounts streams(), but it installs no followers()",
      remedy:
        "Add to the class: static override readonly features = [followers()], with followers of perdure/streams.",
    },
  ]);
});

it("doctor misses the declaration of a workflow's class, of every kind", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["Desk"], ["Declared"]),
    "src/index.ts": `export * from "./workflows";\nexport { Desk } from "./desk";`,
    "src/desk.ts": `import { DurableAgent } from "perdure/agent";\nexport class Desk extends DurableAgent {}`,
    "src/workflows.ts": `import { ThinkWorkflow } from "perdure/workflow";
import { AgentWorkflow } from "agents/workflows";
import { Desk } from "./desk";
abstract class Base extends ThinkWorkflow<Desk> {}
export class Declared extends Base {}
export class TicketWorkflow extends Base {}
export class Nightly extends AgentWorkflow<Desk> {}`,
    "src/unused.ts": `import { DurableWorkflow } from "perdure/workflow";\nexport class Old extends DurableWorkflow {}`,
  });
  const found = checked(folder).filter(({ level }) => level !== "ok");
  expect(found).toMatchObject([
    {
      check: "bindings",
      level: "error",
      text: "No workflow in wrangler.jsonc has the class TicketWorkflow (src/workflows.ts:6), which extends ThinkWorkflow",
      remedy:
        'Add { "name": "ticket-workflow", "binding": "TICKET_WORKFLOW", "class_name": "TicketWorkflow" } to workflows in wrangler.jsonc, and export the class in src/index.ts.',
    },
    {
      text: "No workflow in wrangler.jsonc has the class Nightly (src/workflows.ts:7), which extends AgentWorkflow",
    },
  ]);
});

it("doctor misses the features that the steps of a workflow need in its agent", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["With", "Without"], ["Tools", "Code", "Changed", "Both"]),
    "src/index.ts": `
import { agentTools } from "perdure/agent-tools";
import { deployments } from "perdure/deploy";
import { DurableAgent } from "perdure/agent";
import { codemode, runCode as exec } from "perdure/codemode";
import { ThinkWorkflow } from "perdure/workflow";
export class With extends DurableAgent { static override readonly features = [agentTools(), codemode(), deployments({ version: "1" })]; }
export class Without extends DurableAgent {}
export class Tools extends ThinkWorkflow<Without> { run(_, step) { return step.agentTool("a", With, {}); } }
export class Code extends ThinkWorkflow<Without> { run(_, step) { return exec(step, "a", { code }); } }
export class Changed extends ThinkWorkflow<Without> { async run(_, step) { semver.version("1"); return step.version("new"); } }
export class Both extends ThinkWorkflow<With> {
  async run(_, step) { semver.version("1"); await step.version("new"); await step.agentTool("a", With, {}); return exec(step, "a", { code }); }
}`,
  });
  expect(problemsOf(checked(folder))).toEqual([
    "Tools (src/index.ts:9) calls step.agentTool(), but its agent Without installs no agentTools()",
    "Code (src/index.ts:10) calls runCode(), but its agent Without installs no codemode()",
    "Changed (src/index.ts:11) calls step.version(), but its agent Without installs no deployments()",
  ]);
});

it("doctor misses inbound() where a receiver names the class, signedLinks() and replies() where a class uses them", () => {
  const imports = `import { email } from "perdure/email";
import { inbound, signedLinks } from "perdure/inbound";
import { replies, slack as sendToSlack } from "perdure/replies";
import { DurableAgent } from "perdure/agent";
import { github, links, webhooks } from "perdure/webhooks";
import { ThinkWorkflow } from "perdure/workflow";
`;
  const classes = `export class With extends DurableAgent {
  static override readonly features = [inbound(), signedLinks({ url: URL, secret: "S" }), replies()];
  ask(id) { this.outbox.put(sendToSlack("C1", { token: "T" }), { text: this.approvals.link(id, "grant") }); }
}
export class Hooked extends DurableAgent {}
export class Mailed extends DurableAgent { static override readonly features = [replies()]; }
export class Unnamed extends DurableAgent {}
export class Linked extends DurableAgent { ask(id) { return this.approvals.link(id, "grant"); } }
export class Apart extends DurableAgent { ask(id) { const { approvals } = this; return approvals?.link(id, "grant"); } }
export class Other extends DurableAgent { ask(id) { return this.pages.link(id) ?? link(id) ?? this.link(id); } }
export class Sends extends DurableAgent { tell() { this.outbox.put(sendToSlack("C1", { token: "T" }), "done"); } }
export class Payment extends ThinkWorkflow<Unnamed> { run(_, step) { return step.webhook("paid", { from: "stripe" }); } }
export class Callback extends ThinkWorkflow<With> { run(_, step) { return step.webhook("done", { url: true }); } }
export class Both extends ThinkWorkflow<Mailed> { run(_, step) { return step.webhook<number>("done", { url: true }); } }
`;
  const receivers = `
const hooks = webhooks(
  links({ secret: "S" }),
  github({ secret: "S", agent: ({ body }, env: Env) => getAgentByName(env.Hooked, body.repository.full_name) }),
  github({ name: "with", agent: (_, env) => env.With.getByName("a") }),
);
export default { email: email({ agent: ({ body }, env) => getAgentByName(env.Mailed, body.from) }) };
`;
  const folder = project({
    "wrangler.jsonc": configOf(
      ["With", "Hooked", "Mailed", "Unnamed", "Linked", "Apart", "Other", "Sends"],
      ["Payment", "Callback", "Both"],
    ),
    "src/index.ts": `${imports}${classes}${receivers}`,
  });
  const found = checked(folder).filter(({ level }) => level !== "ok");
  expect(found.map(({ level, text }) => `${level}: ${text}`)).toEqual([
    "error: Hooked (src/index.ts:11) is named by a receiver of the project, but it installs no inbound()",
    "error: Mailed (src/index.ts:12) is named by a receiver of the project, but it installs no inbound()",
    "error: Linked (src/index.ts:14) calls approvals.link(), but it installs no signedLinks()",
    "error: Apart (src/index.ts:15) calls approvals.link(), but it installs no signedLinks()",
    "error: Sends (src/index.ts:17) sends a reply of perdure/replies, but it installs no replies()",
    "error: Payment (src/index.ts:18) calls step.webhook(), but its agent Unnamed installs no inbound()",
    "error: Both (src/index.ts:20) calls step.webhook(), but its agent Mailed installs no inbound()",
    "error: Both (src/index.ts:20) calls step.webhook({ url: true }), but its agent Mailed installs no signedLinks()",
  ]);
  expect(found[0]?.remedy).toBe(
    "Add to the class: static override readonly features = [inbound()], with inbound of perdure/inbound.",
  );
});

it("doctor misses replies() where a receiver has what answers need, or uses the answer's destination", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["With", "Bot", "Mailed", "Issues", "Quiet"], []),
    "src/index.ts": `import { email } from "perdure/email";
import { inbound } from "perdure/inbound";
import { replies } from "perdure/replies";
import { DurableAgent } from "perdure/agent";
import { custom, github, slack, telegram } from "perdure/webhooks";
class Base extends DurableAgent { static override readonly features = [inbound()]; }
export class With extends DurableAgent { static override readonly features = [inbound(), replies()]; }
export class Bot extends Base {}
export class Mailed extends Base {}
export class Issues extends Base {}
export class Quiet extends Base {}
telegram({ token: "T", agent: (_, env) => env.With.getByName("a") });
slack({ secret: "S", token: "T", agent: (_, env) => env.Bot.getByName("a") });
email({ agent: (_, env) => env.Mailed.getByName("a"), handle: ({ body, reply }, agent) => agent.answer(body, reply) });
github({ agent: (_, env) => env.Issues.getByName("a"), handle: (one, agent) => agent.answer(one.reply) });
github({ secret: "S", agent: (_, env) => env.Quiet.getByName("a"), handle: ({ body }, agent) => agent.noReply(body) });
custom({ name: "own", scheme: "token", token: "T", agent: (_, env) => env.Quiet.getByName("a") });
`,
  });
  const is = "is named by a receiver that answers, but it installs no replies()";
  expect(problemsOf(checked(folder))).toEqual([
    `Bot (src/index.ts:8) ${is}`,
    `Mailed (src/index.ts:9) ${is}`,
    `Issues (src/index.ts:10) ${is}`,
  ]);
});
