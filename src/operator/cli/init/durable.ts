/** The edits that make existing classes durable: their bases, their imports, and what their hosts need in their bodies. */

import type { Sources } from "../project/classes.ts";
import {
  baseNameOf,
  callsOf,
  HOSTS,
  type HostEntry,
  INSTALL,
  shown,
  THINK_WORKFLOWS,
} from "../project/hosts.ts";
import { closingOf, type SourceClass } from "../project/modules.ts";
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
  const { bare, code } = sources.module(file);
  const unused = found.flatMap((each) => each.unused ?? []);
  const edits = [
    ...found.flatMap((each) => each.edits),
    ...(classes.some(({ host }) => host === WORKFLOWS) ? workflowEdits(code) : []),
    ...importEdits(
      sources,
      file,
      found.flatMap(({ imports }) => imports),
    ),
    ...[...new Set(unused)].flatMap((name) => {
      const uses = [...bare.matchAll(wordOf(name))].length;
      const isUsed = uses > 1 + unused.filter((each) => each === name).length;
      return isUsed ? [] : importRemoval(bare, name);
    }),
  ];
  const eol = text.includes("\r\n") ? "\r\n" : "\n";
  return {
    edits: edits.map((each) => ({ ...each, text: each.text.replaceAll("\n", eol) })),
    byHand: found.flatMap(({ byHand }) => byHand),
  };
}

function agentEdits(sources: Sources, cls: SourceClass, host: HostEntry): Edits {
  const { file, at, open, body } = cls;
  const { by } = HOSTS[host];
  const { bare } = sources.module(file);
  const name = baseNameOf(sources, cls) ?? by;
  const word = wordOf(name);
  word.lastIndex = bare.indexOf("extends", at);
  const from = word.exec(bare)?.index ?? open;
  const features = `static ${isTyped(file) ? "override readonly " : ""}features = [operations()];`;
  const hasModel = host === "perdure/chat" || /\bgetModel\s*\(/.test(body);
  const note = `${shown(sources, cls)} has no getModel(): return the model of its turns there.`;
  return {
    edits: [
      { from, to: from + name.length, text: by },
      memberEdit(bare, cls, features),
      ...(host === "perdure/chat" ? streamEdits(sources, cls) : []),
    ],
    imports: [{ from: host, name: by }, OPERATIONS],
    unused: name,
    byHand: hasModel ? [] : [note],
  };
}

/** Imports of Think's workflows become imports of Perdure's. */
function workflowEdits(code: string): TextEdit[] {
  const source = new RegExp(`(?<=\\bfrom\\s*["'])${THINK_WORKFLOWS}(?=["'])`, "g");
  return Array.from(code.matchAll(source), ({ 0: { length }, index }) => ({
    from: index,
    to: index + length,
    text: WORKFLOWS,
  }));
}

/** `streamText({ ... })` becomes `streamText(this.durable({ ... }))`. */
function streamEdits(sources: Sources, cls: SourceClass): TextEdit[] {
  const calls = callsOf(sources, cls, "ai", "streamText").filter(
    ({ given }) => given !== "" && !/^this\s*\.\s*durable\b/.test(given),
  );
  return calls.flatMap(({ from, to }) => [
    { from, to: from, text: "this.durable(" },
    { from: to, to, text: ")" },
  ]);
}

function objectEdits(sources: Sources, cls: SourceClass): Edits {
  const { file, at, open, body, name } = cls;
  const { bare } = sources.module(file);
  const install = INSTALL.exec(body)?.index;
  const isField = install === undefined || depthAt(body, install) === 1;
  const declared = /^(export\s+)?(?:abstract\s+)?class\b/.exec(bare.slice(at));
  if (!isField || !declared) {
    const what = isField ? "is not declared by a statement" : "installs its Lifecycle in a method";
    const note = `${shown(sources, cls)} ${what}: add durable() as node_modules/perdure/docs/hosts.md shows.`;
    return { edits: [], imports: [], byHand: [note] };
  }
  const indent = indentOf(bare, at);
  const field = objectField(name).replaceAll("\n", `\n${indent}  `);
  const ending = install === undefined ? 0 : open + statementEnd(body, install);
  const end = open + body.length + 1;
  const merged = `\n${indent}${declared[1] ? "export " : ""}interface ${name} extends DurableVerbs {}`;
  const typed = isTyped(file);
  const plain = (member: string) => (typed ? member : member.replaceAll("readonly ", ""));
  return {
    edits: [
      install === undefined
        ? memberEdit(bare, cls, plain(`${LIFECYCLE}\n${indent}  ${field}`))
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

/** How many braces are open before an offset. */
function depthAt(body: string, at: number): number {
  const before = body.slice(0, at);
  return before.split("{").length - before.split("}").length;
}

/** Where the statement ends that has a call at an offset. */
function statementEnd(body: string, at: number): number {
  const close = closingOf(body, body.indexOf("(", at), "()") + 1;
  return close + (/^\s*;/.exec(body.slice(close))?.[0].length ?? 0);
}

/** Adds a member at the start of a class. */
function memberEdit(bare: string, { at, open }: SourceClass, member: string): TextEdit {
  const indent = indentOf(bare, at);
  const rest = bare.slice(open + 1);
  const isAlone = /^[^\S\n]*\r?\n/.test(rest);
  const end = isAlone ? "" : `\n${indent}${/^\s*\}/.test(rest) ? "" : "  "}`;
  return { from: open + 1, to: open + 1, text: `\n${indent}  ${member}${end}` };
}

function indentOf(bare: string, at: number): string {
  return /^[^\S\n]*/.exec(bare.slice(bare.slice(0, at).lastIndexOf("\n") + 1))?.[0] ?? "";
}

/** Adds imports after the last one of a file, without those that it has. */
function importEdits(sources: Sources, file: string, wanted: readonly Import[]): TextEdit[] {
  const { bare, imports } = sources.module(file);
  const missing = wanted.filter(
    ({ from, name }) => imports.get(name.replace("type ", ""))?.from !== from,
  );
  const last = [...bare.matchAll(/^import\b[^"'`;]*["'][^"'\n]*["'][^\n]*\n?/gm)].at(-1);
  const at = last ? last.index + last[0].length : 0;
  const text = [...new Set(missing.map(({ from }) => from))].map((from) => {
    const names = missing.filter((each) => each.from === from).map(({ name }) => name);
    return `import { ${[...new Set(names)].join(", ")} } from "${from}";\n`;
  });
  return text.length === 0 ? [] : [{ from: at, to: at, text: text.join("") }];
}

/** Removes a name from its list of imports, or the import that has no other name. */
function importRemoval(bare: string, name: string): TextEdit[] {
  const statement = /^import\s*\{([^}]*)\}\s*from\s*["'][^"'\n]*["'];?[^\S\n]*\r?\n?/gm;
  for (const { 0: all, 1: list = "", index } of bare.matchAll(statement)) {
    const parts = list.split(",");
    const others = parts.filter((part) => part.trim().split(/\s+/).at(-1) !== name);
    if (others.length === parts.length) continue;
    const names = others.filter((part) => part.trim() !== "");
    if (names.length === 0) return [{ from: index, to: index + all.length, text: "" }];
    const [start = ""] = /^\s*/.exec(list) ?? [];
    const [end = ""] = /,?\s*$/.exec(list) ?? [];
    const from = index + all.indexOf("{") + 1;
    return [{ from, to: from + list.length, text: `${start}${names.join(",").trim()}${end}` }];
  }
  return [];
}

const wordOf = (name: string) =>
  new RegExp(`(?<![\\w$.])${name.replaceAll(/[$.]/g, "\\$&")}(?![\\w$])`, "g");

const isTyped = (file: string) => /\.[cm]?tsx?$/.test(file);
