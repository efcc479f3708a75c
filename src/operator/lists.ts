/** The lists of all modules: the API, the page, the command line and the tools for assistants iterate over them. */

import type { List } from "../core/operated/list.ts";
import * as inbound from "../inbound/operated/lists.ts";
import * as outbox from "../kernel/outbox/operated/lists.ts";
import * as submissions from "../kernel/submissions/operated/lists.ts";
import * as waits from "../kernel/waits/operated/lists.ts";
import * as scheduler from "../scheduler/operated/lists.ts";
import * as actions from "./actions/lists.ts";
import type { ActionName } from "./catalog.ts";
import * as workflows from "./workflows/lists.ts";

export const LISTS = {
  ...submissions.LISTS,
  ...workflows.LISTS,
  ...waits.LISTS,
  ...inbound.LISTS,
  ...outbox.LISTS,
  ...scheduler.LISTS,
  ...actions.LISTS,
};
export type Lists = typeof LISTS;

export const READS = {
  ...submissions.READS,
  ...workflows.READS,
  ...waits.READS,
  ...inbound.READS,
  ...outbox.READS,
  ...scheduler.READS,
  ...actions.READS,
};
export const OPENS = {
  ...submissions.OPENS,
  ...workflows.OPENS,
  ...waits.OPENS,
  ...inbound.OPENS,
  ...outbox.OPENS,
  ...scheduler.OPENS,
};
/** The lists of single items, by the list and the name of the part. */
export const PARTS = { ...submissions.PARTS, ...scheduler.PARTS };

/** One of the lists, whatever its items are. */
export type AnyList = List<object, Readonly<Record<string, unknown>>, { do: ActionName }>;

export const listOf = (name: string) => of<AnyList>(LISTS, name);

/** The value by a name of the URL, which may be "constructor". */
export function of<Value>(all: object, name: string): Value | undefined {
  return Object.hasOwn(all, name) ? (all as Record<string, Value>)[name] : undefined;
}
