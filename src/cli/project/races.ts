/** Races of steps in the sources of workflows: the order of the ends decides them, which no replay repeats. */

import path from "node:path";
import type { Node } from "@babel/types";
import type { Sources } from "./classes.ts";
import { lineageOf, roleOf } from "./hosts.ts";
import { dotted, nameOf, nodesOf, propertyOf, type SourceClass, visit } from "./modules.ts";
import { resolved } from "./values.ts";

/** A call of `Promise.race()` or `Promise.any()`, and where it is. */
export type Race = { readonly call: string; readonly file: string; readonly line: number };

export const RACE_REMEDY =
  'Use step.race("name", { ... }), which stores the winner. See docs/workflows.md, "Wait for the first of several steps".';

/** In all workflows of a project, and in functions that take a step. */
export function racesIn(sources: Sources): Race[] {
  const classes = workflowsIn(sources).flatMap((cls) => lineageOf(sources, cls).classes);
  return sources.files.flatMap((file) => racesOfFile(sources, file, classes));
}

const cached = new WeakMap<SourceClass, readonly Race[]>();

/** In one workflow, and in functions that take a step in the files that it imports. */
export function racesOf(sources: Sources, cls: SourceClass): readonly Race[] {
  const { classes } = lineageOf(sources, cls);
  const files = new Set(classes.flatMap(({ file }) => [...sources.reachableFrom(file)]));
  const races =
    cached.get(cls) ?? [...files].flatMap((file) => racesOfFile(sources, file, classes));
  cached.set(cls, races);
  return races;
}

const workflowsIn = (sources: Sources) =>
  sources.classes.filter((cls) => roleOf(sources, cls).is === "workflow");

function racesOfFile(sources: Sources, file: string, classes: readonly SourceClass[]): Race[] {
  const own = new Set<Node>(classes.map(({ node }) => node));
  const others = new Set<Node>(workflowsIn(sources).map(({ node }) => node));
  const races = new Map<Node, Race>();
  const names = new RaceNames(sources, file);
  const collect = (root: Node) =>
    visit(root, (node) => {
      if (node.type !== "CallExpression" && node.type !== "OptionalCallExpression")
        return undefined;
      const method = names.methodOf(node.callee);
      const line = node.loc?.start.line ?? 1;
      const where = { file: path.relative(sources.folder, file), line };
      if (method) races.set(node, { call: `Promise.${method}()`, ...where });
      // The platform stores the result of a step's own code.
      return propertyOf(node.callee) !== "do";
    });
  visit(sources.module(file).tree, (node) => {
    if (others.has(node) && !own.has(node)) return false;
    const takesStep = "params" in node && [node.params].flat().some(isStep);
    if (own.has(node) || takesStep) collect(node);
    return undefined;
  });
  return [...races.values()];
}

/** Names of names are followed this far. */
const MAX_DEPTH = 20;

/** The names that a file has for `Promise` and its methods. A name counts in the whole file. */
class RaceNames {
  readonly #values = new Map<string, Node>();
  /** Names of `const { race } = Promise`. */
  readonly #taken = new Map<string, string>();

  constructor(
    private readonly sources: Sources,
    private readonly file: string,
  ) {
    for (const { id, init } of nodesOf(sources.module(file).tree, "VariableDeclarator")) {
      if (!init) continue;
      if (id.type === "Identifier") this.#values.set(id.name, init);
      if (id.type !== "ObjectPattern" || !this.#isPromise(init)) continue;
      for (const each of id.properties)
        if (each.type === "ObjectProperty") this.#taken.set(nameOf(each.value), nameOf(each.key));
    }
  }

  /** "race" or "any", if the call of an expression calls that method of Promise. */
  methodOf(given: Node, depth = 0): string | undefined {
    if (depth > MAX_DEPTH) return undefined;
    const node = this.#valueOf(given);
    if (node.type === "Identifier") return racing(this.#taken.get(node.name));
    if (node.type === "CallExpression") {
      const { callee } = node;
      const isBound = callee.type === "MemberExpression" && propertyOf(callee) === "bind";
      return isBound ? this.methodOf(callee.object, depth + 1) : undefined;
    }
    if (node.type !== "MemberExpression" && node.type !== "OptionalMemberExpression")
      return undefined;
    const method = propertyOf(node);
    if (method === "call" || method === "apply") return this.methodOf(node.object, depth + 1);
    return this.#isPromise(node.object) ? racing(method) : undefined;
  }

  #isPromise(node: Node): boolean {
    return PROMISE.has(dotted(this.#valueOf(node)) ?? "");
  }

  #valueOf(node: Node): Node {
    const { node: found } = resolved(this.sources, { file: this.file, node });
    return (found.type === "Identifier" && this.#values.get(found.name)) || found;
  }
}

const PROMISE: ReadonlySet<string> = new Set(["Promise", "globalThis.Promise"]);
const racing = (method: string | undefined) =>
  method === "race" || method === "any" ? method : undefined;

/** Whether a parameter is the step of a workflow, by its name or its type. */
function isStep(parameter: unknown): boolean {
  const node = parameter as Node | null;
  if (node?.type !== "Identifier") return false;
  const { name, typeAnnotation: annotation } = node;
  const type = annotation?.type === "TSTypeAnnotation" ? annotation.typeAnnotation : undefined;
  const typeName = type?.type === "TSTypeReference" ? dotted(type.typeName) : undefined;
  return name === "step" || typeName?.endsWith("WorkflowStep") === true;
}
