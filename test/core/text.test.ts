import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byteLength } from "../../src/core/json.ts";
import { digest, PART_LENGTH, partsOf } from "../../src/core/text.ts";
import { ANY_CHARACTER } from "../support/characters.ts";

/** Around the borders of one to three parts, from short units that are shifted against them. */
const long = fc
  .record({
    unit: fc.string({ unit: fc.constantFrom("a", "é", "😀", "€"), minLength: 1, maxLength: 7 }),
    head: fc.string({ unit: ANY_CHARACTER, maxLength: 5 }),
    parts: fc.integer({ min: 1, max: 3 }),
    more: fc.integer({ min: -3, max: 3 }),
  })
  .map(({ unit, head, parts, more }) => {
    const length = parts * PART_LENGTH + more;
    return (head + unit.repeat(Math.ceil(length / unit.length))).slice(0, length);
  });

/** Code units that are no text: halves of pairs in any order. */
const halves = fc
  .array(fc.constantFrom("\ud83d", "\ude00", "a"), { minLength: 1, maxLength: 9 })
  .map((units) => units.join("").repeat(PART_LENGTH / 4));

describe("texts in parts", () => {
  it("O4: any text comes back whole, in parts within the limit that split no surrogate pair", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: ANY_CHARACTER }), long, halves), (text) => {
        const parts = partsOf(text);
        expect(parts.join("") === text).toBe(true);
        for (const [index, part] of parts.entries()) {
          expect(part.length).toBeGreaterThan(0);
          expect(part.length).toBeLessThanOrEqual(PART_LENGTH);
          expect(byteLength(part)).toBeLessThanOrEqual(3 * PART_LENGTH);
          const isSplit =
            /[\ud800-\udbff]$/.test(part) && /^[\udc00-\udfff]/.test(parts[index + 1] ?? "");
          expect(isSplit).toBe(false);
          // Nothing is cut shorter than a pair needs.
          if (index < parts.length - 1) expect(part.length).toBeGreaterThanOrEqual(PART_LENGTH - 1);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("O4: each part of a well-formed text is well-formed and survives UTF-8", () => {
    const text = `a${"😀".repeat(PART_LENGTH)}`;
    const parts = partsOf(text);
    expect(parts.every((part) => part.isWellFormed())).toBe(true);
    const decoded = parts.map((part) => new TextDecoder().decode(new TextEncoder().encode(part)));
    expect(decoded.join("") === text).toBe(true);
  });

  it.each([
    ["", []],
    ["a", [1]],
    ["a".repeat(PART_LENGTH), [PART_LENGTH]],
    ["a".repeat(PART_LENGTH + 1), [PART_LENGTH, 1]],
    [`${"a".repeat(PART_LENGTH - 1)}😀`, [PART_LENGTH - 1, 2]],
    [`${"a".repeat(PART_LENGTH - 2)}😀`, [PART_LENGTH]],
    [`${"a".repeat(PART_LENGTH)}😀`, [PART_LENGTH, 2]],
  ])("O4: parts end exactly at the limit (%#)", (text, lengths) => {
    expect(partsOf(text).map((part) => part.length)).toEqual(lengths);
  });
});

describe("digest", () => {
  it("W1: a digest has 22 characters that are safe in every name", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: ANY_CHARACTER }), halves), (text) => {
        expect(digest(text)).toMatch(/^[\w-]{22}$/);
        expect(digest(text)).toBe(digest(text));
      }),
      { numRuns: 50 },
    );
  });

  it("W1: texts that differ in half of a character have different digests", () => {
    expect(digest("\ud83d")).not.toBe(digest("\ud83e"));
    expect(digest("a", "utf8")).not.toBe(digest("a"));
  });

  it("with utf8, it is the start of the SHA-256 that Think computes", async () => {
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("é"));
    const base64 = btoa(String.fromCharCode(...new Uint8Array(hash)));
    const expected = base64.replaceAll("+", "-").replaceAll("/", "_").slice(0, 22);
    expect(digest("é", "utf8")).toBe(expected);
  });
});
