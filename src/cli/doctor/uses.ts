/** Bindings that the code uses by name, and that the configuration does not have. */

import path from "node:path";
import type { Node } from "@babel/types";
import type { Value } from "../project/classes.ts";
import { bindingsOf, recordsOf, textOf } from "../project/config.ts";
import { dotted, nodesOf, propertyOf } from "../project/modules.ts";
import { propertyIn, textsIn } from "../project/values.ts";
import type { CheckResult, Project } from "./project.ts";

const check = "bindings";
/** Methods that only a namespace of Durable Objects has. */
const OF_NAMESPACES = new Set(["getByName", "idFromName", "idFromString", "newUniqueId"]);

type Use = { readonly name: string; readonly where: string; readonly isWorkflow?: true };

/** Each name once, where it is used first. */
export function unknownBindings(project: Project): CheckResult[] {
  const { sources, settings, folder, file: configuration } = project;
  const config = path.basename(configuration);
  const objects = new Set(bindingsOf(settings).map(({ name }) => textOf(name)));
  const workflows = new Set(recordsOf(settings.workflows).map(({ binding }) => textOf(binding)));
  const main = path.resolve(folder, textOf(settings.main) ?? "");
  const uses = sources.filesOf(main).flatMap((file) => usesIn(project, file));
  const missing = new Map(
    uses
      .filter(({ name, isWorkflow }) => !(isWorkflow ? workflows : objects).has(name))
      .reverse()
      .map((use) => [`${use.isWorkflow} ${use.name}`, use]),
  );
  return [...missing.values()].reverse().map(({ name, where, isWorkflow }) => {
    const text = isWorkflow
      ? `${where} starts the workflow ${name}, and ${config} has no workflow with this binding`
      : `${where} uses the Durable Object binding ${name}, which ${config} does not have`;
    const remedy = isWorkflow
      ? `Add { "name": "...", "binding": "${name}", "class_name": "..." } to workflows, or correct the name.`
      : `Add { "name": "${name}", "class_name": "..." } to durable_objects.bindings, or correct the name.`;
    return { check, level: "error", text, remedy };
  });
}

function usesIn({ sources, folder }: Project, file: string): Use[] {
  const { tree } = sources.module(file);
  const whereOf = (node: Node) => `${path.relative(folder, file)}:${node.loc?.start.line ?? 1}`;
  const namedBy = (value: Value | undefined, isWorkflow?: true): Use[] =>
    (value ? (textsIn(sources, value) ?? []) : []).map((name) => ({
      ...{ name, where: whereOf(value?.node ?? tree) },
      ...(isWorkflow && { isWorkflow }),
    }));
  const inEnv = (node: Node | undefined | null): Use[] => {
    const [, name] = /^(?:this\.)?env\.(\w+)$/.exec(pathOf(node)) ?? [];
    return node && name !== undefined ? [{ name, where: whereOf(node) }] : [];
  };
  const calls = nodesOf(tree, "CallExpression").flatMap(({ callee, arguments: given }): Use[] => {
    const [first, , third] = given;
    const called = sources.find(file, dotted(callee) ?? "");
    const isOf = (from: string, name: string) =>
      called !== undefined && "from" in called && called.from === from && called.name === name;
    const method = propertyOf(callee);
    if (isOf("agents", "getAgentByName")) return inEnv(first);
    if (callee.type === "MemberExpression" && OF_NAMESPACES.has(method ?? ""))
      return inEnv(callee.object);
    if (!first || !(method === "runWorkflow" || isOf("perdure/outbox", "workflow"))) return [];
    const options = third && propertyIn(sources, { file, node: third }, "agentBinding").found;
    return [...namedBy({ file, node: first }, true), ...namedBy(options)];
  });
  // `{ namespace: (env) => env.Desk }` of operator() and dashboard().
  const namespaces = nodesOf(tree, "ObjectProperty").flatMap(({ key, value }) =>
    dotted(key) === "namespace" && value.type === "ArrowFunctionExpression"
      ? inEnv(value.body)
      : [],
  );
  return [...calls, ...namespaces];
}

/** `this.env.Desk` of such an expression. Empty for another one, also for an optional chain. */
function pathOf(node: Node | undefined | null): string {
  if (node?.type === "ThisExpression") return "this";
  if (node?.type === "Identifier") return node.name;
  if (node?.type === "TSNonNullExpression") return pathOf(node.expression);
  if (node?.type !== "MemberExpression" || node.computed) return "";
  return `${pathOf(node.object)}.${pathOf(node.property)}`;
}
