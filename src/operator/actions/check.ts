/** Checks what an operator asks for, before anything is stored. */

import * as z from "zod";
import { byteLength, isTooDeep, type Json, lostInJson, preview } from "../../core/json.ts";
import {
  count,
  flag,
  list,
  oneOf,
  optionsOf,
  readOptions,
  text,
} from "../../core/options/option-schemas.ts";
import { invalidMessage, isPlainObject } from "../../core/options/options.ts";
import type { Definition } from "../../engine/operated/catalog.ts";
import type { Bulk } from "../../engine/operated/part.ts";
import type { ActionName } from "../catalog.ts";
import { CHECKS } from "../data.generated.ts";
import { invalidOperation } from "../errors.ts";
import type { OperatedAgent } from "../operated.ts";
import { PARTS } from "../parts.ts";
import type { Action, OperateRequest } from "../protocol.ts";

/** Bytes of an action as JSON: it is stored in the audit log. */
const MAX_ACTION_BYTES = 65_536;

/** An action on one item. */
export type ItemAction = Exclude<Action, { readonly filter: object }>;
/** An action on all that a filter selects. */
export type FilterAction = Extract<Action, { readonly filter: object }>;

export type CheckedRequest = Required<Pick<OperateRequest, "by" | "reason" | "dryRun">> & {
  readonly action: Action;
  readonly cursor?: string;
};

const REQUEST = optionsOf<OperateRequest>()({
  // Read once: what an untyped caller passes may change while it is read.
  action: z
    .custom<Action>(isPlainObject, { error: "expected an object with do", abort: true })
    .transform((action) => ({ ...action })),
  by: text({ maxLength: 200 }),
  reason: text({ maxLength: 500 }).refine((reason) => reason.trim() !== "", {
    error: "expected a reason, which the audit log keeps",
  }),
  dryRun: flag().default(false),
  cursor: text({ maxLength: 2_000 }).optional(),
});

/** The longest are ids of deliveries, which have the id of a submission in them. */
const ID = text({ maxBytes: 4_096 });
const KEY = text({ maxBytes: 4_096, empty: true });
const URL_TEXT = z.custom<string>(
  (value) => typeof value === "string" && value.length <= 2_048 && URL.canParse(value),
  { error: "expected a URL of at most 2048 characters" },
);
const TIME = count({ min: 0, max: 8_640_000_000_000_000 });
const PAYLOAD = z
  .custom<Json>((value) => value === undefined || (!isTooDeep(value) && !lostInJson(value)), {
    error: "expected a value that JSON can hold",
    abort: true,
  })
  .optional();

const STEP = z.union(
  [
    z.literal(["failed", "start"]),
    optionsOf<{ name: string; count?: number }>()({
      name: text({ maxLength: 256 }),
      count: count({ max: 10_000 }).optional(),
    }),
  ],
  { error: 'expected "failed", "start", or the name of a step as { name, count }' },
);

/** By the kind of a field. */
const FIELDS = {
  id: ID,
  key: KEY,
  url: URL_TEXT,
  time: TIME,
  json: PAYLOAD,
  step: STEP.optional(),
};
/** By the list that an action selects from. */
const BULKS: Readonly<Record<string, Bulk<OperatedAgent, never>>> = Object.assign(
  {},
  ...PARTS.map(({ bulks }) => bulks),
);

/** What the check of an action needs of its definition. */
type Check = Pick<Definition, "filter" | "isOfOpen"> & {
  readonly fields: Readonly<Record<string, keyof typeof FIELDS>>;
};

const checkOf = (name: ActionName): Check => CHECKS[name];

/** The list that an action selects from, for one with a filter. */
export const bulkOf = ({ do: name }: FilterAction) =>
  BULKS[checkOf(name).filter ?? ""] as unknown as Bulk<OperatedAgent, FilterAction>;

/** The values of the fields that name the item of an action. */
export function targetOf(action: ItemAction): string[] {
  const values = action as unknown as Readonly<Record<string, string>>;
  return Object.entries(checkOf(action.do).fields).flatMap(([name, kind]) =>
    /^(id|key|url)$/.test(kind) ? [values[name] ?? ""] : [],
  );
}

type Loose = { [field: string]: unknown };
const schemaOf = (fields: Loose) => optionsOf<Loose>()({ do: text(), ...fields } as never);

/** By the name of an action: the schema for one item, and that for a filter. */
const SCHEMAS = Object.fromEntries(
  Object.entries<Check>(CHECKS).map(([name, { fields, filter, isOfOpen }]) => {
    const one = Object.entries(fields).map(([field, kind]) => [field, FIELDS[kind]]);
    const steps = one.filter(([, schema]) => schema === FIELDS.step);
    const many =
      filter && schemaOf({ filter: BULKS[filter]?.filter, ...Object.fromEntries(steps) });
    return [name, { one: schemaOf(Object.fromEntries(one)), many, isOfOpen }];
  }),
);

const CAUSE = z.union([text(), list(text(), { min: 1, max: 20 })], {
  error: "expected a text, or a list of 1 to 20 texts",
});

const DO = oneOf(Object.keys(CHECKS));

/** @throws InvalidOperationError */
export function readRequest(request: unknown): CheckedRequest {
  const read = readOptions(REQUEST, request as OperateRequest, "request", invalidOperation);
  const { by, reason, dryRun, cursor } = read;
  const action = readAction(read.action);
  if (cursor !== undefined && !("filter" in action)) {
    const problem = 'expected no cursor, because the action has no "filter"';
    throw invalidOperation("cursor", invalidMessage("cursor", preview(cursor), problem));
  }
  return { action, by, reason, dryRun, ...(cursor !== undefined && { cursor }) };
}

function readAction(given: { readonly do?: unknown; readonly filter?: unknown }): Action {
  const name = readOptions(DO, given.do, "action.do", invalidOperation);
  const { one, many, isOfOpen } = SCHEMAS[name] as (typeof SCHEMAS)[string];
  const schema = many && Object.hasOwn(given, "filter") ? many : one;
  const { own, cause } = schema === many && !isOfOpen ? splitCause(given) : { own: given };
  const action = readOptions(schema, own as Loose, "action", invalidOperation) as unknown as Action;
  const { from, to } = action as { readonly from?: unknown; readonly to?: unknown };
  if (typeof from === "number" && typeof to === "number" && from >= to) {
    const problem = "expected a time after from";
    throw invalidOperation("to", invalidMessage("to", String(to), problem));
  }
  if ("filter" in action) {
    checkFilter(given.filter as object);
    if (cause !== undefined) Object.assign(action.filter, { cause });
  }
  const bytes = byteLength(JSON.stringify(action));
  if (bytes <= MAX_ACTION_BYTES) return action;
  const problem = `expected at most ${MAX_ACTION_BYTES} bytes`;
  throw invalidOperation("action", invalidMessage("action", `of ${bytes} bytes`, problem));
}

/** The modules do not know the filter `cause`. */
function splitCause(given: { readonly filter?: unknown }) {
  if (!isPlainObject(given.filter) || !("cause" in given.filter)) return { own: given };
  const { cause: value, ...filter } = given.filter;
  const cause = readOptions(CAUSE, value, "filter.cause", invalidOperation);
  return { own: { ...given, filter }, cause };
}

/** A restriction that is undefined or null by mistake must not select everything. */
function checkFilter(given: object): void {
  const empty = Object.entries(given).find(([, value]) => (value ?? null) === null);
  if (!empty) return;
  const [name, value] = empty;
  const problem = "expected a value. Leave it out to select all";
  throw invalidOperation(name, invalidMessage(`filter.${name}`, String(value), problem));
}
