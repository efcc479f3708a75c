import { afterEach, describe, expect, it } from "vitest";
import { init } from "../../src/cli/init/init.ts";
import { checked, configOf, filesOf, problemsOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const AGENT = `import { DurableAgent } from "perdure/agent";\n`;

/** What doctor says of one file with these classes as bindings. */
function said(text: string, names: readonly string[] = ["Desk"], file = "src/index.ts") {
  const config = configOf(names).replace("src/index.ts", file);
  const results = checked(project({ "wrangler.jsonc": config, [file]: text }));
  const hosts = results.find(({ check, level }) => check === "hosts" && level === "ok")?.text;
  return { hosts, problems: problemsOf(results) };
}

const DESK = { hosts: "Desk on perdure/agent", problems: [] };

describe("doctor reads sources as TypeScript does:", () => {
  it("a template within a template is no code, and ends where it ends", () => {
    const page = `const page = \`\${rows.map((row) => \`<li>\${row}</li> class Ghost extends DurableAgent {}\`)}\`;`;
    expect(said(`${AGENT}${page}\nexport class Desk extends DurableAgent<Env> {}`)).toEqual(DESK);
  });

  it("text between the tags of JSX is no code", () => {
    const page = `const page = <p>Don't <b>export class Ghost extends DurableAgent {"{"}</b></p>;`;
    const text = `${AGENT}${page}\nexport class Desk extends DurableAgent<Env> {}`;
    expect(said(text, ["Desk"], "src/index.tsx")).toEqual(DESK);
  });

  it("a regular expression after a bracket is no comment", () => {
    const text = `export function urls(all) { for (const each of all) /[/*]+/.test(each); }`;
    expect(said(`${AGENT}${text}\nexport class Desk extends DurableAgent {}\n/* end */`)).toEqual(
      DESK,
    );
  });

  it("names are exported by a pattern, by a namespace and as a default", () => {
    const text = `${AGENT}import * as parts from "./parts";
      export class Desk extends DurableAgent {}
      export const { Cart, shelf: [Shelf], ...Rest } = parts;
      export * as Parts from "./parts";`;
    expect(said(text, ["Desk", "Cart", "Shelf", "Rest", "Parts"])).toEqual(DESK);
  });

  it("a comment in a list of imports or exports is no name", () => {
    const text = `import { // DurableChatAgent, of
      DurableAgent as Base, /* not Base */ } from "perdure/agent";
      class Own extends Base {}
      export { // the desk { of the shop }
        Own as Desk, };`;
    expect(said(text)).toEqual({ hosts: "Own on perdure/agent", problems: [] });
  });

  it("decorators, generics and functions in type arguments do not hide a base class", () => {
    const text = `${AGENT}
      @named({ text: "class Ghost extends DurableAgent {" })
      export class Desk<Of extends { at: (x: "{") => "}" } = { at: () => "}" }>
        extends mixed<(it: { a: 1 }) => void>(DurableAgent)<Env, () => void> implements Closable<"{"> {}`;
    expect(said(text)).toEqual(DESK);
  });

  it("a literal type is no secret", () => {
    const text = `${AGENT}type Mode = { token: "BASIC" | "BEARER"; secret: "NONE" };
      export class Desk extends DurableAgent { declare apiKey: "NO_KEY"; }`;
    expect(said(text)).toEqual(DESK);
  });

  it("a list of features is read through `satisfies` and `as const`", () => {
    const list = (more: string) => `${AGENT}import { operator } from "perdure/operator";
      import { other } from "other";
      export class Desk extends DurableAgent { static override readonly features = [other()]${more}; }`;
    for (const more of ["", " satisfies Feature[]", " as const", " as const satisfies Feature[]"]) {
      expect(said(list(more)).problems).toEqual([
        "Desk (src/index.ts:4) is bound, and the project mounts operator(), but it installs no operations()",
      ]);
    }
    expect(said(list(".concat(all())")).problems).toEqual([]);
    expect(said(list(" satisfies X").replace("[other()]", "[...all, other()]")).problems).toEqual(
      [],
    );
  });

  it("an object in a class declares no tasks of the class", () => {
    const text = `${AGENT}export class Desk extends DurableAgent {
      child() { return { getScheduledTasks() { return {}; } }; }
    }`;
    expect(said(text)).toEqual(DESK);
  });

  it("a receiver names a class also after type arguments with brackets", () => {
    const text = `${AGENT}import { email } from "perdure/email";
      email<(env: Env) => void>({ agent: (_, env) => env.Desk.getByName("a") });
      export class Desk extends DurableAgent {}`;
    expect(said(text).problems).toEqual([
      "Desk (src/index.ts:4) is named by a receiver of the project, but it installs no inbound()",
    ]);
  });

  it("an entry in a string is not imported", () => {
    const folder = project({
      "src/index.ts": `const code = 'import { useThread } from "perdure/react"';`,
    });
    expect(init({ folder, name: "Desk", now: new Date() }).byHand.join()).not.toContain("react");
  });

  it("a file that does not parse is named with its line, and what it may export is not missed", () => {
    const config = configOf(["Desk"]);
    const files = { "wrangler.jsonc": config, "src/index.ts": "\nexport { Desk } from 'desk" };
    const results = checked(project(files));
    expect(problemsOf(results)).toEqual([
      expect.stringMatching(/^Cannot parse src\/index\.ts, line 2: /),
    ]);
  });
});

describe("init edits sources as TypeScript reads them:", () => {
  it("it changes nothing where the Worker does not parse, and says where", () => {
    const files = { "wrangler.jsonc": configOf([]), "src/index.ts": "\nexport class {" };
    const folder = project(files);
    expect(() => init({ folder, now: new Date() })).toThrow(
      /^Cannot parse src\/index\.ts, line 2: .+ Correct it first\.$/,
    );
    expect(filesOf(folder)).toEqual(files);
    const main = "export default {};";
    const other = project({ ...files, "src/index.ts": main, "src/page.js": "opaque type X = (" });
    expect(init({ folder: other, now: new Date() }).byHand[0]).toMatch(
      /^Nothing was read of src\/page\.js, line 1: /,
    );
  });

  const applied = (text: string) => {
    const folder = project({ "wrangler.jsonc": configOf(["Desk"]), "src/index.ts": text });
    init({ folder, apply: true, now: new Date() });
    return filesOf(folder)["src/index.ts"] ?? "";
  };

  it("a base class that a type names too keeps its import", () => {
    const text = `import { Agent, type Other } from "agents";
export type Any = Agent;
export class Desk extends Agent<Env> {
  getModel() { return "m"; }
}
`;
    expect(applied(text)).toContain(`import { Agent, type Other } from "agents";`);
    expect(applied(text.replace("= Agent", "= 'Agent'"))).toContain(
      `import { type Other } from "agents";`,
    );
  });

  it("a string in a list of imports' file does not move the imports", () => {
    const text = `import { Agent } from "agents";
import data from "./data.json" with { type: "json" };
const code = \`
import fs from "node:fs";
\`;
export class Desk extends Agent {
  getModel() { return code + data; }
}
`;
    expect(applied(text)).toBe(`import data from "./data.json" with { type: "json" };
import { DurableAgent } from "perdure/agent";
import { operations } from "perdure/operator";
const code = \`
import fs from "node:fs";
\`;
export class Desk extends DurableAgent {
  static override readonly features = [operations()];
  getModel() { return code + data; }
}
`);
  });

  it("a call of streamText() with a comma at its end stays a call", () => {
    const text = `import { AIChatAgent } from "@cloudflare/ai-chat";
import { streamText } from "ai";
export class Desk extends AIChatAgent {
  onChatMessage() { return streamText<Tools<() => void>>({ prompt: "(" /* ) */ }, ); }
}
`;
    expect(applied(text)).toContain(
      `streamText<Tools<() => void>>(this.durable({ prompt: "(" /* ) */ }), )`,
    );
  });
});
