import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { afterEach, expect, it } from "vitest";
import { edited, type TextEdit, unifiedDiff } from "../../src/cli/init/diff.ts";
import { type InitOptions, init } from "../../src/cli/init/init.ts";
import { checked, configOf, filesOf, problemsOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const run = (folder: string, options: Partial<InitOptions> = {}) =>
  init({ folder, now: new Date("2026-11-23T12:00:00Z"), ...options });

const patched = (folder: string, diff: string) =>
  execFileSync("git", ["apply", "--whitespace=nowarn", "-"], { cwd: folder, input: diff });

it("init leaves a project that runs in an empty folder, and names the next commands", () => {
  const folder = project({});
  const { done, byHand } = run(folder, { name: "SupportAgent" });
  const files = filesOf(folder);
  expect(done).toHaveLength(Object.keys(files).length);
  expect(Object.keys(files).sort()).toEqual(
    [
      ...[".gitignore", "package.json", "src/support-agent.ts", "src/worker.ts"],
      ...["tsconfig.json", "wrangler.jsonc"],
    ].sort(),
  );
  expect(JSON.parse(files["package.json"] ?? "")).toEqual({
    name: path.basename(folder).toLowerCase(),
    private: true,
    type: "module",
    scripts: { dev: "wrangler dev", types: "tsc --noEmit", deploy: "wrangler deploy" },
  });
  expect(files[".gitignore"]).toContain(".dev.vars");
  expect(files["src/support-agent.ts"]).toContain("extends DurableAgent");
  expect(files["src/support-agent.ts"]).toContain("features = [operations()]");
  expect(byHand).toEqual([
    "npm install agents ai zod",
    "npm install -D wrangler typescript @cloudflare/workers-types",
    "npm run dev",
    "curl -d hello http://localhost:8787/ask",
  ]);
  expect(problemsOf(checked(folder)).filter((text) => !text.includes("PERDURE_TOKEN"))).toEqual([]);
  expect(run(folder, { name: "SupportAgent" }).done).toEqual([]);
});

it("init completes the package.json and .gitignore that a new folder has, and keeps what they say", () => {
  const manifest = `{
  "name": "mine",
  "type": "commonjs",
  "scripts": { "dev": "my dev" },
  "dependencies": { "perdure": "^0.1.0" }
}
`;
  const folder = project({ "package.json": manifest, ".gitignore": "/node_modules\n.env" });
  run(folder);
  const files = filesOf(folder);
  expect(JSON.parse(files["package.json"] ?? "")).toEqual({
    name: "mine",
    type: "module",
    scripts: { dev: "my dev", types: "tsc --noEmit", deploy: "wrangler deploy" },
    dependencies: { perdure: "^0.1.0" },
  });
  expect(files[".gitignore"]).toBe("/node_modules\n.env\n.wrangler/\n.dev.vars\n");
});

it("init writes an agent on the host that is asked for, that the project has, or that needs no package", () => {
  const hosts = [
    [{ host: "think" }, {}, "DurableThink"],
    [{ host: "agent" }, {}, "DurableAgent"],
    [{ host: "chat" }, {}, "DurableChatAgent"],
    [{ host: "object" }, {}, "DurableObject"],
    [{}, { "@cloudflare/think": "^0.23.0" }, "DurableThink"],
    [{}, { "@cloudflare/ai-chat": "^0.12.0" }, "DurableChatAgent"],
    [{}, {}, "DurableAgent"],
  ] as const;
  for (const [options, dependencies, base] of hosts) {
    const folder = project({ "package.json": JSON.stringify({ dependencies }) });
    const { byHand } = run(folder, options);
    const files = filesOf(folder);
    expect(files["src/assistant.ts"]).toContain(`class Assistant extends ${base} {`);
    expect(files["src/assistant.ts"]).toContain("operations()]");
    expect(files["src/worker.ts"]).toContain(
      `if (!authorize(request, env)) return new Response("Unauthorized", { status: 401 });`,
    );
    const isThink = base === "DurableThink";
    expect(byHand.join().includes("just-bash")).toBe(isThink);
    expect(problemsOf(checked(folder)).filter((text) => !text.includes("PERDURE_TOKEN"))).toEqual(
      [],
    );
  }
  expect(() => run(project({}), { host: "llm" })).toThrow(
    /^Invalid host "llm": expected think, agent, chat, object\.$/,
  );
});

it("init adds a second agent only where it is named, on the host of the others", () => {
  const chat = `import { DurableChatAgent } from "perdure/chat";\nexport class Desk extends DurableChatAgent {}\n`;
  const folder = project({ "wrangler.jsonc": configOf(["Desk"]), "src/index.ts": chat });
  expect(run(folder)).toMatchObject({ done: [], diff: "" });
  run(folder, { name: "Second" });
  expect(filesOf(folder)["src/second.ts"]).toContain("extends DurableChatAgent");
  const two = project({
    "wrangler.jsonc": configOf(["Desk", "Shop"]),
    "src/index.ts": `export * from "./desk";\nexport * from "./shop";`,
    "src/desk.ts": chat,
    "src/shop.ts": `import { DurableAgent } from "perdure/agent";\nexport class Shop extends DurableAgent {}`,
  });
  expect(() => run(two, { name: "Third" })).toThrow(
    "The project has agents on perdure/chat and perdure/agent: pass --host think|agent|chat|object.",
  );
});

const AGENTS = `import { AIChatAgent } from "@cloudflare/ai-chat";
import {
  Agent,
  type AgentContext,
} from "agents";
import { Think as Base } from "@cloudflare/think";
import { McpAgent } from "agents/mcp";
import { streamText } from "ai";
import { DurableAgent } from "perdure/agent";
// class Old extends Agent {}
export class Chat extends AIChatAgent<Env> {
  async onChatMessage() {
    const messages = this.messages;
    return streamText({
      model: "m",
      messages,
    }).toUIMessageStreamResponse();
  }
}
export class Loud extends Chat {}
export class Counter extends Agent<Env> {}

export class Desk extends Base<Env> {
  override getModel() { return "m"; }
}
export class Tools extends McpAgent<Env> {}
export class Support extends DurableAgent<Env> {}
`;

const OBJECT = `import { Lifecycle } from "agents/lifecycle";
import { DurableObject } from "cloudflare:workers";

export class Reports extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);

  list() {
    return [];
  }
}`;

it("init prints the diff that makes existing classes durable, each on its host, and --apply writes it", () => {
  const files = {
    "wrangler.jsonc": configOf(["Chat", "Loud", "Counter", "Desk", "Support", "Reports", "Cart"]),
    "package.json": `{ "dependencies": { "agents": "^0.32.0", "ai": "^7.0.0", "zod": "^4.0.0" } }`,
    "src/index.ts": `export * from "./agents";\nexport { Cart } from "./cart";\nexport * from "./reports";`,
    "src/agents.ts": AGENTS,
    "src/reports.ts": OBJECT,
    "src/cart.ts": "export class Cart {}",
  };
  const folder = project(files);
  const { done, diff, byHand } = run(folder);
  expect(done).toEqual([]);
  expect(filesOf(folder)).toEqual(files);
  expect(byHand).toEqual([
    "Counter (src/agents.ts:21) has no getModel(): return the model of its turns there.",
    "Reports (src/reports.ts:4) answers by a scripted model: pass yours to durable().",
    "Mount the dashboard in src/index.ts: see node_modules/perdure/docs/dashboard.md. The command line needs it, too.",
    "npm install @cloudflare/think @cloudflare/computer just-bash @cloudflare/ai-chat",
  ]);
  patched(folder, diff);
  const applied = filesOf(folder);
  expect(applied["src/agents.ts"]).toBe(`import {
  type AgentContext,
} from "agents";
import { McpAgent } from "agents/mcp";
import { streamText } from "ai";
import { DurableAgent } from "perdure/agent";
import { DurableChatAgent } from "perdure/chat";
import { operations } from "perdure/operator";
import { DurableThink } from "perdure/think";
// class Old extends Agent {}
export class Chat extends DurableChatAgent<Env> {
  static override readonly features = [operations()];
  async onChatMessage() {
    const messages = this.messages;
    return streamText(this.durable({
      model: "m",
      messages,
    })).toUIMessageStreamResponse();
  }
}
export class Loud extends Chat {}
export class Counter extends DurableAgent<Env> {
  static override readonly features = [operations()];
}

export class Desk extends DurableThink<Env> {
  static override readonly features = [operations()];
  override getModel() { return "m"; }
}
export class Tools extends McpAgent<Env> {}
export class Support extends DurableAgent<Env> {}
`);
  expect(applied["src/reports.ts"]).toContain(`  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
`);
  expect(applied["src/reports.ts"]).toContain(
    "\n}\nexport interface Reports extends DurableVerbs {}",
  );
  expect(problemsOf(checked(folder))).toEqual([]);
  expect(run(folder)).toMatchObject({ done: [], diff: "" });

  const other = project(files);
  const { done: did, diff: left } = run(other, { apply: true });
  expect(did).toEqual([
    "Made durable in src/agents.ts: Chat, Counter, Desk",
    "Made durable in src/reports.ts: Reports",
  ]);
  expect(left).toBe("");
  expect(filesOf(other)).toEqual(applied);
});

it("init imports the workflows of Think from Perdure, also where their agent is durable already", () => {
  const folder = project({
    "wrangler.jsonc": configOf(["Desk"], ["Triage", "Weekly"]),
    "src/index.ts": `import { Think } from "@cloudflare/think";
import { ThinkWorkflow, type ThinkWorkflowStep } from "@cloudflare/think/workflows";
export { Weekly } from "./weekly";
export class Desk extends Think<Env> {
  override getModel() { return "m"; }
}
export class Triage extends ThinkWorkflow<Desk> {}
`,
    "src/weekly.ts": `// from "@cloudflare/think/workflows"
import { ThinkWorkflow as Flow } from '@cloudflare/think/workflows';
import { DurableThink } from "perdure/think";
class Other extends DurableThink<Env> {}
export class Weekly extends Flow<Other> {}
`,
  });
  const weekly =
    "Weekly (src/weekly.ts:5) extends ThinkWorkflow of @cloudflare/think/workflows, and its agent Other extends DurableThink";
  expect(problemsOf(checked(folder))).toContain(weekly);
  expect(run(folder, { apply: true }).done).toEqual([
    "Made durable in src/index.ts: Desk, Triage",
    "Made durable in src/weekly.ts: Weekly",
  ]);
  const files = filesOf(folder);
  expect(files["src/index.ts"]).toContain(
    `import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";`,
  );
  expect(files["src/weekly.ts"]?.split("\n").slice(0, 2)).toEqual([
    `// from "@cloudflare/think/workflows"`,
    `import { ThinkWorkflow as Flow } from 'perdure/workflow';`,
  ]);
  expect(problemsOf(checked(folder))).not.toContain(weekly);
  expect(run(folder)).toMatchObject({ done: [], diff: "" });
});

it("init makes a named Durable Object durable on request, also in JavaScript with other line ends", () => {
  const object = `import { DurableObject } from "cloudflare:workers";\r\n\r\nexport class Cart extends DurableObject { list() {} }\r\n`;
  const folder = project({
    "wrangler.jsonc": configOf(["Cart"]).replace("index.ts", "index.js"),
    "src/index.js": object,
  });
  expect(run(folder, { name: "Cart", dryRun: true })).toMatchObject({ done: [], diff: "" });
  run(folder, { name: "Cart", host: "object", apply: true });
  const text = readFileSync(path.join(folder, "src/index.js"), "utf8");
  expect(text).not.toMatch(/[^\r]\n/);
  expect(text).not.toMatch(/readonly|interface|DurableVerbs/);
  expect(text).toContain("lifecycle = Lifecycle.install(this);\r\n  durable = durable(this, {\r\n");
  expect(problemsOf(checked(folder))).toEqual([]);
});

it("git applies the diff of any edits, and gets the edited text", () => {
  const folder = project({ "a/b.txt": "" });
  const line = fc.constantFrom("", "a", "b", "cc", "\n", "\n\n", "x\n", "y\nz\n");
  const given = fc.record({
    text: fc.array(line, { minLength: 1, maxLength: 40 }).map((parts) => parts.join("")),
    cuts: fc.array(fc.record({ at: fc.nat(99), length: fc.nat(4), text: line }), { maxLength: 4 }),
  });
  fc.assert(
    fc.property(given, ({ text, cuts }) => {
      let end = 0;
      const sorted = cuts.map((cut) => ({ ...cut, at: Math.min(cut.at, text.length) }));
      const edits = sorted
        .sort((a, b) => a.at - b.at)
        .flatMap(({ at, length, text: put }): TextEdit[] => {
          if (at < end) return [];
          end = Math.min(at + length, text.length);
          return [{ from: at, to: end++, text: put }];
        });
      const after = edited(text, edits);
      fc.pre(after !== text && text !== "");
      execFileSync("tee", [path.join(folder, "a/b.txt")], { input: text });
      patched(folder, unifiedDiff("a/b.txt", text, edits));
      expect(filesOf(folder)["a/b.txt"] ?? "").toBe(after);
    }),
    { numRuns: 100 },
  );
});
