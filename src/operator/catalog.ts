/**
 * What the modules tell operators as data, of `operated/catalog.ts` of each. The type `Action`, the check of the API, the commands
 * of `npx perdure`, the tools for assistants and the page are made of it.
 */

import type { Definition } from "../engine/operated/catalog.ts";
import { ACTIONS, type FINDINGS } from "./catalog.generated.ts";

export { COUNTS as NO_COUNTS } from "./catalog.generated.ts";
export { ACTIONS };

/** Every cause that the report knows. */
export type FindingCode = keyof typeof FINDINGS;

export type Actions = typeof ACTIONS;
export type ActionName = keyof Actions;

export function definitionOf(name: ActionName): Definition {
  return ACTIONS[name];
}

/** For a loop over all of them. */
export const DEFINITIONS = Object.entries<Definition>(ACTIONS) as readonly (readonly [
  name: ActionName,
  definition: Definition,
])[];
