/** Which schemas may refuse what an older one takes, and values that a schema takes. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { jsonFormsOf } from "../../../src/core/schema/schema.ts";
import { sampleOf } from "../../../src/testing/replay/sample.ts";
import { narrowedIn } from "../../../src/testing/replay/schemas.ts";

function form(schema: z.ZodType): unknown {
  const { schema: shown, check } = jsonFormsOf(schema as never);
  return check ?? shown;
}

const narrowed = (old: z.ZodType, now: z.ZodType) => narrowedIn(form(old), form(now));

type Tree = { name: string; inner: Tree[] };
const tree = (name: z.ZodString): z.ZodType<Tree> => {
  const node: z.ZodType<Tree> = z.lazy(() => z.object({ name, inner: z.array(node) }));
  return node;
};
const a = z.object({ a: z.string() });

describe("a schema that takes all that the old one takes", () => {
  it.each<[string, z.ZodType, z.ZodType]>([
    ["the same", a, z.object({ a: z.string() })],
    ["another description", a, z.object({ a: z.string().describe("the first letter") })],
    ["an optional property more", a, z.object({ a: z.string(), b: z.number().optional() })],
    ["a default more", a, z.object({ a: z.string(), b: z.number().default(1) })],
    ["a property less", z.object({ a: z.string(), b: z.number() }), a],
    ["a required one is optional", a, z.object({ a: z.string().optional() })],
    ["a wider type", a, z.object({ a: z.union([z.string(), z.number()]) })],
    ["null as well", a, z.object({ a: z.string().nullable() })],
    ["a value more", z.enum(["x", "y"]), z.enum(["x", "y", "z"])],
    ["a text instead of values", z.enum(["x", "y"]), z.string()],
    ["wider bounds", z.number().min(1).max(5), z.number().min(0).max(9)],
    ["an integer is a number", z.number().int(), z.number()],
    ["members in another order", z.union([z.string(), z.null()]), z.union([z.null(), z.string()])],
    ["lists of more", z.array(z.string()).max(3), z.array(z.string()).max(9)],
    ["a schema that contains itself", tree(z.string()), tree(z.string().describe("its name"))],
    ["anything", a, z.unknown()],
  ])("%s", (_, old, now) => {
    expect(narrowed(old, now)).toEqual([]);
  });
});

describe("a schema that may refuse what the old one takes", () => {
  it.each<[string, z.ZodType, z.ZodType, string]>([
    ["a required property more", a, z.object({ a: z.string(), b: z.number() }), "b is required"],
    ["another type", a, z.object({ a: z.number() }), "a is number instead of string"],
    ["an optional one is required", z.object({ a: z.string().optional() }), a, "a is required"],
    ["without null", z.object({ a: z.string().nullable() }), a, "a is string instead of null"],
    ["a value less", z.enum(["x", "y"]), z.enum(["x"]), 'the value may not be "y"'],
    ["values instead of a text", a, z.object({ a: z.enum(["x"]) }), "a has to be one of"],
    ["another bound", z.number().max(5), z.number().max(4), "the maximum 4"],
    ["an integer", z.number(), z.number().int(), "the value has to be an integer"],
    ["a longer text", z.string(), z.string().min(3), "the minLength 3"],
    ["in a list", z.array(a), z.array(z.object({ a: z.number() })), "[].a is number"],
    [
      "in a member",
      z.union([a, z.null()]),
      z.union([z.object({ a: z.number() }), z.null()]),
      "a is number",
    ],
    ["a pattern", z.string(), z.string().regex(/^[a-z]+$/), "another pattern"],
  ])("%s", (_, old, now, expected) => {
    expect(narrowed(old, now).join()).toContain(expected);
  });

  it("a schema where there was none", () => {
    expect(narrowedIn(null, form(a))).not.toEqual([]);
    expect(narrowedIn(form(a), null)).toEqual([]);
  });

  it.each([7, "x", [], { $ref: "#/a" }, { $ref: "#" }, { anyOf: 1 }, { type: 7 }, { enum: {} }])(
    "what is no schema throws nothing: %j",
    (odd) => {
      expect(Array.isArray(narrowedIn(odd, form(a)))).toBe(true);
      expect(Array.isArray(narrowedIn(form(a), odd))).toBe(true);
    },
  );
});

describe("a value for a new step", () => {
  it.each<[z.ZodType]>([
    [z.object({ a: z.string().min(3), b: z.number().min(5), c: z.array(a).min(2) })],
    [z.union([z.literal("x"), z.number()])],
    [z.object({ a: z.enum(["x", "y"]), b: z.boolean(), c: z.null(), d: z.number().max(-3) })],
    [tree(z.string())],
  ])("is one that the schema takes: %#", (schema) => {
    expect(schema.safeParse(sampleOf(form(schema))).success).toBe(true);
  });
});
