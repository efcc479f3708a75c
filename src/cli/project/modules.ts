/** Parses one source file: its imports, exports and classes. */

import { readFileSync, statSync } from "node:fs";
import { type ParserPlugin, parse } from "@babel/parser";
import type { Class, File, Node } from "@babel/types";
import { walk } from "estree-walker";

export type SourceClass = {
  /** As it is declared; "default" for one without a name. */
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly node: Class;
  /** The names in what it extends: withAudit and DurableThink of `withAudit(DurableThink)`. None: it extends nothing. */
  readonly bases: readonly string[];
  /** The first type argument of what it extends: Reports of `DurableWorkflow<Reports>`. */
  readonly target: string | undefined;
};

/** A name of another file, or without `from` of the same one. */
export type Ref = { readonly from?: string; readonly name: string; readonly isType?: boolean };

export type Module = {
  readonly text: string;
  readonly tree: File;
  /** Why it does not parse, with the line. Nothing else is known of it then. */
  readonly problem: string | undefined;
  /** Whether it is not read. */
  readonly isTooLarge: boolean;
  readonly classes: readonly SourceClass[];
  /** By the name in this file. The name of a namespace is "*". */
  readonly imports: ReadonlyMap<string, Ref>;
  readonly exports: ReadonlyMap<string, Ref>;
  /** Constants at the top level, by name. */
  readonly constants: ReadonlyMap<string, Node>;
  /** What it exports everything of. */
  readonly stars: readonly string[];
  /** What it imports or exports from. */
  readonly specifiers: readonly string[];
};

const MAX_BYTES = 16 * 1_048_576;

export function moduleOf(file: string): Module {
  const found = statSync(file, { throwIfNoEntry: false });
  const isTooLarge = (found?.size ?? 0) > MAX_BYTES;
  const text = found?.isFile() && !isTooLarge ? readFileSync(file, "utf8") : "";
  const { tree, problem } = treeOf(file, text);
  const imports = new Map<string, Ref>();
  const exports = new Map<string, Ref>();
  for (const { source, specifiers } of nodesOf(tree, "ImportDeclaration")) {
    for (const each of specifiers) {
      const ofType = { ImportDefaultSpecifier: "default", ImportNamespaceSpecifier: "*" };
      const name = each.type === "ImportSpecifier" ? nameOf(each.imported) : ofType[each.type];
      imports.set(each.local.name, { from: source.value, name });
    }
  }
  for (const node of nodesOf(tree, "ExportNamedDeclaration")) {
    for (const name of declaredBy(node.declaration)) exports.set(name, { name });
    for (const each of node.specifiers) {
      const isNamed = each.type === "ExportSpecifier";
      const isType = [node.exportKind, isNamed && each.exportKind].includes("type");
      const from = node.source && { from: node.source.value };
      const name = isNamed ? nameOf(each.local) : "*";
      exports.set(nameOf(each.exported), { name, isType, ...from });
    }
  }
  for (const { declaration } of nodesOf(tree, "ExportDefaultDeclaration")) {
    const named = "id" in declaration ? declaration.id : declaration;
    exports.set("default", { name: dotted(named) ?? "default" });
  }
  const stars = nodesOf(tree, "ExportAllDeclaration").map(({ source }) => source.value);
  const classes = classesIn(file, tree);
  const constants = constantsIn(tree);
  const specifiers = specifiersOf(tree);
  const read = { text, tree, problem, isTooLarge };
  return { ...read, classes, imports, exports, constants, stars, specifiers };
}

function treeOf(file: string, text: string): Pick<Module, "tree" | "problem"> {
  const options = { sourceType: "module", errorRecovery: true, plugins: pluginsFor(file) } as const;
  try {
    return { tree: parse(text, options), problem: undefined };
  } catch (error) {
    // A SyntaxError, or a RangeError for what is nested too deep.
    const { loc, message } = error as SyntaxError & { readonly loc?: { readonly line: number } };
    const problem = `line ${loc?.line ?? 1}: ${message.replace(/ \(\d+:\d+\)$/, "")}`;
    return { tree: parse("", options), problem };
  }
}

/** JSX and type assertions exclude each other. */
function pluginsFor(file: string): ParserPlugin[] {
  const isTyped = /\.[cm]?tsx?$/.test(file);
  return [
    "decorators-legacy",
    ...(isTyped ? (["typescript"] as const) : []),
    ...(/\.[cm]?ts$/.test(file) ? [] : (["jsx"] as const)),
  ];
}

/** The nodes of these types below a node, and itself, in the order of the text. */
export function nodesOf<Type extends Node["type"]>(root: Node, ...types: Type[]) {
  const found: Extract<Node, { type: Type }>[] = [];
  const wanted: ReadonlySet<string> = new Set(types);
  visit(root, (node) => {
    if (wanted.has(node.type)) found.push(node as (typeof found)[number]);
  });
  return found;
}

type Visitor = (node: Node, parent: Node | null, key: string) => unknown;

/** Visits a node and those below it. @param enter returns false to leave out what is below a node */
export function visit(root: Node, enter: Visitor): void {
  type Tree = Parameters<typeof walk>[0];
  walk(root as unknown as Tree, {
    enter(node, parent, key) {
      const around = parent as unknown as Node | null;
      if (enter(node as unknown as Node, around, String(key)) === false) this.skip();
    },
  });
}

/** `a.b.C` of such an expression, or of the name of a type. */
export function dotted(node: Node | null | undefined): string | undefined {
  if (node?.type === "Identifier") return node.name;
  const [left, right] =
    node?.type === "TSQualifiedName"
      ? [node.left, node.right]
      : node?.type === "MemberExpression" && !node.computed
        ? [node.object, node.property]
        : [];
  const first = left && dotted(left);
  const last = right && dotted(right);
  return first && last && `${first}.${last}`;
}

/** Of an identifier, or of a string in its place. */
export const nameOf = (node: Node) =>
  node.type === "StringLiteral" ? node.value : (dotted(node) ?? "");

/** The last name of `a.b`, `this.b`, `a?.b` or `a["b"]`. */
export function propertyOf(node: Node): string | undefined {
  if (node.type !== "MemberExpression" && node.type !== "OptionalMemberExpression")
    return undefined;
  const isKnown = !node.computed || node.property.type === "StringLiteral";
  return isKnown ? nameOf(node.property) : undefined;
}

/** The calls of a method below a node: of any object for `prompt`, of what has that name for `approvals.link`. */
export function methodCalls(root: Node, name: string) {
  const [method, owner] = name.split(".").reverse();
  return nodesOf(root, "CallExpression", "OptionalCallExpression").filter(({ callee }) => {
    if (propertyOf(callee) !== method) return false;
    const object = "object" in callee && callee.object;
    return owner === undefined || (object && (propertyOf(object) ?? nameOf(object)) === owner);
  });
}

/** The values that an exported declaration declares. */
function declaredBy(declaration: Node | null | undefined): string[] {
  if (declaration?.type === "TSInterfaceDeclaration") return [];
  if (declaration?.type === "TSTypeAliasDeclaration") return [];
  if (declaration?.type === "VariableDeclaration") {
    const patterns = declaration.declarations.map(({ id }) => id as Node);
    return patterns.flatMap((id) => nodesOf(id, "Identifier")).map(({ name }) => name);
  }
  const id = declaration && "id" in declaration ? (declaration.id as Node | null) : undefined;
  return id ? [nameOf(id)] : [];
}

function constantsIn({ program }: File): ReadonlyMap<string, Node> {
  const statements = program.body.map((each) =>
    each.type === "ExportNamedDeclaration" ? each.declaration : each,
  );
  return new Map(
    statements.flatMap((each) =>
      each?.type === "VariableDeclaration" && each.kind === "const"
        ? each.declarations.flatMap(({ id, init }): [string, Node][] =>
            id.type === "Identifier" && init ? [[id.name, init]] : [],
          )
        : [],
    ),
  );
}

function specifiersOf(tree: File): string[] {
  const statements = nodesOf(
    tree,
    "ImportDeclaration",
    "ExportNamedDeclaration",
    "ExportAllDeclaration",
    "ImportExpression",
  );
  return statements.flatMap(({ source }) =>
    source?.type === "StringLiteral" ? [source.value] : [],
  );
}

function classesIn(file: string, tree: File): SourceClass[] {
  const found: SourceClass[] = [];
  visit(tree, (node, parent) => {
    if (node.type !== "ClassDeclaration" && node.type !== "ClassExpression") return;
    const variable = parent?.type === "VariableDeclarator" ? dotted(parent.id) : undefined;
    const isDefault = parent?.type === "ExportDefaultDeclaration";
    const name = variable ?? node.id?.name ?? (isDefault && "default");
    const line = (node.id ?? node.body).loc?.start.line ?? 1;
    if (name) found.push({ name, file, line, node, ...heritageOf(node) });
  });
  return found;
}

function heritageOf({ superClass, superTypeArguments }: Class) {
  const bases: string[] = [];
  const [type] =
    superTypeArguments?.type === "TSTypeParameterInstantiation" ? superTypeArguments.params : [];
  const target = type?.type === "TSTypeReference" ? dotted(type.typeName) : undefined;
  if (superClass) {
    visit(superClass, (node) => {
      const name = dotted(node);
      if (name !== undefined) bases.push(name);
      return name === undefined && !node.type.startsWith("TSType");
    });
  }
  return { bases, target };
}

/** What a class declares by this name itself. */
export const memberOf = ({ node }: SourceClass, name: string) =>
  node.body.body.find((each) => "key" in each && dotted(each.key as Node) === name);
