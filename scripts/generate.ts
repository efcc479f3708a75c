/**
 * Writes the sources that are made of other files, which git ignores: src/operator/mcp/docs.generated.ts has the sections of README.md and
 * docs/, for the tool `search_docs`; src/operator/dashboard/page.generated.ts has the script and the style of the dashboard. Runs after an install, and before the tests and the build.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";
import { rolldown } from "rolldown";

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

writeFileSync(target, text);

const app = path.join(root, "src/operator/dashboard/app");
// Smaller than by esbuild, which bundles the style, as Rolldown does not.
const bundle = await rolldown({
  input: path.join(app, "main.ts"),
  plugins: [
    { name: "templates", transform: (code, id) => (id.startsWith(app) ? dense(code) : code) },
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
writeFileSync(path.join(root, "src/operator/dashboard/page.generated.ts"), page);

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
