/**
 * Type-checks every `ts` block of every Markdown file of the repository, each as a separate module, against the sources, or
 * with `--packed` against the declarations in dist/, which have less.
 * `docs-globals.d.ts` declares what the blocks use without an import. An error is reported at its line of the Markdown file.
 * Also compares the table of tested versions with what `canary.ts` has recorded.
 * Also compiles the code of Think's documentation, with changed imports and base class.
 */
import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { problemOfTable } from "./tested-versions.ts";
import { thinkBlocks } from "./think-blocks.ts";

const root = path.join(import.meta.dirname, "..");
/** Inside the repository, so that the blocks find its packages. */
const scratch = path.join(root, ".docs-check");

interface Block {
  /** Line of the first line of code, from 1. */
  readonly line: number;
  readonly code: string;
}

/** The `ts` blocks of a Markdown text. */
function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  for (const match of markdown.matchAll(/^```ts\n(.*?)^```$/gms)) {
    const line = markdown.slice(0, match.index).split("\n").length + 1;
    blocks.push({ line, code: match[1] ?? "" });
  }
  return blocks;
}

const pages = globSync("**/*.md", {
  cwd: root,
  exclude: (name) => ["node_modules", "dist", ".docs-check"].includes(name),
}).sort();

rmSync(scratch, { recursive: true, force: true });
mkdirSync(scratch);
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

let count = 0;
let wrongTables = 0;
for (const page of pages) {
  const markdown = readFileSync(path.join(root, page), "utf8");
  const problem = problemOfTable(markdown);
  if (problem !== undefined) {
    console.log(`${page}: ${problem}`);
    wrongTables += 1;
  }
  for (const { line, code } of blocksOf(markdown)) {
    // As many lines above the code as the page has, so that the compiler's line numbers are the page's.
    const module = `${"\n".repeat(line - 1)}${code}\nexport {};\n`;
    writeFileSync(path.join(scratch, `${page.replaceAll("/", "~")}.${line}.ts`), module);
    count += 1;
  }
}
if (count === 0) throw new Error("Found no ts block in any Markdown file; is the pattern right?");

const ofThink = thinkBlocks();
for (const { page, line, code } of ofThink) {
  const module = `${"\n".repeat(line - 1)}${code}\nexport {};\n`;
  writeFileSync(path.join(scratch, `think~docs~${page}.${line}.ts`), module);
}

const config = {
  extends: "../tsconfig.json",
  include: ["*.ts", "../scripts/docs-globals.d.ts"],
  exclude: [],
  // Most apps do not set it.
  compilerOptions: {
    noImplicitOverride: false,
    // Without paths, `perdure/think` is an entry of package.json.
    ...(process.argv.includes("--packed") && { paths: {} }),
  },
};
writeFileSync(path.join(scratch, "tsconfig.json"), JSON.stringify(config));
const { status, stdout } = spawnSync("tsc", ["--project", scratch, "--pretty", "false"], {
  cwd: root,
  encoding: "utf8",
});
const errors = stdout.replaceAll(
  /^\.docs-check\/(.+?\.md)\.\d+\.ts\((\d+),(\d+)\)/gm,
  (_, page: string, line: string, column: string) =>
    `${page.replaceAll("~", "/")}:${line}:${column}`,
);
process.stdout.write(errors);
console.log(
  `${count} ts blocks of ${pages.length} Markdown files checked, and ${ofThink.length} of Think's documentation`,
);
/** A reader on npm or GitHub sees the first command on the first screen, and no line is cut. */
const readme = readFileSync(path.join(root, "README.md"), "utf8").trimEnd().split("\n");
const wide = readme.flatMap((line, index) => (line.length > 120 ? [index + 1] : []));
if (readme.length > 150) console.log(`README.md has ${readme.length} lines; the limit is 150`);
if (wide.length > 0)
  console.log(`README.md has more than 120 characters in line ${wide.join(", ")}`);
const isReadmeWrong = readme.length > 150 || wide.length > 0;
process.exitCode = wrongTables > 0 || isReadmeWrong ? 1 : (status ?? 1);
