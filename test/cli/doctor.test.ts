/** What doctor says of a project that would fail at its first request, and of what it cannot read. */

import { afterEach, describe, expect, it } from "vitest";
import type { CheckResult } from "../../src/cli/doctor/project.ts";
import { checked, configOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const AGENT = `import { DurableAgent } from "perdure/agent";\n`;

function resultsOf(
  files: Readonly<Record<string, string>>,
  { objects = ["Desk"], workflows = [] as string[] } = {},
): CheckResult[] {
  return checked(project({ "wrangler.jsonc": configOf(objects, workflows), ...files }));
}

const levels = (results: readonly CheckResult[], level: CheckResult["level"]) =>
  results.filter((each) => each.level === level).map(({ text }) => text);

describe("a variable in a list of features", () => {
  const desk = (features: string, body = "") =>
    `export class Desk extends DurableAgent { static override readonly features = ${features}; ${body} }`;
  const tasks = "getScheduledTasks() { return {}; }";

  it.each([
    ["a constant of the file", `const shared = schedules();`, "[shared]"],
    ["a constant of another file", `import { shared } from "./shared";`, "[shared]"],
    ["a constant under another name", `import { shared as one } from "./shared";`, "[one]"],
    ["a list of another file", `import { all } from "./shared";`, "all"],
    ["a list that is spread", `import * as common from "./shared";`, "[...common.all] as const"],
    ["an alias of the project", `import { shared } from "@/shared";`, "[shared]"],
  ])("%s is resolved to the feature that it has", (_, code, list) => {
    const files = {
      "src/index.ts": `${AGENT}import { schedules } from "perdure/scheduler";\n${code}\n${desk(list, tasks)}`,
      "src/shared.ts": `import { schedules } from "perdure/scheduler";
        import { inbound } from "perdure/inbound";
        export const shared = schedules();
        export const all = [inbound(), shared] satisfies unknown[];`,
    };
    const results = resultsOf(files);
    expect(levels(results, "error")).toEqual([]);
    expect(levels(results, "skipped")).toEqual([]);
  });

  it("a constant that holds another feature leaves the needed one missing", () => {
    const text = `${AGENT}import { inbound } from "perdure/inbound";
      const shared = inbound();
      ${desk("[shared]", tasks)}`;
    expect(levels(resultsOf({ "src/index.ts": text }), "error")).toEqual([
      "Desk (src/index.ts:4) declares getScheduledTasks(), but it installs no schedules()",
    ]);
  });

  it.each([
    ["[shared]", `import { shared } from "some-package";`, "shared"],
    ["[shared]", "let shared = make();", "shared"],
    ["[isLocal ? schedules() : inbound()]", "", "isLocal ? schedules() : inbound()"],
    ["[...make()]", "", "make()"],
    ["lists.common", "const lists = make();", "lists.common"],
  ])(
    "%s that the sources do not tell is not checked, and gets no check mark",
    (list, code, shown) => {
      const results = resultsOf({ "src/index.ts": `${AGENT}${code}\n${desk(list, tasks)}` });
      expect(levels(results, "skipped")).toEqual([
        `Not checked: the features of Desk (src/index.ts:3) contain \`${shown}\`, which the sources do not resolve`,
      ]);
      expect(levels(results, "error")).toEqual([]);
      expect(results.filter(({ check, level }) => check === "hosts" && level === "ok")).toEqual([]);
    },
  );

  it("the options of durable() are read the same way", () => {
    const plain = (options: string) => `import { Lifecycle } from "agents/lifecycle";
      import { DurableObject } from "cloudflare:workers";
      import { durable } from "perdure/object";
      import { schedules } from "perdure/scheduler";
      const features = [schedules()];
      const options = { model: "m", features };
      export class Desk extends DurableObject {
        readonly lifecycle = Lifecycle.install(this);
        readonly durable = durable(this, ${options});
        ${tasks}
      }`;
    for (const options of [`{ model: "m", features }`, "options", "{ ...options }"]) {
      const results = resultsOf({ "src/index.ts": plain(options) });
      expect([...levels(results, "error"), ...levels(results, "skipped")], options).toEqual([]);
    }
    const unknown = resultsOf({ "src/index.ts": plain("make()") });
    expect(levels(unknown, "skipped")[0]).toContain("contain `make()`");
  });
});

describe("exit code 1 for a binding that is missing:", () => {
  it("a class on a host, and a workflow", () => {
    const results = resultsOf({
      "src/index.ts": `${AGENT}import { ThinkWorkflow } from "perdure/workflow";
        export class Desk extends DurableAgent {}
        export class Other extends DurableAgent {}
        export class Tickets extends ThinkWorkflow<Desk> {}`,
    });
    expect(levels(results, "error")).toEqual([
      "No Durable Object binding has the class Other (src/index.ts:4), which extends DurableAgent",
      "No workflow in wrangler.jsonc has the class Tickets (src/index.ts:5), which extends ThinkWorkflow",
    ]);
  });

  it("a class of `exports` needs none", () => {
    const config = JSON.parse(configOf(["Desk"]));
    const exports = { Other: { type: "durable-object", storage: "sqlite" } };
    const results = resultsOf({
      "wrangler.jsonc": JSON.stringify({ ...config, exports }),
      "src/index.ts": `${AGENT}export class Desk extends DurableAgent {}
        export class Other extends DurableAgent {}`,
    });
    expect(levels(results, "error")).toEqual([]);
  });

  it.each([
    ["getAgentByName(env.Help, 'main')", "import { getAgentByName } from 'agents';"],
    ["env.Help.getByName('main')", ""],
    ["this.env.Help.idFromName('main')", ""],
    [
      "operator({ agents: { Desk: { namespace: (env) => env.Help } } })",
      "import { operator } from 'perdure/operator';",
    ],
  ])("%s", (use, code) => {
    const text = `${AGENT}${code}\nexport class Desk extends DurableAgent {\n  ask(env) { return ${use}; }\n}`;
    const [first] = levels(resultsOf({ "src/index.ts": text }), "error");
    expect(first).toBe(
      "src/index.ts:4 uses the Durable Object binding Help, which wrangler.jsonc does not have",
    );
    const bound = resultsOf({ "src/index.ts": text.replace(/env\.Help/, "env.Desk") });
    expect(levels(bound, "error")).toEqual([]);
  });
});

describe("exit code 1 for an unknown binding of runWorkflow():", () => {
  const errorsOf = (start: string, code = "") =>
    levels(
      resultsOf(
        {
          "src/index.ts": `${AGENT}${code}
export class Desk extends DurableAgent { open() { return ${start}; } }
export class Tickets {}`,
        },
        { workflows: ["Tickets"] },
      ),
      "error",
    );

  it.each([
    [`this.runWorkflow("TICKETS", {})`, ""],
    [`this.runWorkflow(NAME, {})`, `const NAME = "TICKETS" as const;`],
    [`this.runWorkflow(urgent ? "TICKETS" : "Tickets", {})`, ""],
    [`this.outbox.put(workflow("TICKETS", {}))`, `import { workflow } from "perdure/outbox";`],
  ])("%s", (start, code) => {
    expect(errorsOf(start, code)).toEqual([
      "src/index.ts:3 starts the workflow TICKETS, and wrangler.jsonc has no workflow with this binding",
    ]);
  });

  it("also of its agentBinding", () => {
    expect(errorsOf(`this.runWorkflow("Tickets", {}, { agentBinding: "DESKS" })`)).toEqual([
      "src/index.ts:3 uses the Durable Object binding DESKS, which wrangler.jsonc does not have",
    ]);
  });

  it("only in files of the Worker", () => {
    const files = {
      "src/index.ts": `${AGENT}export class Desk extends DurableAgent {}`,
      "scripts/other-worker.ts": `export const open = (agent) => agent.runWorkflow("TICKETS", {});`,
    };
    expect(levels(resultsOf(files), "error")).toEqual([]);
    const imported = {
      ...files,
      "src/index.ts": `${files["src/index.ts"]}\nimport "../scripts/other-worker";`,
    };
    expect(levels(resultsOf(imported), "error")).toHaveLength(1);
  });

  it("a binding that exists, and a name that only the run tells, are none", () => {
    expect(errorsOf(`this.runWorkflow("Tickets", {}, { agentBinding: "Desk" })`)).toEqual([]);
    expect(errorsOf(`this.runWorkflow(name, {})`)).toEqual([]);
    expect(errorsOf(`workflow("TICKETS")`, `import { workflow } from "another";`)).toEqual([]);
  });
});

describe("exit code 1 for signed links that nothing serves:", () => {
  const text = (body: string, main = "") => `${AGENT}
import { signedLinks } from "perdure/inbound";
${main}
export class Desk extends DurableAgent {
  static override readonly features = [signedLinks({ url: URL, secret: "LINK_SECRET" })];
  ${body}
}`;
  const errorsOf = (...given: Parameters<typeof text>) =>
    levels(resultsOf({ "src/index.ts": text(...given) }), "error");
  const link = "async ask() { return this.approvals.link('a'); }";

  it("approvals.link() without links()", () => {
    expect(errorsOf(link)).toEqual([
      "Desk (src/index.ts:5) calls approvals.link(), but the project mounts no links()",
    ]);
  });

  it("none where the Worker serves them, or nothing signs", () => {
    expect(errorsOf(link, `import { links } from "perdure/webhooks";`)).toEqual([]);
    expect(errorsOf("")).toEqual([]);
  });

  it("a step with a URL of its own", () => {
    const main = `import { ThinkWorkflow } from "perdure/workflow";
import { inbound } from "perdure/inbound";
export class Tickets extends ThinkWorkflow<Desk> {
  async run(_, step) { await step.webhook("paid", { url: true }); }
}`;
    const files = { "src/index.ts": text("", main).replace("[signed", "[inbound(), signed") };
    expect(levels(resultsOf(files, { workflows: ["Tickets"] }), "error")).toEqual([
      "Tickets (src/index.ts:6) calls step.webhook({ url: true }), but the project mounts no links()",
    ]);
  });
});

describe("exit code 1 for a malformed secret:", () => {
  const KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const HOOKS = `import { standardWebhooks, github } from "perdure/webhooks";
import { webhook } from "perdure/outbox";
export class Desk {}
`;
  const errorsOf = (code: string, files: Readonly<Record<string, string>> = {}) =>
    levels(resultsOf({ "src/index.ts": HOOKS + code, ...files }), "error");
  const standard = `standardWebhooks({ secret: "HOOK_SECRET", agent });`;

  it("a secret in place of its name, which is not shown", () => {
    for (const code of [
      `github({ secret: "${KEY}", agent });`,
      `github({ secret: ["HOOK_SECRET", "${KEY}"], agent });`,
      `webhook("https://example.com", { secret: "${KEY}" });`,
      `github({ secret: "my hook's secret", agent });`,
    ]) {
      const [error = "", ...others] = errorsOf(code);
      expect(error).toBe("src/index.ts:4: secret is not the name of a secret (not shown)");
      expect(others).toEqual([]);
    }
    expect(errorsOf(`other({ secret: "${KEY}" });`)).toEqual([]);
  });

  it("a value that is empty, or no base64 where the receiver or the destination needs it", () => {
    const vars = (line: string) => ({ ".dev.vars": `${line}\nOTHER=1\n` });
    expect(errorsOf(standard, vars(`HOOK_SECRET=${KEY}`))).toEqual([]);
    expect(errorsOf(standard, vars(`HOOK_SECRET="v1,${KEY}" # ours`))).toEqual([]);
    expect(errorsOf(standard, vars("HOOK_SECRET='not base64'"))).toEqual([
      "The secret HOOK_SECRET in .dev.vars is not base64, which standardWebhooks() (src/index.ts:4) needs",
    ]);
    expect(errorsOf(`webhook(url, { secret: "HOOK_SECRET" });`, vars("HOOK_SECRET=a b"))).toEqual([
      "The secret HOOK_SECRET in .dev.vars is not base64, which webhook() (src/index.ts:4) needs",
    ]);
    expect(errorsOf(`github({ secret: "HOOK_SECRET" });`, vars("HOOK_SECRET=a b"))).toEqual([]);
    expect(errorsOf(`github({ secret: "HOOK_SECRET" });`, vars(`HOOK_SECRET=""`))).toEqual([
      "The secret HOOK_SECRET in .dev.vars is empty (src/index.ts:4 names it)",
    ]);
  });

  it("`secrets` of the configuration that is no list of names", () => {
    const config = { ...JSON.parse(configOf(["Desk"])), secrets: { required: "HOOK_SECRET" } };
    expect(errorsOf("", { "wrangler.jsonc": JSON.stringify(config) })).toEqual([
      'secrets.required in wrangler.jsonc is "HOOK_SECRET"; expected a list of names',
    ]);
  });

  it("one that is only missing here is a warning", () => {
    const results = resultsOf({ "src/index.ts": HOOKS + standard });
    expect(levels(results, "error")).toEqual([]);
    expect(levels(results, "warning")).toEqual([
      "src/index.ts:4 names the secret HOOK_SECRET, which .dev.vars does not have",
    ]);
  });
});

describe("a file that does not parse", () => {
  const desk = `${AGENT}import "./tools";\nexport class Desk extends DurableAgent {}`;

  it("ends with exit code 1 where it is TypeScript, or the Worker imports it", () => {
    for (const file of ["src/tools.ts", "src/tools.js", "src/not-imported.ts"]) {
      const results = resultsOf({ "src/index.ts": desk, [file]: "\nconst a = (" });
      expect(levels(results, "error")).toEqual([
        expect.stringMatching(`^Cannot parse ${file}, line 2: `),
      ]);
    }
  });

  it("is skipped where it is JavaScript of another dialect that nothing imports", () => {
    const results = resultsOf({ "src/index.ts": desk, "src/page.js": "opaque type X = (" });
    expect(levels(results, "error")).toEqual([]);
    expect(levels(results, "skipped")).toHaveLength(1);
  });
});

it("a Worker that `build.command` has not built yet is not checked, and is no error", () => {
  const config = { ...JSON.parse(configOf(["Desk"])), main: "dist/index.js" };
  const built = { ...config, build: { command: "npm run build" } };
  const files = { "src/index.ts": `${AGENT}export class Desk extends DurableAgent {}` };
  const results = resultsOf({ ...files, "wrangler.jsonc": JSON.stringify(built) });
  expect(levels(results, "error")).toEqual([]);
  expect(levels(results, "skipped")).toContain(
    "Not checked: dist/index.js is not built yet, and its exports are not known",
  );
  const without = resultsOf({ ...files, "wrangler.jsonc": JSON.stringify(config) });
  expect(levels(without, "error")).toContain('"main" is "dist/index.js", which is no file');
});

it("a bundle that is too large to read may export any class", () => {
  const config = { ...JSON.parse(configOf(["Desk"])), main: "dist/index.js" };
  const files = {
    "wrangler.jsonc": JSON.stringify(config),
    "dist/index.js": `// ${"x".repeat(17_000_000)}`,
  };
  const results = resultsOf(files);
  expect(levels(results, "error")).toEqual([]);
  expect(levels(results, "skipped")).toContain(
    "dist/index.js exports all of a package, does not parse or is too large to read: it may have Desk",
  );
});
