/** W4 what the agent is told of a schema: nothing that would refuse what the schema itself takes. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { mismatchesOf } from "../src/core/json-schema.ts";
import { type AnySchema, jsonSchemaOf, validated } from "../src/core/schema.ts";

const taken: [string, AnySchema, unknown][] = [
  ["Zod 4, a pattern that minds no case", z.string().regex(/^[a-z]+$/i), "Porto"],
  ["Zod 4, two of them", z.string().regex(/^p/i).regex(/o$/i), "PORTO"],
  ["Zod 4, keys", z.record(z.string().regex(/^k/i), z.number()), { K1: 1 }],
  ["Zod 4, a pattern over lines", z.string().regex(/^b$/m), "a\nb"],
  ["Zod 4, Unicode", z.object({ city: z.string().regex(/^\p{Lu}\p{L}+$/u) }), { city: "Évora" }],
  ["Zod 4, one of two units", z.string().regex(/^.$/u), "😀"],
  ["Zod 4, an address", z.email(), "A@Example.com"],
  ["Zod 4, an emoji", z.emoji(), "😀"],
  ["Zod 3, a pattern that minds no case", z3.string().regex(/^[a-z]+$/i), "Porto"],
  ["Zod 3, Unicode", z3.string().regex(/^\p{Lu}\p{L}+$/u), "Évora"],
];

describe("W4 the agent takes what the schema takes", () => {
  it.each(taken)("W4 %s", async (_, schema, value) => {
    expect(await validated(schema, value)).toEqual(value);
    expect(mismatchesOf("answer", value, jsonSchemaOf(schema))).toEqual([]);
  });

  it("W4 and still refuses what a plain pattern does", () => {
    const problems = mismatchesOf("answer", "porto", jsonSchemaOf(z.string().regex(/^[A-Z]/)));
    expect(problems).toEqual([expect.stringContaining("answer: ")]);
  });
});
