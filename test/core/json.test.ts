import { describe, expect, it } from "vitest";
import {
  checkBytes,
  jsonOf,
  jsonTextOf,
  lostInJson,
  MAX_DEPTH,
  preview,
  tooLarge,
} from "../../src/core/json.ts";

class Refused extends Error {}

const limit = { maxBytes: 10, refuse: (message: string) => new Refused(message) };

const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;

describe("jsonOf", () => {
  it("returns a copy as JSON has it", () => {
    const value = { at: new Date(0), none: undefined, list: [undefined, 1] };
    expect(jsonOf(value)).toEqual({ at: "1970-01-01T00:00:00.000Z", list: [null, 1] });
    expect(jsonOf(undefined)).toBeUndefined();
    expect(jsonOf({ a: 1 }, (key, inner) => (key === "a" ? 2 : inner))).toEqual({ a: 2 });
  });

  it.each([[1n], [cyclic]])("throws a TypeError for a value that JSON cannot hold (%#)", (value) =>
    expect(() => jsonOf(value)).toThrow(TypeError),
  );
});

describe("jsonTextOf", () => {
  it("L9: returns the JSON of a value of exactly the limit", () => {
    expect(jsonTextOf("event", "12345678", limit)).toBe('"12345678"');
    expect(jsonTextOf("event", "ééé", limit)).toBe('"ééé"');
  });

  it.each([
    ["123456789", "Invalid event of 11 bytes: expected at most 10 bytes. Store the content"],
    ["ééééé", "Invalid event of 12 bytes: expected at most 10 bytes. Store the content"],
    [1n, /^Invalid event: JSON cannot hold it \(.*BigInt.*\)\.$/],
    [undefined, "Invalid event undefined: expected JSON."],
    [() => {}, "Invalid event () => {}: expected JSON."],
  ])("L9: refuses a value with the caller's error (%#)", (value, message) => {
    const call = () => jsonTextOf("event", value, limit);
    expect(call).toThrow(Refused);
    expect(call).toThrow(message);
  });
});

describe("checkBytes", () => {
  it("L9: counts bytes of UTF-8 and names the limit and the remedy", () => {
    expect(() => checkBytes("answer", "é".repeat(5), limit)).not.toThrow();
    expect(() => checkBytes("answer", "é".repeat(6), limit)).toThrow(tooLarge("answer", 12, 10));
    expect(tooLarge("answer", 12, 10)).toBe(
      "Invalid answer of 12 bytes: expected at most 10 bytes. " +
        "Store the content elsewhere, e.g. in R2, and pass a reference to it.",
    );
  });
});

describe("lostInJson", () => {
  const nested = (levels: number) => {
    let value: object = {};
    for (let level = 1; level < levels; level++) value = { a: value };
    return value;
  };
  const shared = { a: 1 };

  it.each([
    [{ items: [1, { due: new Date(0) }] }, ".items[1].due is a Date"],
    [Number.NaN, " is NaN"],
    [{ a: [undefined] }, ".a[0] is undefined"],
    [{ a: () => {} }, ".a is a function"],
    [{ a: cyclic }, ".a.self contains itself"],
    [{ ["x".repeat(1_000_000)]: 1n }, `.${"x".repeat(99)}... is a bigint`],
    [{ a: undefined, b: [shared, shared], c: null }, undefined],
  ])("finds the first place that JSON cannot hold (%#)", (value, lost) => {
    expect(lostInJson(value)).toBe(lost);
  });

  it("L9: takes the limit of levels, and finds more, however many", () => {
    expect(lostInJson(nested(MAX_DEPTH))).toBeUndefined();
    for (const levels of [MAX_DEPTH + 1, 20_000]) {
      expect(lostInJson(nested(levels))).toMatch(/^(\.a){50}\.\.\. is nested more than 500 levels/);
    }
  });
});

describe("preview", () => {
  class Reports {
    readonly env = { KEY: "secret" };
  }

  it.each([
    [new Reports(), "an instance of Reports"],
    [{ agent: new Reports() }, '{"agent":"an instance of Reports"}'],
    [new Map([["key", "secret"]]), "an instance of Map"],
    [{ at: new Date(0), in: [1] }, '{"at":"1970-01-01T00:00:00.000Z","in":[1]}'],
    [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    [new URL("https://a.example/"), '"https://a.example/"'],
  ])("shows the class of an instance, and nothing inside it (%#)", (value, text) =>
    expect(preview(value)).toBe(text),
  );
});
