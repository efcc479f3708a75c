/** The edits that make existing classes durable: their bases, their imports, and what their hosts need in their bodies. */

import type { Node } from "@babel/types";
import type { Sources } from "../project/classes.ts";
import {
  baseNameOf,
  callsOf,
  HOSTS,
  type HostEntry,
  installOf,
  shown,
  THINK_WORKFLOWS,
} from "../project/hosts.ts";
import {
  dotted,
  type Module,
  memberOf,
  nodesOf,
  propertyOf,
  type SourceClass,
  visit,
} from "../project/modules.ts";
import type { TextEdit } from "./diff.ts";
import { objectField } from "./templates.ts";

export type Candidate = {
  readonly cls: SourceClass;
  readonly host: HostEntry | typeof WORKFLOWS;
};

const WORKFLOWS = "perdure/workflow";

type Import = { readonly from: string; readonly name: string };

type Edits = {
  readonly edits: readonly TextEdit[];
  readonly imports: readonly Import[];
  /** A name that the class does not use any more. */
  readonly unused?: string;
  /** What the class needs besides. */
  readonly byHand: readonly string[];
};

const OPERATIONS: Import = { from: "perdure/operator", name: "operations" };

/**
 * The edits of one file.
 * @param text of the file
 * @param classes in it, each with the host that takes the place of its base class
 */
export function durableEdits(
  sources: Sources,
  file: string,
  text: string,
  classes: readonly Candidate[],
): Pick<Edits, "edits" | "byHand"> {
  const found = classes.flatMap(({ cls, host }) => {
    if (host === WORKFLOWS) return [];
    return host === "perdure/object" ? objectEdits(sources, cls) : agentEdits(sources, cls, host);
  });
  const module = sources.module(file);
  const unused = found.flatMap((each) => each.unused ?? []);
  const edits = [
    ...found.flatMap((each) => each.edits),
    ...(classes.some(({ host }) => host === WORKFLOWS) ? workflowEdits(module) : []),
    ...importEdits(
      module,
      found.flatMap(({ imports }) => imports),
    ),
    ...[...new Set(unused)].flatMap((name) => {
      const isUsed = usesOf(module, name) > unused.filter((each) => each === name).length;
      return isUsed ? [] : importRemoval(module, name);
    }),
  ];
  const eol = text.includes("\r\n") ? "\r\n" : "\n";
  return {
    edits: edits.map((each) => ({ ...each, text: each.text.replaceAll("\n", eol) })),
    byHand: found.flatMap(({ byHand }) => byHand),
  };
}

function agentEdits(sources: Sources, cls: SourceClass, host: HostEntry): Edits {
  const { file, node } = cls;
  const { by } = HOSTS[host];
  const name = baseNameOf(sources, cls) ?? by;
  const base = node.superClass && named(node.superClass, name);
  const features = `static ${isTyped(file) ? "override readonly " : ""}features = [operations()];`;
  const hasModel = host === "perdure/chat" || memberOf(cls, "getModel") !== undefined;
  const note = `${shown(sources, cls)} has no getModel(): return the model of its turns there.`;
  return {
    edits: [
      ...(base ? [{ ...rangeOf(base), text: by }] : []),
      memberEdit(sources.module(file), cls, features),
      ...(host === "perdure/chat" ? streamEdits(sources, cls) : []),
    ],
    imports: [{ from: host, name: by }, OPERATIONS],
    unused: name,
    byHand: hasModel ? [] : [note],
  };
}

const rangeOf = ({ start, end }: Node) => ({ from: start ?? 0, to: end ?? 0 });

/** Where an expression has this name. */
const named = (root: Node, name: string) =>
  nodesOf(root, "Identifier", "MemberExpression").find((each) => dotted(each) === name);

/** Imports of Think's workflows become imports of Perdure's. */
function workflowEdits({ tree }: Module): TextEdit[] {
  const statements = nodesOf(tree, "ImportDeclaration", "ExportNamedDeclaration");
  return statements.flatMap(({ source }) => {
    if (source?.value !== THINK_WORKFLOWS) return [];
    const { from, to } = rangeOf(source);
    return [{ from: from + 1, to: to - 1, text: WORKFLOWS }];
  });
}

/** `streamText({ ... })` becomes `streamText(this.durable({ ... }))`. */
function streamEdits(sources: Sources, cls: SourceClass): TextEdit[] {
  return callsOf(sources, cls, "ai", "streamText").flatMap(([options]) => {
    const isDurable =
      options?.type === "CallExpression" && propertyOf(options.callee) === "durable";
    if (!options || isDurable) return [];
    const { from, to } = rangeOf(options);
    return [
      { from, to: from, text: "this.durable(" },
      { from: to, to, text: ")" },
    ];
  });
}

function objectEdits(sources: Sources, cls: SourceClass): Edits {
  const { file, node, name } = cls;
  const module = sources.module(file);
  const install = installOf(cls);
  const member = install && node.body.body.find((each) => isWithin(install, each));
  const isField = member === undefined || member.type === "ClassProperty";
  const statement = statementOf(module, node);
  if (!isField || !statement) {
    const what = isField ? "is not declared by a statement" : "installs its Lifecycle in a method";
    const note = `${shown(sources, cls)} ${what}: add durable() as node_modules/perdure/docs/hosts.md shows.`;
    return { edits: [], imports: [], byHand: [note] };
  }
  const indent = indentOf(module, node);
  const field = objectField(name).replaceAll("\n", `\n${indent}  `);
  const ending = member && rangeOf(member).to;
  const end = rangeOf(node).to;
  const exported = statement.type === "ExportNamedDeclaration" ? "export " : "";
  const merged = `\n${indent}${exported}interface ${name} extends DurableVerbs {}`;
  const typed = isTyped(file);
  const plain = (member: string) => (typed ? member : member.replaceAll("readonly ", ""));
  return {
    edits: [
      ending === undefined
        ? memberEdit(module, cls, plain(`${LIFECYCLE}\n${indent}  ${field}`))
        : { from: ending, to: ending, text: plain(`\n${indent}  ${field}`) },
      ...(typed ? [{ from: end, to: end, text: merged }] : []),
    ],
    imports: [
      ...(install === undefined ? [{ from: "agents/lifecycle", name: "Lifecycle" }] : []),
      ...(typed ? [{ from: "perdure/object", name: "type DurableVerbs" }] : []),
      { from: "perdure/object", name: "durable" },
      OPERATIONS,
      { from: "perdure/testing", name: "ScriptedModel" },
    ],
    byHand: [`${shown(sources, cls)} answers by a scripted model: pass yours to durable().`],
  };
}

const LIFECYCLE = "readonly lifecycle = Lifecycle.install(this);";

const isWithin = (inner: Node, outer: Node) =>
  rangeOf(outer).from <= rangeOf(inner).from && rangeOf(inner).to <= rangeOf(outer).to;

/** The statement that declares a class and nothing else, with its `export`; none for a default export. */
const statementOf = ({ tree }: Module, cls: Node) =>
  tree.program.body.find(
    (each) => each === cls || (each.type === "ExportNamedDeclaration" && each.declaration === cls),
  );

/** Adds a member at the start of a class. */
function memberEdit(module: Module, { node }: SourceClass, member: string): TextEdit {
  const indent = indentOf(module, node);
  const at = rangeOf(node.body).from + 1;
  const rest = module.text.slice(at);
  const isAlone = /^[^\S\n]*\r?\n/.test(rest);
  const end = isAlone ? "" : `\n${indent}${/^\s*\}/.test(rest) ? "" : "  "}`;
  return { from: at, to: at, text: `\n${indent}  ${member}${end}` };
}

/** The blanks before the line of a node. */
function indentOf({ text }: Module, node: Node): string {
  const line = text.lastIndexOf("\n", rangeOf(node).from) + 1;
  return /^[^\S\n]*/.exec(text.slice(line))?.[0] ?? "";
}

/** Adds imports after the last one of a file, without those that it has. */
function importEdits({ text, tree, imports }: Module, wanted: readonly Import[]): TextEdit[] {
  const missing = wanted.filter(
    ({ from, name }) => imports.get(name.replace("type ", ""))?.from !== from,
  );
  const last = nodesOf(tree, "ImportDeclaration").at(-1);
  const end = last ? rangeOf(last).to : 0;
  const [line = ""] = (last && /^.*\n?/.exec(text.slice(end))) ?? [];
  const at = end + line.length;
  const lines = [...new Set(missing.map(({ from }) => from))].map((from) => {
    const names = missing.filter((each) => each.from === from).map(({ name }) => name);
    return `import { ${[...new Set(names)].join(", ")} } from "${from}";\n`;
  });
  return lines.length === 0 ? [] : [{ from: at, to: at, text: lines.join("") }];
}

/** How often a file uses a name, besides its import. */
function usesOf({ tree }: Module, name: string): number {
  let uses = 0;
  visit(tree, (node) => {
    if (node.type === "Identifier" && node.name === name) uses++;
    return node.type !== "ImportDeclaration";
  });
  return uses;
}

/** Removes a name from its list of imports, or the import that has no other name. */
function importRemoval({ text, tree }: Module, name: string): TextEdit[] {
  for (const statement of nodesOf(tree, "ImportDeclaration")) {
    const list = statement.specifiers.map((each) => ({ ...rangeOf(each), name: each.local.name }));
    const index = list.findIndex((each) => each.name === name);
    const [own, before, after] = [list[index], list[index - 1], list[index + 1]];
    if (!own) continue;
    const { from, to } = rangeOf(statement);
    const [line = ""] = /^[^\S\n]*\r?\n?/.exec(text.slice(to)) ?? [];
    if (list.length === 1) return [{ from, to: to + line.length, text: "" }];
    return [{ from: after ? own.from : (before?.to ?? from), to: after?.from ?? own.to, text: "" }];
  }
  return [];
}

const isTyped = (file: string) => /\.[cm]?tsx?$/.test(file);
