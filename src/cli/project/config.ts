/** The Wrangler configuration of a project: wrangler.jsonc, wrangler.json or wrangler.toml. */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { type ParseError, parse as parseJsonc, printParseErrorCode } from "jsonc-parser";
import { parse as parseToml, TomlError } from "smol-toml";
import { isPlainObject } from "../../core/options/options.ts";

/** In the order in which Wrangler looks for them. */
const NAMES = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
const MAX_BYTES = 1_048_576;

export type WranglerConfig = {
  readonly file: string;
  readonly format: "jsonc" | "toml";
  readonly text: string;
  readonly settings: Settings;
};

/** The parts that are checked. Anything can stand in a file: read them with {@link listOf} and {@link textOf}. */
export type Settings = Readonly<Record<string, unknown>>;

export class ProjectError extends Error {
  override readonly name = "ProjectError";
}

/** The nearest folder with a Wrangler configuration or a package.json, from `start` upwards; `start` if there is none. */
export function projectFolder(start: string): string {
  for (let folder = path.resolve(start); ; folder = path.dirname(folder)) {
    if (hasConfig(folder) || existsSync(path.join(folder, "package.json"))) return folder;
    if (folder === path.dirname(folder)) return path.resolve(start);
  }
}

/** Whether a folder has a configuration. */
export const hasConfig = (folder: string) =>
  NAMES.some((name) => existsSync(path.join(folder, name)));

/**
 * Reads the configuration in a folder. Undefined if there is none.
 * @throws ProjectError for one that cannot be read or parsed, with its line
 */
export function readConfig(folder: string): WranglerConfig | undefined {
  const file = NAMES.map((name) => path.join(folder, name)).find((each) => existsSync(each));
  return file === undefined ? undefined : readConfigAt(file);
}

/**
 * The configuration at a path.
 * @throws ProjectError
 */
export const readConfigAt = (file: string) => parseConfig(file, readText(file));

/**
 * The configuration that a build, such as that of Vite, has written for `wrangler deploy`. Undefined if there is none.
 * @throws ProjectError for one that is gone, with the remedy
 */
export function readBuiltConfig(folder: string): WranglerConfig | undefined {
  const redirect = path.join(folder, ".wrangler", "deploy", "config.json");
  if (!existsSync(redirect)) return undefined;
  const { configPath } = readConfigAt(redirect).settings;
  const file = path.resolve(path.dirname(redirect), String(configPath));
  if (existsSync(file)) return readConfigAt(file);
  throw new ProjectError(
    `"configPath" in ${redirect} is ${JSON.stringify(configPath)}, which is no file. Build the project again, or pass --config.`,
  );
}

/** @throws ProjectError */
export function parseConfig(file: string, text: string): WranglerConfig {
  const format = file.endsWith(".toml") ? "toml" : "jsonc";
  const settings = format === "toml" ? tomlOf(file, text) : jsoncOf(file, text);
  if (!isPlainObject(settings)) throw new ProjectError(`Invalid ${file}: expected an object.`);
  return { file, format, text, settings };
}

function readText(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8").replace(/^\ufeff/, "");
  } catch (cause) {
    throw new ProjectError(`Cannot read ${file}: ${(cause as Error).message}`, { cause });
  }
  if (text.length > MAX_BYTES) {
    throw new ProjectError(`Cannot read ${file}: it has more than ${MAX_BYTES} characters.`);
  }
  return text;
}

function jsoncOf(file: string, text: string): unknown {
  const errors: ParseError[] = [];
  const settings: unknown = parseJsonc(text, errors, { allowTrailingComma: true });
  const [error] = errors;
  if (!error) return settings;
  const line = text.slice(0, error.offset).split("\n").length;
  throw new ProjectError(`Invalid ${file}, line ${line}: ${printParseErrorCode(error.error)}.`);
}

function tomlOf(file: string, text: string): unknown {
  try {
    return parseToml(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [first = ""] = cause.message.split("\n");
    throw new ProjectError(`Invalid ${file}, line ${cause.line}: ${first}`, { cause });
  }
}

/**
 * The settings of an environment: its own bindings, because Wrangler inherits none, and the others of the top level.
 * @throws ProjectError for an unknown environment
 */
export function settingsOf(config: WranglerConfig, environment: string | undefined): Settings {
  if (environment === undefined) return config.settings;
  const all = isPlainObject(config.settings.env) ? config.settings.env : {};
  const own = all[environment];
  if (!isPlainObject(own)) {
    const known = Object.keys(all).join(", ") || "none";
    throw new ProjectError(
      `No environment "${environment}" in ${config.file} (there are: ${known}).`,
    );
  }
  const inherited = Object.entries(config.settings).filter(([name]) => !NOT_INHERITED.has(name));
  return { ...Object.fromEntries(inherited), ...own };
}

/** @see https://developers.cloudflare.com/workers/wrangler/configuration/#non-inheritable-keys */
const NOT_INHERITED = new Set([
  ...[
    "env",
    "define",
    "vars",
    "durable_objects",
    "workflows",
    "kv_namespaces",
    "r2_buckets",
    "queues",
  ],
  ...["d1_databases", "services", "send_email", "ai", "browser", "vectorize", "secrets"],
]);

export type ClassBinding = { readonly binding: string; readonly className: string };

/** All bindings of Durable Objects. */
export const bindingsOf = ({ durable_objects: objects }: Settings) =>
  recordsOf(isPlainObject(objects) && objects.bindings);

/** The bindings of Durable Objects in this Worker, and not in another script. */
export const objectsIn = (settings: Settings) => classesOf(bindingsOf(settings), "name");

/** The Workflows that are declared. */
export const workflowsIn = (settings: Settings) => classesOf(settings.workflows, "binding");

/** The flag that agents need. */
export const FLAG = "nodejs_compat";

/** Which classes exist after all migrations, or by `exports`. */
export function storageOf(settings: Settings) {
  const sqlite = new Set<string>();
  const other = new Set<string>();
  const problems: string[] = [];
  const tags = new Set<unknown>();
  for (const step of recordsOf(settings.migrations)) {
    if (tags.has(step.tag))
      problems.push(`Two migrations have the tag ${JSON.stringify(step.tag)}`);
    tags.add(step.tag);
    for (const name of textsOf(step.new_sqlite_classes)) sqlite.add(name);
    for (const name of textsOf(step.new_classes)) other.add(name);
    for (const { from, to } of recordsOf(step.renamed_classes)) {
      for (const kind of [sqlite, other]) if (kind.delete(from as string)) kind.add(to as string);
    }
    // What another Worker has created is not known here.
    for (const { to } of recordsOf(step.transferred_classes)) sqlite.add(to as string);
    for (const name of textsOf(step.deleted_classes))
      for (const kind of [sqlite, other]) kind.delete(name);
  }
  for (const [name, each] of Object.entries(
    isPlainObject(settings.exports) ? settings.exports : {},
  )) {
    if (!isPlainObject(each) || each.type !== "durable-object") continue;
    (each.storage === "legacy-kv" ? other : sqlite).add(name);
  }
  return { sqlite, other, problems };
}

/** The tag of the next migration: v3 after v2. */
export function nextTag(settings: Settings): string {
  const numbers = recordsOf(settings.migrations).map(({ tag }) =>
    Number(/^v(\d+)$/.exec(String(tag))?.[1] ?? 0),
  );
  return `v${Math.max(0, ...numbers) + 1}`;
}

function classesOf(list: unknown, nameKey: string): ClassBinding[] {
  return recordsOf(list).flatMap((each) => {
    const [binding, className] = [textOf(each[nameKey]), textOf(each.class_name)];
    if (binding === undefined || className === undefined || each.script_name !== undefined)
      return [];
    return [{ binding, className }];
  });
}

/** The objects of a list; of anything else, none. */
export function recordsOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isPlainObject) : [];
}

/** The texts of a list; of anything else, none. */
export function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
