/** What `perdure doctor` checks in the classes of a project: agents on each host, and their workflows. */

import path from "node:path";
import { isClass, type Sources } from "../project/classes.ts";
import { textOf } from "../project/config.ts";
import { lineageOf, type Role, roleOf, shown } from "../project/hosts.ts";
import type { CheckResult, Project } from "./checks.ts";

const check = "hosts";

export function checkHosts({ sources }: { readonly sources: Sources }): CheckResult[] {
  const all = sources.classes.map((cls) => ({ cls, role: roleOf(sources, cls) }));
  const text = all
    .flatMap(({ cls, role }) => (role.is === "agent" ? [`${cls.name} on ${role.host}`] : []))
    .join(", ");
  if (text !== "") return [{ check, level: "ok", text }];
  return [{ check, level: "skipped", text: "The sources declare no class on a host of Perdure" }];
}

const mainOf = ({ settings, folder }: Project) => path.resolve(folder, textOf(settings.main) ?? "");

/** What the class of a binding is. It is unknown where a package has it. */
export function roleOfBound(project: Project, className: string): Role {
  const { sources } = project;
  const found = sources.findExport(mainOf(project), className);
  return isClass(found) ? roleOf(sources, found) : { is: "unknown" };
}

/**
 * Warns of classes on a host that the Worker imports and that nothing else needs: no call, as that of a sub-agent, no other class.
 * @param names of the classes that have a binding
 */
export function unbound(project: Project, names: readonly string[]): CheckResult[] {
  const { sources, file } = project;
  const main = mainOf(project);
  const reachable = sources.reachableFrom(main);
  const bases = sources.classes.flatMap((each) => lineageOf(sources, each).classes.slice(1));
  const used = new Set([
    ...names.map((name) => sources.findExport(main, name)),
    ...sources.classes.filter(({ name, isAbstract }) => isAbstract || names.includes(name)),
    ...bases,
    ...sources.passed,
  ]);
  const exported = [...sources.module(main).exports.keys()];
  return sources.classes.flatMap((cls) => {
    const role = roleOf(sources, cls);
    if (role.is !== "agent" || used.has(cls) || !reachable.has(cls.file)) return [];
    const how = role.host === "perdure/object" ? "calls" : "extends";
    const text = `No Durable Object binding has the class ${shown(sources, cls)}, which ${how} ${role.by}`;
    const name = exported.find((each) => sources.findExport(main, each) === cls) ?? cls.name;
    const add = `Add { "name": "${name}", "class_name": "${name}" } to durable_objects.bindings in ${path.basename(file)}`;
    const remedy = `${add}, and the class to a migration. A sub-agent, or a class that only another Worker binds, needs none.`;
    return [{ check: "bindings", level: "warning", text, remedy }];
  });
}
