import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  parseTraceparent,
  spanIdOf,
  traceOf,
  traceparentOf,
} from "../../src/core/trace-context.ts";
import { ANY_CHARACTER } from "../support/characters.ts";

const hex = (length: number) =>
  fc.string({
    unit: fc.constantFrom(..."0123456789abcdef"),
    minLength: length,
    maxLength: length,
  });
const id = (length: number) => hex(length).filter((text) => !/^0+$/.test(text));
const fields = fc.record({ traceId: id(32), spanId: id(16), flags: hex(2) });
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("traceparent", () => {
  it("every valid header of version 00 is read, and written the same with the known flags", () => {
    fc.assert(
      fc.property(fields, ({ traceId, spanId, flags }) => {
        const parsed = parseTraceparent(`00-${traceId}-${spanId}-${flags}`);
        const known = Number.parseInt(flags, 16) & 3;
        expect(parsed).toEqual({ traceId, spanId, flags: known });
        expect(parsed && traceparentOf(parsed)).toBe(`00-${traceId}-${spanId}-0${known}`);
      }),
    );
  });

  it("the known fields of a later version are read, with or without more fields behind them", () => {
    const version = hex(2).filter((text) => text !== "00" && text !== "ff");
    const rest = fc.option(fc.string(), { nil: undefined });
    fc.assert(
      fc.property(fields, version, rest, ({ traceId, spanId, flags }, number, more) => {
        const text = `${number}-${traceId}-${spanId}-${flags}${more === undefined ? "" : `-${more}`}`;
        expect(parseTraceparent(text)).toMatchObject({ traceId, spanId });
      }),
    );
  });

  it("a header with one changed character is read as another one, or not at all", () => {
    const header = `00-${TRACE}-${SPAN}-01`;
    const at = fc.nat(header.length - 1);
    fc.assert(
      fc.property(at, fc.string({ unit: ANY_CHARACTER, maxLength: 3 }), (index, text) => {
        const changed = header.slice(0, index) + text + header.slice(index + 1);
        const parsed = parseTraceparent(changed);
        if (parsed) expect(changed).toContain(`-${parsed.traceId}-${parsed.spanId}-`);
        else expect(changed).not.toBe(header);
      }),
    );
  });

  it("no other value is read", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.anything()), (value) => {
        expect(parseTraceparent(value)).toBeUndefined();
      }),
    );
  });

  it.each([
    ["zeros as the trace id", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["zeros as the span id", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["the version ff", `ff-${TRACE}-${SPAN}-01`],
    ["more fields in version 00", `00-${TRACE}-${SPAN}-01-x`],
    ["capitals", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["a space in front", ` 00-${TRACE}-${SPAN}-01`],
    ["a line break at the end", `00-${TRACE}-${SPAN}-01\n`],
    ["an id that is too short", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["nothing between version and flags", "00-01"],
  ])("%s is refused", (_, text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });
});

describe("derived ids", () => {
  it("the same names have the same ids, in the form of the standard", () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER }), (name) => {
        const { traceId, flags } = traceOf(name);
        const header = traceparentOf({ traceId, flags, spanId: spanIdOf(traceId, name) });
        expect(parseTraceparent(header)).toMatchObject({ traceId, flags: 1 });
        expect(traceOf(name).traceId).toBe(traceId);
      }),
    );
  });
});
