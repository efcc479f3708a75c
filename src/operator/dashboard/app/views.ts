/** The lists as the page shows them: cells as elements, filters by their names in the field, buttons. */

import type { Column, FilterKind } from "../../../engine/operated/list.ts";
import { type AnyList, LISTS, type Lists } from "../../lists.ts";
import type { Action } from "../../protocol.ts";
import { elapsedText } from "../../waterfall.ts";
import { html } from "./html.ts";
import { Meter, Status, short, Time } from "./parts.ts";
import type { FilterName } from "./text/filter.ts";

/** A button. It opens the dialog, which asks for a reason. */
export type ActionButton = {
  readonly label: string;
  readonly action: Action;
  /** How many items a finding has counted. */
  readonly expects?: number;
};

export type View = Pick<AnyList, "title" | "letter" | "empty" | "id" | "link"> & {
  readonly name: keyof Lists;
  /** Whether an item can be opened by the API. */
  readonly opens: boolean;
  readonly columns: Readonly<Record<string, (item: object) => unknown>>;
  readonly filters: readonly FilterName[];
  readonly actions: (item: object) => readonly Action[];
};

const MOST_ID = 40;

function cellOf([as, of, most]: Column<object>): (item: object) => unknown {
  return (item) => {
    const value = of(item);
    if (value === undefined || value === false) return "";
    if (as === "status") return html`<${Status} of=${value} />`;
    if (as === "time") return html`<${Time} at=${value} />`;
    if (as === "duration") return elapsedText(value as number);
    if (as === "gauge") return html`<${Meter} of=${value} />`;
    return short(value, as === "id" ? MOST_ID : most);
  };
}

/** Shorter than the parameters of the API. */
const NAMES: Readonly<Record<string, string>> = {
  createdAfter: "since",
  createdBefore: "until",
  isUncertain: "uncertain",
  metadata: "metadata.",
  submissionId: "submission",
  workflowId: "workflow",
};

function filterOf([parameter, kind]: readonly [string, FilterKind]): FilterName[] {
  // It is too long to be typed.
  if (kind === "json") return [];
  const name = NAMES[parameter] ?? parameter;
  if (kind === "time") return [{ name, parameter, isTime: true }];
  if (kind === "flag") return [{ name, parameter, values: ["true", "false"] }];
  return [{ name, parameter, ...(typeof kind !== "string" && { values: kind }) }];
}

function viewOf(name: keyof Lists): View {
  const {
    title,
    letter,
    empty,
    id,
    link,
    isWhole,
    columns,
    filters = {},
    actions,
  } = LISTS[name] as unknown as AnyList;
  const cells = Object.entries(columns).map(([of, column]) => [of, cellOf(column)]);
  return {
    ...{ name, title, letter, empty, id, link },
    opens: !isWhole,
    columns: Object.fromEntries(cells),
    filters: Object.entries(filters).flatMap(filterOf),
    actions: (item) => (actions?.(item) ?? []) as readonly Action[],
  };
}

/** In the order of the navigation. The key is the view in the URL. */
export const VIEWS: Readonly<Record<string, View>> = Object.fromEntries(
  Object.keys(LISTS).map((name) => [name, viewOf(name as keyof Lists)]),
);
// The URL names a view, and may say "constructor".
Object.setPrototypeOf(VIEWS, null);
