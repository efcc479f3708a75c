/** What becomes of an arrival: each verdict, and what its calls leave. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import type { AcceptRequest, RawArrival } from "../../../src/features/inbound/protocol.ts";
import { NEXT, type StoredVerdict } from "../../../src/features/inbound/states.ts";
import {
  accept,
  arrival,
  call,
  crash,
  givenInbound,
  hashOf,
  type InboundStub,
  inside,
  inspect,
  notesOf,
} from "../../support/inbound.ts";

beforeEach(() => {
  vi.restoreAllMocks();
});

const note = (sent: RawArrival, text = "one", ordinal = 0) => call(sent, "note", [text], ordinal);
const refuse = (sent: RawArrival, ordinal = 0) =>
  call(sent, "refuse", ["Error", "not now"], ordinal);

describe("a call of a handler", () => {
  it("I1: a method runs once, and a repetition is answered from its record, also after a crash", async () => {
    const stub = givenInbound();
    const request = note(arrival("d1"));
    expect(await accept(stub, request)).toEqual({ verdict: "accepted", result: { noted: "one" } });
    await crash(stub);
    expect(await accept(stub, request)).toEqual({ verdict: "duplicate", result: { noted: "one" } });
    expect(await notesOf(stub)).toEqual(["one"]);
    expect(await inspect(stub, "d1")).toMatchObject({
      verdict: "accepted",
      duplicates: 1,
      body: { id: "d1" },
      calls: [{ kind: "method", ordinal: 0, verb: "note", result: { noted: "one" } }],
    });
  });

  it("I1: a method that returns a promise is recorded when it has resolved", async () => {
    const stub = givenInbound();
    for (const verb of ["slow", "promised", "transacted"]) {
      const request = call(arrival(verb), verb, [verb]);
      const result = verb === "transacted" ? { transacted: verb } : { slow: verb };
      expect(await accept(stub, request)).toEqual({ verdict: "accepted", result });
      expect(await accept(stub, request)).toEqual({ verdict: "duplicate", result });
    }
    const notes = ["slow", "promised first", "promised", "transacted first", "transacted"];
    expect(await notesOf(stub)).toEqual(notes);
  });

  it("I1: a retry after a crash between two calls answers the first from its record, and runs the second", async () => {
    const stub = givenInbound();
    const sent = arrival("d1");
    await accept(stub, note(sent, "zero"));
    await crash(stub);
    expect(await accept(stub, note(sent, "zero"))).toMatchObject({ verdict: "duplicate" });
    const { body: _, ...known } = sent;
    expect(await accept(stub, note(known, "first", 1))).toMatchObject({ verdict: "accepted" });
    expect(await accept(stub, note(known, "first", 1))).toMatchObject({ verdict: "duplicate" });
    expect(await notesOf(stub)).toEqual(["zero", "first"]);
    // Only the first call of a handler counts a repetition.
    expect(await inspect(stub, "d1")).toMatchObject({ duplicates: 1, body: { id: "d1" } });
  });

  it("I1: a recorded call is not run again when the retry calls another method, and this is logged", async () => {
    const stub = givenInbound();
    const log = vi.spyOn(console, "warn").mockImplementation(() => {});
    await accept(stub, note(arrival("d1")));
    const other = call(arrival("d1"), "inherited");
    expect(await accept(stub, other)).toEqual({ verdict: "duplicate", result: { noted: "one" } });
    expect(String(log.mock.calls[0])).toMatch(
      /calls inherited\(\) where it called note\(\) before/,
    );
  });

  it("I1: duplicates that come at the same time run a slow method once", async () => {
    const release = Promise.withResolvers<void>();
    const stub = givenInbound({ onSlow: () => release.promise });
    const request = call(arrival("d1"), "slow", ["once"]);
    const all = inside(stub, async ({ inbound }) => {
      const answers = [1, 2, 3].map(() => inbound.accept(request));
      setTimeout(release.resolve, 20);
      return (await Promise.all(answers)).map(({ verdict }) => verdict);
    });
    expect(await all).toEqual(["accepted", "duplicate", "duplicate"]);
    expect(await notesOf(stub)).toEqual(["once"]);
  });

  it("I1: other arrivals do not wait for a slow one", async () => {
    const release = Promise.withResolvers<void>();
    const stub = givenInbound({ onSlow: () => release.promise });
    const verdicts = await inside(stub, async ({ inbound }) => {
      const slow = inbound.accept(call(arrival("d1"), "slow", ["slow"]));
      const fast = await inbound.accept(note(arrival("d2")));
      release.resolve();
      return [fast.verdict, (await slow).verdict];
    });
    expect(verdicts).toEqual(["accepted", "accepted"]);
    expect(await notesOf(stub)).toEqual(["one", "slow"]);
  });

  it("I1: a result that JSON cannot hold, or that is too large, is not recorded, and its call is not run again", async () => {
    const log = vi.spyOn(console, "warn").mockImplementation(() => {});
    const results: Record<string, unknown> = { big: 10n, large: "x".repeat(20_000) };
    const stub = givenInbound({ onNote: (text) => results[text] });
    expect(await accept(stub, note(arrival("d1"), "big"))).toEqual({ verdict: "accepted" });
    expect(log).toHaveBeenCalledOnce();
    const large = note(arrival("d2"), "large");
    expect(await accept(stub, large)).toEqual({ verdict: "accepted", result: results.large });
    expect(await accept(stub, large)).toEqual({ verdict: "duplicate" });
    expect(await notesOf(stub)).toEqual(["big", "large"]);
  });

  it("I1: the results of all calls of an arrival have room in its row", async () => {
    const stub = givenInbound({ onNote: () => "x".repeat(16_000) });
    const sent = arrival("d1", { body: "y".repeat(1_490_000) });
    const { body: _, ...known } = sent;
    for (let ordinal = 0; ordinal < 100; ordinal++) {
      const one = ordinal === 0 ? sent : known;
      expect(await accept(stub, note(one, "n", ordinal))).toMatchObject({ verdict: "accepted" });
    }
    const refused = await accept(stub, note(known, "n", 100));
    expect(refused).toMatchObject({ verdict: "refused", error: { name: "InvalidCallError" } });
    const found = await inspect(stub, "d1");
    expect(found?.calls).toHaveLength(100);
    expect(found?.calls.filter((one) => "result" in one)).toHaveLength(16);
    expect(found).toMatchObject({ verdict: "accepted", error: { name: "InvalidCallError" } });
  });

  it("I2: a refused method leaves nothing, and a later arrival is accepted", async () => {
    const stub = givenInbound();
    const refused = call(arrival("d1"), "refuse", ["BacklogFullError", "no room"]);
    expect(await accept(stub, refused)).toEqual({
      verdict: "refused",
      error: { name: "BacklogFullError", message: "no room" },
      retryAfter: 30,
    });
    expect(await notesOf(stub)).toEqual([]);
    expect(await inspect(stub, "d1")).toMatchObject({
      verdict: "refused",
      error: { name: "BacklogFullError", message: "no room" },
      calls: [],
      body: { id: "d1" },
    });
    expect(await accept(stub, note(arrival("d1")))).toMatchObject({ verdict: "accepted" });
  });

  it("I2: the fields of an error are in the answer, as far as they are plain", async () => {
    const fields = {
      submissionId: "s1",
      limit: 7,
      isNew: false,
      inner: {},
      long: "x".repeat(2_000),
    };
    const stub = givenInbound({
      onNote: () => {
        throw Object.assign(new Error("busy"), { name: "BusyError", ...fields });
      },
    });
    expect(await accept(stub, note(arrival("d1")))).toEqual({
      verdict: "refused",
      error: { name: "BusyError", message: "busy", submissionId: "s1", limit: 7, isNew: false },
    });
  });

  it("I2: what is thrown is kept within bounds", async () => {
    const thrown: Record<string, unknown> = {
      long: Object.assign(new Error("m".repeat(3_000_000)), { name: "n".repeat(3_000_000) }),
      none: Object.create(null),
      undefined: undefined,
    };
    const stub = givenInbound({
      onNote: (text) => {
        throw thrown[text];
      },
    });
    for (const name of Object.keys(thrown)) {
      expect(await accept(stub, note(arrival(name), name))).toMatchObject({ verdict: "refused" });
      const { error } = (await inspect(stub, name)) ?? {};
      expect(error?.name.length).toBeLessThanOrEqual(200);
      expect(error?.message.length).toBeLessThan(5_000);
    }
  });

  it("I2: a failure of storage is thrown, and stores nothing", async () => {
    const stub = givenInbound();
    const fails = inside(stub, async ({ inbound, meter }) => {
      await inbound.list();
      meter.onWrite = (_, what) => {
        if (what.includes("perdure_inbound")) throw new Error("the disk is broken");
      };
      const error = await inbound.accept(note(arrival("d1"))).catch((error: unknown) => error);
      meter.onWrite = undefined;
      return String(error);
    });
    expect(await fails).toBe("Error: the disk is broken");
    expect(await notesOf(stub)).toEqual([]);
    expect(await inspect(stub, "d1")).toBeNull();
    expect(await accept(stub, note(arrival("d1")))).toMatchObject({ verdict: "accepted" });
  });

  it("I2: a verb that has not stored its arrival does not count as accepted", async () => {
    const stub = givenInbound();
    await expect(accept(stub, call(arrival("d1"), "unlogged"))).rejects.toThrow(/was not stored/);
  });
});

describe("verdicts", () => {
  const steps: Record<StoredVerdict, (arrival: RawArrival) => AcceptRequest> = {
    accepted: note,
    refused: refuse,
    filtered: (sent) => ({ arrival: sent }),
    held: (sent) => ({ arrival: sent, held: "UnauthenticatedError: no results" }),
  };
  const verdicts = Object.keys(steps) as StoredVerdict[];

  it.each(verdicts.flatMap((first) => verdicts.map((then) => [first, then] as const)))(
    "I2: an arrival that was %s becomes or stays what it may when it is %s later",
    async (first, then) => {
      const stub = givenInbound();
      const sent = arrival("d1");
      await accept(stub, steps[first](sent));
      await accept(stub, steps[then]({ ...sent }));
      const isAllowed = first === then || (NEXT[first] as readonly string[]).includes(then);
      expect((await inspect(stub, "d1"))?.verdict).toBe(isAllowed ? then : first);
    },
  );

  it("I2: the failure of a handler is stored, and does not undo what was accepted", async () => {
    const stub = givenInbound();
    const sent = arrival("d1");
    await accept(stub, note(sent));
    const refusal = "TypeError: no such field\nin the body";
    await accept(stub, { arrival: sent, refusal });
    await accept(stub, { arrival: arrival("d2"), refusal });
    const error = { name: "TypeError", message: "no such field\nin the body" };
    expect(await inspect(stub, "d1")).toMatchObject({ verdict: "accepted", error });
    expect(await inspect(stub, "d2")).toMatchObject({
      verdict: "refused",
      error,
      body: { id: "d2" },
    });
  });

  it("I4: the first body counts, and another one is reported once", async () => {
    const problems: unknown[] = [];
    const stub = givenInbound({ onProblem: (problem) => problems.push(problem) });
    await accept(stub, note(arrival("d1")));
    const other = arrival("d1", { body: { other: true }, hash: hashOf("other") });
    await accept(stub, note(other));
    await crash(stub);
    await accept(stub, note(other));
    // A call that is not recorded is not run with the other body.
    const answer = await accept(stub, note(other, "second", 1));
    expect(answer).toEqual({ verdict: "duplicate" });
    expect(await notesOf(stub)).toHaveLength(1);
    expect(await inspect(stub, "d1")).toMatchObject({ duplicates: 2, body: { id: "d1" } });
    expect(problems).toMatchObject([
      { type: "inbound:conflict", ids: { source: "github", id: "d1", type: "push" } },
    ]);
  });

  it("I2: the same id of another source is another arrival", async () => {
    const stub = givenInbound();
    expect(await accept(stub, note(arrival("d1")))).toMatchObject({ verdict: "accepted" });
    const other = note(arrival("d1", { source: "stripe" }));
    expect(await accept(stub, other)).toMatchObject({ verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["one", "one"]);
  });
});

describe("waits", () => {
  const match = { waitId: "w1", workflow: { name: "W", id: "i1" } };
  const wait = { kind: "wait", ...match };
  /** Something waits until it has been matched. */
  const waiting = (): { stub: InboundStub; offered: string[] } => {
    const offered: string[] = [];
    const stub = givenInbound({
      matchWaits: ({ id }, object) => {
        offered.push(id);
        if (object.notes().includes("closed")) return [];
        object.write("closed");
        return [match];
      },
    });
    return { stub, offered };
  };

  it("I5: an arrival that nothing calls is accepted if a workflow waits for it", async () => {
    const { stub, offered } = waiting();
    expect(await accept(stub, { arrival: arrival("d1") })).toEqual({ verdict: "accepted" });
    expect(await accept(stub, { arrival: arrival("d1") })).toEqual({ verdict: "duplicate" });
    expect(await accept(stub, { arrival: arrival("d2") })).toEqual({ verdict: "filtered" });
    expect(offered).toEqual(["d1", "d2"]);
    expect(await inspect(stub, "d1")).toMatchObject({ verdict: "accepted", calls: [wait] });
  });

  it("I5: the first request of an arrival closes the wait, in the transaction of its call", async () => {
    const { stub, offered } = waiting();
    const sent = arrival("d1");
    await accept(stub, note(sent));
    await accept(stub, note(sent, "two", 1));
    await accept(stub, note(sent));
    expect(offered).toEqual(["d1"]);
    const { calls } = (await inspect(stub, "d1")) ?? {};
    expect(calls).toMatchObject([wait, { ordinal: 0 }, { ordinal: 1 }]);
  });

  it("I5: a refused call closes the wait all the same, and runs when the arrival comes again", async () => {
    const { stub } = waiting();
    const sent = arrival("d1");
    expect(await accept(stub, refuse(sent))).toMatchObject({ verdict: "refused" });
    expect(await inspect(stub, "d1")).toMatchObject({ verdict: "accepted", calls: [wait] });
    expect(await accept(stub, note(sent))).toMatchObject({ verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["closed", "one"]);
  });

  it("I5: a wait that is opened later accepts an arrival of the log", async () => {
    const stub = givenInbound();
    await accept(stub, { arrival: arrival("d1") });
    await accept(stub, refuse(arrival("d2")));
    await accept(stub, { arrival: arrival("d3", { source: "stripe" }) });
    const found = await inside(stub, ({ inbound }, ctx) => {
      const recent = inbound.recent({ since: 0, limit: 3 });
      const all = [...recent.arrivals];
      ctx.storage.transactionSync(() => inbound.recordWait("github", "d2", match));
      inbound.recordWait("github", "unknown", match);
      const newest = inbound.recent({ since: 0, source: "github", limit: 1 });
      const later = inbound.recent({ since: Date.now() + 1_000, limit: 10 });
      const lists = [all, [...newest.arrivals], [...later.arrivals]];
      return {
        lists: lists.map((list) => list.map(({ id, body }) => ({ id, body }))),
        hasMore: [recent.hasMore, newest.hasMore, later.hasMore],
      };
    });
    const each = ["d1", "d2", "d3"].map((id) => ({ id, body: { id } }));
    expect(found).toEqual({ lists: [each, [each[1]], []], hasMore: [false, true, false] });
    expect(await inspect(stub, "d2")).toMatchObject({ verdict: "accepted", calls: [wait] });
  });

  it("I5: at most a hundred waits of an arrival are recorded", async () => {
    const stub = givenInbound({ matchWaits: () => Array.from({ length: 150 }, () => match) });
    await accept(stub, { arrival: arrival("d1") });
    expect((await inspect(stub, "d1"))?.calls).toHaveLength(100);
  });
});

describe("what cannot be accepted", () => {
  const names = [
    ...["missing", "field", "getter", "constructor", "toString", "hasOwnProperty", "__proto__"],
    ...["callKernel", "fetch", "alarm", "webSocketMessage", "then", "", "x".repeat(99)],
  ];

  it.each(names)("I3: %j is no method that an arrival can call", async (verb) => {
    const stub = givenInbound();
    const answer = await accept(stub, call(arrival("d1"), verb));
    expect(answer).toMatchObject({ verdict: "refused", error: { name: "InvalidCallError" } });
    const { message } = (answer as { error: { message: string } }).error;
    expect(message).toMatch(/^Invalid method .*: expected the name of a method of its class/);
    expect(message.length).toBeLessThan(500);
    expect(await inspect(stub, "d1")).toMatchObject({ verdict: "refused", calls: [] });
  });

  it("I3: no method is called by what is no name", async () => {
    const stub = givenInbound();
    for (const verb of [Symbol.iterator, 7, null, undefined, {}, "x".repeat(1_000_000)]) {
      const answer = await accept(stub, call(arrival("d1"), verb as never));
      expect(answer).toMatchObject({ verdict: "refused", error: { name: "InvalidCallError" } });
    }
  });

  it("I3: a method that the class inherits can be called", async () => {
    const answer = await accept(givenInbound(), call(arrival("d1"), "inherited"));
    expect(answer).toEqual({ verdict: "accepted", result: "inherited" });
  });

  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const valid = arrival("d1");
  const invalid: [string, unknown][] = [
    ["request", undefined],
    ["request", null],
    ["request", "text"],
    ["other", { arrival: valid, other: 1 }],
    ["arrival", {}],
    ["arrival.other", { arrival: { ...valid, other: 1 } }],
    ["arrival.source", { arrival: { ...valid, source: "" } }],
    ["arrival.source", { arrival: { ...valid, source: "x".repeat(101) } }],
    ["arrival.source", { arrival: { ...valid, source: "\ud800" } }],
    ["arrival.id", { arrival: { ...valid, id: "" } }],
    ["arrival.id", { arrival: { ...valid, id: "a b" } }],
    ["arrival.id", { arrival: { ...valid, id: "x".repeat(101) } }],
    ["arrival.id", { arrival: { ...valid, id: 7 } }],
    ["arrival.type", { arrival: { ...valid, type: "x".repeat(201) } }],
    ["arrival.type", { arrival: { ...valid, type: undefined } }],
    ["arrival.bytes", { arrival: { ...valid, bytes: -1 } }],
    ["arrival.bytes", { arrival: { ...valid, bytes: Number.NaN } }],
    ["arrival.hash", { arrival: { ...valid, hash: "abc" } }],
    ["arrival.receivedAt", { arrival: { ...valid, receivedAt: Number.POSITIVE_INFINITY } }],
    ["arrival.body", { arrival: { ...valid, body: cyclic } }],
    ["arrival.body", { arrival: { ...valid, body: 10n } }],
    ["arrival.body", { arrival: { ...valid, body: () => 1 } }],
    ["call.ordinal", { arrival: valid, call: { ordinal: -1, verb: "note", args: [] } }],
    ["call.ordinal", { arrival: valid, call: { ordinal: 0.5, verb: "note", args: [] } }],
    ["call.args", { arrival: valid, call: { ordinal: 0, verb: "note", args: "text" } }],
    ["call.args", { arrival: valid, call: { ordinal: 0, verb: "note", args: Array(101) } }],
    ["call.other", { arrival: valid, call: { ordinal: 0, verb: "note", args: [], other: 1 } }],
    ["refusal", { arrival: valid, refusal: 7 }],
    ["request", { arrival: valid, refusal: "x", call: { ordinal: 0, verb: "note", args: [] } }],
    ["request", { arrival: valid, refusal: "x", ended: true }],
    ["ended", { arrival: valid, ended: false }],
  ];

  it.each(invalid)("I3: an invalid %s is refused at the call (%#)", async (field, request) => {
    const stub = givenInbound();
    const error = await inside(stub, ({ inbound }) =>
      inbound.accept(request as never).then(
        () => undefined,
        (error: Error & { field: string }) => ({ ...error, message: error.message }),
      ),
    );
    expect(error).toMatchObject({ name: "InvalidArrivalError", field });
    expect(await inside(stub, ({ inbound }) => inbound.list())).toEqual({ items: [] });
    expect(await notesOf(stub)).toEqual([]);
  });

  it("I3: an arrival above maxInFlight is refused, and nothing of it is stored", async () => {
    const release = Promise.withResolvers<void>();
    const stub = givenInbound({ maxInFlight: 2, onSlow: () => release.promise });
    const answers = await inside(stub, async ({ inbound }) => {
      const all = ["d1", "d2", "d3"].map((id) => inbound.accept(call(arrival(id), "slow", [id])));
      const third = await all[2];
      release.resolve();
      await Promise.all(all);
      return [third, await inbound.accept(note(arrival("d4")))];
    });
    expect(answers).toMatchObject([
      { verdict: "refused", error: { name: "InboundBusyError" }, retryAfter: 30 },
      { verdict: "accepted" },
    ]);
    expect(await inspect(stub, "d3")).toBeNull();
  });

  it("I3: a method that sends its own arrival again is refused and does not wait for itself", async () => {
    const sent = arrival("d1");
    const stub = givenInbound({
      onSlow: async (_, { inbound }) => {
        const answer = await inbound.accept(note(sent));
        expect(answer).toMatchObject({ verdict: "refused", error: { name: "InboundBusyError" } });
      },
    });
    const answer = await accept(stub, call(sent, "slow", ["outer"]));
    expect(answer).toMatchObject({ verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["outer"]);
  });
});
