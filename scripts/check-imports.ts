/**
 * Checks the import rules of src/: which module may import which, which folder may import a host's package, and that one file
 * uses the job queue. Prints `file:line` and the rule for each breach. Changes no file.
 */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseSync, Visitor } from "oxc-parser";

interface ModuleRule {
  /** Modules whose values and types it may import. */
  readonly imports: readonly string[];
  /** Modules from which it may import only types, with `import type`. */
  readonly typesOnly?: readonly string[];
}

const KERNEL = ["core", "outbox", "submissions", "waits"];
const INNER = [...KERNEL, "workflow"];

/** A module that is in no list is not imported by any other module. */
const MODULES: Readonly<Record<string, ModuleRule>> = {
  core: { imports: [] },
  outbox: { imports: ["core"] },
  replies: { imports: ["core", "outbox"] },
  submissions: { imports: ["core", "outbox"] },
  waits: { imports: ["core", "outbox", "submissions"] },
  kernel: { imports: KERNEL },
  inbound: { imports: KERNEL, typesOnly: ["kernel"] },
  webhooks: { imports: ["core", "inbound"], typesOnly: ["outbox", "submissions", "waits"] },
  scheduler: { imports: ["core"], typesOnly: ["kernel", "submissions"] },
  "agent-tools": { imports: ["core", "waits"], typesOnly: ["kernel"] },
  workflow: {
    imports: ["core"],
    typesOnly: ["submissions", "waits", "outbox", "inbound", "agent-tools"],
  },
  operator: { imports: [...INNER, "kernel", "inbound"], typesOnly: ["scheduler"] },
  hosts: {
    imports: [...INNER, "kernel"],
    typesOnly: ["operator", "streams", "scheduler", "inbound"],
  },
  streams: { imports: ["core", "submissions", "kernel"], typesOnly: ["waits"] },
  react: { imports: ["streams"], typesOnly: ["submissions", "waits"] },
  mcp: { imports: ["core", "scheduler", "webhooks", "operator"], typesOnly: ["submissions"] },
  dashboard: { imports: ["core", "scheduler", "operator"] },
  cli: { imports: ["core", "scheduler", "operator"] },
  codemode: { imports: ["core", "waits", "workflow"], typesOnly: ["kernel"] },
  testing: { imports: [...INNER, "hosts"] },
};

/** Features that a host has by default. Others are imported by the app alone. */
const PRESETS: Readonly<Record<string, string>> = {
  scheduler: "hosts/think",
};

/** Packages that only one folder of src/ may import. */
const PACKAGES: Readonly<Record<string, string>> = {
  "@cloudflare/ai-chat": "hosts/chat",
  "@cloudflare/computer": "hosts/think",
  "@cloudflare/think": "hosts/think",
};

/** Properties that only one file of src/ may use. */
const PROPERTIES: Readonly<Record<string, string>> = {
  jobs: "core/lifecycle/wake.ts",
};

/** Lint rules that a `biome-ignore` comment may not switch off in src/. */
const NO_EXEMPTIONS = /biome-ignore.*(noExcessiveLinesPerFile|noExcessiveLinesPerFunction)/;

const SRC = path.join(import.meta.dirname, "../src");

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
  const rule = MODULES[from];
  if (from === to || rule === undefined || rule.imports.includes(to)) return undefined;
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

function moduleOf(file: string): string {
  return file.split("/", 1)[0] as string;
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
  if (MODULES[moduleOf(file)] === undefined)
    report(0, `src/${moduleOf(file)} is not a module of the table`);

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

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .map((file) => file.replaceAll(path.sep, "/"))
  .filter((file) => /\.tsx?$/.test(file))
  .sort();
let breaches = 0;
for (const file of files) {
  const text = readFileSync(path.join(SRC, file), "utf8");
  for (const { offset, rule } of breachesOf(file, text)) {
    console.error(`src/${file}:${text.slice(0, offset).split("\n").length}  ${rule}`);
    breaches += 1;
  }
}
console.log(`${files.length} files, ${breaches} breaches of the import rules`);
process.exitCode = breaches > 0 ? 1 : 0;
