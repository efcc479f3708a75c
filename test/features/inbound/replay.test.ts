/** Arrivals of the log that are offered to their handlers again. */

import { afterEach, describe, expect, it } from "vitest";
import { handlers, offer } from "../../../src/features/inbound/offer.ts";
import type { AcceptRequest, RawArrival } from "../../../src/features/inbound/protocol.ts";
import type { ReplayFilter } from "../../../src/features/inbound/types.ts";
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
import type { InboundObject, InboundScript } from "../../support/objects/inbound-object.ts";

type Agent = Pick<InboundObject, "note" | "slow" | "refuse">;

/** A source of its own, whose handler does what the test says. */
function given(handle: (arrival: RawArrival, agent: Agent) => unknown, script: InboundScript = {}) {
  const source = `source-${crypto.randomUUID()}`;
  handlers.set(source, {
    name: source,
    handle: async (arrival, agent) => handle(arrival, agent as Agent),
  });
  const stub = givenInbound(script);
  return { source, stub, of: (id: string) => arrival(id, { source }) };
}

const replay = (stub: InboundStub, source: string, id: string) =>
  inside(stub, ({ inbound }) => inbound.replay(source, id));
const replayMany = (stub: InboundStub, filter?: ReplayFilter) =>
  inside(stub, ({ inbound }) => inbound.replayMany(filter));
const refused = (arrival: RawArrival) => call(arrival, "refuse", ["Error", "not now"]);
const listed = (stub: InboundStub, source: string) =>
  inside(stub, async ({ inbound }) => {
    const { items: arrivals } = await inbound.list({ source });
    return arrivals.map(({ id, verdict, replayOf }) => [id, verdict, replayOf]);
  });

afterEach(() => handlers.clear());

describe("a held arrival", () => {
  const held = "UnauthenticatedError: it has no results of the server mx";
  const match = { waitId: "w1", workflow: { name: "W", id: "1" } };

  it("I7: runs nothing and closes no wait before a replay, which runs it once", async () => {
    const { source, stub, of } = given((arrival, agent) => agent.note(arrival.id), {
      matchWaits: () => [match],
    });
    const arrival = of("d1");
    for (let attempt = 0; attempt < 2; attempt++)
      expect(await accept(stub, { arrival, held })).toEqual({ verdict: "held" });
    expect(await notesOf(stub)).toEqual([]);
    expect(await inspect(stub, "d1", source)).toMatchObject({
      verdict: "held",
      duplicates: 1,
      calls: [],
      error: { name: "UnauthenticatedError", message: "it has no results of the server mx" },
    });
    const recent = () =>
      inside(stub, ({ inbound }) => [...inbound.recent({ since: 0, source, limit: 9 }).arrivals]);
    expect(await recent()).toEqual([]);
    // Only a replay that names it.
    expect(await replayMany(stub, { source })).toMatchObject({ replayed: 0 });
    expect(await replay(stub, source, "d1")).toEqual({ source, id: "d1", verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["d1"]);
    expect((await inspect(stub, "d1", source))?.calls).toMatchObject([
      { kind: "wait", waitId: "w1" },
      { kind: "method", verb: "note" },
    ]);
    // The sender's own retry.
    expect(await accept(stub, { arrival, held })).toEqual({ verdict: "duplicate" });
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I2: runs when it comes again with results, and is replayed with others of its verdict", async () => {
    const { source, stub, of } = given((arrival, agent) => agent.note(arrival.id));
    for (const id of ["d1", "d2", "d3"]) await accept(stub, { arrival: of(id), held });
    const again = await accept(stub, call(of("d1"), "note", ["with results"]));
    expect(again).toMatchObject({ verdict: "accepted" });
    const page = await replayMany(stub, { source, verdict: "held" });
    expect(page).toMatchObject({ replayed: 2, accepted: 2 });
    expect(await notesOf(stub)).toEqual(["with results", "d2", "d3"]);
  });
});

describe("inbound.replay()", () => {
  it("I7: a refused arrival is offered under its own id, and accepted once", async () => {
    const { source, stub, of } = given((arrival, agent) => agent.note(JSON.stringify(arrival)));
    const arrival = of("d1");
    await accept(stub, refused(arrival));
    expect(await replay(stub, source, "d1")).toEqual({ source, id: "d1", verdict: "accepted" });
    const seen = (await notesOf(stub)).map((text) => JSON.parse(text) as RawArrival);
    expect(seen).toEqual([arrival]);
    // The sender's own retry.
    expect(await accept(stub, call(arrival, "note", ["x"]))).toMatchObject({
      verdict: "duplicate",
    });
    expect(await listed(stub, source)).toEqual([["d1", "accepted", undefined]]);
  });

  it("I7: an arrival with a refused call continues after the calls that are recorded", async () => {
    const { source, stub, of } = given(async (_, agent) => {
      await agent.note("first");
      await agent.note("second");
    });
    const arrival = of("d1");
    await accept(stub, call(arrival, "note", ["first"]));
    await accept(stub, call(arrival, "refuse", ["Error", "no"], 1));
    await crash(stub);
    expect(await inspect(stub, "d1", source)).toMatchObject({ error: { ordinal: 1 } });
    expect(await replay(stub, source, "d1")).toEqual({ source, id: "d1", verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["first", "second"]);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
    expect(await replay(stub, source, "d1")).toMatchObject({ id: "d1-replay-1" });
  });

  it("I7: an arrival whose handler has failed after its calls is finished by a replay", async () => {
    const { source, stub, of } = given((_, agent) => agent.note("first"));
    await accept(stub, call(of("d1"), "note", ["first"]));
    await accept(stub, { arrival: of("d1"), refusal: "TypeError: no such field" });
    expect(await replayMany(stub)).toEqual({ replayed: 1, accepted: 0, failed: [] });
    expect(await notesOf(stub)).toEqual(["first"]);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I7: of two calls at the same time, the refused one is run by a replay", async () => {
    const { source, stub, of } = given(async (_, agent) => {
      await Promise.all([agent.note("first"), agent.note("second")]);
    });
    await accept(stub, call(of("d1"), "refuse", ["Error", "no"], 0));
    await accept(stub, call(of("d1"), "note", ["second"], 1));
    expect(await inspect(stub, "d1", source)).toMatchObject({
      verdict: "accepted",
      error: { ordinal: 0 },
    });
    expect(await replay(stub, source, "d1")).toMatchObject({ id: "d1", verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["second", "first"]);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I7: an arrival whose request was cut between two calls is continued, and its calls are not repeated", async () => {
    const { source, stub, of } = given(async (_, agent) => {
      await agent.note("first");
      await agent.slow("second");
    });
    await accept(stub, call(of("d1"), "note", ["first"]));
    await crash(stub);
    expect(await replay(stub, source, "d1")).toEqual({ source, id: "d1", verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(["first", "second"]);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I7: a request that was cut after its second call is found by a replay of all that have not ended", async () => {
    const { source, stub, of } = given(async (_, agent) => {
      for (const text of ["first", "second", "third"]) await agent.note(text);
    });
    await accept(stub, call(of("d1"), "note", ["first"]));
    expect(await accept(stub, call(of("d1"), "note", ["second"], 1))).toMatchObject({
      verdict: "accepted",
      isUnfinished: true,
    });
    await crash(stub);
    expect(await inspect(stub, "d1", source)).toMatchObject({
      verdict: "accepted",
      error: { message: "The handler has not ended" },
    });
    expect(await replayMany(stub)).toEqual({ replayed: 1, accepted: 1, failed: [] });
    expect(await notesOf(stub)).toEqual(["first", "second", "third"]);
    expect(await replayMany(stub)).toEqual({ replayed: 0, accepted: 0, failed: [] });
  });

  it("I7: the sender's retry ends an arrival whose handler had failed, also where it runs nothing", async () => {
    const { source, stub, of } = given(() => undefined);
    const arrival = of("d1");
    let fails = true;
    const handle = async (_: RawArrival, agent: object) => {
      await (agent as Agent).note("first");
      if (fails) throw new TypeError("no such field");
    };
    const offered = () =>
      offer({ handle }, arrival, { callKernel: (_, request) => accept(stub, request) });
    expect(await offered()).toMatchObject({ verdict: "refused" });
    expect(await inspect(stub, "d1", source)).toMatchObject({ error: { name: "TypeError" } });
    fails = false;
    expect(await offered()).toMatchObject({ verdict: "duplicate" });
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
    expect(await notesOf(stub)).toEqual(["first"]);
  });

  it("I7: where the end of a handler is lost, a replay ends it, and runs nothing", async () => {
    const handle = async (_: RawArrival, agent: object) => {
      await (agent as Agent).note("first");
      await (agent as Agent).note("second");
    };
    const { source, stub, of } = given(handle);
    const offered = await offer({ handle }, of("d1"), {
      callKernel: (_, request) =>
        request.ended ? Promise.reject(new Error("lost")) : accept(stub, request),
    });
    expect(offered).toMatchObject({ verdict: "accepted" });
    expect(await inspect(stub, "d1", source)).toHaveProperty("error");
    expect(await replayMany(stub)).toEqual({ replayed: 1, accepted: 0, failed: [] });
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
    expect(await notesOf(stub)).toEqual(["first", "second"]);
  });

  it("I7: another body does not continue an arrival that has not ended", async () => {
    const handle = async (_: RawArrival, agent: object) => {
      await (agent as Agent).note("first");
      await (agent as Agent).note("second");
    };
    const { source, stub, of } = given(handle);
    const callKernel = (_: string, request: AcceptRequest) => accept(stub, request);
    await accept(stub, call(of("d1"), "note", ["first"]));
    await accept(stub, { arrival: of("d1"), refusal: "Error: failed" });
    const other = { ...of("d1"), body: { other: true }, hash: hashOf("other") };
    expect(await offer({ handle }, other, { callKernel })).toMatchObject({
      verdict: "duplicate",
    });
    expect(await notesOf(stub)).toEqual(["first"]);
    expect(await inspect(stub, "d1", source)).toHaveProperty("error");
    expect(await offer({ handle }, of("d1"), { callKernel })).toMatchObject({
      verdict: "accepted",
    });
    expect(await notesOf(stub)).toEqual(["first", "second"]);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I7: a handler that goes on after a refused call has ended", async () => {
    const handle = async (_: RawArrival, agent: object) => {
      await (agent as Agent).note("first");
      await Promise.resolve((agent as Agent).refuse("Error", "no")).catch(() => {});
    };
    const { source, stub, of } = given(handle);
    const callKernel = (_: string, request: AcceptRequest) => accept(stub, request);
    expect(await offer({ handle }, of("d1"), { callKernel })).toMatchObject({
      verdict: "accepted",
    });
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I7: a replay takes no id that its sender has used", async () => {
    const { source, stub, of } = given((_, agent) => agent.note("run"));
    for (const id of ["d1-replay-1", "d1"]) await accept(stub, call(of(id), "note", ["run"]));
    expect(await replay(stub, source, "d1")).toMatchObject({
      id: "d1-replay-2",
      verdict: "accepted",
    });
    expect(await notesOf(stub)).toHaveLength(3);
  });

  it("I7: a repetition that ends while the first request is between two calls leaves nothing open", async () => {
    const { source, stub, of } = given(() => undefined);
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    const callKernel = (_: string, request: AcceptRequest) => accept(stub, request);
    const texts = ["first", "second", "third"];
    const slow = async (_: RawArrival, agent: object) => {
      for (const text of texts) {
        await (agent as Agent).note(text);
        if (text === "second") await isOver;
      }
    };
    const quick = async (_: RawArrival, agent: object) => {
      for (const text of texts) await (agent as Agent).note(text);
    };
    const first = offer({ handle: slow }, of("d1"), { callKernel });
    await expect.poll(() => notesOf(stub)).toEqual(["first", "second"]);
    expect(await offer({ handle: quick }, of("d1"), { callKernel })).toMatchObject({
      verdict: "accepted",
    });
    end();
    expect(await first).toMatchObject({ verdict: "accepted" });
    expect(await notesOf(stub)).toEqual(texts);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
  });

  it("I7: a replay that a crash has cut between two calls is continued by the next one", async () => {
    let isCut = true;
    const onSlow = async (_: string, object: object) => {
      if (!isCut) return;
      isCut = false;
      const { ctx } = object as { ctx: DurableObjectState };
      await ctx.storage.sync();
      ctx.abort("crash of a test");
    };
    const handle = async (_: RawArrival, agent: Agent) => {
      await agent.note("first");
      await agent.slow("second");
    };
    const { source, stub, of } = given(handle, { onSlow });
    await accept(stub, refused(of("d1")));
    await expect(replay(stub, source, "d1")).rejects.toThrow("crash of a test");
    const key = { source, id: "d1", verdict: "accepted" };
    expect(await inspect(stub, "d1", source)).toMatchObject({ verdict: "accepted", error: {} });
    expect(await replayMany(stub, { source })).toMatchObject({
      replayed: 1,
      accepted: 1,
      failed: [],
    });
    expect(await notesOf(stub)).toEqual(["first", "second"]);
    expect(await inspect(stub, "d1", source)).not.toHaveProperty("error");
    expect(await replay(stub, source, "d1")).toEqual({ ...key, id: "d1-replay-1" });
  });

  it("I7: replays of one arrival at the same time are one", async () => {
    const { source, stub, of } = given(async (_, agent) => {
      await agent.note("first");
      await agent.slow("second");
    });
    await accept(stub, refused(of("d1")));
    const results = await inside(stub, ({ inbound }) =>
      Promise.all(Array.from({ length: 5 }, () => inbound.replay(source, "d1"))),
    );
    expect(results.map((one) => one?.id)).toEqual(Array(5).fill("d1"));
    expect(await notesOf(stub)).toEqual(["first", "second"]);
  });

  it("I7: an accepted arrival is offered as a new one each time, also after a crash", async () => {
    const { source, stub, of } = given(({ id }, agent) => agent.note(id));
    await accept(stub, call(of("d1"), "note", ["d1"]));
    for (const number of [1, 2, 3]) {
      const id = `d1-replay-${number}`;
      expect(await replay(stub, source, "d1")).toEqual({ source, id, verdict: "accepted" });
      await crash(stub);
    }
    expect(await notesOf(stub)).toEqual(["d1", "d1-replay-1", "d1-replay-2", "d1-replay-3"]);
    expect(await listed(stub, source)).toEqual([
      ["d1-replay-3", "accepted", "d1"],
      ["d1-replay-2", "accepted", "d1"],
      ["d1-replay-1", "accepted", "d1"],
      ["d1", "accepted", undefined],
    ]);
    expect(await inspect(stub, "d1", source)).toMatchObject({ duplicates: 0 });
  });

  it("I7: the id of a replay fits where ids of arrivals fit", async () => {
    const { source, stub, of } = given(({ id }, agent) => agent.note(id));
    const long = "x".repeat(100);
    await accept(stub, call(of(long), "note", ["first"]));
    const { id = "" } = (await replay(stub, source, long)) ?? {};
    expect(id).toMatch(/^[A-Za-z0-9_-]{22}-replay-1$/);
    expect(await inspect(stub, id, source)).toMatchObject({ replayOf: long });
  });

  it("I7: a handler that fails leaves its error in the log", async () => {
    const { source, stub, of } = given(() => {
      throw new TypeError("no such field");
    });
    await accept(stub, refused(of("d1")));
    const error = { name: "TypeError", message: "no such field" };
    expect(await replay(stub, source, "d1")).toMatchObject({ verdict: "refused", error });
    expect(await inspect(stub, "d1", source)).toMatchObject({ verdict: "refused", error });
  });

  it("I7: a handler that calls nothing leaves the arrival filtered", async () => {
    const { source, stub, of } = given(() => undefined);
    await accept(stub, refused(of("d1")));
    expect(await replay(stub, source, "d1")).toEqual({ source, id: "d1", verdict: "filtered" });
  });

  it("I7: returns null for an unknown arrival, and says what is missing", async () => {
    const { source, stub, of } = given(() => undefined, { retention: { maxBytes: 5 } });
    const thrown = (id: string, name = source) =>
      inside(stub, ({ inbound }) =>
        inbound.replay(name, id).then(
          (result) => result,
          (error: Error) => `${error.name}: ${error.message}`,
        ),
      );
    expect(await thrown("unknown")).toBeNull();
    expect(await thrown(7 as never)).toContain("InvalidFilterError: Invalid id 7");
    await accept(stub, refused(of("d1")));
    expect(await thrown("d1")).toMatch(/^ReplayError: .*its body is not in the log/);
    await accept(stub, refused(arrival("d2")));
    expect(await thrown("d2", "github")).toMatch(/no source of that name \(it has: source-/);
  });
});

describe("inbound.replayMany()", () => {
  it("I7: replays those that were refused, the oldest first, and nothing twice", async () => {
    const { source, stub, of } = given(({ id }, agent) => agent.note(id));
    for (const id of ["d1", "d2", "d3"]) await accept(stub, refused(of(id)));
    await accept(stub, call(of("d4"), "note", ["d4"]));
    expect(await replayMany(stub)).toEqual({ replayed: 3, accepted: 3, failed: [] });
    expect(await replayMany(stub)).toEqual({ replayed: 0, accepted: 0, failed: [] });
    expect(await notesOf(stub)).toEqual(["d4", "d1", "d2", "d3"]);
    expect(await listed(stub, source)).toHaveLength(4);
  });

  it("I7: replays accepted ones page by page, and not the replays themselves", async () => {
    const { stub, of } = given(({ id }, agent) => agent.note(id));
    for (const id of ["d1", "d2", "d3"]) await accept(stub, call(of(id), "note", [id]));
    const filter = { verdict: "accepted", limit: 2 } as const;
    const first = await replayMany(stub, filter);
    expect(first).toMatchObject({ replayed: 2, accepted: 2 });
    const second = await replayMany(stub, { ...filter, cursor: first.cursor ?? "" });
    expect(second).toEqual({ replayed: 1, accepted: 1, failed: [] });
    const notes = await notesOf(stub);
    expect(notes.slice(3)).toEqual(["d1-replay-1", "d2-replay-1", "d3-replay-1"]);
  });

  it("I7: reports those that fail, and goes on", async () => {
    const { source, stub, of } = given(({ id }, agent) => {
      if (id === "d2") throw new Error("not this one");
      return agent.note(id);
    });
    for (const id of ["d1", "d2", "d3"]) await accept(stub, refused(of(id)));
    await accept(stub, refused(arrival("d4")));
    const page = await replayMany(stub);
    expect(page).toMatchObject({ replayed: 4, accepted: 2 });
    expect(page.failed).toMatchObject([
      { source, id: "d2", error: { name: "Error", message: "not this one" } },
      { source: "github", id: "d4", error: { name: "ReplayError" } },
    ]);
    expect(page.cursor).toBeUndefined();
  });

  it("I7: stops where the agent has no room, and continues there", async () => {
    let room = 1;
    const { stub, of } = given(({ id }, agent) =>
      room-- > 0 ? agent.note(id) : agent.refuse("BacklogFullError", "no room"),
    );
    for (const id of ["d1", "d2", "d3"]) await accept(stub, refused(of(id)));
    const first = await replayMany(stub);
    expect(first).toMatchObject({ replayed: 2, accepted: 1, failed: [{ id: "d2" }] });
    room = 5;
    const second = await replayMany(stub, { cursor: first.cursor ?? "" });
    expect(second).toEqual({ replayed: 2, accepted: 2, failed: [] });
    expect(await notesOf(stub)).toEqual(["d1", "d2", "d3"]);
  });

  it("I7: two replays at the same time accept each arrival once", async () => {
    const { stub, of } = given(({ id }, agent) => agent.slow(id));
    for (const id of ["d1", "d2", "d3"]) await accept(stub, refused(of(id)));
    const pages = await inside(stub, ({ inbound }) =>
      Promise.all([inbound.replayMany(), inbound.replayMany()]),
    );
    expect(pages.reduce((all, { accepted }) => all + accepted, 0)).toBe(3);
    expect(await notesOf(stub)).toEqual(["d1", "d2", "d3"]);
  });

  it.each([
    ["limit", { limit: 0 }],
    ["cursor", { cursor: "7" }],
    ["source", { source: undefined }],
    ["verdict", { verdict: undefined }],
  ])("I7: an invalid %s is refused, and nothing is replayed", async (name, filter) => {
    const { stub, of } = given(({ id }, agent) => agent.note(id));
    await accept(stub, refused(of("d1")));
    const error = await inside(stub, ({ inbound }) =>
      inbound.replayMany(filter as never).catch(String),
    );
    expect(error).toContain("InvalidFilterError");
    expect(error).toContain(name);
    expect(await notesOf(stub)).toEqual([]);
  });
});
