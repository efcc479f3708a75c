/** What `perdure doctor` checks in the classes of a project: agents on each host, and their workflows. */

import path from "node:path";
import { isClass, type Sources } from "../project/classes.ts";
import { textOf } from "../project/config.ts";
import { type Role, roleOf } from "../project/hosts.ts";
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
