/** What `perdure doctor` checks in a project. Each check reads files, changes none, and returns its results. */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import semver from "semver";
import { instantMs } from "../../core/options/instant.ts";
import { isPlainObject } from "../../core/options/options.ts";
import type { Exports, Sources } from "../project/classes.ts";
import {
  bindingsOf,
  type ClassBinding,
  FLAG,
  nextTag,
  objectsIn,
  storageOf,
  textOf,
  textsOf,
  workflowsIn,
} from "../project/config.ts";
import { HOSTS, isAlike } from "../project/hosts.ts";
import { featureObjects } from "../project/objects.ts";
import { roleOfBound, unbound } from "./hosts.ts";
import type { CheckResult, Project } from "./project.ts";
import { unknownBindings } from "./uses.ts";

/** The default version of deployments(). */
const VERSION_METADATA = "CF_VERSION_METADATA";

/** The oldest Node that Wrangler 4 runs on. */
const WRANGLER_NODE = ">=22.12.0";
/** The oldest one that the documentation of agents shows. */
const OLDEST_DATE = "2025-01-01";

export function checkNode(version: string): CheckResult {
  const check = "node";
  if (semver.satisfies(version, WRANGLER_NODE)) return ok(check, `Node ${version}`);
  const remedy = "Install Node 22.12 or newer: Wrangler does not run on older ones.";
  return { check, level: "warning", text: `Node ${version} is older than 22.12`, remedy };
}

export function checkFlags({ settings, file }: Project): CheckResult[] {
  const check = "flags";
  const results: CheckResult[] = [];
  const flags = textsOf(settings.compatibility_flags);
  if (!flags.includes(FLAG)) {
    const remedy = `Add "${FLAG}" to "compatibility_flags" in ${path.basename(file)}.`;
    results.push({ check, level: "error", text: `The flag ${FLAG} is missing`, remedy });
  }
  const date = settings.compatibility_date;
  const isDate =
    typeof date === "string" &&
    /^\d{4}-\d\d-\d\d$/.test(date) &&
    instantMs(`${date}T00:00:00Z`) !== undefined;
  if (!isDate || date < OLDEST_DATE) {
    const given = date === undefined ? "is missing" : `is ${JSON.stringify(date)}`;
    const text = `"compatibility_date" ${given}; expected a date from ${OLDEST_DATE}`;
    const remedy = `Set it to today's date in ${path.basename(file)}.`;
    results.push({ check, level: "error", text, remedy });
  }
  return results.length > 0 ? results : [ok(check, `${FLAG}, ${date}`)];
}

export function checkBindings(project: Project): CheckResult[] {
  const check = "bindings";
  const { settings, folder, file, sources } = project;
  const objects = objectsIn(settings);
  const workflows = workflowsIn(settings);
  if (objects.length === 0) {
    const text = `No Durable Object binding in ${path.basename(file)}`;
    const remedy =
      "Add one for each agent's class to durable_objects.bindings, or run npx perdure init.";
    return [{ check, level: "error", text, remedy }];
  }
  const main = textOf(settings.main);
  const results = [
    ...unbound(project),
    ...unknownBindings(project),
    ...objectProblems(project),
    ...versionProblems(project),
  ];
  const exports = main === undefined ? undefined : sources.exportsOf(path.resolve(folder, main));
  const isBuilt = isPlainObject(settings.build) && textOf(settings.build.command) !== undefined;
  if (exports === undefined && main !== undefined && isBuilt) {
    const text = `Not checked: ${main} is not built yet, and its exports are not known`;
    const remedy = `Run build.command of ${path.basename(file)}, then npx perdure doctor again.`;
    results.push({ check, level: "skipped", text, remedy });
  } else if (exports === undefined) {
    const text = `"main" is ${JSON.stringify(main)}, which is no file`;
    results.push({
      check,
      level: "error",
      text,
      remedy: "Set it to the Worker's entry, e.g. src/worker.ts.",
    });
  }
  for (const each of [...objects, ...workflows]) {
    const problem = exports && exportProblem(each, exports, main ?? "");
    const isTold = broughtObjects(project).some(({ binding }) => binding === each.binding);
    if (problem && !isTold) results.push(problem);
  }
  for (const { binding, className } of objects) {
    if (isAlike(binding, className) || !isFoundByName(project, className)) continue;
    if (broughtObjects(project).some((each) => each.binding === binding)) continue;
    const text = `The binding ${binding} is not named like its class ${className}`;
    const remedy = `Name it ${className}, or pass { agentBinding: ${JSON.stringify(binding)} } to runWorkflow(): workflows find their agent by it.`;
    results.push({ check, level: "warning", text, remedy });
  }
  if (results.length > 0) return results;
  const names = [...objects, ...workflows].map(({ binding }) => binding).join(", ");
  return [ok(check, names)];
}

const broughtObjects = ({ sources, folder, settings }: Project) =>
  featureObjects(sources, path.resolve(folder, textOf(settings.main) ?? ""), settings);

/** Durable Objects of features that the Worker does not export, or does not bind. */
function objectProblems(project: Project): CheckResult[] {
  const { settings, folder, file, sources } = project;
  const check = "bindings";
  const config = path.basename(file);
  const main = textOf(settings.main) ?? "";
  const isOpen = sources.exportsOf(path.resolve(folder, main))?.isOpen;
  return broughtObjects(project).flatMap(({ feature, from, className, binding, exportedAs }) => {
    const bound = bindingsOf(settings).find((each) => each.name === binding);
    const name = exportedAs ?? className;
    const results: CheckResult[] = [];
    if (exportedAs === undefined && !isOpen) {
      const text = `${feature}() needs the class ${className} of ${from}, which ${main} does not export`;
      const remedy = `Run npx perdure init, or add \`export { ${className} } from "${from}";\` to it.`;
      results.push({ check, level: "error", text, remedy });
    }
    if (!bound) {
      const text = `${feature}() needs the binding ${binding} of the class ${name}, which ${config} does not have`;
      const remedy = `Run npx perdure init, or add { "name": "${binding}", "class_name": "${name}" } to durable_objects.bindings.`;
      results.push({ check, level: "error", text, remedy });
    } else if (exportedAs !== undefined && bound.class_name !== exportedAs) {
      const text = `The binding ${binding} has the class ${JSON.stringify(bound.class_name)}, and ${feature}() needs ${name}`;
      const remedy = `Set its class_name to "${name}", or name another binding in ${feature}().`;
      results.push({ check, level: "error", text, remedy });
    }
    return results;
  });
}

/** An agent with `deployments()` does not start without a version. Options that are no literal are not known. */
function versionProblems({ settings, file, sources }: Project): CheckResult[] {
  const { version_metadata: metadata } = settings;
  const isBound = isPlainObject(metadata) && metadata.binding === VERSION_METADATA;
  const calls = sources.argumentsOf([["perdure/deploy", "deployments"]]);
  if (isBound || !calls.some((given) => given.length === 0)) return [];
  const text = `deployments() needs the binding ${VERSION_METADATA}, which ${path.basename(file)} does not have`;
  const remedy = `Add "version_metadata": { "binding": "${VERSION_METADATA}" } to it, in each environment, or pass a version to deployments().`;
  return [{ check: "bindings", level: "error", text, remedy }];
}

/** Whether workflows find this class by the name of its binding. They find a plain object by its id. */
function isFoundByName(project: Project, className: string): boolean {
  const role = roleOfBound(project, className);
  return role.is !== "other" && !(role.is === "agent" && role.host === "perdure/object");
}

function exportProblem(
  { binding, className }: ClassBinding,
  { names, isOpen }: Exports,
  main: string,
): CheckResult | undefined {
  if (names.has(className)) return undefined;
  const text = `The binding ${binding} needs the class ${className}, which ${main} does not export`;
  const remedy = `Add \`export { ${className} } from "..."\` to ${main}.`;
  if (!isOpen) return { check: "bindings", level: "error", text, remedy };
  return {
    check: "bindings",
    level: "skipped",
    text: `${main} exports all of a package, does not parse or is too large to read: it may have ${className}`,
  };
}

export function checkMigrations(project: Project): CheckResult[] {
  const check = "migrations";
  const { settings, file } = project;
  const brought = broughtObjects(project).map((each) => each.exportedAs ?? each.className);
  const wanted = [
    ...new Set([...objectsIn(settings).map(({ className }) => className), ...brought]),
  ];
  const { sqlite, other, problems } = storageOf(settings);
  const results: CheckResult[] = problems.map((text) => ({ check, level: "error", text }));
  for (const name of wanted) {
    if (sqlite.has(name)) continue;
    if (other.has(name)) {
      if (roleOfBound(project, name).is === "other") continue;
      const text = `The class ${name} was created without SQLite, which Perdure needs`;
      const remedy = `This cannot be changed. Give the agent a new class, in "new_sqlite_classes" of a new migration.`;
      results.push({ check, level: "error", text, remedy });
      continue;
    }
    const text = `No migration in ${path.basename(file)} creates the class ${name}`;
    const remedy = `Add { "tag": ${JSON.stringify(nextTag(settings))}, "new_sqlite_classes": [${JSON.stringify(name)}] } to "migrations".`;
    results.push({ check, level: "error", text, remedy });
  }
  return results.length > 0 || wanted.length === 0 ? results : [ok(check, wanted.join(", "))];
}

/** Optional peers that an entry nevertheless needs. */
const NEEDED_BY: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(Object.entries(HOSTS).map(([entry, { packages }]) => [entry, packages])),
  "perdure/codemode": ["@cloudflare/codemode"],
  "perdure/react": ["react"],
  "perdure/mcp": ["@modelcontextprotocol/server"],
};

/**
 * @param peers the ranges of Perdure's peers, from its package.json
 * @param optional those that only some entries need
 */
export function checkVersions(
  { folder, entries }: Pick<Sources, "folder" | "entries">,
  peers: Readonly<Record<string, string>>,
  optional: ReadonlySet<string>,
): CheckResult[] {
  const check = "versions";
  const results: CheckResult[] = [];
  const good: string[] = [];
  const needed = new Set([...entries].flatMap((entry) => NEEDED_BY[entry] ?? []));
  for (const [name, range] of Object.entries(peers)) {
    const version = installedVersion(folder, name);
    if (version === undefined) {
      if (optional.has(name) && !needed.has(name)) continue;
      const text = `${name} is not installed; expected ${range}`;
      results.push({ check, level: "error", text, remedy: `npm install "${name}@${range}"` });
    } else if (!semver.satisfies(version, range, { includePrerelease: true })) {
      const text = `${name} ${version} is not in the range ${range}`;
      results.push({ check, level: "error", text, remedy: `npm install "${name}@${range}"` });
    } else good.push(`${name} ${version}`);
  }
  for (const name of ["@cloudflare/think", "@cloudflare/ai-chat"]) {
    const second = path.join(folder, "node_modules", name);
    const [own, other] = [folder, second].map((from) => installedVersion(from, "agents"));
    if (!existsSync(second) || own === other) continue;
    const text = `There are two versions of agents: ${own}, and ${other} for ${name}`;
    results.push({ check, level: "error", text, remedy: "npm dedupe, then npm ls agents." });
  }
  return results.length > 0 ? results : [ok(check, good.join(", "))];
}

/** As Node finds packages: in the node_modules of the folder, or of one above it. */
function installedVersion(start: string, name: string): string | undefined {
  for (let folder = start; ; folder = path.dirname(folder)) {
    const file = path.join(folder, "node_modules", name, "package.json");
    if (existsSync(file)) {
      const { version } = JSON.parse(readFileSync(file, "utf8")) as { version?: unknown };
      return textOf(version);
    }
    if (folder === path.dirname(folder)) return undefined;
  }
}

function ok(check: CheckResult["check"], text: string): CheckResult {
  return { check, level: "ok", text };
}
