/** Adds a Durable Object to a Wrangler configuration, and leaves the rest of the text as it is, with its comments. */

import { applyEdits, type Edit, type JSONPath, modify } from "jsonc-parser";
import { stringify as tomlText } from "smol-toml";
import { isPlainObject } from "../../core/options/options.ts";
import {
  bindingsOf,
  FLAG,
  nextTag,
  storageOf,
  textOf,
  textsOf,
  type WranglerConfig,
} from "../project/config.ts";

export type Edited = {
  readonly text: string;
  /** What was added, each as a sentence without its full stop. */
  readonly added: readonly string[];
  /** What the caller has to add by hand. */
  readonly byHand: readonly string[];
};

/** A setting that is missing: a value, or an item of a list. */
type Addition = { readonly what: string; readonly at: readonly string[] } & (
  | { readonly value: string | object; readonly item?: never }
  | { readonly item: string | object; readonly value?: never }
);

/** @param main of the Worker, where the configuration names none */
export function addAgent(
  config: WranglerConfig,
  name: string,
  date: string,
  main = "src/worker.ts",
): Edited {
  const { byHand, ...edited } = withAll(config, additionsTo(config, name, date, main));
  return { ...edited, byHand: [...notesOn(config, name, "that has the agent"), ...byHand] };
}

/** The binding of a class that a feature brings, and the migration that creates the class. */
export function addObject(config: WranglerConfig, binding: string, className: string): Edited {
  const { byHand, ...edited } = withAll(config, objectAdditions(config, binding, className));
  const notes = edited.added.length > 0 ? notesOn(config, binding, "that needs it") : [];
  return { ...edited, byHand: [...notes, ...byHand] };
}

function notesOn({ settings }: WranglerConfig, binding: string, which: string): string[] {
  const environments = Object.keys(isPlainObject(settings.env) ? settings.env : {});
  if (environments.length === 0) return [];
  return [
    `Add the binding ${binding} to durable_objects.bindings of each environment ${which} (${environments.join(", ")}): environments inherit no bindings.`,
  ];
}

/** What the agents that the project has need in the configuration. */
export const addFlag = (config: WranglerConfig): Edited =>
  withAll(config, textsOf(config.settings.compatibility_flags).includes(FLAG) ? [] : [NEEDED]);

const NEEDED: Addition = { what: `the flag ${FLAG}`, at: ["compatibility_flags"], item: FLAG };

const withAll = (config: WranglerConfig, additions: readonly Addition[]): Edited =>
  config.format === "toml" ? addToToml(config, additions) : addToJsonc(config, additions);

function additionsTo(config: WranglerConfig, name: string, date: string, main: string): Addition[] {
  const { compatibility_flags: flags, compatibility_date: since, main: own } = config.settings;
  const all: [isThere: boolean, Addition][] = [
    [textOf(own) !== undefined, { what: `main ${main}`, at: ["main"], value: main }],
    [
      textOf(since) !== undefined,
      { what: `compatibility_date ${date}`, at: ["compatibility_date"], value: date },
    ],
    [textsOf(flags).includes(FLAG), NEEDED],
  ];
  return [...missing(all), ...objectAdditions(config, name, name)];
}

function objectAdditions(
  { settings }: WranglerConfig,
  binding: string,
  className: string,
): Addition[] {
  const { exports } = settings;
  const isBound = bindingsOf(settings).some(
    (each) => each.name === binding || (each.class_name === className && binding === className),
  );
  const isStored = storageOf(settings).sqlite.has(className);
  const tag = nextTag(settings);
  const step = { tag, new_sqlite_classes: [className] };
  const created = `the migration ${tag}, which creates the class ${className}`;
  const stored = { type: "durable-object", storage: "sqlite" };
  const item = { name: binding, class_name: className };
  return missing([
    [isBound, { what: `the binding ${binding}`, at: ["durable_objects", "bindings"], item }],
    // Wrangler takes either migrations or exports.
    isPlainObject(exports)
      ? [
          isStored || exports[className] !== undefined,
          {
            what: `the class ${className} in "exports"`,
            at: ["exports", className],
            value: stored,
          },
        ]
      : [isStored, { what: created, at: ["migrations"], item: step }],
  ]);
}

function missing(all: readonly [isThere: boolean, Addition][]): Addition[] {
  return all.flatMap(([isThere, addition]) => (isThere ? [] : [addition]));
}

function valueAt(settings: unknown, at: readonly string[]): unknown {
  return at.reduce((value, key) => (isPlainObject(value) ? value[key] : undefined), settings);
}

function addToJsonc({ text, settings }: WranglerConfig, additions: readonly Addition[]): Edited {
  const edited = additions.reduce((all, { at, value, item }) => {
    // An insertion at the end of a list does not make a missing one.
    const list = valueAt(settings, at);
    const isItem = item !== undefined && Array.isArray(list);
    const path: JSONPath = isItem ? [...at, list.length] : [...at];
    const edits = modify(all, path, isItem ? item : (value ?? [item]), {
      isArrayInsertion: isItem,
    });
    return applyEdits(
      all,
      edits.map((edit) => ({ ...edit, content: spaced(all, edit) })),
    );
  }, text);
  return { text: edited, added: additions.map(({ what }) => what), byHand: [] };
}

/** An inserted text with spaces, and on a line of its own where its neighbour has one. A formatter would change other lines. */
function spaced(text: string, { offset, content }: Edit): string {
  const readable = content
    .replace(/([{[]),?(?=[{["])/g, (open) => (open === "{" ? "{ " : open))
    .replace(/(?<=["\]}])\}/g, " }")
    .replace(/":(?! )/g, '": ')
    .replace(/,(?=["{])/g, ", ");
  if (!readable.startsWith(", ")) return readable;
  const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset);
  const [indent = "", first = ""] = /^(\s*)(.?)/.exec(line)?.slice(1) ?? [];
  const isNewLine = readable[2] === first || /^\s*[\]}]/.test(line);
  return isNewLine ? `,\n${indent}${readable.slice(2)}` : readable;
}

/** Adds tables at the end, and other values at the start: a key after the first table would belong to that table. */
function addToToml({ text, settings }: WranglerConfig, additions: readonly Addition[]): Edited {
  const top: string[] = [];
  const end: string[] = [];
  const byHand: string[] = [];
  const added: string[] = [];
  for (const { what, at, value, item } of additions) {
    const isTable = typeof (value ?? item) === "object";
    const list = valueAt(settings, at);
    // TOML lets nothing be added to a list that is written as a value, nor to a table of such values.
    const isFixed = isTable ? !isOfTables(text, at, list) : list !== undefined;
    if (isFixed) byHand.push(`Add ${inline(value ?? item)} to ${at.join(".")}.`);
    else {
      const block = at.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value ?? [item]);
      (isTable ? end : top).push(tomlText(block).trim());
      added.push(what);
    }
  }
  const blocks = [...top, text.trimEnd(), ...end.map((block) => `\n${block}`)];
  return { text: added.length > 0 ? `${blocks.join("\n")}\n` : text, added, byHand };
}

/** Whether `[[a.b]]` can be added: there is no such list, or it has this form already. */
function isOfTables(text: string, at: readonly string[], list: unknown): boolean {
  const head = new RegExp(`^\\s*\\[\\[\\s*${at.join("\\s*\\.\\s*")}\\s*\\]\\]`, "m");
  return list === undefined ? at[0] !== "exports" : head.test(text);
}

/** As TOML writes it in one line. */
function inline(value: unknown): string {
  if (!isPlainObject(value)) return JSON.stringify(value);
  const pairs = Object.entries(value).map(([key, one]) => `${key} = ${JSON.stringify(one)}`);
  return `{ ${pairs.join(", ")} }`;
}
