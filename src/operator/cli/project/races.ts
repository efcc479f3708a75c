/** Races of steps in the sources of workflows: the order of the ends decides them, which no replay repeats. */

import path from "node:path";
import type { Node } from "@babel/types";
import type { Sources } from "./classes.ts";
import { lineageOf, roleOf } from "./hosts.ts";
import { dotted, propertyOf, type SourceClass, visit } from "./modules.ts";

/** A call of `Promise.race()` or `Promise.any()`, and where it is. */
export type Race = { readonly call: string; readonly file: string; readonly line: number };

export const RACE_REMEDY =
  'Use step.race("name", { ... }), which stores the winner. See docs/workflows.md, "Wait for the first of several steps".';

/** In all workflows of a project, and in functions that take a step. */
export function racesIn(sources: Sources): Race[] {
  const classes = workflowsIn(sources).flatMap((cls) => lineageOf(sources, cls).classes);
  return sources.files.flatMap((file) => racesOfFile(sources, file, classes));
}

const known = new WeakMap<SourceClass, readonly Race[]>();

/** In one workflow, and in functions that take a step in the files that it imports. */
export function racesOf(sources: Sources, cls: SourceClass): readonly Race[] {
  const { classes } = lineageOf(sources, cls);
  const files = new Set(classes.flatMap(({ file }) => [...sources.reachableFrom(file)]));
  const races = known.get(cls) ?? [...files].flatMap((file) => racesOfFile(sources, file, classes));
  known.set(cls, races);
  return races;
}

const workflowsIn = (sources: Sources) =>
  sources.classes.filter((cls) => roleOf(sources, cls).is === "workflow");

function racesOfFile(sources: Sources, file: string, classes: readonly SourceClass[]): Race[] {
  const own = new Set<Node>(classes.map(({ node }) => node));
  const others = new Set<Node>(workflowsIn(sources).map(({ node }) => node));
  const races = new Map<Node, Race>();
  const collect = (root: Node) =>
    visit(root, (node) => {
      if (node.type !== "CallExpression") return undefined;
      const call = dotted(node.callee);
      const line = node.loc?.start.line ?? 1;
      if (call === "Promise.race" || call === "Promise.any")
        races.set(node, { call: `${call}()`, file: path.relative(sources.folder, file), line });
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

/** Whether a parameter is the step of a workflow, by its name or its type. */
function isStep(parameter: unknown): boolean {
  const node = parameter as Node | null;
  if (node?.type !== "Identifier") return false;
  const { name, typeAnnotation: annotation } = node;
  const type = annotation?.type === "TSTypeAnnotation" ? annotation.typeAnnotation : undefined;
  const typeName = type?.type === "TSTypeReference" ? dotted(type.typeName) : undefined;
  return name === "step" || typeName?.endsWith("WorkflowStep") === true;
}
