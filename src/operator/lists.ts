/**
 * The lists of all modules, of `operated/lists.ts` of each: the API, the page, the command line and the tools for assistants
 * iterate over them.
 */

import type { List } from "../engine/operated/list.ts";
import type { ActionName } from "./catalog.ts";
import { LISTS } from "./lists.generated.ts";

export { OPENS, READS, SUBLISTS } from "./lists.generated.ts";
export { LISTS };
export type Lists = typeof LISTS;

/** One of the lists, whatever its items are. */
export type AnyList = List<object, Readonly<Record<string, unknown>>, { do: ActionName }>;

export const listOf = (name: string) => of<AnyList>(LISTS, name);

/** The value by a name of the URL, which may be "constructor". */
export function of<Value>(all: object, name: string): Value | undefined {
  return Object.hasOwn(all, name) ? (all as Record<string, Value>)[name] : undefined;
}
