/** Adds an agent to a Wrangler configuration, and leaves the rest of the text as it is, with its comments. */

import { applyEdits, type Edit, type JSONPath, modify } from "jsonc-parser";
import { nextTag } from "../doctor/checks.ts";
import { isRecord, recordsOf, textOf, textsOf, type WranglerConfig } from "../project/config.ts";

export type Edited = {
  readonly text: string;
  /** What was added, each as a sentence without its full stop. */
  readonly added: readonly string[];
  /** What the caller has to add by hand. */
  readonly byHand: readonly string[];
};

const FLAG = "nodejs_compat";

/** @param main of the Worker, where the configuration names none */
export function addAgent(
  config: WranglerConfig,
  name: string,
  date: string,
  main = "src/worker.ts",
): Edited {
  const { settings } = config;
  const byHand: string[] = [];
  const environments = isRecord(settings.env) ? Object.keys(settings.env) : [];
  if (environments.length > 0) {
    byHand.push(
      `Add the binding ${name} to durable_objects.bindings of each environment that has the agent (${environments.join(", ")}): environments inherit no bindings.`,
    );
  }
  const { text, added } =
    config.format === "toml"
      ? addToToml(config, name, date, main, byHand)
      : addToJsonc(config, name, date, main);
  return { text, added, byHand };
}

function wanted({ settings }: WranglerConfig, name: string) {
  const objects = isRecord(settings.durable_objects)
    ? settings.durable_objects.bindings
    : undefined;
  const steps = recordsOf(settings.migrations);
  const isCreated = steps.some((step) => textsOf(step.new_sqlite_classes).includes(name));
  const exports = isRecord(settings.exports) ? settings.exports : undefined;
  const flags = textsOf(settings.compatibility_flags);
  return {
    flag: !flags.includes(FLAG),
    date: textOf(settings.compatibility_date) === undefined,
    main: textOf(settings.main) === undefined,
    binding: !recordsOf(objects).some((each) => each.class_name === name),
    /** Wrangler takes either migrations or exports. */
    export: exports !== undefined && exports[name] === undefined,
    migration: exports === undefined && !isCreated,
    tag: nextTag(settings),
  };
}

function addToJsonc(config: WranglerConfig, name: string, date: string, main: string) {
  const add = wanted(config, name);
  const added: string[] = [];
  let { text } = config;
  const put = (at: JSONPath, value: unknown, what: string, isArrayInsertion = false) => {
    const edits = modify(text, at, value, { isArrayInsertion });
    text = applyEdits(
      text,
      edits.map((edit) => ({ ...edit, content: spaced(text, edit) })),
    );
    added.push(what);
  };
  /** Adds to a list, and makes it where there is none: an insertion at its end does not. */
  const push = (at: JSONPath, list: unknown, value: unknown, what: string) =>
    Array.isArray(list) ? put([...at, list.length], value, what, true) : put(at, [value], what);
  const { settings } = config;
  if (add.main) put(["main"], main, `main ${main}`);
  if (add.date) put(["compatibility_date"], date, `compatibility_date ${date}`);
  if (add.flag)
    push(["compatibility_flags"], settings.compatibility_flags, FLAG, `the flag ${FLAG}`);
  if (add.binding) {
    const objects = isRecord(settings.durable_objects)
      ? settings.durable_objects.bindings
      : undefined;
    push(
      ["durable_objects", "bindings"],
      objects,
      { name, class_name: name },
      `the binding ${name}`,
    );
  }
  if (add.export) {
    put(
      ["exports", name],
      { type: "durable-object", storage: "sqlite" },
      `the class ${name} in "exports"`,
    );
  }
  if (add.migration) {
    const step = { tag: add.tag, new_sqlite_classes: [name] };
    push(
      ["migrations"],
      settings.migrations,
      step,
      `the migration ${add.tag}, which creates the class ${name}`,
    );
  }
  return { text, added };
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

function addToToml(
  config: WranglerConfig,
  name: string,
  date: string,
  main: string,
  byHand: string[],
) {
  const add = wanted(config, name);
  const added: string[] = [];
  const top: string[] = [];
  const end: string[] = [];
  if (add.main) {
    top.push(`main = "${main}"`);
    added.push(`main ${main}`);
  }
  if (add.date) {
    top.push(`compatibility_date = "${date}"`);
    added.push(`compatibility_date ${date}`);
  }
  if (add.flag && config.settings.compatibility_flags === undefined) {
    top.push(`compatibility_flags = ["${FLAG}"]`);
    added.push(`the flag ${FLAG}`);
  } else if (add.flag) byHand.push(`Add "${FLAG}" to compatibility_flags.`);
  if (add.binding && isInline(config, "durable_objects", "bindings")) {
    byHand.push(`Add { name = "${name}", class_name = "${name}" } to durable_objects.bindings.`);
  } else if (add.binding) {
    end.push(`[[durable_objects.bindings]]\nname = "${name}"\nclass_name = "${name}"`);
    added.push(`the binding ${name}`);
  }
  if (add.export)
    byHand.push(`Add [exports.${name}] with type = "durable-object" and storage = "sqlite".`);
  if (add.migration && isInline(config, "migrations")) {
    byHand.push(`Add { tag = "${add.tag}", new_sqlite_classes = ["${name}"] } to migrations.`);
  } else if (add.migration) {
    end.push(`[[migrations]]\ntag = "${add.tag}"\nnew_sqlite_classes = ["${name}"]`);
    added.push(`the migration ${add.tag}, which creates the class ${name}`);
  }
  // A key after the first table would belong to that table.
  const text = [...top, config.text.trimEnd(), ...end.map((block) => `\n${block}`)].join("\n");
  return { text: added.length > 0 ? `${text}\n` : config.text, added };
}

/** Whether a list is written as a value. TOML does not let a table be added to it. */
function isInline({ text, settings }: WranglerConfig, ...at: string[]): boolean {
  let value: unknown = settings;
  for (const key of at) value = isRecord(value) ? value[key] : undefined;
  return (
    Array.isArray(value) &&
    !new RegExp(`^\\s*\\[\\[\\s*${at.join("\\s*\\.\\s*")}\\s*\\]\\]`, "m").test(text)
  );
}
