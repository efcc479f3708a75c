/** W4 what the agent checks an answer by: never more than the schema itself, of any library, refuses. */

import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { mismatchesOf } from "../../src/core/schema/json-schema.ts";
import { type AnySchema, jsonFormsOf, validated } from "../../src/core/schema/schema.ts";
import { zod3 } from "../../src/core/schema/zod3.ts";

const valibot = (schema: v.GenericSchema) => toStandardJsonSchema(schema) as unknown as AnySchema;
/** As an app passes it. */
const passed = (schema: AnySchema) => (schema instanceof z3.ZodType ? zod3(schema) : schema);

function problemsOf(schema: AnySchema, value: unknown): string[] {
  const { schema: shown, check = shown } = jsonFormsOf(passed(schema));
  return mismatchesOf("answer", value, check);
}

const accepted: [string, AnySchema, unknown][] = [
  ["Zod 4, a pattern that ignores case", z.string().regex(/^[a-z]+$/i), "Porto"],
  ["Zod 4, two of them", z.string().regex(/^p/i).regex(/o$/i), "PORTO"],
  ["Zod 4, keys", z.record(z.string().regex(/^k/i), z.number()), { K1: 1 }],
  ["Zod 4, a pattern over lines", z.string().regex(/^b$/m), "a\nb"],
  ["Zod 4, Unicode", z.object({ city: z.string().regex(/^\p{Lu}\p{L}+$/u) }), { city: "Évora" }],
  ["Zod 4, one of two units", z.string().regex(/^.$/u), "😀"],
  ["Zod 4, a pattern that counts units", z.string().regex(/^..$/), "😀"],
  ["Zod 3, a length in units", z3.string().min(2), "😀"],
  ["Zod 3, null as a literal", z3.object({ n: z3.literal(null) }), { n: null }],
  ["Zod 3, a union with a coercion", z3.union([z3.number(), z3.coerce.number()]), "5"],
  ["ArkType, a list with a fixed end", type({ n: ["...", "number[]", "string"] }), { n: [1, "a"] }],
  ["Zod 4, an address", z.email(), "A@Example.com"],
  [
    "Zod 4, an address with a pattern that ignores case",
    z.email({ pattern: /^[a-z]+@x$/i }),
    "A@x",
  ],
  ["Zod 4, an IPv6 address", z.ipv6(), "::ffff:1.2.3.4"],
  ["Zod 4, a multiple of a fraction", z.number().multipleOf(0.1), 0.3],
  ["Zod 4, an emoji", z.emoji(), "😀"],
  ["Zod 4, coercion of a number", z.object({ n: z.coerce.number().int().min(1) }), { n: "7" }],
  ["Zod 4, coercion of a boolean", z.coerce.boolean(), "yes"],
  ["Zod 4, coercion of a date", z.object({ at: z.coerce.date() }), { at: "2026-01-01" }],
  ["Zod 4, coercion of a bigint", z.coerce.bigint(), "12"],
  ["Zod 4, catch", z.object({ level: z.enum(["low", "high"]).catch("low") }), { level: 7 }],
  ["Zod 4, catch of a missing property", z.object({ a: z.string().catch("x") }), {}],
  ["Zod 4, preprocess", z.preprocess((given) => [given].flat(), z.array(z.string())), "a"],
  [
    "Zod 4, preprocess to a date",
    z.preprocess((at) => new Date(String(at)), z.date()),
    "2026-01-01",
  ],
  ["Zod 4, trim before a format", z.string().trim().pipe(z.email()), " a@b.co "],
  [
    "Zod 4, trim before a check",
    z.string().trim().max(3).email().or(z.string().trim().max(3)),
    "  abc  ",
  ],
  [
    "Zod 4, lower case before a pattern",
    z
      .string()
      .toLowerCase()
      .regex(/^[a-z]+$/),
    "PORTO",
  ],
  [
    "Zod 4, coercion in a discriminated union",
    z.discriminatedUnion("kind", [
      z.object({ kind: z.literal("a"), n: z.coerce.number() }),
      z.object({ kind: z.literal("b"), s: z.string().catch("") }),
    ]),
    { kind: "a", n: "3" },
  ],
  ["Zod 4, defaults", z.object({ a: z.string().default("x"), b: z.number().prefault(3) }), {}],
  ["Zod 4, stringbool", z.stringbool(), "yes"],
  ["Zod 4, a codec", z.codec(z.string(), z.number(), { decode: Number, encode: String }), "3"],
  ["Zod 4, a custom type", z.object({ a: z.custom<string>((a) => a === "x") }), { a: "x" }],
  [
    "Zod 4, members of an intersection",
    z.intersection(z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })),
    { a: "", b: "" },
  ],
  [
    "Zod 4, a tuple with a last item that may be missing",
    z.tuple([z.string(), z.string().catch("x")]),
    ["a"],
  ],
  ["Zod 4, a date that is not given", z.union([z.string(), z.date()]), "a"],
  ["Zod 3, a pattern that ignores case", z3.string().regex(/^[a-z]+$/i), "Porto"],
  ["Zod 3, Unicode", z3.string().regex(/^\p{Lu}\p{L}+$/u), "Évora"],
  ["Zod 3, coercion", z3.object({ n: z3.coerce.number() }), { n: "7" }],
  ["Zod 3, coercion that may be null", z3.coerce.number().nullable(), "7"],
  ["Zod 3, coercion in a union", z3.union([z3.coerce.number(), z3.boolean()]), "7"],
  ["Zod 3, coercion of a date", z3.coerce.date(), "2026-01-01"],
  ["Zod 3, catch", z3.object({ a: z3.number().catch(3) }), { a: "x" }],
  ["Zod 3, preprocess", z3.preprocess((given) => String(given), z3.string()), 3],
  ["Zod 3, trim before a format", z3.string().trim().email(), " a@b.co "],
  ["Zod 3, a pipe", z3.string().pipe(z3.coerce.number()), "3"],
  ["Zod 3, properties that it drops", z3.object({ a: z3.string() }), { a: "", b: 1 }],
  ["Zod 3, defaults", z3.object({ a: z3.string().default("x") }), {}],
  [
    "Zod 3, coercion in a discriminated union",
    z3.discriminatedUnion("kind", [
      z3.object({ kind: z3.literal("a"), n: z3.coerce.number() }),
      z3.object({ kind: z3.literal("b") }),
    ]),
    { kind: "a", n: "3" },
  ],
  ["ArkType, a pattern that ignores case", type({ a: /^[a-z]+$/i }), { a: "Porto" }],
  [
    "ArkType, trim before a format",
    type("string")
      .pipe((s) => s.trim())
      .to("string.email"),
    " a@b.co ",
  ],
  ["ArkType, a number in a text", type({ n: "string.numeric.parse" }), { n: "7" }],
  ["ArkType, a date in a text", type("string.date.parse"), "2026-01-01"],
  ["ArkType, defaults", type({ a: "string = 'x'" }), {}],
  ["ArkType, deleted properties", type({ "+": "delete", a: "string" }), { a: "", b: 1 }],
  ["Valibot, trim before a format", valibot(v.pipe(v.string(), v.trim(), v.email())), " a@b.co "],
  [
    "Valibot, trim before a length",
    valibot(v.pipe(v.string(), v.trim(), v.maxLength(3))),
    "  abc  ",
  ],
  [
    "Valibot, a pattern that ignores case",
    valibot(v.pipe(v.string(), v.regex(/^[a-z]+$/i))),
    "Porto",
  ],
  ["Valibot, a fallback", valibot(v.object({ a: v.fallback(v.number(), 3) })), { a: "x" }],
  ["Valibot, a missing one", valibot(v.object({ a: v.fallback(v.number(), 3) })), {}],
  ["Valibot, a fallback of a pipe", valibot(v.fallback(v.pipe(v.string(), v.email()), "x")), 3],
  ["Valibot, a number", valibot(v.pipe(v.unknown(), v.transform(Number), v.number())), "7"],
  ["Valibot, a rounded number", valibot(v.pipe(v.number(), v.toMinValue(3), v.integer())), 2.5],
  [
    "Valibot, a check",
    valibot(
      v.pipe(
        v.string(),
        v.check((a) => a !== ""),
      ),
    ),
    "a",
  ],
];

describe("the agent accepts what the schema accepts", () => {
  it.each(accepted)(
    "W4: the agent accepts what the schema accepts: %s",
    async (_, schema, value) => {
      await expect(validated(schema, value)).resolves.toBeDefined();
      expect(problemsOf(schema, value)).toEqual([]);
    },
  );
});

describe("the agent refuses what the JSON Schema certainly excludes", () => {
  it.each<[string, AnySchema, unknown, string]>([
    ["a plain pattern", z.string().regex(/^[A-Z]/), "porto", "answer: "],
    ["a type", z.object({ a: z.object({ b: z.number() }) }), { a: { b: "1" } }, "a.b: "],
    ["a missing property", z.object({ a: z.string() }), {}, "a: "],
    ["an unknown property", z.strictObject({ a: z.string() }), { a: "", b: 1 }, '"b"'],
    ["a range", z.object({ n: z.number().max(3) }), { n: 4 }, "n: "],
    ["an address", z.email(), "nobody", "answer: "],
    ["a member of no form", z.union([z.string(), z.number()]), true, "answer: "],
    ["Zod 3", z3.object({ a: z3.string().max(1) }), { a: "ab" }, "a: "],
    ["ArkType", type({ a: "number < 3" }), { a: 4 }, "a: "],
    ["Valibot", valibot(v.object({ a: v.string() })), { a: 4 }, "a: "],
  ])("W4: the agent refuses a value: %s", (_, schema, value, problem) => {
    expect(problemsOf(schema, value)).toEqual([expect.stringContaining(problem)]);
  });

  it("W4: at most 20 problems of a value are reported", () => {
    const value = Array.from({ length: 1_000 }, (_, index) => `${index}`);
    const problems = problemsOf(z.array(z.number()), value);
    expect(problems).toHaveLength(21);
    expect(problems.at(-1)).toBe("and 980 more problems");
  });
});

describe("a JSON Schema that a caller has written", () => {
  const tree = {
    type: "object",
    properties: { next: { $ref: "#" }, city: { $ref: "#/definitions/city" } },
    definitions: { city: { type: "string", minLength: 3 } },
  };

  it.each<[string, object, unknown]>([
    ["a length in characters", { type: "string", maxLength: 1 }, "😀"],
    ["a pattern that counts characters", { type: "string", pattern: "^.$" }, "😀"],
    ["an integer above 2^53", { type: "integer" }, 1e21],
    ["an object as a constant", { const: { a: 1 } }, { a: 1 }],
    ["a limit of another type", { maximum: 3, minLength: 9 }, []],
    ["a reference that leads elsewhere", { properties: { a: { $ref: "https://x/y" } } }, { a: 1 }],
    ["a reference to a property", { properties: { a: {}, b: { $ref: "#/properties/a" } } }, {}],
    ["overlapping members", { oneOf: [{ type: "number" }, { multipleOf: 0.1 }] }, 3],
    ["itself inside", tree, { next: { next: {}, city: "Porto" } }],
    ["a circle of references", { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }, 1],
    ["an unreadable one", { type: "object", required: 5 }, "x"],
  ])("W4: the agent accepts what JSON Schema accepts: %s", (_, schema, value) => {
    expect(mismatchesOf("answer", value, schema)).toEqual([]);
  });

  it.each<[string, object, unknown, string]>([
    ["a fraction", { type: "integer" }, 2.5, "answer: "],
    ["a length in characters", { type: "string", maxLength: 1 }, "😀😀", "answer: "],
    ["a limit without a type", { maximum: 3 }, 4, "answer: "],
    ["a missing property of any type", { required: ["a"] }, {}, "a: "],
    ["a part of one of two types", { type: ["array", "object"], required: ["a"] }, {}, "a: "],
    ["itself inside", tree, { next: { next: { city: "P" } } }, "next.next.city: "],
    ["too many items of any type", { type: "array", maxItems: 1 }, [1, 2], "answer: "],
    ["no member", { anyOf: [{ const: 1 }, { const: 2 }] }, 3, "none of the allowed forms"],
    ["nothing", { type: "string" }, undefined, "answer: "],
  ])("W4: the agent refuses what JSON Schema refuses: %s", (_, schema, value, problem) => {
    expect(mismatchesOf("answer", value, schema)).toEqual([expect.stringContaining(problem)]);
  });
});

describe("a schema that no JSON value can match is refused", () => {
  it.each<[string, AnySchema, string]>([
    ["Zod 4 Date", z.object({ a: z.array(z.object({ when: z.date() })) }), "a[].when is a Date"],
    ["Zod 4 optional Date", z.object({ when: z.date().optional() }), "when is a Date"],
    ["Zod 4 bigint", z.bigint(), "the schema itself is a bigint"],
    ["Zod 4 literal bigint", z.object({ n: z.literal(1n) }), "n is a bigint"],
    ["Zod 3 literal bigint", z3.object({ n: z3.literal(1n) }), "n is a bigint"],
    ["Valibot literal bigint", valibot(v.object({ n: v.literal(1n) })), "n is a bigint"],
    ["Zod 4 Map", z.map(z.string(), z.string()), "a Map"],
    ["Zod 4 Set", z.object({ s: z.set(z.string()) }), "s is a Set"],
    ["Zod 4 function", z.object({ f: z.function() }) as never, "f is a function"],
    ["Zod 4 instance", z.object({ u: z.instanceof(URL) }), "u is an instance of URL"],
    ["Zod 4 union", z.union([z.date(), z.bigint()]), "a Date"],
    ["Zod 3 Date", z3.object({ when: z3.date() }), "when is a Date"],
    ["Zod 3 Set", z3.set(z3.string()), "a Set"],
    ["ArkType Date", type({ when: "Date" }), "when is a Date"],
    ["ArkType Date in a list", type("Date[]"), "[] is a Date"],
    ["ArkType Map", type({ m: "Map" }), "m is an instance of Map"],
    ["ArkType bigint", type({ b: "bigint" }), "b is a bigint"],
    ["Valibot Date", valibot(v.object({ when: v.date() })), "when is a Date"],
    ["Valibot Map", valibot(v.object({ m: v.map(v.string(), v.string()) })), "m is a Map"],
  ])("W4: a schema that no JSON value can match is refused: %s", (_, schema, problem) => {
    expect(() => jsonFormsOf(passed(schema))).toThrow(`${problem}, which no JSON value can be`);
  });
});

describe("zod3()", () => {
  it("W4: a schema of Zod 3 without it is refused, with the line to write", () => {
    expect(() => jsonFormsOf(z3.string())).toThrow(
      'schemas of Zod 3 do not say what they are in JSON: import { zod3 } from "perdure/zod3", and pass zod3(schema)',
    );
  });

  it("W4: returns a schema of the same type that validates the same, with the library's error", async () => {
    const schema = z3.object({ n: z3.number().default(3) });
    const wrapped = zod3(schema);
    expectTypeOf(wrapped).toEqualTypeOf<typeof schema>();
    expect(await validated(wrapped, {})).toEqual({ n: 3 });
    await expect(validated(wrapped, { n: "x" })).rejects.toMatchObject({
      cause: expect.any(z3.ZodError),
    });
    expect(z3.array(wrapped).parse([{}])).toEqual([{ n: 3 }]);
    expect(jsonFormsOf(zod3(wrapped))).toEqual(jsonFormsOf(wrapped));
  });

  it.each([z.string(), type("string"), { type: "string" }, undefined])(
    "refuses a value that is not a schema of Zod 3: %o",
    (value) => {
      expect(() => zod3(value as AnySchema)).toThrow("expected a schema of Zod 3.24 or newer");
    },
  );
});

/** A schema in all libraries, and values that are often right, and else nearly so. */
type Both = {
  readonly schemas: Readonly<Record<string, unknown>>;
  readonly values: fc.Arbitrary<unknown>;
};

const word = fc.constantFrom("a", "B", " a ", "", "😀", "a@b.co", "3", "true", "2026-01-01");
const scalar = fc.oneof(
  word,
  fc.constantFrom(0, 3, 2.5, -1, 1e21),
  fc.boolean(),
  fc.constant(null),
);
const anything = fc.oneof(scalar, fc.array(scalar, { maxLength: 2 }), fc.dictionary(word, scalar));

const leaf = (schemas: Both["schemas"], values: fc.Arbitrary<unknown> = scalar): Both => ({
  schemas,
  values: fc.oneof({ weight: 3, arbitrary: values }, anything),
});

const leaves: readonly Both[] = [
  leaf({ z: z.string(), z3: z3.string(), a: type("string"), v: v.string() }, word),
  leaf(
    {
      z: z.string().min(2),
      z3: z3.string().min(2),
      a: type("string >= 2"),
      v: v.pipe(v.string(), v.minLength(2)),
    },
    word,
  ),
  leaf({
    z: z.coerce.number().int(),
    z3: z3.coerce.number().int(),
    a: type("string.integer.parse|number"),
    v: v.pipe(v.unknown(), v.transform(Number), v.integer()),
  }),
  leaf(
    {
      z: z.string().trim().max(1),
      z3: z3.string().trim().max(1),
      a: type("string.trim").to("string < 2"),
      v: v.pipe(v.string(), v.trim(), v.maxLength(1)),
    },
    word,
  ),
  leaf(
    {
      z: z.string().regex(/^a$/i),
      z3: z3.string().regex(/^A$/i),
      a: type(/^a$/i),
      v: v.pipe(v.string(), v.regex(/^a$/i)),
    },
    word,
  ),
  leaf(
    {
      z: z.string().regex(/^.{2,}$/),
      z3: z3.string().regex(/^.{2,}$/),
      a: type(/^.{2,}$/),
      v: v.pipe(v.string(), v.regex(/^.{2,}$/)),
    },
    word,
  ),
  leaf({
    z: z.number().catch(3),
    z3: z3.number().catch(3),
    a: type("unknown").pipe(Number),
    v: v.fallback(v.number(), 3),
  }),
  leaf({
    z: z.preprocess(String, z.email()),
    z3: z3.preprocess(String, z3.string().email()),
    a: type("unknown").pipe(String).to("string"),
    v: v.pipe(v.unknown(), v.transform(String), v.email()),
  }),
  leaf({
    z: z.number().min(0).max(3),
    z3: z3.number().min(0).max(3),
    a: type("0 <= number <= 3"),
    v: v.pipe(v.number(), v.minValue(0), v.maxValue(3)),
  }),
  leaf({
    z: z.int(),
    z3: z3.number().int(),
    a: type("number.integer"),
    v: v.pipe(v.number(), v.integer()),
  }),
  leaf({
    z: z.number().multipleOf(0.5),
    z3: z3.number().multipleOf(0.5),
    a: type("number % 3"),
    v: v.pipe(v.number(), v.multipleOf(0.5)),
  }),
  leaf(
    {
      z: z.enum(["a", "B"]),
      z3: z3.enum(["a", "B"]),
      a: type("'a'|'B'"),
      v: v.picklist(["a", "B"]),
    },
    word,
  ),
  leaf({ z: z.literal(3), z3: z3.literal(3), a: type("3"), v: v.literal(3) }),
  leaf(
    {
      z: z.coerce.date(),
      z3: z3.coerce.date(),
      a: type("string.date.parse"),
      v: v.pipe(v.string(), v.isoDate(), v.toDate()),
    },
    word,
  ),
  leaf({ z: z.coerce.boolean(), z3: z3.coerce.boolean(), a: type("boolean"), v: v.boolean() }),
  leaf({ z: z.unknown(), z3: z3.unknown(), a: type("unknown"), v: v.unknown() }),
  leaf(
    {
      z: z.string().refine((s) => s !== "a"),
      z3: z3.string().refine((s) => s !== "a"),
      a: type("string").narrow((s) => s !== "a"),
      v: v.pipe(
        v.string(),
        v.check((s) => s !== "a"),
      ),
    },
    word,
  ),
];

type Libraries = { readonly [name in "z" | "z3" | "a" | "v"]: (parts: never[]) => unknown };

const made = (parts: readonly Both[], how: Libraries, values: fc.Arbitrary<unknown>): Both => ({
  schemas: Object.fromEntries(
    Object.entries(how).map(([name, make]) => [
      name,
      make(parts.map(({ schemas }) => schemas[name]) as never),
    ]),
  ),
  values: fc.oneof({ weight: 4, arbitrary: values }, anything),
});

const { schema: schemas } = fc.letrec<{ schema: Both }>((tie) => {
  const some = fc.array(tie("schema"), { minLength: 2, maxLength: 2 });
  const one = fc.tuple(tie("schema")).map((parts) => [...parts]);
  const fields = (parts: readonly Both[]) =>
    fc.record(
      { a: parts[0]?.values ?? scalar, b: parts[1]?.values ?? scalar, c: scalar },
      { requiredKeys: [] },
    );
  return {
    schema: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      fc.constantFrom(...leaves),
      one.map((parts) => made(parts, OPTIONAL, parts[0]?.values ?? scalar)),
      one.map((parts) => made(parts, LIST, fc.array(parts[0]?.values ?? scalar, { maxLength: 3 }))),
      some.map((parts) => made(parts, OBJECT, fields(parts))),
      some.map((parts) => made(parts, STRICT, fields(parts))),
      some.map((parts) =>
        made(
          parts,
          TUPLE,
          fc.tuple(...parts.map(({ values }) => values)).chain((all) => fc.subarray(all)),
        ),
      ),
      some.map((parts) => made(parts, UNION, fc.oneof(...parts.map(({ values }) => values)))),
      one.map((parts) => made(parts, RECORD, fc.dictionary(word, parts[0]?.values ?? scalar))),
    ),
  };
});

const OPTIONAL = {
  z: ([a]: z.ZodType[]) => z.nullish(a as z.ZodType),
  z3: ([a]: z3.ZodType[]) => a?.nullish(),
  a: ([a]: never[]) => a,
  v: ([a]: v.GenericSchema[]) => v.nullish(a as v.GenericSchema),
} as unknown as Libraries;
const LIST = {
  z: ([a]: z.ZodType[]) => z.array(a as z.ZodType).min(1),
  z3: ([a]: z3.ZodType[]) => z3.array(a as z3.ZodType).min(1),
  a: ([a]: ReturnType<typeof type.raw>[]) => a?.array().atLeastLength(1),
  v: ([a]: v.GenericSchema[]) => v.pipe(v.array(a as v.GenericSchema), v.minLength(1)),
} as unknown as Libraries;
const OBJECT = {
  z: ([a, b]: z.ZodType[]) => z.object({ a: a as z.ZodType, b: b?.optional() as never }),
  z3: ([a, b]: z3.ZodType[]) => z3.object({ a: a as z3.ZodType, b: b?.optional() as never }),
  a: ([a, b]: never[]) => type.raw({ a, "b?": b }),
  v: ([a, b]: v.GenericSchema[]) => v.object({ a: a as never, b: v.optional(b as never) }),
} as unknown as Libraries;
const STRICT = {
  z: ([a, b]: z.ZodType[]) => z.strictObject({ a: a as z.ZodType, b: b as z.ZodType }),
  z3: ([a, b]: z3.ZodType[]) => z3.object({ a: a as z3.ZodType, b: b as z3.ZodType }).strict(),
  a: ([a, b]: never[]) => type.raw({ "+": "reject", a, b }),
  v: ([a, b]: v.GenericSchema[]) => v.strictObject({ a: a as never, b: b as never }),
} as unknown as Libraries;
const TUPLE = {
  z: ([a, b]: z.ZodType[]) => z.tuple([a as z.ZodType, b as z.ZodType]),
  z3: ([a, b]: z3.ZodType[]) => z3.tuple([a as z3.ZodType, b as z3.ZodType]),
  a: ([a, b]: never[]) => type.raw([a, b]),
  v: ([a, b]: v.GenericSchema[]) => v.tuple([a as never, b as never]),
} as unknown as Libraries;
const UNION = {
  z: ([a, b]: z.ZodType[]) => z.union([a as z.ZodType, b as z.ZodType]),
  z3: ([a, b]: z3.ZodType[]) => z3.union([a as z3.ZodType, b as z3.ZodType]),
  // ArkType refuses unions of transformations whose inputs overlap.
  a: ([a]: never[]) => a,
  v: ([a, b]: v.GenericSchema[]) => v.union([a as never, b as never]),
} as unknown as Libraries;
const RECORD = {
  z: ([a]: z.ZodType[]) => z.record(z.string(), a as z.ZodType),
  z3: ([a]: z3.ZodType[]) => z3.record(a as z3.ZodType),
  a: ([a]: never[]) => type.raw({ "[string]": a }),
  v: ([a]: v.GenericSchema[]) => v.record(v.string(), a as never),
} as unknown as Libraries;

function givenBy({ schemas }: Both, library: string): AnySchema {
  const schema = schemas[library] as AnySchema;
  return library === "v" ? valibot(schema as never) : passed(schema);
}

const formsOf = (both: Both, library: string) => jsonFormsOf(givenBy(both, library));

describe("random schemas and values", () => {
  it.each(["z", "z3", "a", "v"])(
    "W4: the agent accepts every value that the schema accepts (%s)",
    async (library) => {
      let taken = 0;
      const shownPairs = (both: Both) => ({
        ...both,
        [fc.toStringMethod]: () => JSON.stringify(formsOf(both, library)),
      });
      const pairs = schemas
        .map(shownPairs)
        .chain((both) => fc.tuple(fc.constant(both), fc.array(both.values, { maxLength: 8 })));
      await fc.assert(
        fc.asyncProperty(pairs, async ([both, values]) => {
          const given = givenBy(both, library);
          for (const value of values) {
            const isTaken = await validated(given, structuredClone(value)).then(
              () => true,
              () => false,
            );
            if (isTaken) expect(problemsOf(given, value)).toEqual([]);
            taken += isTaken ? 1 : 0;
          }
        }),
        { numRuns: 300 },
      );
      expect(taken).toBeGreaterThan(50);
    },
  );
});
