/**
 * What the modules tell operators as data: one import and one entry for each. The type `Action`, the check of the API, the
 * commands of `npx perdure`, the tools for assistants and the page are made of it. `parts.ts` has what runs in the agent.
 */

import type { Definition } from "../core/operated/catalog.ts";
import * as inbound from "../inbound/operated/catalog.ts";
import * as outbox from "../kernel/outbox/operated/catalog.ts";
import * as submissions from "../kernel/submissions/operated/catalog.ts";
import * as waits from "../kernel/waits/operated/catalog.ts";
import * as scheduler from "../scheduler/operated/catalog.ts";
import * as report from "./report/catalog.ts";
import * as workflows from "./workflows/catalog.ts";

const CATALOGS = [submissions, outbox, inbound, waits, scheduler, workflows, report] as const;

type Part<Name extends string, Of = (typeof CATALOGS)[number]> =
  Of extends Readonly<Record<Name, infer Entries>> ? Entries : never;
type All<Union> = (Union extends unknown ? (one: Union) => void : never) extends (
  all: infer Merged,
) => void
  ? { [Name in keyof Merged]: Merged[Name] }
  : never;

function merged<Name extends "FINDINGS" | "COUNTS" | "ACTIONS">(name: Name) {
  const parts = CATALOGS.map((catalog) => (catalog as { readonly [Of in Name]?: object })[name]);
  return Object.assign({}, ...parts) as All<Part<Name>>;
}

/** Every cause that the report knows, and which of the four questions it answers with no. */
export const FINDINGS = merged("FINDINGS");
export type FindingCode = keyof typeof FINDINGS;

/** The counts of an agent that has nothing. */
export const NO_COUNTS = merged("COUNTS");

/** Every action of operators, by its name. */
export const ACTIONS = merged("ACTIONS");
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

/** The fields that name the item of an action. */
export function targetOf(action: { readonly do: ActionName }): [field: string, value: string][] {
  const { fields } = definitionOf(action.do);
  const values = action as unknown as Readonly<Record<string, string>>;
  return Object.entries(fields).flatMap(([name, [kind]]) =>
    kind === "id" || kind === "url" ? [[name, values[name] ?? ""]] : [],
  );
}
