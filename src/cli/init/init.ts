/**
 * `perdure init`: adds a first agent to a project, or says how its agents become durable. It never overwrites a file, and a
 * second run changes nothing.
 */

import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isPlainObject } from "../../core/options/options.ts";
import { isClass, Sources } from "../project/classes.ts";
import {
  ProjectError,
  parseConfig,
  projectFolder,
  readConfig,
  textOf,
  type WranglerConfig,
} from "../project/config.ts";
import {
  HOSTS,
  type HostEntry,
  hasLifecycle,
  kebabOf,
  lineageOf,
  mountedBy,
  roleOf,
  shown,
} from "../project/hosts.ts";
import { featureObjects } from "../project/objects.ts";
import { edited, unifiedDiff } from "./diff.ts";
import { type Candidate, durableEdits } from "./durable.ts";
import { addAgent, addFlag, addObject, type Edited } from "./edits.ts";
import { DEV_PACKAGES, type FileChange, scaffold } from "./scaffold.ts";
import { agentFile, configFile, workerFile } from "./templates.ts";

export type InitOptions = {
  readonly folder: string;
  /** Of the class of a new agent, or of one that exists. @default "Assistant" in a project without agents */
  readonly name?: string;
  /** Of a new agent. @default that of the project's agents, or of an installed package, or "agent" */
  readonly host?: string;
  /** Changes existing classes. Without it, the result has the diff. */
  readonly apply?: boolean;
  /** Says what it would do, and writes nothing. */
  readonly dryRun?: boolean;
  readonly now: Date;
};

export type InitResult = {
  readonly folder: string;
  /** What it did, or would do, each as one line. Empty: there was nothing to do. */
  readonly done: readonly string[];
  /** What makes existing classes durable, as a unified diff. Empty: nothing, or it is applied. */
  readonly diff: string;
  /** What is left to do by hand. */
  readonly byHand: readonly string[];
};

/** Where the Worker is written in a project that has none. */
const MAIN = "src/worker.ts";
/** Hosts of which an agent can be written. */
export const INIT_HOSTS = ["think", "agent", "chat", "object"];
/** Names that the generated files use. */
const TAKEN: ReadonlySet<string> = new Set(
  "DurableThink DurableAgent DurableChatAgent DurableObject DurableVerbs Lifecycle ScriptedModel DurableObjectNamespace Cloudflare Env ExportedHandler Request Response URL".split(
    " ",
  ),
);
/** An installed Wrangler knows no newer dates than its release. */
const DATE_AGE_MS = 30 * 86_400_000;

type Project = {
  readonly folder: string;
  readonly config: WranglerConfig | undefined;
  readonly main: string;
  readonly sources: Sources;
  /** The contents of package.json. */
  readonly manifest: Readonly<Record<string, unknown>>;
};

/** @throws ProjectError for an invalid option or configuration, or a file that is in the way; nothing is written then */
export function init(options: InitOptions): InitResult {
  const { name: asked, host, apply = false, dryRun = false, now } = options;
  checkName(asked);
  if (host !== undefined && !INIT_HOSTS.includes(host)) {
    throw new ProjectError(`Invalid host "${host}": expected ${INIT_HOSTS.join(", ")}.`);
  }
  const project = read(options.folder);
  const { folder, main, sources } = project;
  const hosts = hostsIn(sources);
  const isNew = asked !== undefined || host !== undefined || hosts.length === 0;
  const name = asked ?? "Assistant";
  const byHand: string[] = [];
  const changes = isNew ? agentChanges(project, name, () => hostOf(), now, byHand) : [];
  changes.push(...objectChanges(project, changes, byHand));
  const candidates = candidatesIn(project, isNew ? name : undefined, host);
  const fixes = [...new Set(candidates.map(({ cls }) => cls.file))].map((file) => {
    const classes = candidates.filter(({ cls }) => cls.file === file);
    // What is added to a file is at its end, so that the places of edits stay.
    const { edits, byHand: left } = durableEdits(
      sources,
      file,
      readFileSync(file, "utf8"),
      classes,
    );
    const text = textAfter(changes, file) ?? "";
    byHand.push(...left);
    const names = classes.map(({ cls }) => cls.name).join(", ");
    const shownFile = path.relative(folder, file);
    const what = `Made durable in ${shownFile}: ${names}`;
    return { file, text: edited(text, edits), what, diff: unifiedDiff(shownFile, text, edits) };
  });
  const config = project.config && configAfter(project.config, changes);
  if (!isNew && config) fixes.push(...flagFix(config, byHand));
  byHand.push(...notesOn(project, name, isNew));
  const hostsAfter = [...candidates.map((each) => each.host), ...(isCreated() ? [hostOf()] : [])];
  byHand.push(...commandsFor(project, hostsAfter));
  const all = apply ? [...changes, ...fixes] : changes;
  if (!dryRun) writeAll(all);
  const diff = apply && !dryRun ? "" : fixes.map((each) => each.diff).join("");
  return { folder, done: all.map(({ what }) => what), diff, byHand };

  function isCreated(): boolean {
    return isNew && !sources.exportsOf(main)?.names.has(name);
  }

  function hostOf(): HostEntry {
    if (host !== undefined) return `perdure/${host}` as HostEntry;
    const [first, ...others] = hosts;
    if (others.length > 0) {
      throw new ProjectError(
        `The project has agents on ${hosts.join(" and ")}: pass --host ${INIT_HOSTS.join("|")}.`,
      );
    }
    const there = dependenciesOf(project.manifest);
    if (first) return first;
    if (there.has("@cloudflare/think")) return "perdure/think";
    return there.has("@cloudflare/ai-chat") ? "perdure/chat" : "perdure/agent";
  }
}

function checkName(name: string | undefined): void {
  if (name === undefined) return;
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
}

function read(start: string): Project {
  const folder = projectFolder(start);
  if (folder !== path.resolve(start)) {
    throw new ProjectError(
      `${path.resolve(start)} is within the project ${folder}. Run it there, or run npm init here first.`,
    );
  }
  const config = readConfig(folder);
  const main = path.resolve(folder, textOf(config?.settings.main) ?? MAIN);
  const sources = new Sources(folder);
  const { problem } = sources.module(main);
  if (problem !== undefined) {
    const file = path.relative(folder, main);
    throw new ProjectError(`Cannot parse ${file}, ${problem} Correct it first.`);
  }
  return { folder, config, main, sources, manifest: manifestOf(folder) };
}

/** The hosts of the agents that a project has, on Perdure or without it. */
function hostsIn(sources: Sources): HostEntry[] {
  const found = sources.classes.flatMap((cls) => {
    const role = roleOf(sources, cls);
    if (role.is === "agent" || role.is === "sdk-agent") return role.host ?? [];
    return hasLifecycle(sources, cls) ? ["perdure/object" as const] : [];
  });
  return [...new Set(found)];
}

/**
 * The classes that can become durable: agents of the SDK, workflows of Think, plain objects with a Lifecycle, and the named
 * class of a host.
 * @param name of the agent that is asked for, if there is one
 * @param host that is asked for
 */
function candidatesIn(
  { sources, main }: Project,
  name: string | undefined,
  host: string | undefined,
): Candidate[] {
  const named = name === undefined ? undefined : sources.findExport(main, name);
  return sources.classes.flatMap((cls): Candidate[] => {
    const role = roleOf(sources, cls);
    const isDirect = lineageOf(sources, cls).classes.length === 1;
    if (role.is === "sdk-agent") return role.host && isDirect ? [{ cls, host: role.host }] : [];
    if (role.is === "workflow" && role.isThinks && isDirect)
      return [{ cls, host: "perdure/workflow" }];
    if (role.is === "agent" || role.is === "workflow") return [];
    const isAsked = cls === named && host === "object" && cls.bases.length > 0;
    return hasLifecycle(sources, cls) || isAsked ? [{ cls, host: "perdure/object" }] : [];
  });
}

/** What adds an agent: its class unless the Worker exports it, and its configuration. */
function agentChanges(
  project: Project,
  name: string,
  hostOf: () => HostEntry,
  now: Date,
  byHand: string[],
): FileChange[] {
  const { folder, config, main, sources, manifest } = project;
  const date = new Date(now.getTime() - DATE_AGE_MS).toISOString().slice(0, 10);
  const isEmpty = !config && sources.isEmpty;
  return [
    ...(isEmpty ? scaffold(folder, manifest, projectName(folder)) : []),
    ...configChange(config, folder, name, date, byHand),
    ...(sources.exportsOf(main)?.names.has(name) ? [] : sourceChanges(project, name, hostOf())),
  ];
}

function projectName(folder: string): string {
  const name = path
    .basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "");
  return name || "worker";
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
    const what = `Created wrangler.jsonc with the binding ${name} and the migration v1, which creates its class`;
    return [{ file, text: configFile(projectName(folder), name, date), what }];
  }
  return changeOf(config, addAgent(config, name, date, MAIN), byHand);
}

/** What a file contains after these changes; undefined for a missing one. */
function textAfter(changes: readonly FileChange[], file: string): string | undefined {
  const changed = changes.findLast((each) => each.file === file);
  return changed?.text ?? (existsSync(file) ? readFileSync(file, "utf8") : undefined);
}

const configAfter = ({ file, text }: WranglerConfig, changes: readonly FileChange[]) =>
  parseConfig(file, changes.findLast((each) => each.file === file)?.text ?? text);

/** What adds the Durable Objects of features: their exports, bindings and migrations. */
function objectChanges(
  { folder, config, main, sources }: Project,
  before: readonly FileChange[],
  byHand: string[],
): FileChange[] {
  const changes: FileChange[] = [];
  const file = path.join(folder, "wrangler.jsonc");
  for (const each of featureObjects(sources, main, config?.settings ?? {})) {
    const { from, className, binding, exportedAs } = each;
    const all = [...before, ...changes];
    const text = textAfter(all, main);
    if (exportedAs === undefined && text !== undefined) {
      const added = `${text.trimEnd()}\n\nexport { ${className} } from "${from}";\n`;
      const what = `Added to ${path.relative(folder, main)}: the export of ${className}`;
      changes.push({ file: main, text: added, what });
    }
    const made = config
      ? configAfter(config, all)
      : parseConfig(file, textAfter(all, file) ?? "{}");
    changes.push(...changeOf(made, addObject(made, binding, exportedAs ?? className), byHand));
  }
  return changes;
}

function flagFix(config: WranglerConfig, byHand: string[]) {
  return changeOf(config, addFlag(config), byHand).map((change) => {
    const all = { from: 0, to: config.text.length, text: change.text };
    return { ...change, diff: unifiedDiff(path.basename(config.file), config.text, [all]) };
  });
}

function changeOf(
  { file }: WranglerConfig,
  { text, added, byHand: left }: Edited,
  byHand: string[],
): FileChange[] {
  byHand.push(...left);
  const what = `Added to ${path.basename(file)}: ${added.join("; ")}`;
  return added.length > 0 ? [{ file, text, what }] : [];
}

function sourceChanges(project: Project, name: string, host: HostEntry): FileChange[] {
  const { folder, main, sources } = project;
  if (statSync(main, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ProjectError(`"main" is ${path.relative(folder, main)}, which is a folder.`);
  }
  const exports = sources.exportsOf(main);
  const stem = kebabOf(name);
  const file = path.join(path.dirname(main), `${stem}.ts`);
  const show = (each: string) => path.relative(folder, each);
  if (existsSync(file)) {
    throw new ProjectError(
      `${show(file)} exists, and ${show(main)} does not export ${name}. Export it there, or pass another name with --name.`,
    );
  }
  const agent = {
    file,
    text: agentFile(name, host),
    what: `Created ${show(file)} with the agent ${name} on ${host}`,
  };
  if (!exports) {
    const text = workerFile(name, host, `./${stem}`);
    return [
      agent,
      {
        file: main,
        text,
        what: `Created ${show(main)} with the route POST /ask and the dashboard at /perdure`,
      },
    ];
  }
  const text = `${readFileSync(main, "utf8").trimEnd()}\n\nexport { ${name} } from "./${stem}";\n`;
  return [agent, { file: main, text, what: `Added to ${show(main)}: the export of ${name}` }];
}

/** What the project needs that is not written. */
function notesOn({ sources, main, folder }: Project, name: string, isAsked: boolean): string[] {
  const own = isAsked ? sources.findExport(main, name) : undefined;
  const notes = sources.problems.map(({ text }) => `Nothing was read of ${text}`);
  if (isClass(own) && roleOf(sources, own).is === "other") {
    notes.push(
      `${shown(sources, own)} is on no host of Perdure: see node_modules/perdure/docs/hosts.md.`,
    );
  }
  if (existsSync(main) && mountedBy(sources).length === 0) {
    notes.push(
      `Mount the dashboard in ${path.relative(folder, main)}: see node_modules/perdure/docs/dashboard.md. The command line needs it, too.`,
    );
  }
  return notes;
}

/** Installs what is missing, and starts a new project. Perdure itself is installed: this is its command. @param hosts of classes that are created or changed */
function commandsFor({ manifest, config, sources }: Project, hosts: string[]): string[] {
  const there = dependenciesOf(manifest);
  const entries = new Set([...hosts, ...sources.entries]);
  const ofHosts = Object.entries(HOSTS).filter(([entry]) => entries.has(entry));
  const packages = ofHosts.flatMap(([, host]) => host.packages);
  const missing = (wanted: string[]) => wanted.filter((each) => !there.has(each));
  const needed = missing(["agents", "ai", "zod", ...packages]);
  const isNew = !config && sources.isEmpty;
  const tools = isNew ? missing(DEV_PACKAGES) : [];
  return [
    ...(needed.length > 0 ? [`npm install ${needed.join(" ")}`] : []),
    ...(tools.length > 0 ? [`npm install -D ${tools.join(" ")}`] : []),
    ...(isNew ? ["npm run dev", "curl -d hello http://localhost:8787/ask"] : []),
  ];
}

function dependenciesOf(manifest: Project["manifest"]): ReadonlySet<string> {
  const { dependencies, devDependencies } = manifest;
  const names = [dependencies, devDependencies].flatMap((each) =>
    isPlainObject(each) ? Object.keys(each) : [],
  );
  return new Set(names);
}

function manifestOf(folder: string): Project["manifest"] {
  const file = path.join(folder, "package.json");
  if (!existsSync(file)) return {};
  try {
    const manifest: unknown = JSON.parse(readFileSync(file, "utf8"));
    return isPlainObject(manifest) ? manifest : {};
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
