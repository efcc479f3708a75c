/** Reads the parameters of a list from a URL. */

import { preview } from "../../core/json.ts";
import type { FilterKind, Query } from "../../engine/operated/list.ts";
import { badRequest } from "./errors.ts";

const MAX_LIMIT = 100;
const MAX_VALUE = 4_096;

/** A value, by what its filter takes. @throws HttpError 400 */
function readValue(name: string, value: string, kind: FilterKind): unknown {
  // The verb checks a time.
  if (kind === "time") return /^-?\d+$/.test(value) ? Number(value) : value;
  if (kind === "flag" && value !== "true" && value !== "false")
    throw invalid(name, value, "expected true or false");
  if (kind === "flag" || kind === "json") {
    try {
      return JSON.parse(value);
    } catch {
      throw invalid(name, value, "expected JSON");
    }
  }
  if (kind === "texts" && value.includes(",")) return value.split(",");
  if (typeof kind === "string") return value;
  const given = value.split(",");
  const unknown = given.find((word) => !kind.includes(word));
  if (unknown === undefined) return given.length === 1 ? given[0] : given;
  throw invalid(name, unknown, `expected some of ${kind.join(", ")}, separated by commas`);
}

/** For what is no list. @throws HttpError 400 for any parameter */
export function checkNoParameters(search: URLSearchParams): void {
  for (const name of search.keys()) {
    throw badRequest(`Unknown parameter ${preview(name)}. This request has no parameters.`);
  }
}

/** The filter and the page of a list. @throws HttpError 400 for an unknown parameter, or an invalid value */
export function queryOf(
  search: URLSearchParams,
  filters: Readonly<Record<string, FilterKind>> = {},
): Query {
  const found: Record<string, unknown> = {};
  const metadata = new Map<string, unknown>();
  let limit = 50;
  let cursor: string | undefined;
  for (const [name, value] of search) {
    if (value.length > MAX_VALUE)
      throw invalid(name, value, `expected at most ${MAX_VALUE} characters`);
    if (search.getAll(name).length > 1)
      throw badRequest(`The parameter ${preview(name)} is there twice. Separate values by commas.`);
    if (name === "limit") limit = limitOf(value);
    else if (name === "cursor") cursor = value;
    else if (name.startsWith("metadata.") && filters.metadata)
      metadata.set(keyOf(name), scalarOf(value));
    else if (Object.hasOwn(filters, name) && name !== "metadata")
      found[name] = readValue(name, value, filters[name] as FilterKind);
    else
      throw badRequest(
        `Unknown parameter ${preview(name)}. Valid parameters: ${validOf(filters)}.`,
      );
  }
  return {
    ...found,
    ...(metadata.size > 0 && { metadata: Object.fromEntries(metadata) }),
    limit,
    ...(cursor !== undefined && { cursor }),
  };
}

function validOf(filters: object): string {
  return [
    ...Object.keys(filters).map((name) => (name === "metadata" ? "metadata.<key>" : name)),
    "limit",
    "cursor",
  ].join(", ");
}

function limitOf(value: string): number {
  const limit = Number(value);
  if (/^\d{1,3}$/.test(value) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw invalid("limit", value, `expected a whole number from 1 to ${MAX_LIMIT}`);
}

/** The key of a filter `metadata.<key>`. */
function keyOf(name: string): string {
  const key = name.slice("metadata.".length);
  // Objects do not keep it as a key on their way to the agent.
  if (key !== "" && key !== "__proto__") return key;
  throw badRequest(`Invalid parameter ${preview(name)}: expected metadata.<key>.`);
}

/** A number or a flag as JSON; anything else is a text, with or without quotes. */
function scalarOf(value: string): unknown {
  let parsed: unknown;
  try {
    parsed = JSON.parse(value);
  } catch {
    return value;
  }
  // An id of many digits is a text: as a number, it would be another one.
  const isRounded =
    typeof parsed === "number" &&
    Math.abs(parsed) > Number.MAX_SAFE_INTEGER &&
    JSON.stringify(parsed) !== value;
  return typeof parsed === "object" || isRounded ? value : parsed;
}

function invalid(name: string, value: string, problem: string) {
  return badRequest(`Invalid parameter ${name} ${preview(value)}: ${problem}.`);
}
