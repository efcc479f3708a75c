/** Reads one source file as text: its imports, exports and classes. */

import { codeOf, withoutTexts } from "./source.ts";

export type SourceClass = {
  /** As it is declared; "default" for one without a name. */
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly isAbstract: boolean;
  /** Offsets in the file: of the declaration, and of the brace that opens the body. */
  readonly at: number;
  readonly open: number;
  /** The names in what it extends: withAudit and DurableThink of `withAudit(DurableThink)`. None: it extends nothing. */
  readonly bases: readonly string[];
  /** The first type argument of what it extends: Reports of `DurableWorkflow<Reports>`. */
  readonly target: string | undefined;
  /** Without comments and the contents of strings. */
  readonly body: string;
};

/** A name of another file, or without `from` of the same one. */
export type Ref = { readonly from?: string; readonly name: string };

export type Module = {
  readonly classes: readonly SourceClass[];
  /** By the name in this file. The name of a namespace is "*". */
  readonly imports: ReadonlyMap<string, Ref>;
  readonly exports: ReadonlyMap<string, Ref>;
  /** What it exports everything of. */
  readonly stars: readonly string[];
  /** What it imports or exports from. */
  readonly specifiers: readonly string[];
  /** Without comments. */
  readonly code: string;
  /** Also without the contents of strings. */
  readonly bare: string;
};

export function moduleOf(file: string): Module {
  const code = codeOf(file);
  const bare = withoutTexts(code);
  const textAt = (index: number) => /^[^"'\n]*/.exec(code.slice(index))?.[0] ?? "";
  const imports = new Map<string, Ref>();
  for (const match of bare.matchAll(/\bimport\b([\w$\s*,{}]+)["']/g)) {
    const clause = match[1]?.trimEnd() ?? "";
    if (!clause.endsWith("from")) continue;
    const from = textAt(match.index + match[0].length);
    for (const [local, name] of importedBy(clause.slice(0, -4))) imports.set(local, { from, name });
  }
  const exports = new Map<string, Ref>();
  const stars: string[] = [];
  const list = /\bexport\s*(?:type\s*)?(?:\{([^}]*)\}|(\*))(?:\s*from\s*["'])?/g;
  for (const match of bare.matchAll(list)) {
    const end = match.index + match[0].length;
    const from = /["']$/.test(match[0]) ? textAt(end) : undefined;
    if (match[2] && from !== undefined) stars.push(from);
    for (const [exported, name] of namesIn(match[1] ?? ""))
      exports.set(exported, { name, ...(from !== undefined && { from }) });
  }
  for (const [, name = ""] of bare.matchAll(/\bexport\s+default\s+([\w$]+)\s*(?:;|\n|$)/g))
    exports.set("default", { name });
  const classes = [...classesIn(file, bare, exports)];
  const specifiers = [...bare.matchAll(/\b(?:from|import)\s*\(?\s*["']/g)].map((match) =>
    textAt(match.index + match[0].length),
  );
  return { classes, imports, exports, stars, specifiers, code, bare };
}

/** Of `Base, { A as B }` or `* as all`, each local name with that of the other file. */
function importedBy(clause: string): [string, string][] {
  const [, first, , all] =
    /^\s*(?:type\s+)?([\w$]+)?\s*(,)?\s*(?:\*\s*as\s+([\w$]+))?/.exec(clause) ?? [];
  return [
    ...(first ? [[first, "default"] as [string, string]] : []),
    ...(all ? [[all, "*"] as [string, string]] : []),
    ...namesIn(/\{([^}]*)\}/.exec(clause)?.[1] ?? ""),
  ];
}

/** Of a list such as `A, type B as C`, each outer name with its inner one. */
function namesIn(list: string): [string, string][] {
  return list.split(",").flatMap((part) => {
    const words = part.trim().split(/\s+/);
    if (words[0] === "type" && words.length > 1 && words[1] !== "as") words.shift();
    const [name = "", as, other] = words;
    return name === "" ? [] : [[as === "as" && other ? other : name, name] as [string, string]];
  });
}

const CLASS =
  /(?<![\w$.])(?:(export)\s+)?(default\s+)?(?:declare\s+)?(?:(?:const|let|var)\s+([\w$]+)\s*=\s*)?(abstract\s+)?class(?:\s+(?!extends\b|implements\b)([\w$]+))?(?=[\s<{])/g;

/** Adds those that are exported to `exports`. */
function* classesIn(file: string, bare: string, exports: Map<string, Ref>): Iterable<SourceClass> {
  for (const match of bare.matchAll(CLASS)) {
    const [text, isExported, isDefault, variable, isAbstract, own] = match;
    const name = variable ?? own ?? (isDefault && "default");
    const end = match.index + text.length;
    const open = bodyAt(bare, end);
    if (name === undefined || open === undefined) continue;
    if (isExported) exports.set(isDefault ? "default" : name, { name });
    yield {
      name,
      file,
      line: bare.slice(0, match.index).split("\n").length,
      isAbstract: isAbstract !== undefined,
      at: match.index,
      open,
      ...heritageOf(bare.slice(end, open)),
      body: bare.slice(open, closingOf(bare, open, "{}")),
    };
  }
}

const BRACKETS = "()[]{}<>";
/** The most characters between a class's name and its body. */
const MAX_HERITAGE = 5_000;

/** Where the body of a class begins, whose name ends at `at`: at the first brace that is in no other bracket. */
function bodyAt(bare: string, at: number): number | undefined {
  for (let index = at; index < Math.min(bare.length, at + MAX_HERITAGE); index++) {
    const char = bare[index] as string;
    if (char === "{") return index;
    if (char === ";" || char === "}") return undefined;
    if ("([<".includes(char)) index = closingOf(bare, index, BRACKETS);
  }
  return undefined;
}

/** Of the text between a class's name and its body. */
function heritageOf(text: string): Pick<SourceClass, "bases" | "target"> {
  const own = /^\s*</.exec(text);
  const rest = own ? text.slice(closingOf(text, own[0].length - 1, BRACKETS) + 1) : text;
  const [, base = ""] = /^\s*extends\b([\s\S]*)$/.exec(rest) ?? [];
  let expression = base.replace(/\bimplements\b[\s\S]*$/, "");
  let target: string | undefined;
  for (let index = 0; index < expression.length; index++) {
    if (expression[index] === "(") index = closingOf(expression, index, BRACKETS);
    else if (expression[index] === "<") {
      const end = closingOf(expression, index, BRACKETS);
      target = /^\s*([\w$.]+)\s*[,>]/.exec(expression.slice(index + 1))?.[1];
      expression = expression.slice(0, index) + expression.slice(end + 1);
      index--;
    }
  }
  return { bases: expression.match(/[A-Za-z_$][\w$]*(?:\.[\w$]+)*/g) ?? [], target };
}

/** Where the bracket at `open` is closed; the end of the text where it is not. @param pairs the brackets that count */
export function closingOf(text: string, open: number, pairs: string): number {
  let depth = 0;
  for (let index = open; index < text.length; index++) {
    const at = pairs.indexOf(text[index] as string);
    if (at < 0 || (text[index] === ">" && text[index - 1] === "=")) continue;
    depth += at % 2 === 0 ? 1 : -1;
    if (depth === 0) return index;
  }
  return text.length;
}
