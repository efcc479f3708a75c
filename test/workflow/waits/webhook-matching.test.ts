/** Which arrival a wait is for, compared with a plain reading of its options. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/core/json.ts";
import {
  isFor,
  prefixOf,
  shapeOf,
  topicOfArrival,
  topicOfRequest,
  valueAt,
} from "../../../src/features/inbound/waits/matching.ts";
import type { WebhookRequest, WebhookValue } from "../../../src/workflow/webhook.ts";

/** Few names and values, so that much matches. */
const NAMES = ["a", "b", "0", "1", "length", "", "__proto__", "constructor"];
const name = fc.constantFrom(...NAMES);
const value: fc.Arbitrary<WebhookValue> = fc.constantFrom(
  ...["x", "", "1", "null", 1, 0, -0, 1.5, true, false, null],
);
const { body } = fc.letrec<{ body: Json; list: Json; object: Json; leaf: Json }>((tie) => ({
  body: fc.oneof({ maxDepth: 3 }, tie("leaf"), tie("list"), tie("object")),
  leaf: value,
  list: fc.array(tie("body"), { maxLength: 3 }),
  object: fc
    .array(fc.tuple(name, tie("body")), { maxLength: 4 })
    .map(
      (entries) =>
        JSON.parse(
          `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${JSON.stringify(inner)}`).join(",")}}`,
        ) as Json,
    ),
}));
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join("."));
const source = fc.constantFrom("stripe", "github");
const type = fc.constantFrom("", "paid", "opened");
const request: fc.Arbitrary<WebhookRequest> = fc
  .record(
    {
      from: source,
      types: fc.uniqueArray(type, { minLength: 1, maxLength: 3 }),
      match: fc
        .array(fc.tuple(path, value), { minLength: 1, maxLength: 3 })
        .map((entries) => Object.fromEntries(entries)),
    },
    { requiredKeys: [] },
  )
  .map((fields) => fields as WebhookRequest);
const arrival = fc.record({ source, type, body });

/** A plain reading of a path: through own members of objects and items of lists. */
function plainly(value: Json | undefined, [first, ...rest]: readonly string[]): Json | undefined {
  if (first === undefined) return value;
  if (typeof value !== "object" || value === null) return undefined;
  const members = new Map<string, Json>(
    Array.isArray(value) ? value.map((item, index) => [`${index}`, item]) : Object.entries(value),
  );
  return plainly(members.get(first), rest);
}

function matchesPlainly(
  { from, types, match = {} }: WebhookRequest,
  it: { source: string; type: string; body: Json },
) {
  if (from !== undefined && from !== it.source) return false;
  if (types && !types.includes(it.type)) return false;
  return Object.entries(match).every(([at, wanted]) => {
    const found = plainly(it.body, at.split("."));
    return typeof found === typeof wanted && JSON.stringify(found) === JSON.stringify(wanted);
  });
}

describe("an arrival and a wait", () => {
  it("match if and only if a plain comparison says so, by the fields and by the topic", () => {
    let matched = 0;
    fc.assert(
      fc.property(request, arrival, (asked, came) => {
        const expected = matchesPlainly(asked, came);
        if (expected) matched++;
        expect(isFor(asked, came)).toBe(expected);
        const topic = topicOfArrival(shapeOf(asked), came);
        expect(topic === topicOfRequest(asked)).toBe(expected);
      }),
      { numRuns: 3_000 },
    );
    expect(matched).toBeGreaterThan(100);
  });

  it("have a path to any value that a body has", () => {
    fc.assert(
      fc.property(body, path, (given, at) => {
        expect(valueAt(given, at)).toEqual(plainly(given, at.split(".")));
      }),
    );
  });

  it("have different topics for different shapes and values", () => {
    fc.assert(
      fc.property(request, request, (one, other) => {
        const same = JSON.stringify(shapeOf(one)) === JSON.stringify(shapeOf(other));
        expect(prefixOf(shapeOf(one)) === prefixOf(shapeOf(other))).toBe(same);
      }),
    );
  });

  it.each<[Json, string, Json | undefined]>([
    [{ data: { object: { id: "pi_1" } } }, "data.object.id", "pi_1"],
    [{ items: [{ sku: "A" }, { sku: "B" }] }, "items.1.sku", "B"],
    [["x"], "0", "x"],
    [["x"], "00", undefined],
    [["x"], "-1", undefined],
    [["x"], "length", undefined],
    [{ a: "text" }, "a.length", undefined],
    [{ a: "text" }, "a.0", undefined],
    [{}, "constructor.name", undefined],
    [{ a: null }, "a.b", undefined],
    ["text", "a", undefined],
    [{ "": 1 }, "", 1],
  ])("%j has at %j the value %j", (given, at, expected) => {
    expect(valueAt(given, at)).toEqual(expected);
  });
});
