/** What the configuration and the sources of the new code cannot take of open work: classes, bindings, migrations. Without I/O. */

import path from "node:path";
import { preview } from "../../core/json.ts";
import { isPlainObject } from "../../core/options/options.ts";
import type { OpenItem } from "../../features/deploy/types.ts";
import { isClass } from "../project/classes.ts";
import {
  nextTag,
  recordsOf,
  type Settings,
  storageOf,
  textsOf,
  workflowsIn,
} from "../project/config.ts";
import { isAlike } from "../project/hosts.ts";
import { RACE_REMEDY, racesOf } from "../project/races.ts";
import type { NewAgents, NewClass } from "./agents.ts";
import type { NotChecked, Problem } from "./problems.ts";
import type { NewProject } from "./project.ts";
import type { AgentWork, Snapshot } from "./snapshot.ts";

type Found = { readonly problems: Problem[]; readonly notChecked: NotChecked[] };

export function checkConfiguration(
  project: NewProject,
  agents: NewAgents,
  snapshot: Snapshot,
): Found {
  const problems: Problem[] = [];
  const notChecked: NotChecked[] = [];
  const bound = boundNames(project.settings);
  const names = deployedNames(snapshot);
  for (const agent of snapshot.agents) {
    if (agent.work.length === 0) continue;
    const found = agents.classOf(agent.agent);
    if (found) problems.push(...classProblems(project, agent, found));
    else if (agents.isGone(agent.agent) || lastNameOf(project, agent.agent) !== undefined)
      problems.push(goneProblem(project, agent));
    else {
      const why = "its class was not found: name it, or its binding, like the agent of operator()";
      notChecked.push({ agent: agent.agent, name: agent.name, why });
    }
    if (found?.isElsewhere) {
      const why = "its class is that of another Worker: check it there";
      notChecked.push({ agent: agent.agent, name: agent.name, why });
    }
    notChecked.push(...workflowsElsewhere(project, agent, bound));
    problems.push(...bindingProblems(project, agent, bound));
    problems.push(...raceProblems(project, agent));
    problems.push(...renamedWorkflows(project, agent, names));
  }
  return { problems, notChecked };
}

/** A problem of all that is open in an agent. */
const ofClass = ({ agent, name, version }: AgentWork, id: string) =>
  ({ agent, name, kind: "class", id, version, severity: "error" }) as const;

function classProblems(project: NewProject, agent: AgentWork, found: NewClass): Problem[] {
  const { settings, exports } = project;
  const file = path.basename(project.file);
  const main = path.relative(project.folder, project.main);
  const { binding, className, isElsewhere } = found;
  // That Worker has its own configuration.
  if (isElsewhere) return [];
  const about = ofClass(agent, className);
  if (!exports(className)) {
    const text = `The binding ${binding} has the class ${className}, which ${main} does not export.`;
    const remedy = `Export ${className} from ${main}. If it was renamed, set class_name, and add { "tag": "${nextTag(settings)}", "renamed_classes": [{ "from": "${className}", "to": "..." }] } to "migrations".`;
    return [{ ...about, problem: "class-gone", text, remedy }];
  }
  const orphan = orphanOf(project, agent.agent) ?? orphanOf(project, binding);
  if (orphan !== undefined && orphan !== className) {
    const text = `The storage of the class ${orphan} stays behind: the binding ${binding} leads to the class ${className}, which starts empty.`;
    const remedy = `Rename it by a migration: replace the one that creates ${className} in ${file} by { "tag": "${nextTag(settings)}", "renamed_classes": [{ "from": "${orphan}", "to": "${className}" }] }.`;
    return [{ ...about, problem: "class-renamed", text, remedy }];
  }
  const { sqlite, other } = storageOf(settings);
  if (!sqlite.has(className) && !other.has(className)) {
    const isDeleted = deletedClasses(settings).has(className);
    const text = isDeleted
      ? `A migration in ${file} deletes the class ${className} with its open work.`
      : `No migration in ${file} creates the class ${className}.`;
    const remedy = isDeleted
      ? `Remove ${className} from "deleted_classes" until npx perdure drain says that nothing of it is open.`
      : `If ${className} is new, add { "tag": "${nextTag(settings)}", "new_sqlite_classes": ["${className}"] } to "migrations". If it was renamed, add "renamed_classes".`;
    return [{ ...about, problem: isDeleted ? "class-deleted" : "migration-missing", text, remedy }];
  }
  return replacedProblems(project, agent, found);
}

/** No error: the migration may be deployed already, and the open work be that of the new class. */
function replacedProblems(
  project: NewProject,
  agent: AgentWork,
  { binding, className }: NewClass,
): Problem[] {
  const deleted = deletedClass(project, agent.agent) ?? deletedClass(project, binding);
  if (deleted === undefined || deleted === className) return [];
  const file = path.basename(project.file);
  const text = `A migration in ${file} deletes the class ${deleted}, and the binding ${binding} leads to ${className}, which starts empty. With this deploy the open work of ${deleted} is gone.`;
  const remedy = `If that migration is not deployed yet, rename the class instead: "renamed_classes": [{ "from": "${deleted}", "to": "${className}" }].`;
  const about = { ...ofClass(agent, deleted), severity: "warning" } as const;
  return [{ ...about, problem: "class-deleted", text, remedy }];
}

function goneProblem(project: NewProject, agent: AgentWork): Problem {
  const file = path.basename(project.file);
  const deleted = deletedClass(project, agent.agent);
  const about = ofClass(agent, lastNameOf(project, agent.agent) ?? agent.agent);
  if (deleted !== undefined) {
    const text = `A migration in ${file} deletes the class ${deleted} with its open work.`;
    const remedy = `Keep ${deleted} until npx perdure drain says that nothing of it is open.`;
    return { ...about, problem: "class-deleted", text, remedy };
  }
  const text = `${file} has no binding of a class for the agent ${agent.agent}, which has open work.`;
  const remedy = `Keep its class with its binding until npx perdure drain says that nothing of it is open. If it was renamed, bind the new class, and add "renamed_classes" to "migrations".`;
  return { ...about, problem: "class-gone", text, remedy };
}

/** The class like this name that migrations have created, which the new code has no more. */
const lastNameOf = (project: NewProject, name: string) =>
  deletedClass(project, name) ?? orphanOf(project, name);

const deletedClass = ({ settings }: NewProject, name: string) =>
  [...deletedClasses(settings)].find((each) => isAlike(each, name));

/** A class like this name that migrations have created, and that the new code neither exports nor binds. */
function orphanOf({ settings, exports }: NewProject, name: string): string | undefined {
  const { sqlite, other } = storageOf(settings);
  return [...sqlite, ...other].find((each) => !exports(each) && isAlike(each, name));
}

function bindingProblems(
  project: NewProject,
  agent: AgentWork,
  bound: ReadonlySet<string>,
): Problem[] {
  const workflows = new Map(
    workflowsIn(project.settings).map(({ binding, className }) => [binding, className]),
  );
  const file = path.basename(project.file);
  const main = path.relative(project.folder, project.main);
  return agent.work.flatMap((item) => {
    const { kind, id, version } = item;
    const about = { agent: agent.agent, name: agent.name, kind, id, version } as const;
    return [...bindingsOf(item, agent)].flatMap((name): Problem[] => {
      const className = workflows.get(name);
      if (!bound.has(name)) {
        const text = `It needs the binding ${name}, which ${file} does not have.`;
        const remedy = `Keep the binding ${name} until npx perdure drain says that nothing needs it.`;
        return [{ ...about, problem: "binding-gone", severity: "error", text, remedy }];
      }
      if (className === undefined || project.exports(className)) return [];
      const text = `The Workflow binding ${name} has the class ${className}, which ${main} does not export.`;
      const remedy = `Export ${className} from ${main}, or set class_name to the class that has its steps.`;
      return [{ ...about, problem: "class-gone", severity: "error", text, remedy }];
    });
  });
}

/** Open runs whose code races steps: the one that a replay finds first may not be the one that has won. */
function raceProblems(project: NewProject, { agent, name, histories }: AgentWork): Problem[] {
  const { settings, sources, main } = project;
  const classes = new Map(workflowsIn(settings).map((each) => [each.binding, each.className]));
  return histories.flatMap(({ workflow, workflowId: id, version }) => {
    const found = sources.findExport(main, classes.get(workflow) ?? "");
    const [race] = isClass(found) ? racesOf(sources, found) : [];
    if (!race) return [];
    const { call, file, line } = race;
    const about = { agent, name, kind: "workflow", id, version, severity: "warning" } as const;
    const text = `${file}:${line} calls ${call}: a replay of the run may take another branch.`;
    return [{ ...about, problem: "race", text, remedy: RACE_REMEDY }];
  });
}

/** The name of each Workflow, by its binding, as the latest run has recorded it. */
function deployedNames({ agents }: Snapshot): ReadonlyMap<string, string> {
  const histories = agents.flatMap((each) => each.histories);
  return new Map(
    histories
      .toSorted((one, other) => one.startedAt - other.startedAt)
      .flatMap(({ workflow, deployedAs }): [string, string][] =>
        deployedAs === undefined ? [] : [[workflow, deployedAs]],
      ),
  );
}

/** Runs belong to the name of their Workflow: under another one, the agent finds none of them. */
function renamedWorkflows(
  { settings, file }: NewProject,
  { agent, name, histories }: AgentWork,
  names: ReadonlyMap<string, string>,
): Problem[] {
  const config = path.basename(file);
  const configured = new Map(
    recordsOf(settings.workflows).map((each) => [each.binding, each.name]),
  );
  return histories.flatMap(({ workflow, workflowId: id, version, deployedAs }): Problem[] => {
    const was = deployedAs ?? names.get(workflow);
    const is = configured.get(workflow);
    if (was === undefined || typeof is !== "string" || is === was) return [];
    const text = `The Workflow ${workflow} was named ${preview(was)}, and is ${preview(is)} in ${config}: the platform has its runs under the old name, so nothing reaches them.`;
    const remedy = `Keep "name": ${JSON.stringify(was)} for the binding ${workflow}, or give the new name a binding of its own until the old runs have ended.`;
    const about = { agent, name, kind: "workflow", id, version } as const;
    return [{ ...about, problem: "workflow-renamed", severity: "error", text, remedy }];
  });
}

/** Workflows whose binding leads to another Worker. */
function workflowsElsewhere(
  { settings }: NewProject,
  { agent, name, histories }: AgentWork,
  bound: ReadonlySet<string>,
): NotChecked[] {
  const here = new Set(workflowsIn(settings).map(({ binding }) => binding));
  return histories
    .filter(({ workflow }) => bound.has(workflow) && !here.has(workflow))
    .map(({ workflow, workflowId: id }) => {
      const why = `its Workflow ${workflow} has no class in this Worker: check it in the one that has it`;
      return { agent, name, id, why };
    });
}

/** The bindings that an item needs. */
function bindingsOf({ kind, id, needs }: OpenItem, { histories }: AgentWork): ReadonlySet<string> {
  const names = needs.flatMap(({ what, name }) =>
    what === "binding" || what === "workflow" ? [name] : [],
  );
  const history =
    kind === "workflow" ? histories.find(({ workflowId }) => workflowId === id) : undefined;
  if (history) names.push(history.workflow);
  // The workflow finds its agent by it.
  const params = history?.params;
  const agentBinding = isPlainObject(params) ? params.__agentBinding : undefined;
  if (typeof agentBinding === "string") names.push(agentBinding);
  return new Set(names);
}

/** The names in `env`. */
function boundNames(settings: Settings): ReadonlySet<string> {
  const names = new Set(isPlainObject(settings.vars) ? Object.keys(settings.vars) : []);
  if (isPlainObject(settings.secrets))
    for (const name of textsOf(settings.secrets.required)) names.add(name);
  const visit = (value: unknown) => {
    if (Array.isArray(value)) value.forEach(visit);
    if (!isPlainObject(value)) return;
    if (typeof value.binding === "string") names.add(value.binding);
    Object.values(value).forEach(visit);
  };
  // Of another environment.
  const { env: _, durable_objects: objects, send_email: emails, ...others } = settings;
  visit(others);
  const byName = [isPlainObject(objects) ? objects.bindings : [], emails];
  for (const each of byName.flat()) if (isPlainObject(each)) names.add(String(each.name));
  return names;
}

function deletedClasses(settings: Settings): ReadonlySet<string> {
  const { sqlite, other } = storageOf(settings);
  const names = recordsOf(settings.migrations).flatMap((step) => textsOf(step.deleted_classes));
  return new Set(names.filter((name) => !sqlite.has(name) && !other.has(name)));
}
