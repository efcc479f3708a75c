/** `streams()`: who gets in, what is answered, and how the body is written. The agents are not real ones; the contract has those. */

import { describe, expect, it, vi } from "vitest";
import { type Followed, readFollowed, streams } from "../../../src/features/streams/index.ts";

type Options = Parameters<typeof streams<object>>[0];

/** An agent whose streams have these lines. It remembers what was asked. */
function given(more: Partial<Options> = {}, lines = ['{"id":"s:1.1","type":"end"}']) {
  const asked: unknown[] = [];
  const source = {
    cancelled: false,
    stream: () =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          for (const line of lines) controller.enqueue(new TextEncoder().encode(`${line}\n`));
          if (lines.length > 0) controller.close();
        },
        cancel() {
          source.cancelled = true;
        },
      }),
  };
  const followed = async (id: string, options?: object) => {
    asked.push([id, options]);
    if (id === "unknown") return null;
    if (id === "bad") throw Object.assign(new Error("bad from"), { name: "InvalidFollowError" });
    if (id === "full") throw Object.assign(new Error("full"), { name: "TooManyFollowersError" });
    if (id === "down") throw new Error("The object is down");
    return source.stream();
  };
  const stub = { followSubmission: followed, followThread: followed, followApproval: followed };
  const handler = streams<object>({
    agents: {
      Support: (_env, name) => {
        asked.push(name);
        return stub;
      },
    },
    authorize: () => true,
    ...more,
  });
  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    handler(new Request(`https://app.test${path}`, { headers, method }), {});
  return { get, asked, source };
}

describe("the answer", () => {
  it("is server-sent events with their ids, which an EventSource sends back", async () => {
    const { get, asked } = given({}, [
      '{"id":"s:1.1","type":"status"}',
      '{"id":"end","type":"end"}',
    ]);
    const found = await get("/streams/Support/main/submissions/s", { "last-event-id": "s:1.0" });
    expect(found?.status).toBe(200);
    expect(found?.headers.get("content-type")).toBe("text/event-stream");
    expect(await found?.text()).toBe(
      'retry: 1000\n\nid: s:1.1\ndata: {"id":"s:1.1","type":"status"}\n\nid: end\ndata: {"id":"end","type":"end"}\n\n',
    );
    expect(asked).toEqual(["main", ["s", { from: "s:1.0" }]]);
  });

  it("is lines of JSON where they are accepted", async () => {
    const accept = "application/x-ndjson";
    const found = await given().get("/streams/Support/main/threads/side?from=s%3A1.0", { accept });
    expect(found?.headers.get("content-type")).toBe(accept);
    expect(await found?.text()).toBe('\n{"id":"s:1.1","type":"end"}\n');
  });

  it("decodes names and ids", async () => {
    const { get, asked } = given();
    await get("/streams/Support/a%2Fb/approvals/x%20y");
    expect(asked).toEqual(["a/b", ["x y", undefined]]);
  });

  it("has a sign of life, and tells the agent when the client leaves", async () => {
    vi.useFakeTimers();
    const { get, source } = given({}, []);
    const found = await get("/streams/Support/main/submissions/s");
    const reader = found?.body?.getReader();
    const text = async () => new TextDecoder().decode((await reader?.read())?.value);
    expect(await text()).toBe("retry: 1000\n\n");
    const next = text();
    await vi.advanceTimersByTimeAsync(15_000);
    expect(await next).toBe(": alive\n\n");
    vi.useRealTimers();
    await reader?.cancel();
    expect(source.cancelled).toBe(true);
  });

  it("ends where the agent's stream fails, so that the client connects again", async () => {
    const failing = () =>
      new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error("crash")) });
    const stub = { followSubmission: async () => failing() };
    const { get } = given({ agents: { Support: () => stub } });
    expect(await (await get("/streams/Support/main/submissions/s"))?.text()).toBe(
      "retry: 1000\n\n",
    );
  });
});

describe("a refusal", () => {
  it.each([
    ["/streams/Support/main/submissions/unknown", {}, 404, "NotFound"],
    ["/streams/Support/main/submissions/bad", {}, 400, "InvalidFollowError"],
    ["/streams/Support/main/submissions/full", {}, 503, "TooManyFollowersError"],
    ["/streams/Support/main/submissions/down", {}, 503, "Unreachable"],
    ["/streams/Other/main/submissions/s", {}, 404, "NotFound"],
    ["/streams/toString/main/submissions/s", {}, 404, "NotFound"],
    ["/streams/Support/main/constructor/s", {}, 404, "NotFound"],
    ["/streams/Support/main/submissions", {}, 404, "NotFound"],
    ["/streams/Support/main/submissions/s/more", {}, 404, "NotFound"],
    ["/streams/Support//submissions/s", {}, 404, "NotFound"],
    ["/streams/Support/main/submissions/%", {}, 404, "NotFound"],
    [`/streams/Support/main/submissions/${"x".repeat(1_001)}`, {}, 404, "NotFound"],
  ])("%s %j", async (path, headers, status, name) => {
    const found = await given().get(path, headers);
    expect(found?.status).toBe(status);
    expect(await found?.json()).toMatchObject({ error: { name } });
  });

  it("is 204 for an EventSource that has read the end, which does not come again then", async () => {
    const found = await given().get("/streams/Support/main/submissions/s", {
      "last-event-id": "end",
    });
    expect(found?.status).toBe(204);
  });

  it("is for other methods", async () => {
    const found = await given().get("/streams/Support/main/submissions/s", {}, "POST");
    expect([found?.status, found?.headers.get("allow")]).toEqual([405, "GET"]);
  });

  it("is null for other paths", async () => {
    expect(await given().get("/other")).toBeNull();
    expect(await given().get("/streamsof/Support/main/submissions/s")).toBeNull();
  });

  it.each([
    ["false", () => false, 403],
    ["undefined", () => undefined, 403],
    ["a text", () => "yes", 403],
    ["an error", () => Promise.reject(new Error("db down")), 500],
    ["a Response", () => new Response("go away", { status: 401 }), 401],
  ] as [string, () => unknown, number][])(
    "is what authorize says with %s, before there is a stub",
    async (_, authorize, status) => {
      vi.spyOn(console, "error").mockImplementation(() => {});
      const seen: Followed[] = [];
      const { get, asked } = given({
        authorize: (_request, _env, followed) => {
          seen.push(followed);
          return authorize() as boolean;
        },
      });
      expect((await get("/streams/Support/ada/threads/side"))?.status).toBe(status);
      expect(asked).toEqual([]);
      expect(seen).toEqual([{ agent: "Support", name: "ada", kind: "thread", id: "side" }]);
    },
  );
});

const authorize: () => boolean = () => true;

it.each([
  [{}, "authorize"],
  [{ authorize }, "agents"],
  [{ authorize, agents: {} }, "agents"],
  [{ authorize, agents: { "a b": () => ({}) } }, "agents"],
  [{ authorize, agents: { A: 1 } }, "agents.A"],
  [{ authorize, agents: { A: () => ({}) }, path: "streams" }, "path"],
  [{ authorize, agents: { A: () => ({}) }, paths: "/x" }, "paths"],
  [undefined, "options"],
])("refuses the options %o", (options, field) => {
  expect(() => streams(options as never)).toThrow(field);
});

describe("readFollowed()", () => {
  const bodyOf = (text: string) => new Response(text).body as ReadableStream<Uint8Array>;
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const ids: string[] = [];
    for await (const { id } of readFollowed(stream)) ids.push(id);
    return ids;
  };
  const event = '{"id":"s:1.1.r1","type":"reply"}\n';

  it.each(["", event, `${event}{"id":"s`, `${event}{"id":"end","type":"end"}`])(
    "fails for a stream that breaks off: %j",
    async (text) => {
      await expect(read(bodyOf(text))).rejects.toThrow("broke off before its end");
    },
  );

  it("reads to the end", async () => {
    const ended = `${event}\n{"id":"end","type":"end"}\n`;
    expect(await read(bodyOf(ended))).toEqual(["s:1.1.r1", "end"]);
  });

  it("says that there is no stream for an unknown id", async () => {
    await expect(read(null as never)).rejects.toThrow("There is no stream to read: null");
  });
});
