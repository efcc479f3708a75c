/** Reads the parameters of a list from a URL. */

import { preview } from "../../core/json.ts";
import type { Filters } from "../protocol.ts";
import { badRequest } from "./errors.ts";

type Read = (value: string, name: string) => unknown;
type Reads<Filter> = { readonly [Name in keyof Required<Filter>]: Read };

const MAX_LIMIT = 100;
const MAX_VALUE = 4_096;

const words =
  (...valid: readonly string[]): Read =>
  (value, name) => {
    const given = value.split(",");
    const unknown = given.find((word) => !valid.includes(word));
    if (unknown === undefined) return given.length === 1 ? given[0] : given;
    throw invalid(name, unknown, `expected some of ${valid.join(", ")}, separated by commas`);
  };
const list: Read = (value) => (value.includes(",") ? value.split(",") : value);
const text: Read = (value) => value;
/** The verb checks a time. */
const instant: Read = (value) => (/^-?\d+$/.test(value) ? Number(value) : value);
const flag: Read = (value, name) => {
  if (value === "true" || value === "false") return value === "true";
  throw invalid(name, value, "expected true or false");
};
const json: Read = (value, name) => {
  try {
    return JSON.parse(value);
  } catch {
    throw invalid(name, value, "expected JSON");
  }
};

const SUBMISSION = ["pending", "running", "completed", "error", "aborted", "skipped"];
const APPROVAL = ["pending", "approved", "rejected", "expired", "refused", "cancelled"];

/** Parameters of each list. `metadata` has one for each of its keys. */
const READS: { readonly [Name in keyof Filters]: Reads<Filters[Name]> } = {
  submissions: {
    status: words(...SUBMISSION),
    thread: text,
    metadata: text,
    createdAfter: instant,
    createdBefore: instant,
  },
  approvals: { status: words(...APPROVAL), workflowId: text },
  inbound: {
    source: text,
    verdict: words("accepted", "filtered", "refused"),
    type: text,
    since: instant,
    until: instant,
  },
  deliveries: {
    state: words("waiting", "delivered", "discarded", "dead"),
    submissionId: text,
    kind: text,
    destination: json,
  },
  "dead-letters": { since: instant, destination: json, isUncertain: flag },
  endpoints: {},
  tasks: {},
  workflows: { status: list, workflow: text },
  threads: {},
  actions: {},
};

export type Query = Readonly<Record<string, unknown>> & {
  readonly limit: number;
  readonly cursor?: string;
};

/** @throws HttpError 400 for an unknown parameter, or an invalid value */
export function queryOf(collection: keyof Filters, search: URLSearchParams): Query {
  return read(READS[collection], search);
}

/** The parameters of a list without a filter. @throws HttpError 400 */
export function pageOf(search: URLSearchParams): Query {
  return read({}, search);
}

/** For what is no list. @throws HttpError 400 for any parameter */
export function checkNoParameters(search: URLSearchParams): void {
  for (const name of search.keys()) {
    throw badRequest(`Unknown parameter ${preview(name)}. This request has no parameters.`);
  }
}

function read(reads: Readonly<Record<string, Read>>, search: URLSearchParams): Query {
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
    else if (name.startsWith("metadata.") && reads.metadata)
      metadata.set(keyOf(name), scalarOf(value));
    else if (Object.hasOwn(reads, name) && name !== "metadata")
      found[name] = reads[name]?.(value, name);
    else
      throw badRequest(`Unknown parameter ${preview(name)}. Valid parameters: ${validOf(reads)}.`);
  }
  return {
    ...found,
    ...(metadata.size > 0 && { metadata: Object.fromEntries(metadata) }),
    limit,
    ...(cursor !== undefined && { cursor }),
  };
}

function validOf(reads: object): string {
  return [
    ...Object.keys(reads).map((name) => (name === "metadata" ? "metadata.<key>" : name)),
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
