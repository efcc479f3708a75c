/** What a project's sources say: their classes and what these extend, calls, exports and the secrets that options name. */

import path from "node:path";
import type { Node } from "@babel/types";
import {
  dotted,
  type Module,
  moduleOf,
  nameOf,
  nodesOf,
  propertyOf,
  type Ref,
  type SourceClass,
  visit,
} from "./modules.ts";
import { isFile, MAX_FILES, resolve, sourcesOf } from "./source.ts";

/** An expression, and the file whose names it uses. */
export type Value = { readonly file: string; readonly node: Node };

/** What a package exports. */
export type Exported = { readonly from: string; readonly name: string };

/** What a name in a file means. Undefined: it is not known. */
export type Meaning = SourceClass | Exported | undefined;

export function isClass(meaning: Meaning): meaning is SourceClass {
  return meaning !== undefined && "file" in meaning;
}

/** Whether a name means this export of a package. */
export const isExport = (meaning: Meaning, from: string, name: string) =>
  meaning !== undefined && !isClass(meaning) && meaning.from === from && meaning.name === name;

/** Imports that the paths of a tsconfig.json lead to. */
const ALIAS = /^(?:[@~]\/|#|src\/)/;
/** Exports of exports are followed this far. */
const MAX_DEPTH = 20;
/** Where an expression is used as a value, by its place in the expression around it. */
const VALUES = new Set(
  "arguments elements value init right argument body consequent alternate".split(" "),
);
/** Options whose value is the name of a secret. */
export const SECRET_OPTION = /^(?:\w*[sS]ecrets?|headers|apiKey|botToken|token)$/;

export type Exports = {
  readonly names: ReadonlySet<string>;
  /** Whether it exports everything of a package, or of a file that is not read, so that a missing name proves nothing. */
  readonly isOpen: boolean;
};

export type NamedSecret = { readonly name: string; readonly file: string; readonly line: number };

/** Functions by entry. */
export type Calls = readonly (readonly [from: string, name: string])[];

export class Sources {
  readonly files: readonly string[];
  readonly #modules = new Map<string, Module>();

  constructor(readonly folder: string) {
    this.files = sourcesOf(folder);
  }

  /** Whether all files of the project are read. */
  get isComplete(): boolean {
    return this.files.length < MAX_FILES && this.problems.length === 0;
  }

  /** The files that do not parse, each with its first error. */
  get problems(): { readonly file: string; readonly text: string }[] {
    return this.files.flatMap((file) => {
      const { problem } = this.module(file);
      const text = `${path.relative(this.folder, file)}, ${problem}`;
      return problem === undefined ? [] : [{ file, text }];
    });
  }

  /** Whether the project has no source files. */
  get isEmpty(): boolean {
    return this.files.length === 0;
  }

  get classes(): SourceClass[] {
    return this.files.flatMap((file) => this.module(file).classes);
  }

  module(file: string): Module {
    const known = this.#modules.get(file) ?? moduleOf(file);
    this.#modules.set(file, known);
    return known;
  }

  /** @param name in this file, e.g. `Shop` or `think.DurableThink` */
  find(file: string, name: string, depth = 0): Meaning {
    const [first = "", member] = name.split(".");
    const { classes, imports } = this.module(file);
    const own = classes.find((each) => each.name === first);
    const imported = imports.get(first);
    if (own || !imported || depth > MAX_DEPTH) return own;
    const exported = imported.name === "*" ? member : imported.name;
    return exported === undefined
      ? undefined
      : this.#exportOf(file, { ...imported, name: exported }, depth + 1);
  }

  /** What a file exports by this name. */
  findExport(file: string, name: string, depth = 0): Meaning {
    const { exports, stars } = this.module(file);
    const own = exports.get(name);
    if (depth > MAX_DEPTH) return undefined;
    if (own)
      return own.from === undefined
        ? this.find(file, own.name, depth + 1)
        : this.#exportOf(file, own, depth + 1);
    const found = stars.map((from) => this.#exportOf(file, { from, name }, depth + 1));
    return found.find(isClass) ?? found.find((each) => each !== undefined);
  }

  #exportOf(file: string, { from = "", name }: Ref, depth: number): Meaning {
    if (ALIAS.test(from)) {
      const named = this.#named(name);
      return named.length === 1 ? named[0] : undefined;
    }
    if (!from.startsWith(".")) return { from, name };
    const target = targetOf(file, from);
    return target === undefined ? undefined : this.findExport(target, name, depth);
  }

  #named(name: string): SourceClass[] {
    return this.classes.filter((each) => each.name === name);
  }

  /** The expression of a constant, e.g. `shared` or `common.shared`, here or in the file that exports it. */
  constant(file: string, name: string, depth = 0): Value | undefined {
    const [first = "", member] = name.split(".");
    const { constants, imports } = this.module(file);
    const own = constants.get(first);
    if (own && member === undefined) return { file, node: own };
    const imported = imports.get(first);
    const exported = imported?.name === "*" ? member : member === undefined && imported?.name;
    if (!imported || !exported || depth > MAX_DEPTH) return undefined;
    return this.#constantOf(file, imported.from ?? "", exported, depth + 1);
  }

  #constantOf(file: string, from: string, name: string, depth: number): Value | undefined {
    const target = targetOf(file, from);
    // An alias may lead to any file.
    const files = ALIAS.test(from) ? this.files : target === undefined ? [] : [target];
    const found = files.flatMap((each): Value[] => {
      const { exports, stars } = this.module(each);
      const own = exports.get(name);
      const value = !own
        ? undefined
        : own.from === undefined
          ? this.constant(each, own.name, depth)
          : this.#constantOf(each, own.from, own.name, depth + 1);
      if (value || depth > MAX_DEPTH) return value ? [value] : [];
      if (ALIAS.test(from)) return [];
      return stars.flatMap((star) => this.#constantOf(each, star, name, depth + 1) ?? []);
    });
    return found.length === 1 ? found[0] : undefined;
  }

  /** The values that a file exports, also by `export * from "./other"`. Undefined for what is no file. */
  exportsOf(file: string): Exports | undefined {
    if (!isFile(file)) return undefined;
    const files = new Set([file]);
    const names = new Set<string>();
    let isOpen = false;
    for (const at of files) {
      const { exports, stars, problem, isTooLarge } = this.module(at);
      for (const [name, { isType }] of exports) if (!isType) names.add(name);
      const targets = stars.map((from) => targetOf(at, from));
      for (const target of targets) if (target !== undefined) files.add(target);
      isOpen ||= problem !== undefined || isTooLarge || targets.includes(undefined);
    }
    return { names, isOpen };
  }

  /** The files that this one imports, also by other files, and itself. */
  reachableFrom(file: string): ReadonlySet<string> {
    const reached = new Set([file]);
    for (const at of reached) {
      for (const from of this.module(at).specifiers) {
        const target = targetOf(at, from);
        if (target !== undefined) reached.add(target);
      }
    }
    return reached;
  }

  /** The sources of a Worker: those that its file imports, or all where the imports do not tell. */
  filesOf(main: string): readonly string[] {
    const reachable = this.reachableFrom(main);
    const isKnown =
      this.files.includes(main) &&
      [...reachable].every(
        (file) => !this.module(file).specifiers.some((from) => ALIAS.test(from)),
      );
    return isKnown ? this.files.filter((file) => reachable.has(file)) : this.files;
  }

  /** The classes that code uses as values, or by their names: as sub-agents, for example. */
  get values(): ReadonlySet<SourceClass> {
    const found: Meaning[] = [];
    for (const file of this.files) {
      visit(this.module(file).tree, (node, parent, key) => {
        const name = dotted(node) ?? "";
        if (node.type === "MemberExpression" && propertyOf(node.object) === "exports")
          found.push(...this.#named(nameOf(node.property)));
        if (!VALUES.has(key) || parent?.type === "BinaryExpression") return;
        if (node.type === "StringLiteral") found.push(...this.#named(node.value));
        else if (name !== "") found.push(this.find(file, name));
      });
    }
    return new Set(found.filter(isClass));
  }

  /** Whether a file of the project imports this name of a package, or all of the package. */
  imports(from: string, name: string): boolean {
    return this.files.some((file) =>
      [...this.module(file).imports.values()].some(
        (each) => each.from === from && (each.name === name || each.name === "*"),
      ),
    );
  }

  /** The entries of Perdure that sources import, e.g. `perdure/think`. */
  get entries(): ReadonlySet<string> {
    const all = this.files.flatMap((file) => this.module(file).specifiers);
    return new Set(all.filter((from) => from.startsWith("perdure/")));
  }

  /** The secrets that options name, e.g. `secret: "HOOK_SECRET"` or `headers: "OTLP_HEADERS"`, each once. */
  get secrets(): NamedSecret[] {
    const found = new Map<string, NamedSecret>();
    for (const file of this.files) {
      for (const { key, value } of nodesOf(this.module(file).tree, "ObjectProperty")) {
        if (!SECRET_OPTION.test(nameOf(key))) continue;
        const values = value.type === "ArrayExpression" ? value.elements : [value];
        for (const each of values) {
          const name = each?.type === "StringLiteral" ? each.value : "";
          if (!/^[A-Z][A-Z0-9_]{2,99}$/.test(name) || found.has(name)) continue;
          const line = key.loc?.start.line ?? 1;
          found.set(name, { name, file: path.relative(this.folder, file), line });
        }
      }
    }
    return [...found.values()];
  }

  /** The arguments of each call of these functions, in the whole project or in some classes. */
  argumentsOf(functions: Calls, classes?: readonly SourceClass[]): Node[][] {
    const places =
      classes ?? this.files.map((file) => ({ file, node: this.module(file).tree as Node }));
    return places.flatMap(({ file, node }) =>
      nodesOf(node, "CallExpression").flatMap(({ callee, arguments: given }) => {
        const called = this.find(file, dotted(callee) ?? "");
        return functions.some(([from, name]) => isExport(called, from, name)) ? [given] : [];
      }),
    );
  }
}

/** The file that an import means, if it is a relative one. */
function targetOf(file: string, from: string): string | undefined {
  return from.startsWith(".") ? resolve(path.dirname(file), from) : undefined;
}
