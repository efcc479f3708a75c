/** The features that a class installs, as far as the sources tell. */

import { isClass, isExport, type Sources, type Value } from "./classes.ts";
import { callsOf, isThis, lineageOf } from "./hosts.ts";
import { dotted, memberOf, propertyOf, type SourceClass } from "./modules.ts";
import { propertyIn, resolved } from "./values.ts";

/** Whether a class installs a feature: in its lists, or anywhere else in its code. */
export function installs(sources: Sources, cls: SourceClass, feature: string, from: string) {
  const isIt = (item: Value) => isExport(calledIn(sources, item), from, feature);
  const { classes } = lineageOf(sources, cls);
  return (
    classes.some((each) => callsOf(sources, each, from, feature).length > 0) ||
    itemsOf(sources, cls).some(isIt)
  );
}

/** Parts of its lists that may install any feature. */
export function unknownFeatures(sources: Sources, cls: SourceClass): Value[] {
  return itemsOf(sources, cls).filter((item) => calledIn(sources, item) === undefined);
}

/** The function of a package that an item calls. */
function calledIn(sources: Sources, { file, node }: Value) {
  if (node.type !== "CallExpression") return undefined;
  const called = sources.find(file, dotted(node.callee) ?? "");
  return isClass(called) ? undefined : called;
}

/** The items of all lists that a class and its bases declare: `static features`, and the option of `durable()`. */
function itemsOf(sources: Sources, cls: SourceClass): Value[] {
  const { classes } = lineageOf(sources, cls);
  // Those of the bases are in their own lists.
  const isInherited = ({ file, node }: Value) =>
    node.type === "MemberExpression" &&
    propertyOf(node) === "features" &&
    (node.object.type === "Super" ||
      classes.some((each) => each === sources.find(file, dotted(node.object) ?? "")));
  return classes
    .flatMap((each) => listsOf(sources, each))
    .flatMap((list) => itemsIn(sources, list))
    .filter((item) => !isInherited(item));
}

function listsOf(sources: Sources, cls: SourceClass): Value[] {
  const { file } = cls;
  const member = memberOf(cls, "features");
  const own = member?.type === "ClassProperty" ? (member.value ?? undefined) : member;
  const options = callsOf(sources, cls, "perdure/object", "durable").flatMap(([object, given]) =>
    isThis(object) && given ? [{ file, node: given }] : [],
  );
  const ofOptions = options.flatMap((value) => {
    const { found, isKnown } = propertyIn(sources, value, "features");
    return found ? [found] : isKnown ? [] : [value];
  });
  return [...(own ? [{ file, node: own }] : []), ...ofOptions];
}

/** The items of a list; the list itself where it is no literal. */
function itemsIn(sources: Sources, list: Value): Value[] {
  const { file, node } = resolved(sources, list);
  if (node.type !== "ArrayExpression") return [list];
  return node.elements.flatMap((each): Value[] => {
    if (!each) return [];
    if (each.type === "SpreadElement") return itemsIn(sources, { file, node: each.argument });
    return [resolved(sources, { file, node: each })];
  });
}
