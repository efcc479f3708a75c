/** What structured clone takes, stored as JSON. */

import { expect, it } from "vitest";
import { fromTypedJson, toTypedJson } from "../../src/core/typed-json.ts";

const stored = (value: unknown) =>
  fromTypedJson(JSON.parse(JSON.stringify(toTypedJson(value).json)), (name) => `lost ${name}`);

it.each([
  ["undefined", undefined],
  ["numbers", [Number.NaN, Number.NEGATIVE_INFINITY, -0, 0.5]],
  ["a bigint", -(2n ** 70n)],
  ["dates", [new Date(0), new Date(Number.NaN)]],
  ["a regular expression", /a+[^b]/giu],
  [
    "maps and sets",
    new Map<unknown, unknown>([
      [{ a: 1 }, new Set([[1]])],
      [[2], new Map()],
    ]),
  ],
  ["bytes", [new Uint8Array([0, 255]), new Uint8Array([1, 2, 3]).subarray(1).buffer.slice(1)]],
  ["a view", new DataView(new Uint8Array([1, 2, 3]).buffer, 1)],
  ["numbers of 64 bits", [new BigInt64Array([-1n]), new Float64Array([0.5, Number.NaN])]],
  ["a member __proto__", JSON.parse('{"__proto__": {"a": 1}, "list": [null, true, "text"]}')],
])("%s are as structuredClone() has them", (_, value) => {
  expect(stored(value)).toEqual(structuredClone(value));
});

it("errors keep their class, message, stack and cause", () => {
  const error = new TypeError("no", { cause: new Error("why") });
  const copy = stored({ error }) as { error: TypeError };
  expect(copy.error).toBeInstanceOf(TypeError);
  const { message, stack, cause } = copy.error;
  expect({ message, stack }).toEqual({ message: "no", stack: error.stack });
  expect((cause as Error).message).toBe("why");
});

it("cycles and shared objects keep their identities", () => {
  const shared = { at: new Date(0) };
  const value: Record<string, unknown> = { shared, again: [shared] };
  value.self = new Map([["root", value]]);
  const copy = stored(value) as typeof value;
  expect((copy.again as unknown[])[0]).toBe(copy.shared);
  expect((copy.self as Map<string, unknown>).get("root")).toBe(copy);
});

it("an instance of a class is stored as JSON has it", () => {
  class Money {
    constructor(readonly cents: number) {}
    toJSON() {
      return `${this.cents} cents`;
    }
  }
  class Point {
    readonly x = 1;
  }
  expect(stored({ price: new Money(5), at: new Point(), due: new Date(0) })).toEqual({
    price: "5 cents",
    at: { x: 1 },
    due: new Date(0),
  });
});

it.each([
  [() => 1, " is a function"],
  [{ list: [Symbol("a")] }, ".list[0] is a symbol"],
  [new Map([["work", Promise.resolve()]]), "[0][1] is a Promise"],
  [{ weak: new WeakMap() }, ".weak is a WeakMap"],
])("what no structured clone can hold is told with its place", (value, message) => {
  expect(toTypedJson(value).lost).toEqual([message]);
});

it("what is lost keeps its type, and all around it its identities", () => {
  const shared = { a: 1 };
  const value = { list: [() => 1, Promise.resolve(), shared], shared };
  const copy = stored(value) as typeof value;
  expect(copy.list).toEqual(["lost function", "lost Promise", { a: 1 }]);
  expect(copy.shared).toBe(copy.list[2]);
});

it("a type that structured clone does not have is replaced, not constructed", () => {
  const replaced = fromTypedJson({ "perdure:type": "Function", value: "AAAA" }, (name) => name);
  expect(replaced).toBe("AAAA");
});

it("bytes of a class with its own tag are lost, and can be read back", () => {
  class Tagged extends Uint8Array {
    override get [Symbol.toStringTag]() {
      return "Tagged" as "Uint8Array";
    }
  }
  expect(stored(new Tagged(1))).toBe("lost Tagged");
});

it.each(["Int8Array", "Uint8ClampedArray", "Int16Array", "Uint32Array", "BigUint64Array"] as const)(
  "%s is as structuredClone() has it",
  (name) => {
    const value = new globalThis[name](2);
    expect(stored(value)).toEqual(structuredClone(value));
  },
);

it("a value that is nested too deep is told", () => {
  let value: unknown = 1n;
  for (let depth = 0; depth < 600; depth++) value = [value];
  expect(toTypedJson(value).lost).toEqual([
    expect.stringContaining("is nested more than 500 levels deep"),
  ]);
});

it("tells how many bytes base64 adds", () => {
  expect(toTypedJson(new Uint8Array(300)).surplus).toBe(100);
});
