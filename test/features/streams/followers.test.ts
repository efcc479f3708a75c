/** The bounds of what follows an object. The contract tests following itself, on every host. */

import { describe, expect, it } from "vitest";
import { type FollowEvent, readFollowed } from "../../../src/features/streams/events.ts";
import { Followers, followers } from "../../../src/features/streams/followers.ts";
import type { SubmissionInspection } from "../../../src/submissions/types.ts";

const running = (submissionId = "s", more: object = {}) =>
  ({
    submissionId,
    status: "running",
    attempts: 1,
    thread: "main",
    ...more,
  }) as SubmissionInspection;

/** The places of submissions, in the order in which they were accepted. */
function historyOf(all: ReadonlyMap<string, SubmissionInspection>) {
  const places = () =>
    [...all.values()].map(({ submissionId, completedAt = null }, at) => ({
      seq: at + 1,
      submissionId,
      createdAt: 0,
      settledAt: completedAt,
    }));
  const open = () => places().filter(({ settledAt }) => settledAt === null);
  return {
    open: () => open().map(({ seq }) => seq),
    newest: (upTo = all.size) => places()[upTo - 1],
    read: (chosen: Set<number>, low: number) => ({
      ended: [],
      open: open().filter(({ seq }) => seq >= low || chosen.has(seq)),
    }),
  };
}

/** An object with these submissions. */
function given(most = 1_000, submissions = [running()], aliveMs?: number) {
  const all = new Map(submissions.map((one) => [one.submissionId, one]));
  const followers = new Followers(
    {
      submissions: {
        inspect: async (id) => (all.get(id) ?? null) as never,
        ready: async () => {},
      },
      clock: { now: () => 0 },
      historyOf: () => historyOf(all) as never,
      threads: { message: async () => undefined },
      approvals: { inspect: async () => null },
    },
    most,
    aliveMs,
  );
  const change = (one: SubmissionInspection) => {
    all.set(one.submissionId, one);
    followers.status(one);
  };
  return { followers, change, remove: (id: string) => all.delete(id) };
}

async function next(events: AsyncGenerator<FollowEvent, void>): Promise<FollowEvent | undefined> {
  const { value } = await events.next();
  return value ?? undefined;
}

const reading = async (stream: Promise<ReadableStream<Uint8Array> | null>) => {
  const found = await stream;
  if (!found) throw new Error("There is nothing to follow");
  return readFollowed(found);
};

describe("bounds", () => {
  it("has at most `max` followers, and one that leaves makes room", async () => {
    const { followers } = given(2);
    const one = await followers.submission("s", {});
    await followers.thread("main", {});
    await expect(followers.submission("s", {})).rejects.toMatchObject({
      name: "TooManyFollowersError",
      max: 2,
    });
    await one?.cancel();
    expect(await followers.submission("s", {})).not.toBeNull();
  });

  it("refuses an invalid option", () => {
    expect(() => followers({ max: 0 })).toThrow(/max 0/);
    expect(() => followers({ most: 1 } as never)).toThrow('Unknown option "most"');
  });

  it.each(["", "s", "s:x.1", "s:12345678.x", 7, {}, "s:12345678.-1", `${"s".repeat(1_001)}:1.1`])(
    "refuses to go on after %j",
    async (from) => {
      await expect(given().followers.submission("s", { from } as object)).rejects.toMatchObject({
        name: "InvalidFollowError",
      });
    },
  );

  it.each([null, 5, "s:12345678.1.r1", true, [], { frm: "x" }, { from: null }])(
    "refuses the options %j",
    async (options) => {
      const { followers } = given();
      const calls = [() => followers.submission("s", options as object)];
      calls.push(() => followers.thread("main", options as object));
      for (const call of calls)
        await expect(call()).rejects.toMatchObject({ name: "InvalidFollowError" });
    },
  );

  it("each event has an id of its own, and nothing comes again after it", async () => {
    const ended = running("s", { status: "completed", thread: "isolated", output: "Hello" });
    const { followers } = given(undefined, [ended]);
    const reply = followers.reply(ended, 1);
    reply.chunk({ type: "text-start", id: "1" });
    reply.end();
    const eventsAfter = async (options: object) => {
      const found: FollowEvent[] = [];
      for await (const event of await reading(followers.submission("s", options)))
        found.push(event);
      return found;
    };
    const all = await eventsAfter({});
    expect(all.map(({ type }) => type)).toEqual(["reply", "status", "message", "end"]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(4);
    for (const [at, { id }] of all.entries())
      expect(await eventsAfter({ from: id })).toEqual(all.slice(Math.min(at + 1, 3)));
  });

  it("leaves out what is longer than 1 MiB, and says so", async () => {
    const { followers, change } = given();
    const events = await reading(followers.submission("s", {}));
    expect(await next(events)).toMatchObject({ type: "status" });
    const reply = followers.reply(running(), 1);
    reply.chunk({ type: "text-start", id: "1" });
    for (let i = 0; i < 3; i++)
      reply.chunk({ type: "text-delta", id: "1", delta: "x".repeat(500_000) });
    reply.end();
    const part = await next(events);
    expect(part).toMatchObject({ type: "reply", from: 0, isCut: true });
    expect(JSON.stringify(part).length).toBeLessThan(1_100_000);
    change(running("s", { status: "completed", output: "x" }));
    expect(await next(events)).toMatchObject({ type: "status" });
    expect(await next(events)).toEqual({ id: "end", type: "end" });
  });

  it("ends a stream that does not read what has changed", async () => {
    const { followers, change } = given(undefined, []);
    const events = await reading(followers.thread("main", {}));
    expect(await next(events)).toMatchObject({ type: "reset" });
    const first = next(events);
    change(running("first"));
    expect(await first).toMatchObject({ type: "status" });
    for (let i = 0; i <= 1_000; i++) change(running(`s${i}`));
    const read = async () => {
      while (await next(events));
    };
    await expect(read()).rejects.toThrow("More than 1000 submissions have changed");
    expect(await followers.thread("main", {})).toBeDefined();
  });

  it("ends for a submission that is deleted, although nobody says so", async () => {
    const { followers, remove } = given(undefined, [running()], 10);
    const events = await reading(followers.submission("s", {}));
    expect(await next(events)).toMatchObject({ type: "status" });
    remove("s");
    expect(await next(events)).toEqual({ id: "end", type: "end" });
  });

  it("gives a sign of life, so that the object hears of a reader that has left", async () => {
    const { followers } = given(undefined, [running()], 10);
    const reader = (await followers.thread("main", {})).getReader();
    const text = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await text()).toContain('"reset"');
    expect(await text()).toContain('"status"');
    expect(await text()).toBe("\n");
    await reader.cancel();
  });

  it("remembers the replies of the latest ended submissions only", async () => {
    const { followers, change } = given(undefined, []);
    for (let i = 0; i < 12; i++) {
      const one = running(`s${i}`);
      change(one);
      const reply = followers.reply(one, 1);
      reply.chunk({ type: "text-start", id: "1" });
      reply.end();
      change({ ...one, status: "completed" } as SubmissionInspection);
    }
    const kinds = async (id: string) => {
      const found: string[] = [];
      for await (const { type } of await reading(followers.submission(id, {}))) found.push(type);
      return found;
    };
    expect(await kinds("s11")).toEqual(["reply", "status", "end"]);
    expect(await kinds("s0")).toEqual(["status", "end"]);
  });
});
