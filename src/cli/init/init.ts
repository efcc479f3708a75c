/** `perdure init`: adds a first agent to a project. It never overwrites a file, and a second run changes nothing. */

import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isClass, Sources } from "../project/classes.ts";
import {
  ProjectError,
  projectFolder,
  readConfig,
  textOf,
  type WranglerConfig,
} from "../project/config.ts";
import { HOSTS, lineageOf, roleOf, shown } from "../project/hosts.ts";
import { entriesOf, exportsOf } from "../project/source.ts";
import { addAgent } from "./edits.ts";
import { agentFile, configFile, workerFile } from "./templates.ts";

export type InitOptions = {
  readonly folder: string;
  /** Of the agent's class. @default "Assistant" */
  readonly name?: string;
  /** Says what it would do, and writes nothing. */
  readonly dryRun?: boolean;
  readonly now: Date;
};

export type InitResult = {
  readonly folder: string;
  /** What it did, or would do, each as one line. Empty: there was nothing to do. */
  readonly done: readonly string[];
  /** What is left to do by hand. */
  readonly byHand: readonly string[];
};

/** Where the Worker is written in a project that has none. */
const MAIN = "src/worker.ts";
/** Names that the generated files use. */
const TAKEN: ReadonlySet<string> = new Set(
  "DurableThink ScriptedModel DurableObjectNamespace Cloudflare Env ExportedHandler Response URL".split(
    " ",
  ),
);
/** An installed Wrangler knows no newer dates than its release. */
const DATE_AGE_MS = 30 * 86_400_000;

type FileChange = { readonly file: string; readonly text: string; readonly what: string };

/** @throws ProjectError for an invalid name or configuration, or a file that is in the way; nothing is written then */
export function init(options: InitOptions): InitResult {
  const { folder: start, name = "Assistant", dryRun = false, now } = options;
  if (!/^[A-Z][A-Za-z0-9]{0,63}$/.test(name)) {
    throw new ProjectError(
      `Invalid name ${JSON.stringify(name)}: expected the name of a class, 1 to 64 letters and digits that begin with a capital letter.`,
    );
  }
  if (TAKEN.has(name)) {
    throw new ProjectError(
      `Invalid name "${name}": the file of the agent uses it for something else.`,
    );
  }
  const folder = projectFolder(start);
  if (folder !== path.resolve(start)) {
    throw new ProjectError(
      `${path.resolve(start)} is within the project ${folder}. Run it there, or run npm init here first.`,
    );
  }
  const date = new Date(now.getTime() - DATE_AGE_MS).toISOString().slice(0, 10);
  const config = readConfig(folder);
  const main = path.resolve(folder, textOf(config?.settings.main) ?? MAIN);
  const byHand: string[] = [];
  const changes = [
    ...configChange(config, folder, name, date, byHand),
    ...sourceChanges(folder, main, name, byHand),
  ];
  byHand.push(...notesOn(new Sources(folder), main, name));
  const there = dependenciesOf(folder);
  const missing = packagesFor(folder, main, name).filter((each) => !there.has(each));
  if (missing.length > 0) byHand.push(`npm install ${missing.join(" ")}`);
  if (!dryRun) writeAll(changes);
  return { folder, done: changes.map(({ what }) => what), byHand };
}

function configChange(
  config: WranglerConfig | undefined,
  folder: string,
  name: string,
  date: string,
  byHand: string[],
): FileChange[] {
  if (!config) {
    const file = path.join(folder, "wrangler.jsonc");
    const project = path
      .basename(folder)
      .toLowerCase()
      .replace(/[^a-z0-9-]+/g, "-")
      .replace(/^-+|-+$/g, "");
    const what = `Created wrangler.jsonc with the binding ${name} and the migration v1, which creates its class`;
    return [{ file, text: configFile(project || "worker", name, date), what }];
  }
  const { text, added, byHand: left } = addAgent(config, name, date, MAIN);
  byHand.push(...left);
  if (added.length === 0) return [];
  return [
    {
      file: config.file,
      text,
      what: `Added to ${path.basename(config.file)}: ${added.join("; ")}`,
    },
  ];
}

function sourceChanges(folder: string, main: string, name: string, byHand: string[]): FileChange[] {
  if (statSync(main, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ProjectError(`"main" is ${path.relative(folder, main)}, which is a folder.`);
  }
  const exports = exportsOf(main);
  if (exports?.names.has(name)) return [];
  const stem = name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "-").toLowerCase();
  const file = path.join(path.dirname(main), `${stem}.ts`);
  const show = (each: string) => path.relative(folder, each);
  if (existsSync(file)) {
    throw new ProjectError(
      `${show(file)} exists, and ${show(main)} does not export ${name}. Export it there, or pass another name with --name.`,
    );
  }
  const agent = {
    file,
    text: agentFile(name),
    what: `Created ${show(file)} with the agent ${name}`,
  };
  if (!exports) {
    const text = workerFile(name, `./${stem}`);
    return [
      agent,
      {
        file: main,
        text,
        what: `Created ${show(main)} with the route POST /ask and the dashboard at /perdure`,
      },
    ];
  }
  byHand.push(
    `Mount the dashboard in ${show(main)}: see node_modules/perdure/docs/dashboard.md. The command line needs it, too.`,
  );
  const text = `${readFileSync(main, "utf8").trimEnd()}\n\nexport { ${name} } from "./${stem}";\n`;
  return [agent, { file: main, text, what: `Added to ${show(main)}: the export of ${name}` }];
}

/** What the class of this name and other agents need to be durable. Whether they have to be, only their author knows. */
function notesOn(sources: Sources, main: string, name: string): string[] {
  const show = (page: string) => `see node_modules/perdure/docs/${page}.`;
  const own = sources.findExport(main, name);
  const isNoAgent = isClass(own) && roleOf(sources, own).is === "other";
  const notes = isNoAgent
    ? [`${shown(sources, own)} is on no host of Perdure: ${show("hosts.md")}`]
    : [];
  for (const cls of sources.classes) {
    const role = roleOf(sources, cls);
    const isDirect = lineageOf(sources, cls).classes.length === 1;
    if (role.is !== "sdk-agent" || !role.host || !isDirect) continue;
    const { by, page } = HOSTS[role.host];
    notes.push(
      `${shown(sources, cls)} extends ${role.by}. If its turns must be durable, extend ${by} of ${role.host}: ${show(page)}`,
    );
  }
  return notes;
}

/** A class that is created is one of Think's. */
function packagesFor(folder: string, main: string, name: string): string[] {
  const isCreated = !exportsOf(main)?.names.has(name);
  const entries = new Set([...(isCreated ? ["perdure/think"] : []), ...entriesOf(folder)]);
  const ofHosts = Object.entries(HOSTS).filter(([entry]) => entries.has(entry));
  const packages = ofHosts.flatMap(([, host]) => host.packages);
  return ["perdure", "agents", "ai", "zod", ...packages];
}

function dependenciesOf(folder: string): ReadonlySet<string> {
  const file = path.join(folder, "package.json");
  if (!existsSync(file)) return new Set();
  try {
    const { dependencies, devDependencies } = JSON.parse(readFileSync(file, "utf8"));
    return new Set(Object.keys({ ...dependencies, ...devDependencies }));
  } catch (cause) {
    throw new ProjectError(`Invalid ${file}: ${(cause as Error).message}`, { cause });
  }
}

/** Writes all of them, or none: what was written before one that fails is put back. */
function writeAll(changes: readonly FileChange[]): void {
  const undo: (() => void)[] = [];
  try {
    for (const { file, text } of changes) {
      const before = existsSync(file) ? readFileSync(file) : undefined;
      const made = mkdirSync(path.dirname(file), { recursive: true });
      if (made !== undefined) undo.push(() => rmSync(made, { recursive: true }));
      writeFileSync(file, text);
      undo.push(() => (before ? writeFileSync(file, before) : rmSync(file)));
    }
  } catch (cause) {
    for (const step of undo.reverse()) step();
    throw new ProjectError(`Nothing was changed: ${(cause as Error).message}`, { cause });
  }
}
