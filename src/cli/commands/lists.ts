/** The lists as tables. */

import type { Column, Gauge } from "../../engine/operated/list.ts";
import { gaugeText } from "../../operator/gauge.ts";
import { LISTS, type Lists, listOf } from "../../operator/lists.ts";
import { elapsedText } from "../../operator/waterfall.ts";
import { usageError } from "../context.ts";
import { plain, short, status, time } from "../print/text.ts";

const MOST = 60;

export const COLLECTIONS = Object.keys(LISTS) as (keyof Lists)[];

/** @throws CliError */
export function collectionOf(name: string): keyof Lists {
  const found = COLLECTIONS.find((each) => each === name);
  if (found) return found;
  throw usageError(`Unknown list ${JSON.stringify(name)}. Lists: ${COLLECTIONS.join(", ")}.`);
}

/** The titles of a list, and a row for each item. */
export function rowsOf(name: keyof Lists, items: readonly object[]) {
  const columns = Object.entries(listOf(name)?.columns ?? {});
  const titles = columns.map(([title]) => title.toUpperCase());
  return { titles, rows: items.map((item) => columns.map(([, column]) => cell(column, item))) };
}

function cell([as, of, most = MOST]: Column<object>, item: object): string {
  const value = of(item);
  if (value === undefined || value === null || value === false) return "";
  if (as === "status") return status(value);
  if (as === "time") return time(value);
  if (as === "duration") return elapsedText(value as number);
  if (as === "gauge") return gaugeText(value as Gauge);
  return as === "id" ? plain(value) : short(value, most);
}
