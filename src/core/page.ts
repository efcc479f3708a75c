/** Pages of lists, and the cursors between them. */

import * as z from "zod";
import { readOptions } from "./options/option-schemas.ts";
import { InvalidFieldError, invalidMessage, type MakeError } from "./options/options.ts";

/** A page of a list. */
export type Page<Item> = {
  readonly items: readonly Item[];
  /** Pass it to get the next page. Left out on the last one. A page can be shorter than its limit, or empty, and not the last. */
  readonly cursor?: string;
};

/** Which page of a list: at most so many items, after the page that had the cursor. Each list has its own default and limit. */
export type PageOptions = {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
};

/** A place in a list by time, which stays valid when rows come and go. */
export type Position = readonly [time: number, id: string];

/** The `cursor` option of a list by time, parsed to a {@link Position}. */
export const POSITION = z
  .custom<string>((cursor) => positionOf(cursor) !== undefined, {
    error: "expected the cursor of an earlier page",
    abort: true,
  })
  .transform((cursor) => positionOf(cursor) as Position)
  .optional();

export function cursorOf(time: number, id: string): string {
  return `${time}:${id}`;
}

function positionOf(cursor: unknown): Position | undefined {
  const [, time, id] =
    (typeof cursor === "string" && /^(-?\d{1,16}):(.{0,1000})$/s.exec(cursor)) || [];
  return id?.isWellFormed() ? [Number(time), id] : undefined;
}

/** The page of rows that were read with one more than its limit. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  itemOf: (row: Row) => Item,
  cursorAfter: (last: Row) => string,
): Page<Item> {
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return { items: rows.slice(0, limit).map(itemOf), ...(last && { cursor: cursorAfter(last) }) };
}

/** Invalid options of a list or of a verb for many items, or an invalid id. Nothing was changed. */
export class InvalidFilterError extends InvalidFieldError {
  override readonly name = "InvalidFilterError";
}

export const invalidFilter: MakeError = (field, message) => new InvalidFilterError(field, message);

/**
 * {@link readOptions} of a list or a bulk action. A restriction that is undefined or null by mistake must not select
 * everything, so it is refused.
 *
 * @throws InvalidFilterError for an unknown option or an invalid value
 */
export function readFilter<Out>(schema: z.ZodType<Out>, verb: string, options: object): Out {
  const name = `options of ${verb}`;
  const parsed = readOptions(schema, options, name, invalidFilter);
  const empty = Object.entries(options).find(
    ([option, value]) => option !== "limit" && option !== "cursor" && (value ?? null) === null,
  );
  if (!empty) return parsed;
  const [option, value] = empty;
  const expected = "expected a value. Leave the option out to select all";
  throw invalidFilter(option, invalidMessage(option, `${value} in ${name}`, expected));
}
