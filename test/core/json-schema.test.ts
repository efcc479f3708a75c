/** W4 the agent's check of a value by a JSON Schema: its problems, and that a validator of the whole standard agrees. */

import { type Schema, Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mismatchesOf } from "../../src/core/schema/json-schema.ts";

const problems = (schema: object, value: unknown) => mismatchesOf("answer", value, schema);

describe("the problems of a value", () => {
  it.each<[object, unknown, string[]]>([
    [{ type: "integer" }, 2.5, ["answer: expected integer, got number"]],
    [{ type: ["string", "null"] }, [], ["answer: expected string or null, got array"]],
    [{ const: { a: 1 } }, { a: 2 }, ['answer: expected {"a":1}']],
    [{ enum: ["a", null] }, "b", ['answer: expected one of "a", null']],
    [{ minimum: 1, maximum: 3 }, 4, ["answer: expected at most 3, got 4"]],
    [{ exclusiveMinimum: 1 }, 1, ["answer: expected more than 1, got 1"]],
    [{ exclusiveMaximum: 1 }, 1, ["answer: expected less than 1, got 1"]],
    [{ minLength: 3 }, "ab", ["answer: expected at least 3 characters, got 2"]],
    [{ maxLength: 1 }, "ab", ["answer: expected at most 1 characters, got 2"]],
    [{ pattern: "^b" }, "ab", ["answer: expected a text that matches ^b"]],
    [{ minItems: 1 }, [], ["answer: expected at least 1 items, got 0"]],
    [{ items: { type: "null" } }, [null, 1], ["1: expected null, got number"]],
    [{ prefixItems: [true], items: false }, [1, 2], ["1: is not allowed"]],
    [{ items: [{ type: "null" }], additionalItems: false }, [null, 1], ["1: is not allowed"]],
    [{ required: ["a"] }, {}, ['answer: missing property "a"']],
    [
      { properties: { a: { properties: {}, additionalProperties: false } } },
      { a: { b: 1 } },
      ['a: unknown property "b"'],
    ],
    [{ additionalProperties: { type: "null" } }, { b: 1 }, ["b: expected null, got number"]],
    [
      { $ref: "#/$defs/a~1b", $defs: { "a/b": { type: "null" } } },
      1,
      ["answer: expected null, got number"],
    ],
    [
      { properties: { a: { anyOf: [{ type: "null" }, { minimum: 3 }] } } },
      { a: 1 },
      [
        "a: matches none of the allowed forms",
        "a: expected null, got number",
        "a: expected at least 3, got 1",
      ],
    ],
  ])("W4: %j refuses %j", (schema, value, expected) => {
    expect(problems(schema, value)).toEqual(expected);
  });
});

describe("a value is accepted", () => {
  it.each<[string, object, unknown]>([
    ["by a schema that it cannot read", { required: 5, type: "text", minimum: "9" }, { a: 1 }],
    ["by a pattern that is invalid", { pattern: "(" }, "a"],
    ["by a reference that leads nowhere", { $ref: "#/$defs/none" }, 1],
    ["by a reference to another document", { $ref: "other#/type", type: "number" }, 1],
    ["by a reference that leads to itself", { $ref: "#" }, 1],
    ["where a length in code units fits", { minLength: 2 }, "😀"],
    ["where a length in characters fits", { maxLength: 1 }, "😀"],
    ["where a pattern matches code units", { pattern: "^..$" }, "😀"],
    ["where a pattern matches characters", { pattern: "^.$" }, "😀"],
    ["without the last items of a tuple", { prefixItems: [{}, {}], minItems: 2 }, [1]],
    ["where the members of an allOf have properties", { allOf: [closed("a"), closed("b")] }, {}],
    ["where two members of a oneOf match", { oneOf: [{}, { not: {} }] }, 1],
    ["if it is left out", { type: "string" }, undefined],
  ])("W4: %s", (_, schema, value) => {
    expect(problems(schema, value)).toEqual([]);
  });

  it("W4: by a schema that contains itself, at any depth", () => {
    const list = { properties: { next: { $ref: "#" }, n: { type: "number" } }, required: ["n"] };
    expect(problems(list, { n: 1, next: { n: 2, next: { n: 3 } } })).toEqual([]);
    expect(problems(list, { n: 1, next: { next: { n: "3" } } })).toEqual([
      'next: missing property "n"',
      "next.next.n: expected number, got string",
    ]);
  });
});

function closed(name: string) {
  return { properties: { [name]: {} }, additionalProperties: false };
}

const json = fc.oneof(
  fc.constantFrom("", "a", "ab", 0, 1, -1, 2.5, true, null),
  fc.array(fc.constantFrom("a", 1, null), { maxLength: 3 }),
  fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("a", 1, null)),
);
const value = fc.oneof(
  json,
  fc.array(json, { maxLength: 3 }),
  fc.dictionary(fc.constantFrom("a", "b", "c"), json),
);
const type = fc.constantFrom(..."null boolean number integer string array object".split(" "));
const small = fc.integer({ min: 0, max: 2 });
const leaf = fc.oneof(
  fc.constantFrom(true, false),
  fc.record({ type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1 })) }),
  fc.record({ const: json }),
  fc.record({ enum: fc.array(json, { minLength: 1, maxLength: 3 }) }),
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].map((keyword) =>
    fc.record({ [keyword]: fc.constantFrom(-1, 0, 1, 2.5) }),
  ),
  ...["minLength", "maxLength", "minItems", "maxItems"].map((keyword) =>
    fc.record({ [keyword]: small }),
  ),
  fc.record({ pattern: fc.constantFrom("^a", "b$", ".") }),
  fc.record({ required: fc.uniqueArray(fc.constantFrom("a", "b")) }),
  fc.record({ $ref: fc.constantFrom("#/$defs/a", "#/$defs/b") }),
);
const { schema } = fc.letrec<{ schema: object | boolean }>((tie) => {
  const some = fc.array(tie("schema"), { minLength: 1, maxLength: 3 });
  const properties = fc.dictionary(fc.constantFrom("a", "b"), tie("schema"));
  return {
    schema: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      leaf,
      fc.record({ properties, additionalProperties: tie("schema") }, { requiredKeys: [] }),
      fc.record({ prefixItems: some, items: tie("schema") }, { requiredKeys: [] }),
      fc.record({ anyOf: some }),
      fc.record({ allOf: some }),
      fc.record({ oneOf: some }),
    ) as fc.Arbitrary<object | boolean>,
  };
});

it("W4: a validator of the whole standard accepts no less, and the same without allOf and oneOf", () => {
  let refused = 0;
  const root = fc.tuple(schema, leaf, schema).map(([top, a, b]) => ({
    ...(typeof top === "object" ? top : { anyOf: [top] }),
    $defs: { a, b },
  }));
  fc.assert(
    fc.property(root, fc.array(value, { maxLength: 8 }), (given, values) => {
      const validator = new Validator(given as Schema, "2020-12", false);
      const isWhole = !/"(allOf|oneOf)"/.test(JSON.stringify(given));
      for (const one of values) {
        let isValid: boolean;
        try {
          isValid = validator.validate(one).valid;
        } catch {
          // It follows a reference that leads to itself for ever.
          return;
        }
        const isAccepted = problems(given, one).length === 0;
        if (isValid || isWhole) expect({ isAccepted }).toEqual({ isAccepted: isValid });
        refused += isAccepted ? 0 : 1;
      }
    }),
    { numRuns: 2_000 },
  );
  expect(refused).toBeGreaterThan(500);
});
