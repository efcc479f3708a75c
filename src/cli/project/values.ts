/** Values of expressions, as far as the sources tell: constants are followed through imports and exports. */

import type { Sources, Value } from "./classes.ts";
import { dotted, nameOf } from "./modules.ts";

/** Constants of constants are followed this far. */
const MAX_DEPTH = 20;

/** The expression that a constant stands for; any other expression is its own value. */
export function resolved(sources: Sources, value: Value, depth = 0): Value {
  const { file, node } = value;
  if (
    node.type === "TSAsExpression" ||
    node.type === "TSSatisfiesExpression" ||
    node.type === "TSNonNullExpression" ||
    node.type === "ParenthesizedExpression"
  )
    return resolved(sources, { file, node: node.expression }, depth);
  const name = dotted(node);
  const found = name === undefined ? undefined : sources.constant(file, name);
  return found && depth < MAX_DEPTH ? resolved(sources, found, depth + 1) : value;
}

/** The texts that an expression may be. Undefined where one of them is not known. */
export function textsIn(sources: Sources, value: Value): string[] | undefined {
  const { file, node } = resolved(sources, value);
  if (node.type === "StringLiteral") return [node.value];
  if (node.type !== "ConditionalExpression") return undefined;
  const [yes, no] = [node.consequent, node.alternate].map((each) =>
    textsIn(sources, { file, node: each }),
  );
  return yes && no && [...yes, ...no];
}

/** The value of a property. `isKnown` is false where a spread or another expression may have it. */
export function propertyIn(
  sources: Sources,
  value: Value,
  name: string,
): { readonly isKnown: boolean; readonly found: Value | undefined } {
  const { file, node } = resolved(sources, value);
  if (node.type !== "ObjectExpression") return { isKnown: false, found: undefined };
  let isKnown = true;
  let found: Value | undefined;
  for (const each of node.properties) {
    if (each.type === "SpreadElement") {
      const spread = propertyIn(sources, { file, node: each.argument }, name);
      isKnown &&= spread.isKnown;
      found = spread.found ?? found;
    } else if (nameOf(each.key) === name && !each.computed) {
      found = { file, node: each.type === "ObjectProperty" ? each.value : each };
    }
  }
  return { isKnown, found };
}

/** For people: the text of an expression, in one line. */
export function codeOf(sources: Sources, { file, node }: Value): string {
  const text = sources.module(file).text.slice(node.start ?? 0, node.end ?? 0);
  const line = text.replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 57)}...` : line;
}
