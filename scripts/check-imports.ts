/**
 * Checks the import rules of src/: which module may import which, and only by its index.ts or internal.ts; that no modules
 * import each other in a circle; which folder may import a host's package; and that one file uses the job queue. Checks also
 * that test/acceptance uses public names only. Prints `file:line` and the rule for each breach. Changes no file.
 */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { MODULES, type ModuleRule, moduleOf, walledOf } from "./modules.ts";

/** Features that a host has by default. Others are imported by the app alone. */
const PRESETS: Readonly<Record<string, string>> = {
  scheduler: "hosts/think",
};

/** Packages that only one folder of src/ may import. */
const PACKAGES: Readonly<Record<string, string>> = {
  "@cloudflare/ai-chat": "hosts/chat",
  "@cloudflare/codemode": "codemode",
  "@cloudflare/computer": "hosts/think",
  "@cloudflare/think": "hosts/think",
};

/** Properties that only one file of src/ may use. */
const PROPERTIES: Readonly<Record<string, string>> = {
  jobs: "core/lifecycle/wake.ts",
};

/** Lint rules that a `biome-ignore` comment may not switch off in src/. */
const NO_EXEMPTIONS = /biome-ignore.*(noExcessiveLinesPerFile|noExcessiveLinesPerFunction)/;

const ROOT = path.join(import.meta.dirname, "..");

interface Breach {
  readonly offset: number;
  readonly rule: string;
}

/** The rule that an import breaks, or undefined. `file` is relative to src/. */
function importRule(file: string, specifier: string, typesOnly: boolean): string | undefined {
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
  const from = moduleOf(file);
  const to = moduleOf(target);
  const rule = MODULES[from ?? ""];
  if (from === undefined || to === undefined || from === to || rule === undefined) return undefined;
  const isOfPart = from === "operator" && PART.test(target);
  return (
    (isOfPart ? undefined : directionRule(file, [from, to], rule, typesOnly)) ??
    wallRule(target, walledOf(from), walledOf(to))
  );
}

/** What a module contributes for operators. */
const PART = /^[\w/-]+\/operated\/(catalog|lists|needs|part|spans)\.ts$/;

/** An import from another module goes through its index.ts, which users may have, or its internal.ts. */
function wallRule(target: string, from: string, to: string): string | undefined {
  if (from === to || to === "core") return undefined;
  walls.set(from, new Set(walls.get(from)).add(to));
  if (DOORS.some((door) => target === `${to}/${door}.ts`)) return undefined;
  if (from === "operator" && PART.test(target)) return undefined;
  return `${from} imports from ${to} by src/${to}/index.ts or src/${to}/internal.ts only`;
}

/** `pure` is the entry of what also runs in Node. */
const DOORS = ["index", "internal", "pure"];

/** By a module, those that it imports. */
const walls = new Map<string, ReadonlySet<string>>();

/** The first circle of modules that a module is part of. */
function circleOf(module: string, path: readonly string[] = []): readonly string[] | undefined {
  if (path[0] === module) return [...path, module];
  if (path.includes(module)) return undefined;
  for (const next of walls.get(module) ?? []) {
    const circle = circleOf(next, [...path, module]);
    if (circle) return circle;
  }
  return undefined;
}

function directionRule(
  file: string,
  [from, to]: readonly [string, string],
  rule: ModuleRule,
  typesOnly: boolean,
): string | undefined {
  if (rule.imports.includes(to)) return undefined;
  if (PRESETS[to] !== undefined && file.startsWith(`${PRESETS[to]}/`)) return undefined;
  if (rule.typesOnly?.includes(to)) {
    return typesOnly ? undefined : `${from} imports from ${to} with \`import type\` only`;
  }
  const allowed = [
    ...rule.imports,
    ...(rule.typesOnly ?? []).map((module) => `types of ${module}`),
  ];
  return `${from} does not import ${to} (it may import ${allowed.join(", ") || "no module"})`;
}

function propertyRule(file: string, name: unknown): string | undefined {
  if (typeof name !== "string" || !Object.hasOwn(PROPERTIES, name)) return undefined;
  const owner = PROPERTIES[name];
  return owner === file ? undefined : `only src/${owner} uses \`.${name}\``;
}

function breachesOf(file: string, text: string): Breach[] {
  const found: Breach[] = [];
  const report = (offset: number, rule: string | undefined) => {
    if (rule !== undefined) found.push({ offset, rule });
  };
  if (moduleOf(file) === undefined) report(0, "the file is in no module of scripts/modules.ts");

  const { program, comments, errors } = parseSync(file, text);
  for (const error of errors)
    report(error.labels[0]?.start ?? 0, `cannot be parsed: ${error.message}`);
  for (const comment of comments) {
    if (NO_EXEMPTIONS.test(comment.value))
      report(comment.start, "the size limits have no exemptions");
  }
  const edge = (offset: number, source: unknown, typesOnly: boolean) => {
    const specifier = (source as { value?: unknown } | null)?.value;
    report(
      offset,
      typeof specifier === "string"
        ? importRule(file, specifier, typesOnly)
        : "an import names its module with a plain string",
    );
  };
  new Visitor({
    ImportDeclaration: (node) => edge(node.start, node.source, node.importKind === "type"),
    ExportAllDeclaration: (node) => edge(node.start, node.source, node.exportKind === "type"),
    ExportNamedDeclaration: (node) => {
      if (node.source) edge(node.start, node.source, node.exportKind === "type");
    },
    ImportExpression: (node) => edge(node.start, node.source, false),
    TSImportType: (node) => edge(node.start, node.source, true),
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

function nameOf(node: object): unknown {
  return "name" in node ? node.name : undefined;
}

/** Imports of test/acceptance, which states behaviour by public names and is not rewritten with the code that it judges. */
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

function acceptanceBreaches(file: string, text: string): Breach[] {
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
for (const [folder, names, findBreaches] of [
  ["src", /\.tsx?$/, breachesOf],
  ["test/acceptance", /\.(tsx?|mjs|jsonc|sql)$/, acceptanceBreaches],
] as const) {
  for (const file of listFiles(path.join(ROOT, folder), names)) {
    const text = readFileSync(path.join(ROOT, folder, file), "utf8");
    files += 1;
    for (const { offset, rule } of findBreaches(file, text)) {
      console.error(`${folder}/${file}:${text.slice(0, offset).split("\n").length}  ${rule}`);
      breaches += 1;
    }
  }
}
const circle = [...walls.keys()]
  .map((module) => circleOf(module))
  .find((found) => found !== undefined);
if (circle) {
  console.error(`src: modules import each other: ${circle.join(" -> ")}`);
  breaches += 1;
}
console.log(`${files} files, ${breaches} breaches of the import rules`);
process.exitCode = breaches > 0 ? 1 : 0;
