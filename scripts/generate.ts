/**
 * Writes the sources that are made of other files, which git ignores: src/operator/mcp/docs.generated.ts has the sections of README.md and
 * docs/, for the tool `search_docs`; src/operator/*.generated.ts join what the folders `operated/` of all modules have; and
 * src/operator/dashboard/page.generated.ts has the script and the style of the dashboard. Runs after an install, and before the
 * tests and the build.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";
import { rolldown } from "rolldown";
import type { Definition } from "../src/engine/operated/catalog.ts";
import { compiled } from "./templates.ts";

const root = path.join(import.meta.dirname, "..");
const target = path.join(root, "src/operator/mcp/docs.generated.ts");
const pages = [
  "README.md",
  ...readdirSync(path.join(root, "docs"))
    .sort()
    .map((name) => `docs/${name}`),
];
const sections = pages
  .filter((page) => page.endsWith(".md"))
  .flatMap((page) => sectionsOf(page, readFileSync(path.join(root, page), "utf8")));
const text = `// Written by scripts/generate.ts.\n\n/** Page, heading and text of each section. */\nexport const SECTIONS: readonly (readonly [page: string, heading: string, text: string])[] = ${JSON.stringify(sections)};\n`;

write(target, text);

/**
 * The constants that the files of `operated/` may have, by the file. Agents load no lists, and clients load no parts: a bundler
 * could not leave them out of one object.
 */
const OPERATED = {
  catalog: ["FINDINGS", "COUNTS", "ACTIONS"],
  lists: ["LISTS", "READS", "OPENS", "SUBLISTS"],
  part: ["PARTS"],
  needs: ["NEEDS"],
  spans: ["SPANS"],
};
/** In the order in which operators see them. */
const OPERATED_BY = [
  ...["submissions", "workflow/waits", "outbox", "features/inbound", "scheduler"],
  ...["features/replies", "features/streams", "features/agent-tools", "features/limits"],
  ...["features/codemode", "features/deploy", "operator"],
];
for (const [file, names] of Object.entries(OPERATED)) {
  const sources = OPERATED_BY.map((module) => `src/${module}/operated/${file}.ts`);
  join(`src/operator/${file}.generated.ts`, sources, names);
}
await writeData();
const destinations = "src/outbox/destinations";
join(`${destinations}/kinds.generated.ts`, sourcesIn(destinations), ["KINDS"]);
join("src/workflow/waits/kinds.generated.ts", sourcesIn("src/workflow/waits/kinds"), ["KINDS"], {});
join("src/workflow/steps.generated.ts", sourcesIn("src/workflow"), ["STEPS"], {
  extending: "ThinkWorkflowSteps",
});

const app = path.join(root, "src/operator/dashboard/app");
const library = path.join(app, "html.ts");
// Smaller than by esbuild, which bundles the style, as Rolldown does not.
const bundle = await rolldown({
  input: path.join(app, "main.ts"),
  plugins: [
    {
      name: "templates",
      transform: (code, id) =>
        id.startsWith(app) && id !== library ? compiled(id, dense(code)) : code,
    },
  ],
  transform: { target: "es2022" },
  // The lists of operators are joined by spreading, and the page needs a part of them.
  treeshake: { propertyReadSideEffects: false },
});
const { output } = await bundle.generate({
  format: "esm",
  minify: true,
  comments: { legal: false },
});
const code = output[0].code.trim();
const style = await build({
  bundle: true,
  minify: true,
  write: false,
  legalComments: "none",
  entryPoints: [path.join(app, "style.css")],
  target: ["chrome123", "firefox120", "safari17.5"],
});
const css = style.outputFiles[0]?.text.trim() ?? "";
// A closing tag in a text would end the element.
const page = `// Written by scripts/generate.ts.\n\nexport const SCRIPT: string = ${JSON.stringify(code.replaceAll("</script", "<\\/script"))};\nexport const STYLE: string = ${JSON.stringify(css)};\n`;
write(path.join(root, "src/operator/dashboard/page.generated.ts"), page);

/**
 * Writes a file with constants, each of which joins those of the same name in the sources that have one.
 *
 * @param types whether the types of the sources are exported, too, and the name of an interface that extends those of them
 */
function join(
  target: string,
  sources: readonly string[],
  names: readonly string[],
  types?: { readonly extending?: string },
): void {
  const all = sources.flatMap((source) => {
    const file = path.join(root, source);
    const code = existsSync(file) ? readFileSync(file, "utf8") : "";
    const has = names.filter((name) => new RegExp(`^export const ${name}\\b`, "m").test(code));
    const declared = [...code.matchAll(/^export (type|interface) (\w+)/gm)];
    return has.length > 0 ? [{ source, has, declared }] : [];
  });
  const from = path.posix.dirname(target);
  const imports = all.map(({ source, declared }, at) => {
    const specifier = path.posix.relative(from, source);
    const module = `"${specifier.startsWith(".") ? specifier : `./${specifier}`}"`;
    const names = declared.map(([, , name]) => name).join(", ");
    const exported =
      types === undefined || names === "" ? "" : `\nexport type { ${names} } from ${module};`;
    return `import * as m${at} from ${module};${exported}`;
  });
  const extended = all.flatMap(({ declared }, at) =>
    declared.flatMap(([, is, name]) => (is === "interface" ? [`m${at}.${name}`] : [])),
  );
  const { extending } = types ?? {};
  const joined = extending && `export interface ${extending} extends ${extended.join(", ")} {}`;
  const constants = names.map((name) => {
    const of = all.flatMap(({ has }, at) => (has.includes(name) ? [`...m${at}.${name}`] : []));
    return `export const ${name} = { ${of.join(", ")} };`;
  });
  const lines = ["// Written by scripts/generate.ts.", ...imports, ...constants, joined ?? "", ""];
  write(path.join(root, target), lines.join("\n"));
}

/** What agents need of the catalogs, as literals: a bundler drops the texts, which only clients show. */
async function writeData(): Promise<void> {
  const { FINDINGS, COUNTS, ACTIONS } = await import("../src/operator/catalog.generated.ts");
  const checks = Object.entries<Definition>(ACTIONS).map(([name, definition]) => {
    const { fields, filter, isOfOpen } = definition;
    const kinds = Object.entries(fields).map(([field, [kind]]) => [field, kind]);
    return [name, { fields: Object.fromEntries(kinds), filter, isOfOpen }];
  });
  const all = { FINDINGS, COUNTS, CHECKS: Object.fromEntries(checks) };
  const constants = Object.entries(all).map(
    ([name, value]) => `export const ${name} = ${JSON.stringify(value)} as const;\n`,
  );
  const text = `// Written by scripts/generate.ts.\n\n${constants.join("")}`;
  write(path.join(root, "src/operator/data.generated.ts"), text);
}

/** Leaves a file alone that is right already: a dev server that watches it would load the Worker again. */
function write(file: string, text: string): void {
  if (!existsSync(file) || readFileSync(file, "utf8") !== text) writeFileSync(file, text);
}

/** The sources of a folder. */
function sourcesIn(folder: string): string[] {
  const names = readdirSync(path.join(root, folder)).filter((name) =>
    /(?<!\.generated)\.ts$/.test(name),
  );
  return names.sort().map((name) => `${folder}/${name}`);
}

/** Without the line breaks between elements of templates, which htm leaves out as well. */
function dense(source: string): string {
  return source.replace(/>\s*\n\s*(?=[<$])/g, ">").replace(/\}\s*\n\s*(?=<\/?[a-z$])/g, "}");
}

/** A section begins at a heading of level 1 to 3 that is not in a code block. */
function sectionsOf(page: string, markdown: string): [string, string, string][] {
  const found: [string, string, string][] = [];
  let isCode = false;
  let heading = page;
  let lines: string[] = [];
  const end = () => {
    const body = lines.join("\n").trim();
    if (body !== "") found.push([page, heading, body]);
    lines = [];
  };
  for (const line of markdown.split("\n")) {
    if (line.startsWith("```")) isCode = !isCode;
    const title = isCode ? undefined : /^#{1,3} (.+)$/.exec(line)?.[1];
    if (title === undefined) lines.push(line);
    else {
      end();
      heading = title;
    }
  }
  end();
  return found;
}
