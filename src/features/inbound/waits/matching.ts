/**
 * Which arrival a wait of kind `webhook` is for. An arrival is not compared with every open wait: it is looked up by topics.
 * A topic is a digest of what a wait asks for; waits that ask for the same fields have the same shape. For each shape, a
 * arrival has at most one topic. Pure.
 */

import type { Json } from "../../../core/json.ts";
import { mismatchesOf } from "../../../core/schema/json-schema.ts";
import { DIGEST_LENGTH, digest } from "../../../core/text.ts";
import type { WebhookRequest, WebhookValue } from "../../../workflow/webhook.ts";

/** The conditions of waits, without the values of the fields. */
export type Shape = {
  readonly from: string | undefined;
  /** In order; undefined for any type. */
  readonly types: readonly string[] | undefined;
  /** In order. */
  readonly paths: readonly string[];
};

/** The parts of an arrival that are matched. */
type Matched = { readonly source: string; readonly type: string; readonly body?: Json };

/** With this the topics of shapes begin: those of URLs are in a range of their own. */
export const SHAPES = "s";
/** The part of a topic that all waits of one shape have in common. */
export const PREFIX_LENGTH = SHAPES.length + DIGEST_LENGTH;

export function shapeOf({ from, types, match = {} }: WebhookRequest): Shape {
  return { from, types: types?.toSorted(), paths: Object.keys(match).sort() };
}

/** The first {@link PREFIX_LENGTH} characters of the topics of a shape. */
export function prefixOf({ from, types, paths }: Shape): string {
  return SHAPES + digest(JSON.stringify([from ?? null, types ?? null, paths]));
}

/** The topic of a wait. */
export function topicOfRequest(request: WebhookRequest): string {
  const shape = shapeOf(request);
  return topicOf(
    shape,
    shape.paths.map((path) => request.match?.[path] as WebhookValue),
  );
}

/** The topic by which an arrival finds waits of a shape; undefined if none of them can be for it. */
export function topicOfArrival(shape: Shape, arrival: Matched): string | undefined {
  const { from, types, paths } = shape;
  if (from !== undefined && from !== arrival.source) return undefined;
  if (types && !types.includes(arrival.type)) return undefined;
  const values = paths.map((path) => valueAt(arrival.body, path));
  return values.every(isValue) ? topicOf(shape, values) : undefined;
}

/** Values are compared as JSON: 1 is not "1", and 0 is -0. */
function topicOf(shape: Shape, values: readonly WebhookValue[]): string {
  return prefixOf(shape) + digest(JSON.stringify(values));
}

/** Whether a wait is for an arrival, without a look at its schema. */
export function isFor({ from, types, match = {} }: WebhookRequest, arrival: Matched): boolean {
  return (
    (from === undefined || from === arrival.source) &&
    (types === undefined || types.includes(arrival.type)) &&
    Object.entries(match).every(([path, value]) => valueAt(arrival.body, path) === value)
  );
}

/** The problem of a body by the JSON Schema of a wait: the wait is for another arrival. */
export function problemsOf({ schema, check = schema }: WebhookRequest, body: Json): string[] {
  return check === undefined ? [] : mismatchesOf("body", body, check as object);
}

/** The value at a path of names and indexes, e.g. `items.0.id`; undefined if there is none. @internal */
export function valueAt(body: Json | undefined, path: string): Json | undefined {
  let at = body;
  for (const name of path.split(".")) {
    if (typeof at !== "object" || at === null) return undefined;
    if (Array.isArray(at) && !/^(0|[1-9]\d*)$/.test(name)) return undefined;
    if (!Object.hasOwn(at, name)) return undefined;
    at = (at as Record<string, Json>)[name];
  }
  return at;
}

function isValue(value: Json | undefined): value is WebhookValue {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}
