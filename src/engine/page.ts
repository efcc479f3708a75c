/** Pages of lists, and the cursors between them. */

import * as z from "zod";
import { readOptions } from "../core/options/option-schemas.ts";
import { InvalidFieldError, invalidMessage, type MakeError } from "../core/options/options.ts";

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

/**
 * The cursors of one list. Each begins with the name of the list, because a place in one list is none in another, and would
 * skip items there.
 *
 * @param placeOf what the rest of a cursor means, e.g. {@link bySeq}; undefined for what is no place
 */
export function cursorsOf<Place>(list: string, placeOf: (text: string) => Place | undefined) {
  const read = (cursor: unknown): Place | undefined =>
    typeof cursor === "string" && cursor.startsWith(`${list}:`) && cursor.isWellFormed()
      ? placeOf(cursor.slice(list.length + 1))
      : undefined;
  return {
    read,
    /** The option `cursor` of the list, parsed to the place. */
    option: z
      .custom<string>((cursor) => read(cursor) !== undefined, {
        error: "expected the cursor of an earlier page of this list",
        abort: true,
      })
      .transform((cursor) => read(cursor) as Place)
      .optional(),
    at: (...place: (string | number)[]): string => `${list}:${place.join(":")}`,
  };
}

/** A place in a list by time, which stays valid when rows come and go. */
export type Position = readonly [time: number, id: string];

export function byTime(text: string): Position | undefined {
  const [, time, id] = /^(-?\d{1,16}):(.{0,1000})$/s.exec(text) ?? [];
  return id === undefined ? undefined : [Number(time), id];
}

/** The number of a row. */
export const bySeq = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined);

/** Rows after one and until another, by their numbers. */
export function byRange(text: string) {
  const [, after, until] = /^(\d{1,15}):(\d{1,15})$/.exec(text) ?? [];
  return until === undefined ? undefined : { after: Number(after), until: Number(until) };
}

/** An id, in a list in the order of the ids. */
export const byId = (text: string) => (text.length <= 2_048 ? text : undefined);

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
