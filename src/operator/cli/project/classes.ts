/** The classes that a project's sources declare, and what they extend, read as text: nothing is compiled. */

import path from "node:path";
import { closingOf, type Module, moduleOf, type Ref, type SourceClass } from "./modules.ts";
import { MAX_FILES, resolve, sourcesOf } from "./source.ts";

/** What a package exports. */
export type Exported = { readonly from: string; readonly name: string };

/** What a name in a file means. Undefined: it is not known. */
export type Meaning = SourceClass | Exported | undefined;

export function isClass(meaning: Meaning): meaning is SourceClass {
  return meaning !== undefined && "file" in meaning;
}

/** Imports that the paths of a tsconfig.json lead to. */
const ALIAS = /^(?:[@~]\/|#|src\/)/;
/** Lists of imports and exports. */
const LISTS = /\b(?:import\s[\w$\s,*]*|export\s*(?:type\s*)?)\{[^}]*\}/g;
/** Exports of exports are followed this far. */
const MAX_DEPTH = 20;

export class Sources {
  readonly #files: readonly string[];
  readonly #modules = new Map<string, Module>();
  /** Whether all files of the project are read. */
  readonly isComplete: boolean;

  constructor(readonly folder: string) {
    this.#files = sourcesOf(folder);
    this.isComplete = this.#files.length < MAX_FILES;
  }

  /** Whether the project has no source files. */
  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  get classes(): SourceClass[] {
    return this.#files.flatMap((file) => this.module(file).classes);
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
      const named = this.classes.filter((each) => each.name === name);
      return named.length === 1 ? named[0] : undefined;
    }
    if (!from.startsWith(".")) return { from, name };
    const target = resolve(path.dirname(file), from);
    return target === undefined ? undefined : this.findExport(target, name, depth);
  }

  /** The files that this one imports, also by other files, and itself. */
  reachableFrom(file: string): ReadonlySet<string> {
    const reached = new Set([file]);
    for (const at of reached) {
      for (const from of this.module(at).specifiers) {
        const target = from.startsWith(".") ? resolve(path.dirname(at), from) : undefined;
        if (target !== undefined) reached.add(target);
      }
    }
    return reached;
  }

  /** The classes that code uses as values, or by their names: as sub-agents, for example. */
  get values(): ReadonlySet<SourceClass> {
    const value = /[([{,:]\s*(["']?)([A-Za-z_$][\w$.]*)\1(?=\s*[,)\]}])/g;
    const { classes } = this;
    const named = (name: string) => classes.filter((each) => each.name === name);
    const found = this.#files.flatMap((file) => {
      const code = this.module(file).code.replace(LISTS, "");
      const exports = [...code.matchAll(/\bexports\.([\w$]+)/g)];
      return [
        ...[...code.matchAll(value)].flatMap(([, quote, name = ""]) =>
          quote ? named(name) : [this.find(file, name)],
        ),
        ...exports.flatMap(([, name = ""]) => named(name)),
      ];
    });
    return new Set(found.filter(isClass));
  }

  /** Whether a file of the project imports this name of a package, or all of the package. */
  imports(from: string, name: string): boolean {
    return this.#files.some((file) =>
      [...this.module(file).imports.values()].some(
        (each) => each.from === from && (each.name === name || each.name === "*"),
      ),
    );
  }

  /** The text of the arguments of each call of these functions, in the whole project. */
  argumentsOf(functions: readonly (readonly [from: string, name: string])[]): string[] {
    return this.#files.flatMap((file) => {
      const { imports, bare } = this.module(file);
      const local = [...imports].flatMap(([name, ref]) =>
        functions.some(([from, of]) => ref.from === from && ref.name === of) ? [name] : [],
      );
      return local.flatMap((name) => {
        const call = new RegExp(
          `(?<![\\w$.])${name.replaceAll("$", "\\$")}\\s*(?:<[^()]*>\\s*)?\\(`,
          "g",
        );
        return [...bare.matchAll(call)].map(({ 0: text, index }) => {
          const open = index + text.length - 1;
          return bare.slice(open + 1, closingOf(bare, open, "()"));
        });
      });
    });
  }

  /** What the calls in a class call, the text of its arguments, and their offsets in the file. */
  callsOf({ file, body, open: bodyAt }: SourceClass) {
    const call = /(?<![\w$.])([A-Za-z_$][\w$]*(?:\.[\w$]+)*)\s*(?:<[^()]*>\s*)?\(/g;
    return [...body.matchAll(call)].map(({ 0: text, 1: name = "", index }) => {
      const open = index + text.lastIndexOf("(");
      const end = closingOf(body, open, "()");
      const given = body.slice(open + 1, end).trimStart();
      const called = this.find(file, name);
      return { name, called, given, from: bodyAt + open + 1, to: bodyAt + end };
    });
  }
}
