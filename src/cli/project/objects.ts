/** Durable Objects that features of a project bring: the Worker exports and binds their classes. */

import type { Need } from "../../engine/operated/needs.ts";
import { NEEDS } from "../../operator/needs.generated.ts";
import { isClass, isExport, type Sources } from "./classes.ts";
import { bindingsOf, type Settings } from "./config.ts";
import { lineageOf } from "./hosts.ts";
import { nameOf, nodesOf } from "./modules.ts";

export type FeatureObject = {
  readonly feature: string;
  readonly from: string;
  readonly className: string;
  /** The name of its binding. */
  readonly binding: string;
  /** By which name the Worker exports it, if it does. */
  readonly exportedAs: string | undefined;
};

/**
 * Those of the features that the project imports, except where another Worker has the class.
 *
 * @param main the Worker's file
 */
export function featureObjects(
  sources: Sources,
  main: string,
  settings: Settings,
): FeatureObject[] {
  const bindings = bindingsOf(settings);
  return Object.entries<Need>(NEEDS).flatMap(([feature, { from, object }]): FeatureObject[] => {
    if (!object || !sources.imports(from, feature)) return [];
    const { className, option } = object;
    const [given] = sources
      .argumentsOf([[from, feature]])
      .flatMap((all) => all.flatMap((each) => nodesOf(each, "ObjectProperty")))
      .flatMap(({ key, value }) =>
        nameOf(key) === option && value.type === "StringLiteral" ? [value.value] : [],
      );
    const binding = given ?? object.binding;
    if (bindings.some((each) => each.name === binding && each.script_name !== undefined)) return [];
    const names = [...(sources.exportsOf(main)?.names ?? [])];
    const exportedAs = names.find((name) => {
      const found = sources.findExport(main, name);
      const { base } = isClass(found) ? lineageOf(sources, found) : { base: found };
      return base !== "unknown" && isExport(base, from, className);
    });
    return [{ feature, from, className, binding, exportedAs }];
  });
}
