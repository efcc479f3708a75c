/**
 * Checks the imports of src/: each goes to its own layer or to one below it (scripts/modules.ts), no files import each other in a
 * circle, type-only imports included, hosts and Code Mode alone import their packages, and one file uses the job queue. Files of
 * types alone that many files import may hide a circle: there are no more of them than there were. Checks also that
 * test/acceptance uses public names only.
 * Prints `file:line` and the rule for each breach. Changes no file.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { findLayer, mayImport } from "./modules.ts";

/** Packages that only one folder of src/ may import. */
const PACKAGES: Readonly<Record<string, string>> = {
  "@cloudflare/ai-chat": "hosts/chat",
  "@cloudflare/codemode": "features/codemode",
  "@cloudflare/computer": "hosts/think",
  "@cloudflare/think": "hosts/think",
};

/** Properties that only one file of src/ may use. */
const PROPERTIES: Readonly<Record<string, string>> = {
  jobs: "engine/wake.ts",
};

const ROOT = path.join(import.meta.dirname, "..");

interface Breach {
  readonly offset: number;
  readonly rule: string;
}

/** The files of src/ that a file of src/ imports. */
const graph = new Map<string, ReadonlySet<string>>();

/** Files of src/ that declare types alone. */
const ofTypes = new Set<string>();
/** Files that may import such a file, and how many have more: lower the second when one is gone. */
const MOST_IMPORTERS = 10;
const MOST_SHARED = 15;

/** The rule that an import breaks, or undefined. `file` is relative to src/. */
function importRule(file: string, specifier: string): string | undefined {
  if (/^perdure(\/|$)/.test(specifier))
    return "src imports its own modules by path, not by public name";
  if (!specifier.startsWith(".")) {
    const owner = Object.entries(PACKAGES).find(
      ([name]) => specifier === name || specifier.startsWith(`${name}/`),
    );
    if (owner === undefined || file.startsWith(`${owner[1]}/`)) return undefined;
    return `only src/${owner[1]} imports ${owner[0]}`;
  }
  const target = path.posix.join(path.posix.dirname(file), specifier);
  if (target.startsWith("..")) return "src imports nothing from outside src";
  graph.set(file, new Set(graph.get(file)).add(target));
  const from = findLayer(file);
  const to = findLayer(target);
  if (from === undefined || to === undefined || mayImport(from, to)) return undefined;
  return `${from} does not import ${to}, which is above it`;
}

function propertyRule(file: string, name: unknown): string | undefined {
  if (typeof name !== "string" || !Object.hasOwn(PROPERTIES, name)) return undefined;
  const owner = PROPERTIES[name];
  return owner === file ? undefined : `only src/${owner} uses \`.${name}\``;
}

function findBreaches(file: string, text: string): Breach[] {
  const found: Breach[] = [];
  const report = (offset: number, rule: string | undefined) => {
    if (rule !== undefined) found.push({ offset, rule });
  };
  if (findLayer(file) === undefined) report(0, "the file is in no layer of scripts/modules.ts");

  const { program, errors } = parseSync(file, text);
  for (const error of errors)
    report(error.labels[0]?.start ?? 0, `cannot be parsed: ${error.message}`);
  if (program.body.every(isType)) ofTypes.add(file);
  const edge = (offset: number, source: unknown) => {
    const specifier = (source as { value?: unknown } | null)?.value;
    report(
      offset,
      typeof specifier === "string"
        ? importRule(file, specifier)
        : "an import names its module with a plain string",
    );
  };
  new Visitor({
    ImportDeclaration: (node) => edge(node.start, node.source),
    ExportAllDeclaration: (node) => edge(node.start, node.source),
    ExportNamedDeclaration: (node) => {
      if (node.source) edge(node.start, node.source);
    },
    ImportExpression: (node) => edge(node.start, node.source),
    TSImportType: (node) => edge(node.start, node.source),
    MemberExpression: ({ start, property }) =>
      report(start, propertyRule(file, "value" in property ? property.value : nameOf(property))),
    ObjectPattern: ({ properties }) => {
      for (const property of properties) {
        if (property.type === "Property")
          report(property.start, propertyRule(file, nameOf(property.key)));
      }
    },
  }).visit(program);
  return found.sort((a, b) => a.offset - b.offset);
}

/** True for a statement that leaves nothing in the code that runs. */
function isType(node: object): boolean {
  const { type, exportKind } = node as { type: string; exportKind?: string };
  return type === "ImportDeclaration" || type.startsWith("TS") || exportKind === "type";
}

function nameOf(node: object): unknown {
  return "name" in node ? node.name : undefined;
}

/** The circles of files, each once. Tarjan's algorithm. */
function findCircles(): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    low.set(file, index.get(file) as number);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next))
        low.set(file, Math.min(low.get(file) as number, low.get(next) as number));
    }
    if (low.get(file) !== index.get(file)) return;
    const circle = stack.splice(stack.indexOf(file));
    if (circle.length > 1) circles.push(circle);
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return circles;
}

/** The rule that an import of test/acceptance breaks, which states behaviour by public names. */
function acceptanceRule(file: string, specifier: string): string | undefined {
  const isOwn =
    specifier.startsWith(".") &&
    !path.posix.join(path.posix.dirname(file), specifier).startsWith("..");
  const isPackage = !/^[./#]|^(src|test)\//.test(specifier);
  // A process group and the environment without a network: they start the runtime and know nothing of Perdure.
  const isStart = /^\.\.\/\.\.\/\.\.\/scripts\/(offline|process-group)\.ts$/.test(specifier);
  return isOwn || isPackage || isStart
    ? undefined
    : "test/acceptance imports perdure/*, packages and its own files only";
}

function findAcceptanceBreaches(file: string, text: string): Breach[] {
  const found: Breach[] = [];
  for (const match of text.matchAll(/perdure_/g))
    found.push({ offset: match.index, rule: "test/acceptance names no table of Perdure" });
  if (!/\.tsx?$/.test(file)) return found;
  const edge = (offset: number, source: unknown) => {
    const specifier = (source as { value?: unknown } | null)?.value;
    const rule =
      typeof specifier === "string"
        ? acceptanceRule(file, specifier)
        : "an import names its module with a plain string";
    if (rule !== undefined) found.push({ offset, rule });
  };
  new Visitor({
    ImportDeclaration: (node) => edge(node.start, node.source),
    ExportAllDeclaration: (node) => edge(node.start, node.source),
    ExportNamedDeclaration: (node) => {
      if (node.source) edge(node.start, node.source);
    },
    ImportExpression: (node) => edge(node.start, node.source),
    TSImportType: (node) => edge(node.start, node.source),
  }).visit(parseSync(file, text).program);
  return found;
}

/** Relative to the folder. */
function listFiles(folder: string, names: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll(path.sep, "/"))
    .filter((file) => names.test(file))
    .sort();
}

let breaches = 0;
let files = 0;
for (const [folder, names, find] of [
  ["src", /\.tsx?$/, findBreaches],
  ["test/acceptance", /\.(tsx?|mjs|jsonc|sql)$/, findAcceptanceBreaches],
] as const) {
  for (const file of listFiles(path.join(ROOT, folder), names)) {
    const text = readFileSync(path.join(ROOT, folder, file), "utf8");
    files += 1;
    for (const { offset, rule } of find(file, text)) {
      console.error(`${folder}/${file}:${text.slice(0, offset).split("\n").length}  ${rule}`);
      breaches += 1;
    }
  }
}
if (!existsSync(path.join(ROOT, "src/operator/lists.generated.ts"))) {
  console.error("Run `node scripts/generate.ts` first: generated files are part of circles.");
  breaches += 1;
}
const circles = findCircles();
for (const circle of circles) console.error(`src: files import each other: ${circle.join(", ")}`);
breaches += circles.length;
const shared = [...ofTypes].filter((file) => {
  const importers = [...graph.values()].filter((imported) => imported.has(file));
  return importers.length > MOST_IMPORTERS;
});
if (shared.length > MOST_SHARED) {
  console.error(
    `${shared.length} files of types alone have more than ${MOST_IMPORTERS} importers, at most ${MOST_SHARED}: ${shared.join(", ")}`,
  );
  breaches += 1;
}
console.log(`${files} files, ${circles.length} circles, ${breaches} breaches of the import rules`);
process.exitCode = breaches > 0 ? 1 : 0;
