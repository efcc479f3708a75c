/** The operator API, in front of an agent of Think and of stubs that answer as a test says. */

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { queryOf } from "../../../src/operator/api/query.ts";
import { searchOf } from "../../../src/operator/client.ts";
import {
  type Identity,
  OperatorClient,
  OperatorError,
  type OperatorOptions,
  operator,
} from "../../../src/operator/index.ts";
import { listOf } from "../../../src/operator/lists.ts";
import { ask } from "../../../src/testing/index.ts";
import { FeatureNotInstalledError } from "../../../src/workflow/agent/features.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import { until } from "../../support/given.ts";
import { ended, givenAgent, submit } from "../../support/think.ts";
import { fakeStub } from "../fake-stub.ts";

afterEach(() => vi.restoreAllMocks());

const ORIGIN = "http://localhost";
const OPS: Identity = { id: "ops", can: "act" };
type Options = Partial<OperatorOptions<Cloudflare.Env>>;

/** The token is the identity, as JSON. */
const authorize: OperatorOptions<Cloudflare.Env>["authorize"] = (request) => {
  const token = /^Bearer (.*)$/.exec(request.headers.get("authorization") ?? "")?.[1];
  return token === undefined ? null : JSON.parse(token);
};

function serve(names: readonly string[], options: Options = {}) {
  return operator<Cloudflare.Env>({
    agents: { Think: { namespace: (each) => each.ThinkAgent, names } },
    authorize,
    ...options,
  });
}

/** Stubs of any behaviour. */
function serveStubs(stubs: Readonly<Record<string, object>>, options: Options = {}) {
  const getByName = vi.fn((name: string) => fakeStub(stubs[name] as object));
  const agents = { Fake: { namespace: () => ({ getByName }), names: Object.keys(stubs) } };
  return { handler: serve([], { agents, ...options }), getByName };
}

type Handler = ReturnType<typeof serve>;

async function send(
  handler: Handler,
  path: string,
  init: RequestInit = {},
  who: object | null = OPS,
) {
  const headers = new Headers(init.headers);
  if (who) headers.set("authorization", `Bearer ${JSON.stringify(who)}`);
  const response = await handler(new Request(`${ORIGIN}${path}`, { ...init, headers }), env);
  if (!response) return { status: 0, body: null as never, headers: new Headers() };
  const text = await response.text();
  return { status: response.status, body: JSON.parse(text), headers: response.headers };
}

function clientOf(handler: Handler, who: object = OPS): OperatorClient {
  return new OperatorClient({
    url: `${ORIGIN}/perdure`,
    token: JSON.stringify(who),
    fetch: async (url, init) => {
      const response = await handler(new Request(url as string, init), env);
      return response ?? new Response("{}", { status: 404 });
    },
  });
}

const post = (body: unknown, headers: HeadersInit = {}): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: typeof body === "string" ? body : JSON.stringify(body),
});
const CANCEL = { action: { do: "cancel", submissionId: "s-1" }, reason: "a test" };

describe("who is let in", () => {
  it.each([
    "/perdure/api/report",
    "/perdure/api/agents",
    "/perdure/api/nope",
    "/perdure/api/session",
  ])("without an identity, %s is answered with 401 and no agent is called", async (path) => {
    const { handler, getByName } = serveStubs({ main: {} });
    for (const method of ["GET", "POST", "DELETE"]) {
      const { status, body, headers } = await send(handler, path, { method }, null);
      expect([status, body.error.name]).toEqual([401, "Unauthorized"]);
      expect(headers.get("www-authenticate")).toBe("Bearer");
    }
    expect(getByName).not.toHaveBeenCalled();
  });

  it.each<[string, unknown]>([
    ["true", true],
    ["a text", "ops"],
    ["no id", { can: "act" }],
    ["an empty id", { id: "", can: "act" }],
    ["an id of 201 characters", { id: "x".repeat(201), can: "read" }],
    ["half a character", { id: "\ud800", can: "read" }],
    ["another right", { id: "ops", can: "admin" }],
    ["a list", [OPS]],
  ])("an authorize() that returns %s lets nobody in, and is logged once", async (_, identity) => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const { handler, getByName } = serveStubs(
      { main: {} },
      { authorize: () => identity as Identity },
    );
    expect(await send(handler, "/perdure/api/agents")).toMatchObject({ status: 500 });
    expect(log).toHaveBeenCalledOnce();
    expect(getByName).not.toHaveBeenCalled();
  });

  it("an authorize() that throws lets nobody in, and its message stays in the log", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const refuse = () => Promise.reject(new Error("the secret is 1234"));
    const { status, body } = await send(serve([], { authorize: refuse }), "/perdure/api/agents");
    expect(status).toBe(500);
    expect(JSON.stringify(body)).not.toContain("1234");
    expect(log.mock.calls.join()).toContain("1234");
  });

  it("a Response of authorize() is sent as it is", async () => {
    const handler = serve([], { authorize: () => Response.json({ go: "login" }, { status: 307 }) });
    expect(await send(handler, "/perdure/api/agents")).toMatchObject({
      status: 307,
      body: { go: "login" },
    });
  });

  it("paths outside of its own are left to the app", async () => {
    const handler = serve([], { path: "/ops" });
    for (const path of ["/", "/perdure/api/agents", "/ops", "/opsx/api/agents", "/ops/apix"]) {
      expect((await send(handler, path)).status).toBe(0);
    }
    expect((await send(handler, "/ops/api/agents")).status).toBe(200);
  });

  it("a name that the app does not list creates no object", async () => {
    const { handler, getByName } = serveStubs({
      main: { "operations.healthReport": async () => ({}) },
    });
    for (const path of [
      "Fake/other",
      "Nope/main",
      "__proto__/main",
      "Fake/",
      "Fake/main%2F",
      "constructor/main",
    ]) {
      expect(await send(handler, `/perdure/api/agents/${path}/report`)).toMatchObject({
        status: 404,
      });
    }
    expect(getByName).not.toHaveBeenCalled();
    expect(await send(handler, "/perdure/api/agents/Fake/main/report")).toMatchObject({
      status: 200,
    });
  });
});

describe("who may act", () => {
  const url = "/perdure/api/agents/Fake/main/actions";
  const acting = () => {
    const operate = vi.fn(async (request: object) => ({
      outcome: "done",
      count: 1,
      failed: [],
      request,
    }));
    return { operate, handler: serveStubs({ main: { "operations.operate": operate } }).handler };
  };

  it("a caller with a bearer token acts under the id of authorize()", async () => {
    const { handler, operate } = acting();
    expect(await send(handler, url, post(CANCEL))).toMatchObject({
      status: 200,
      body: { outcome: "done" },
    });
    expect(operate).toHaveBeenCalledExactlyOnceWith({ ...CANCEL, by: "ops" });
    expect(await send(handler, url, post({ ...CANCEL, by: "the boss" }))).toMatchObject({
      status: 400,
    });
    expect(operate).toHaveBeenCalledOnce();
  });

  it("a caller who may only read acts in no way", async () => {
    const { handler, operate } = acting();
    const { status, body } = await send(handler, url, post(CANCEL), { id: "eve", can: "read" });
    expect([status, body.error]).toEqual([
      403,
      {
        name: "ReadOnly",
        message: 'eve may read, and not act. authorize() has to return can: "act".',
      },
    ]);
    for (const method of ["PUT", "PATCH", "DELETE"]) {
      expect(await send(handler, url, { method })).toMatchObject({ status: 405 });
    }
    expect(operate).not.toHaveBeenCalled();
  });

  it("a page acts with its session's token from its own origin, and no other page does", async () => {
    const operate = vi.fn(async () => ({ outcome: "done" }));
    const { handler } = serveStubs(
      { main: { "operations.operate": operate } },
      { authorize: () => OPS },
    );
    const session = await send(handler, "/perdure/api/session", {}, null);
    const { token } = session.body as { token: string };
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    const cookie = session.headers.get("set-cookie") ?? "";
    expect(cookie).toBe(`perdure=${token}; Path=/; HttpOnly; SameSite=Strict`);
    const own = { cookie: `a=b; perdure=${token}`, origin: ORIGIN, "x-perdure-token": token };
    const refused: [string, Record<string, string>][] = [
      ["NoToken", { origin: ORIGIN }],
      ["NoToken", { ...own, "x-perdure-token": "0".repeat(64) }],
      ["NoToken", { origin: ORIGIN, "x-perdure-token": token }],
      ["NoToken", { cookie: own.cookie, origin: ORIGIN }],
      ["NoToken", { cookie: own.cookie, "x-perdure-token": token }],
      ["NoToken", { origin: ORIGIN, authorization: "Basic b3BzOm9wcw==" }],
      ["NoToken", { cookie: "perdure=", origin: ORIGIN, "x-perdure-token": "" }],
      ["ForeignOrigin", { ...own, origin: "https://evil.example" }],
      ["ForeignOrigin", { ...own, origin: "null" }],
      ["ForeignOrigin", { ...own, origin: "https://evil.example", authorization: "Bearer x" }],
    ];
    for (const [name, headers] of refused) {
      const { status, body } = await send(handler, url, post(CANCEL, headers), null);
      expect([status, body.error.name]).toEqual([403, name]);
    }
    expect(operate).not.toHaveBeenCalled();
    expect(await send(handler, url, post(CANCEL, own), null)).toMatchObject({ status: 200 });
    const again = await send(
      handler,
      "/perdure/api/session",
      { headers: { cookie: own.cookie } },
      null,
    );
    expect(again.body.token).toBe(token);
  });

  it("over https the cookie has the prefix __Host- and the attribute Secure", async () => {
    const handler = serve([], { authorize: () => OPS });
    const response = await handler(new Request("https://shop.test/perdure/api/session"), env);
    expect(response?.headers.get("set-cookie")).toMatch(
      /^__Host-perdure=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
    );
  });

  it.each<[number, string, RequestInit]>([
    [415, "another type", post(CANCEL, { "content-type": "text/plain" })],
    [413, "more than 64 KiB", post({ ...CANCEL, reason: "x".repeat(65_536) })],
    [400, "no JSON", post("{")],
    [400, "no object", post("[1]")],
    [400, "half of a character", { ...post(""), body: new Uint8Array([0x22, 0xff, 0x22]) }],
  ])("an action is answered with %d for a body of %s", async (status, _, init) => {
    const { handler, operate } = acting();
    expect(await send(handler, url, init)).toMatchObject({ status });
    expect(operate).not.toHaveBeenCalled();
  });
});

describe("what agents answer", () => {
  const failing = (error: unknown) =>
    serveStubs({ main: { "operations.healthReport": () => Promise.reject(error) } }).handler;
  const named = (name: string, fields: object = {}) =>
    Object.assign(new Error("the agent's words"), { name, ...fields });

  it.each<[number, unknown]>([
    [400, named("InvalidApprovalError")],
    [400, named("UnknownCursorError")],
    // As RPC passes it without the compatibility flag enhanced_error_serialization.
    [400, new Error("InvalidFilterError: the agent's words")],
    [409, named("BusyError")],
    [503, named("Error", { retryable: true })],
    [503, named("Error", { overloaded: true })],
    [500, named("TypeError", { remote: true })],
    [500, "a thrown text"],
    [500, undefined],
  ])("%d for %o", async (status, error) => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const answered = await send(failing(error), "/perdure/api/agents/Fake/main/report");
    expect(answered.status).toBe(status);
    expect(answered.body.error.message).toContain(
      status === 500 ? "The Worker's log" : "the agent's words",
    );
    expect(log).toHaveBeenCalledTimes(status === 500 ? 1 : 0);
    expect(answered.headers.get("cache-control")).toBe("no-store");
    expect(answered.headers.get("access-control-allow-origin")).toBeNull();
  });

  it("an agent that hangs ends with 503 after the time limit", async () => {
    vi.useFakeTimers();
    const { handler } = serveStubs({
      main: { "operations.healthReport": () => new Promise(() => {}) },
    });
    const answered = send(handler, "/perdure/api/agents/Fake/main/report");
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await answered).toMatchObject({ status: 503, body: { error: { name: "Unreachable" } } });
    vi.useRealTimers();
  });

  it("the report has what agents find, and a finding for each that does not answer", async () => {
    const finding = { code: "dead-letters", severity: "warning", evidence: { count: 1, ids: [] } };
    const { handler } = serveStubs({
      good: { "operations.healthReport": async () => ({ findings: [] }) },
      bad: { "operations.healthReport": async () => ({ findings: [finding] }) },
      gone: { "operations.healthReport": () => Promise.reject(new Error("it cannot start")) },
    });
    const report = await clientOf(handler).report();
    expect(report.verdict).toBe("findings");
    expect(report.findings).toMatchObject([
      { code: "agent-unreachable", name: "gone", evidence: { lastError: "it cannot start" } },
      { code: "dead-letters", name: "bad" },
    ]);
    expect(report.agents.map(({ name }) => name)).toEqual(["good", "bad", "gone"]);
  });

  it("the report says what to add to a class that does not install operations()", async () => {
    const error = new FeatureNotInstalledError("operations", "healthReport()", "Fake");
    const { handler } = serveStubs({
      main: { "operations.healthReport": () => Promise.reject(error) },
    });
    expect((await clientOf(handler).report()).findings).toMatchObject([
      {
        code: "agent-unreachable",
        title: "The agent's class does not install operations().",
        fix: {
          text: expect.stringMatching(
            /^Add to the class Fake: static override readonly features = \[operations/,
          ),
        },
      },
    ]);
  });

  it("a report can be streamed: that of each agent as it answers, and then the whole", async () => {
    const finding = { code: "dead-letters", severity: "warning", evidence: { count: 1, ids: [] } };
    const slow = Promise.withResolvers<object>();
    const { handler } = serveStubs({
      slow: { "operations.healthReport": () => slow.promise },
      good: { "operations.healthReport": async () => ({ findings: [finding] }) },
      gone: { "operations.healthReport": () => Promise.reject(new Error("it cannot start")) },
    });
    const client = clientOf(handler);
    const seen: (string | undefined)[] = [];
    const whole = client.report({}, ({ agents, findings }) => {
      seen.push(agents[0]?.name, ...findings.map(({ code }) => code));
    });
    await until(() => seen.length === 4);
    expect(seen.toSorted()).toEqual(["agent-unreachable", "dead-letters", "gone", "good"]);
    slow.resolve({ findings: [] });
    expect((await whole).agents.map(({ name }) => name)).toEqual(["slow", "good", "gone"]);
    expect(seen.at(-1)).toBe("slow");
    // Whoever asks for JSON gets the same at once.
    expect(await client.report()).toMatchObject({ findings: (await whole).findings });
    await expect(client.report({ cursor: "x" }, () => {})).rejects.toMatchObject({ status: 400 });
  });

  it("2,000 agents are listed and reported in pages, each once, 8 at a time", async () => {
    let running = 0;
    let most = 0;
    const healthReport = async () => {
      most = Math.max(most, ++running);
      await scheduler.wait(0);
      running--;
      return { findings: [] };
    };
    const all = Array.from({ length: 2_000 }, (_, n) => `a${String(n).padStart(4, "0")}`);
    const names = (_: unknown, { cursor = "", limit }: { cursor?: string; limit: number }) => {
      const items = all.filter((name) => name > cursor).slice(0, limit);
      const last = items.at(-1);
      return { items, ...(items.length === limit && last !== undefined && { cursor: last }) };
    };
    const namespace = () => ({
      getByName: () => fakeStub({ "operations.healthReport": healthReport }),
    });
    const handler = serve([], {
      agents: { Listed: { namespace, names: all.slice(0, 120) }, Paged: { namespace, names } },
    });
    const client = clientOf(handler);
    const seen: string[] = [];
    for (let cursor: string | undefined, pages = 0; pages === 0 || cursor !== undefined; pages++) {
      const page = await client.agents({ cursor, limit: 77 });
      seen.push(...page.items.map(({ agent, name }) => `${agent}/${name}`));
      cursor = page.cursor;
    }
    expect(seen).toHaveLength(2_120);
    expect(new Set(seen).size).toBe(2_120);
    const first = await client.report();
    expect(first.agents).toHaveLength(50);
    expect(most).toBe(8);
    const next = await client.report({ cursor: first.cursor });
    expect(next.agents[0]?.name).toBe("a0050");
    expect(await client.agentReport({ agent: "Paged", name: "a1999" })).toEqual({ findings: [] });
    await expect(client.agentReport({ agent: "Paged", name: "b" })).rejects.toThrow(
      /was not found/,
    );
  });
});

describe("an agent of Think", () => {
  it("submissions are listed in pages, filtered, and opened", async () => {
    const agent = givenAgent();
    const name = agent.name ?? "";
    const client = clientOf(serve([name]));
    const ref = { agent: "Think", name };
    const messages = (n: number) => [
      {
        id: `m-${n}`,
        role: "user" as const,
        parts: [{ type: "text" as const, text: ask({ text: `answer ${n}` }) }],
      },
    ];
    const many = Array.from({ length: 230 }, (_, n) => ({
      messages: messages(n),
      options: {
        submissionId: `s-${n}`,
        notBefore: Date.now() + 3_600_000,
        metadata: { even: n % 2 === 0 },
      },
    }));
    await agent.submitMany(many);
    const seen: string[] = [];
    for (let cursor: string | undefined, pages = 0; pages === 0 || cursor !== undefined; pages++) {
      const page = await client.list(ref, "submissions", { limit: 100, cursor });
      seen.push(...page.items.map(({ submissionId }) => submissionId));
      cursor = page.cursor;
    }
    expect(seen).toEqual(many.map(({ options }) => options.submissionId).reverse());
    const even = await client.list(ref, "submissions", {
      metadata: { even: true },
      status: ["pending"],
      limit: 3,
    });
    expect(even.items.map(({ submissionId }) => submissionId)).toEqual(["s-228", "s-226", "s-224"]);
    expect(await client.inspect(ref, "submissions", "s-7")).toMatchObject({ status: "pending" });
    expect(await client.inspect(ref, "submissions", "nope")).toBeNull();
    await expect(client.list(ref, "submissions", { cursor: "nope" })).rejects.toMatchObject({
      status: 400,
      code: "UnknownCursorError",
    });
  });

  it("every list of a new agent is an empty page", async () => {
    const name = givenAgent().name ?? "";
    const client = clientOf(serve([name]));
    for (const list of [
      "submissions",
      "approvals",
      "inbound",
      "deliveries",
      "dead-letters",
      "endpoints",
    ] as const) {
      expect(await client.list({ agent: "Think", name }, list)).toEqual({ items: [] });
    }
  });

  it("a thread's messages come last first, in pages", async () => {
    const agent = givenAgent();
    const name = agent.name ?? "";
    for (const text of ["one", "two"]) {
      await ended(agent, (await submit(agent, { text }, { thread: "t" })).submissionId);
    }
    const client = clientOf(serve([name]));
    const page = await client.parts({ agent: "Think", name }, "threads/messages", "t", {
      limit: 3,
    });
    expect(page.items.map(({ role }) => role)).toEqual(["assistant", "user", "assistant"]);
    const rest = await client.parts({ agent: "Think", name }, "threads/messages", "t", {
      cursor: page.cursor,
    });
    expect(rest.items.map(({ role }) => role)).toEqual(["user"]);
    expect(rest.cursor).toBeUndefined();
  });

  it("a parameter that is unknown, invalid or there twice is answered with 400 and the remedy", async () => {
    const name = givenAgent().name ?? "";
    const handler = serve([name]);
    const problem = async (search: string) => {
      const { status, body } = await send(
        handler,
        `/perdure/api/agents/Think/${name}/submissions?${search}`,
      );
      return `${status} ${body.error?.message}`;
    };
    expect(await problem("statsu=error")).toBe(
      '400 Unknown parameter "statsu". Valid parameters: status, thread, metadata.<key>, createdAfter, createdBefore, limit, cursor.',
    );
    expect(await problem("status=done")).toContain(
      '400 Invalid parameter status "done": expected some of pending',
    );
    expect(await problem("limit=0")).toContain(
      '400 Invalid parameter limit "0": expected a whole number from 1 to 100.',
    );
    expect(await problem("limit=1&limit=2")).toContain("is there twice");
    expect(await problem("createdAfter=yesterday")).toMatch(/^400 .*yesterday/);
    expect(await problem(`thread=${"x".repeat(5_000)}`)).toContain(
      "expected at most 4096 characters",
    );
  });
});

it("hostile paths are answered with JSON and a status below 500", async () => {
  const { handler } = serveStubs({ main: {} });
  const segment = fc.oneof(
    fc.constantFrom(
      "agents",
      "Fake",
      "main",
      "submissions",
      "..",
      "%2e%2e",
      "%ff",
      "",
      "__proto__",
      "actions",
      "session",
    ),
    fc.string({ unit: ANY_CHARACTER }).map((text) => text.replace(/[?#]/g, "")),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(segment, { maxLength: 8 }),
      fc.constantFrom("GET", "POST"),
      async (path, method) => {
        let request: Request;
        try {
          request = new Request(`${ORIGIN}/perdure/api/x/../${path.join("/")}`, {
            method,
            headers: { authorization: `Bearer ${JSON.stringify({ id: "eve", can: "read" })}` },
          });
        } catch {
          return; // not a URL
        }
        const response = await handler(request, env);
        if (!response) return;
        await response.json();
        expect(response.status).toBeLessThan(500);
      },
    ),
  );
});

it("the filters that a client sends are the ones that the API reads", () => {
  const text = fc.string({ minLength: 1, maxLength: 50 });
  const filter = fc.record(
    {
      status: fc.uniqueArray(fc.constantFrom("pending", "running", "error"), { minLength: 2 }),
      thread: text,
      createdAfter: fc.integer({ min: 0, max: 4_000_000_000_000 }),
      metadata: fc.dictionary(
        text.filter((key) => key !== "__proto__"),
        fc.oneof(text, fc.integer(), fc.boolean()),
        { minKeys: 1 },
      ),
      limit: fc.integer({ min: 1, max: 100 }),
      cursor: text,
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(filter, (given) => {
      const read = queryOf(new URLSearchParams(searchOf(given)), listOf("submissions")?.filters);
      expect(read).toEqual({ limit: 50, ...given });
    }),
  );
});

it("options are checked when the handler is made", () => {
  const agents = { A: { namespace: () => ({ getByName: () => ({}) }), names: ["x"] } };
  const bad: [object, RegExp][] = [
    [{ agents }, /Invalid authorize undefined: expected a function/],
    [{ authorize, agents: {} }, /Invalid agents {}: expected an object with at least one agent/],
    [{ authorize, agents, path: "perdure/" }, /Invalid path "perdure\/": expected a path such as/],
    [{ authorize, agents, paths: "/x" }, /Unknown option "paths" in the options of operator\(\)/],
    [{ authorize, agents: { A: { names: [] } } }, /Invalid agents.A.namespace undefined/],
    [{ authorize, agents: { A: { ...agents.A, names: [""] } } }, /Invalid agents.A.names/],
    [{ authorize, agents: { "a/b": agents.A } }, /Invalid agents "a\/b"/],
  ];
  for (const [options, message] of bad) {
    expect(() => operator(options as OperatorOptions)).toThrow(message);
  }
});

it("a client says that there was no answer, and which address it asked", async () => {
  const down = new OperatorClient({
    url: "http://127.0.0.1:1/perdure",
    fetch: () => Promise.reject(new Error("refused")),
  });
  await expect(down.report()).rejects.toEqual(
    new OperatorError(0, "No answer from http://127.0.0.1:1/perdure: refused"),
  );
  const html = new OperatorClient({
    url: ORIGIN,
    fetch: async () => new Response("<h1>Login</h1>"),
  });
  await expect(html.report()).rejects.toMatchObject({ status: 0 });
});
