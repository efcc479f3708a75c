import { describe, expect, it } from "vitest";
import type { Acceptance } from "../../src/inbound/protocol.ts";
import { accept, arrival, call, crash, givenInbound, inside, notesOf } from "../support/inbound.ts";

describe("acceptDelivery()", () => {
  it("runs a method once, and answers a repetition from its record", async () => {
    const stub = givenInbound();
    const request = call(arrival("d1"), "note", ["one"]);
    expect(await accept(stub, request)).toEqual({ verdict: "accepted", result: { noted: "one" } });
    await crash(stub);
    expect(await accept(stub, request)).toEqual({ verdict: "duplicate", result: { noted: "one" } });
    expect(await notesOf(stub)).toEqual(["one"]);
    const found = await inside(stub, ({ inbound }) => inbound.inspect("github", "d1"));
    expect(found).toMatchObject({
      verdict: "accepted",
      duplicates: 1,
      body: { id: "d1" },
      calls: [{ kind: "method", ordinal: 0, verb: "note", result: { noted: "one" } }],
    });
  });

  it("records a method that returns a promise when it has resolved", async () => {
    const stub = givenInbound();
    for (const verb of ["slow", "promised"]) {
      const request = call(arrival(verb), verb, [verb]);
      expect(await accept(stub, request)).toEqual({ verdict: "accepted", result: { slow: verb } });
      expect(await accept(stub, request)).toEqual({ verdict: "duplicate", result: { slow: verb } });
    }
    expect(await notesOf(stub)).toEqual(["slow", "promised first", "promised"]);
  });

  it("stores a delivery whose handler has called nothing as filtered", async () => {
    const stub = givenInbound();
    expect(await accept(stub, { delivery: arrival("d1") })).toEqual({ verdict: "filtered" });
    expect(await accept(stub, { delivery: arrival("d1") })).toEqual({ verdict: "filtered" });
    const request = call(arrival("d1"), "note", ["one"]);
    expect(await accept(stub, request)).toMatchObject({ verdict: "accepted" });
    expect(await accept(stub, { delivery: arrival("d1") })).toEqual({ verdict: "duplicate" });
  });

  it("undoes what a refused method has written, and accepts a later delivery", async () => {
    const stub = givenInbound();
    const refused = call(arrival("d1"), "refuse", ["BacklogFullError", "no room"]);
    const answer: Acceptance = {
      verdict: "refused",
      error: { name: "BacklogFullError", message: "no room" },
      retryAfter: 30,
    };
    expect(await accept(stub, refused)).toEqual(answer);
    expect(await notesOf(stub)).toEqual([]);
    const request = call(arrival("d1"), "note", ["one"]);
    expect(await accept(stub, request)).toMatchObject({ verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["one"]);
  });
});
