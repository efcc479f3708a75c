/** Which class of the new code each agent of a deployment has. The operator API knows agents by names of the app. */

import type { Node, ObjectProperty } from "@babel/types";
import { NEEDS } from "../../operator/operated/needs.ts";
import { bindingsOf, recordsOf, type Settings, textOf } from "../project/config.ts";
import { isAlike } from "../project/hosts.ts";
import { nameOf, nodesOf, propertyOf } from "../project/modules.ts";
import type { NewProject } from "./project.ts";

export type NewClass = {
  readonly binding: string;
  readonly className: string;
  /** Another Worker has the class. */
  readonly isElsewhere: boolean;
};

export type NewAgents = {
  readonly classOf: (agent: string) => NewClass | undefined;
  /** Whether the sources name all agents, and this one is not among them. */
  readonly isGone: (agent: string) => boolean;
};

export function newAgents({ sources, settings }: NewProject): NewAgents {
  const named = new Map<string, string>();
  let isWhole = true;
  for (const [options] of sources.argumentsOf(NEEDS.operations.mounts)) {
    const agents = options && propertyIn(options, "agents");
    if (agents?.type !== "ObjectExpression") {
      isWhole = false;
      continue;
    }
    for (const each of agents.properties) {
      const binding = each.type === "ObjectProperty" ? bindingIn(each) : undefined;
      if (binding === undefined) isWhole = false;
      else named.set(nameOf((each as ObjectProperty).key), binding);
    }
  }
  const bindings = bindingsOf(settings).flatMap((each): NewClass[] => {
    const [binding, className] = [textOf(each.name), textOf(each.class_name)];
    if (binding === undefined || className === undefined) return [];
    return [{ binding, className, isElsewhere: each.script_name !== undefined }];
  });
  const classOf = (agent: string) => {
    const binding = named.get(agent);
    if (binding !== undefined) return bindings.find((each) => each.binding === binding);
    const byName = bindings.find(
      (each) => isAlike(each.binding, agent) || isAlike(each.className, agent),
    );
    const renamed = renamedFrom(settings, agent);
    return byName ?? bindings.find(({ className }) => className === renamed);
  };
  const isGone = (agent: string) =>
    classOf(agent) === undefined && (named.has(agent) || (isWhole && named.size > 0));
  return { classOf, isGone };
}

/** The name that migrations have given to a class like this name. */
function renamedFrom({ migrations }: Settings, name: string): string | undefined {
  let to: string | undefined;
  for (const step of recordsOf(migrations)) {
    for (const each of recordsOf(step.renamed_classes)) {
      if (isAlike(String(each.from), to ?? name)) to = String(each.to);
    }
  }
  return to;
}

/** The value of a property of an object's literal. */
function propertyIn(object: Node, name: string): Node | undefined {
  if (object.type !== "ObjectExpression") return undefined;
  const found = object.properties.find(
    (each) => each.type === "ObjectProperty" && nameOf(each.key) === name,
  );
  return found?.type === "ObjectProperty" ? found.value : undefined;
}

/** `Support` of `{ namespace: (env) => env.Support }`. */
function bindingIn({ value }: ObjectProperty): string | undefined {
  const namespace = propertyIn(value, "namespace");
  if (!namespace) return undefined;
  const [found] = nodesOf(namespace, "MemberExpression");
  return found && propertyOf(found);
}
