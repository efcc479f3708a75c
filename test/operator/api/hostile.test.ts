/** Requests, agents and options that the operator API must bound or refuse. */

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { pageOf } from "../../../src/engine/page.ts";
import { capabilitiesOf } from "../../../src/hosts/think/index.ts";
import { queryOf } from "../../../src/operator/api/query.ts";
import { DEFINITIONS } from "../../../src/operator/catalog.ts";
import { OperatorClient, searchOf } from "../../../src/operator/client.ts";
import { type Identity, type OperatedAgents, operator } from "../../../src/operator/index.ts";
import { listOf } from "../../../src/operator/lists.ts";
import type { Action } from "../../../src/operator/protocol.ts";
import { givenAgent } from "../../support/think.ts";
import { fakeStub } from "../fake-stub.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const ORIGIN = "http://localhost";
const API = `${ORIGIN}/perdure/api`;
const MAIN = { agent: "Fake", name: "main" };
type Names = OperatedAgents<Cloudflare.Env>["names"];
type Handler = ReturnType<typeof serve>;

/** @param stub what each instance answers; undefined: there is no binding */
function serve(stub: object | undefined, can: Identity["can"] = "act", names: Names = ["main"]) {
  const namespace = () => (stub && { getByName: () => fakeStub(stub) }) as { getByName(): object };
  return operator<Cloudflare.Env>({
    agents: { Fake: { namespace, names } },
    authorize: () => ({ id: "ops", can }),
  });
}

function serveThink() {
  const name = givenAgent().name ?? "";
  const handler = operator<Cloudflare.Env>({
    agents: { Think: { namespace: (each) => each.ThinkAgent, names: [name] } },
    authorize: () => ({ id: "ops", can: "act" }),
  });
  return { handler, url: `${API}/agents/Think/${name}`, ref: { agent: "Think", name } };
}

async function send(handler: Handler, url: string, init?: RequestInit) {
  const response = (await handler(new Request(url, init), env)) as Response;
  const body = (await response.json()) as { error: { name: string; message: string } };
  return { status: response.status, body, headers: response.headers };
}

const clientOf = (handler: Handler) =>
  new OperatorClient({
    url: `${ORIGIN}/perdure`,
    token: "t",
    fetch: async (url, init) => (await handler(new Request(url as string, init), env)) as Response,
  });

const post = (body: BodyInit): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", authorization: "Bearer t" },
  body,
});

/** By the kind of a field. */
const VALUES = {
  id: "x",
  key: "",
  url: "https://example.com",
  time: 0,
  json: 1,
  step: { name: "x" },
};

/** Each action on one item, and on all that a filter selects. */
const ACTIONS = DEFINITIONS.flatMap(([name, { fields, filter }]) => [
  {
    do: name,
    ...Object.fromEntries(Object.entries(fields).map(([field, [kind]]) => [field, VALUES[kind]])),
  },
  ...(filter ? [{ do: name, filter: {} }] : []),
]) as readonly Action[];

describe("who acts", () => {
  it.each(ACTIONS)(
    "a visitor who may only read is refused before an agent is called: %o",
    async (action) => {
      const names = vi.fn(() => ({ items: ["main"] }));
      const operate = vi.fn();
      const handler = serve({ "operations.operate": operate }, "read", names);
      for (const dryRun of [false, true]) {
        const act = clientOf(handler).act(MAIN, { action, reason: "a test", dryRun });
        await expect(act).rejects.toMatchObject({ status: 403, code: "ReadOnly" });
      }
      expect(operate).not.toHaveBeenCalled();
      expect(names).not.toHaveBeenCalled();
    },
  );

  it.each(["application/json-patch+json", "application/jsonx", "text/plain; application/json", ""])(
    "a body of type %j is refused with 415",
    async (type) => {
      const operate = vi.fn();
      const init = { ...post("{}"), headers: { "content-type": type, authorization: "Bearer t" } };
      expect(
        await send(
          serve({ "operations.operate": operate }),
          `${API}/agents/Fake/main/actions`,
          init,
        ),
      ).toMatchObject({
        status: 415,
      });
      expect(operate).not.toHaveBeenCalled();
    },
  );

  it("a body that never ends is refused with 408 after 10 seconds", async () => {
    vi.useFakeTimers();
    const operate = vi.fn();
    const url = `${API}/agents/Fake/main/actions`;
    const answered = send(
      serve({ "operations.operate": operate }),
      url,
      post(new ReadableStream({})),
    );
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await answered).status).toBe(408);
    expect(operate).not.toHaveBeenCalled();
  });

  it("an action that hangs is answered with the advice to read the audit log", async () => {
    vi.useFakeTimers();
    const handler = serve({ "operations.operate": () => new Promise(() => {}) });
    const answered = send(handler, `${API}/agents/Fake/main/actions`, post("{}"));
    await vi.advanceTimersByTimeAsync(10_000);
    const { status, body, headers } = await answered;
    expect([status, headers.get("retry-after")]).toEqual([503, null]);
    expect(body.error.message).toContain("read the audit log before you repeat it");
  });

  it.each([
    ["nothing", {}],
    ["no reason", { action: { do: "cancel", submissionId: "s" } }],
    ["an unknown action", { action: { do: "drop" }, reason: "x" }],
    ["an action that is a list", { action: [], reason: "x" }],
    ["__proto__", JSON.parse('{"__proto__":{"action":{"do":"cancel"}},"reason":"x"}')],
    [
      "a deep payload",
      `{"action":{"do":"approve","approvalId":"a","payload":${"[".repeat(30_000)}${"]".repeat(30_000)}},"reason":"x"}`,
    ],
  ])("an agent of Think refuses a body with %s, and records nothing", async (_, body) => {
    const { handler, url, ref } = serveThink();
    const text = typeof body === "string" ? body : JSON.stringify(body);
    expect(await send(handler, `${url}/actions`, post(text))).toMatchObject({ status: 400 });
    expect(await clientOf(handler).list(ref, "actions")).toEqual({ items: [] });
  });
});

describe("paths", () => {
  it.each(["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "POST"])(
    "%s is answered with 405 and the methods that are allowed",
    async (method) => {
      for (const path of ["/session", "/report", "/agents", "/agents/Fake/main/submissions"]) {
        const init = { method, headers: { authorization: "Bearer t" } };
        const response = await serve({})(new Request(API + path, init), env);
        expect([response?.status, response?.headers.get("allow")]).toEqual([405, "GET"]);
      }
    },
  );

  it.each([
    ["%2Fslash", "/slash"],
    ["a%2Fb%2F..", "a/b/.."],
    ["%00", "\0"],
    ["x".repeat(10_000), "x".repeat(10_000)],
    ["%F0%9F%98%80", "😀"],
    ["a+b%20c", "a+b c"],
  ])("the id %.20s is passed on decoded", async (segment, id) => {
    const inspectSubmission = vi.fn(async () => ({ submissionId: id }));
    const handler = serve({ inspectSubmission });
    expect((await send(handler, `${API}/agents/Fake/main/submissions/${segment}`)).status).toBe(
      200,
    );
    expect(inspectSubmission).toHaveBeenCalledExactlyOnceWith(id);
    const { handler: think, url } = serveThink();
    expect((await send(think, `${url}/submissions/${segment}`)).status).toBe(404);
  });

  it.each([
    [404, "agents/Fake/main/submissions/"],
    [404, "agents//Fake/main/submissions"],
    [404, "agents/Fake//main/submissions"],
    [404, "agents/Fake/main/"],
    [404, "agents/Fake/main/submissions/a/b"],
    [404, "agents/Fake/main/threads/a"],
    [404, "agents/Fake/main/inbound/a"],
    [404, "agents/Fake/main/toString"],
    [404, "agents/Fake/main/submissions/../../../../nope"],
    [404, "agents/Fake/main/%2e%2e/submissions"],
    [400, "agents/Fake/main/submissions/%ff"],
    [400, "agents/Fake/main/submissions/%ED%A0%80"],
    [400, "agents/Fake/main/submissions/%"],
    [400, "session?x=1"],
    [400, "agents/Fake/main/report?limit=1"],
    [400, "agents/Fake/main/submissions/a?limit=1"],
    [400, "agents/Fake/main/submissions/a/trace?limit=1"],
    [400, "agents?cursor=x"],
    [400, "agents?cursor=0:x"],
    [400, "agents/Fake/main/submissions?metadata.__proto__=1"],
    [400, "agents/Fake/main/submissions?metadata.=1"],
    [400, "agents/Fake/main/submissions?__proto__=1"],
  ])("%d for %s, and no agent is called", async (status, path) => {
    const stub = new Proxy(
      {},
      {
        get(_, verb) {
          if (verb === "then") return undefined;
          return () => expect.fail(String(verb));
        },
      },
    );
    expect(await send(serve(stub), `${API}/${path}`)).toMatchObject({ status });
  });

  it("a source with a slash is not split again", async () => {
    const inspectArrival = vi.fn(async () => ({}));
    const handler = serve({ "inbound.inspect": inspectArrival });
    await send(handler, `${API}/agents/Fake/main/inbound/a%2Fb/c%2Fd`);
    expect(inspectArrival).toHaveBeenCalledExactlyOnceWith("a/b", "c/d");
    expect(await clientOf(handler).inspect(MAIN, "inbound", "no slash")).toBeNull();
  });

  it("a client refuses ids that no URL has, and sends nothing", async () => {
    const request = vi.fn();
    const client = new OperatorClient({ url: ORIGIN, fetch: request });
    for (const id of [".", "..", "\ud800"]) {
      for (const call of [
        client.inspect(MAIN, "submissions", id),
        client.inspect(MAIN, "inbound", `${id}/x`),
        client.parts(MAIN, "threads/messages", id),
        client.trace(MAIN, id),
        client.act({ agent: "Fake", name: id }, { action: ACTIONS[0] as Action, reason: "x" }),
      ]) {
        await expect(call).rejects.toMatchObject({ name: "OperatorError", status: 400 });
      }
    }
    expect(request).not.toHaveBeenCalled();
  });
});

describe("names and agents", () => {
  it.each<[string, Names]>([
    ["is no page", () => [] as never],
    ["has a text as its items", () => ({ items: "main" }) as never],
    ["has more names than the limit", () => ({ items: Array.from({ length: 101 }, String) })],
    ["has an empty name", () => ({ items: [""] })],
    ["has the name ..", () => ({ items: [".."] })],
    ["has an empty cursor", () => ({ items: ["main"], cursor: "" })],
    ["has a cursor of 5,000 characters", () => ({ items: ["main"], cursor: "x".repeat(5_000) })],
  ])("a page of names that %s is a logged error", async (_, names) => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const { status, body } = await send(serve({}, "read", names), `${API}/agents`);
    expect([status, body.error.name]).toEqual([500, "InternalError"]);
    expect(log).toHaveBeenCalledOnce();
    expect(log.mock.calls.join()).toContain("names() returned");
  });

  it("names() that fails hides no other agent, and is a finding of the report", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const agent = (names: Names) => ({
      namespace: () => ({
        getByName: () => fakeStub({ "operations.healthReport": async () => ({ findings: [] }) }),
      }),
      names,
    });
    const broken = agent(() => Promise.reject(new Error("no directory")));
    const agents = { First: broken, Second: agent(["main"]), Third: broken };
    const client = clientOf(
      operator<Cloudflare.Env>({ agents, authorize: () => ({ id: "ops", can: "act" }) }),
    );
    expect(await client.agents()).toEqual({
      ...{ items: [{ agent: "Second", name: "main" }], unlisted: ["First", "Third"] },
    });
    log.mockClear();
    const report = await client.report();
    expect(report.cursor).toBeUndefined();
    expect(report.agents.map((each) => [each.agent, "report" in each])).toEqual([
      ["Second", true],
      ["First", false],
      ["Third", false],
    ]);
    expect(report.findings.map(({ code, agent: key }) => [code, key])).toEqual([
      ["agent-unreachable", "First"],
      ["agent-unreachable", "Third"],
    ]);
    expect(report.findings[0]?.evidence.lastError).toBe("no directory");
    expect(log).toHaveBeenCalledTimes(2);
  });

  it("authorize() that reads the body, or never answers, is a logged error", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const agents = { Fake: { namespace: () => ({ getByName: () => ({}) }), names: ["main"] } };
    const init = { method: "POST", body: "{}", headers: { authorization: "Bearer x" } };
    const greedy = operator<Cloudflare.Env>({
      agents,
      authorize: async (request) => (await request.text()) === "{}" && { id: "ops", can: "act" },
    });
    const { status } = await send(greedy, `${API}/agents/Fake/main/actions`, init);
    expect(status).toBe(500);
    expect(log.mock.calls.join()).toContain("read the body: use request.clone()");
    vi.useFakeTimers();
    const hanging = operator<Cloudflare.Env>({ agents, authorize: () => new Promise(() => {}) });
    const answer = send(hanging, `${API}/agents`);
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await answer).status).toBe(500);
    expect(log.mock.calls.join()).toContain("authorize() took over 10 seconds");
  });

  it("names() that returns page after page without a name is asked 100 times, and is an error", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const names = vi.fn(() => ({ items: [], cursor: "again" }));
    const handler = serve({}, "read", names);
    expect((await send(handler, `${API}/agents`)).status).toBe(500);
    expect(names).toHaveBeenCalledTimes(100);
    expect(log.mock.calls.join()).toContain("100 pages without a name");
    expect((await send(handler, `${API}/agents/Fake/other/report`)).status).toBe(404);
    expect(names).toHaveBeenCalledTimes(1_100);
  });

  it.each([10, 100])("each of 10,000 names is found in pages of %i", async (size) => {
    const names: Names = (_, { cursor = "0" }) => {
      const from = Number(cursor);
      const items = Array.from({ length: size }, (_each, nth) => `n${from + nth}`);
      return { items, cursor: String(from + size) };
    };
    const handler = serve({ "operations.healthReport": async () => ({}) }, "read", names);
    expect((await send(handler, `${API}/agents/Fake/n9999/report`)).status).toBe(200);
    expect((await send(handler, `${API}/agents/Fake/n10000/report`)).status).toBe(404);
  });

  it("an agent without Perdure is named as such: in each answer, in the report and in code", async () => {
    const namespace = () => env.SdkObject as unknown as Cloudflare.Env["ThinkAgent"];
    const agents = { Plain: { namespace, names: ["main"] } };
    const handler = operator<Cloudflare.Env>({
      agents,
      authorize: () => ({ id: "ops", can: "act" }),
    });
    for (const list of ["submissions", "approvals", "submissions/one"]) {
      const { status, body } = await send(handler, `${API}/agents/Plain/main/${list}`);
      expect([status, body.error.name]).toEqual([503, "Unreachable"]);
      expect(body.error.message).toMatch(/^The agent's class is on no host of Perdure/);
    }
    expect((await clientOf(handler).report()).findings).toMatchObject([
      { code: "agent-unreachable", title: "The agent's class has no Perdure." },
    ]);
    const { outbox } = capabilitiesOf(namespace().getByName("main") as never);
    expect(await outbox.stats().catch(String)).toMatch(/^NotDurableError: /);
  });

  it.each(["Network connection lost.", "Network connection lost"])(
    "an agent that cannot be reached is answered with one full stop after %j",
    async (text) => {
      const lost = () => Promise.reject(Object.assign(new Error(text), { retryable: true }));
      const handler = serve({ "operations.healthReport": lost });
      const { body } = await send(handler, `${API}/agents/Fake/main/report`);
      expect(body.error.message).toBe("The agent could not be reached: Network connection lost.");
    },
  );

  it("a binding that is missing is named, in an answer and in the report", async () => {
    const handler = serve(undefined);
    const { status, body } = await send(handler, `${API}/agents/Fake/main/submissions`);
    expect([status, body.error.name]).toEqual([503, "Unreachable"]);
    expect(body.error.message).toContain('no Durable Object binding for the agent "Fake"');
    const { findings } = await clientOf(handler).report();
    expect(findings[0]?.evidence.lastError).toContain("no Durable Object binding");
  });

  it.each([undefined, null, 1, {}, { findings: "x" }])(
    "an agent whose report is %o is a finding",
    async (report) => {
      const { verdict, findings } = await clientOf(
        serve({ "operations.healthReport": async () => report }),
      ).report();
      expect([verdict, findings[0]?.code]).toEqual(["findings", "agent-unreachable"]);
    },
  );

  it("a report of 50 hanging agents ends within 25 seconds, and its cursor covers the rest", async () => {
    vi.useFakeTimers();
    const names = Array.from({ length: 50 }, (_, n) => `a${n}`);
    const healthReport = vi.fn(() => new Promise(() => {}));
    const client = clientOf(serve({ "operations.healthReport": healthReport }, "read", names));
    const first = client.report();
    await vi.advanceTimersByTimeAsync(20_000);
    const { agents, cursor } = await first;
    expect(agents.map(({ name }) => name)).toEqual(names.slice(0, 16));
    expect(agents.every((each) => "unreachable" in each)).toBe(true);
    const next = client.report({ cursor });
    await vi.advanceTimersByTimeAsync(20_000);
    expect((await next).agents[0]?.name).toBe("a16");
  });
});

describe("lists", () => {
  type Row = { readonly submissionId: string; readonly matches: boolean };

  /** As the ledger reads them: at most `scan` rows for each call. */
  function ledger(rows: readonly Row[], scan: number) {
    return async ({ limit, before }: { limit: number; before?: string }) => {
      const start =
        before === undefined ? 0 : rows.findIndex((row) => row.submissionId === before) + 1;
      const found = rows.slice(start, start + scan).filter(({ matches }) => matches);
      const last = rows[start + scan - 1];
      if (found.length === 0 && last && start + scan < rows.length) {
        throw Object.assign(new Error("None matches"), {
          name: "ListScanLimitError",
          next: last.submissionId,
        });
      }
      return found.slice(0, limit);
    };
  }

  async function walk(
    page: (cursor?: string) => Promise<{ items: readonly object[]; cursor?: string }>,
  ) {
    const items: object[] = [];
    let cursor: string | undefined;
    for (let pages = 0; pages === 0 || cursor !== undefined; pages++) {
      expect(pages).toBeLessThan(2_000);
      const found = await page(cursor);
      items.push(...found.items);
      cursor = found.cursor;
    }
    return items;
  }

  it("a walk over submissions sees each that matches once, wherever the ledger stops reading", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.boolean(), { maxLength: 60 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 10 }),
        async (matching, scan, limit) => {
          const rows = matching.map((matches, n) => ({ submissionId: `s-${n}`, matches }));
          const client = clientOf(serve({ listSubmissions: ledger(rows, scan) }));
          const seen = await walk((cursor) => client.list(MAIN, "submissions", { limit, cursor }));
          expect(seen).toEqual(rows.filter(({ matches }) => matches));
        },
      ),
    );
  });

  it("a walk over runs sees each once, also those of the same time", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: -3, max: 9 }), { maxLength: 40 }),
        fc.integer({ min: 1, max: 7 }),
        async (times, limit) => {
          const runs = times
            .toSorted((a, b) => b - a)
            .map((scheduledFor, n) => ({ n, scheduledFor }));
          const listScheduledRuns = async (_: string, page: { limit: number; cursor?: string }) => {
            const rest = runs.filter(({ n }) => n > Number(page.cursor ?? -1));
            return pageOf(
              rest,
              page.limit,
              (run) => run,
              ({ n }) => String(n),
            );
          };
          const client = clientOf(serve({ "schedules.runs": listScheduledRuns }));
          const seen = await walk((cursor) =>
            client.parts(MAIN, "tasks/runs", "t", { limit, cursor }),
          );
          expect(seen).toEqual(runs);
        },
      ),
    );
  });

  it("a walk over 1,000 tasks sees each once", async () => {
    const ids = Array.from({ length: 1_000 }, (_, n) => String(n));
    const client = clientOf(
      serve({
        "schedules.list": async ({ limit, cursor = "" }: { limit: number; cursor?: string }) => {
          const rest = ids.toSorted().filter((id) => id > cursor);
          return pageOf(
            rest,
            limit,
            (taskId) => ({ taskId }),
            (id) => id,
          );
        },
      }),
    );
    for (const limit of [1, 7, 100]) {
      const tasks = await walk((cursor) => client.list(MAIN, "tasks", { limit, cursor }));
      expect(new Set(tasks.map((each) => (each as { taskId: string }).taskId))).toEqual(
        new Set(ids),
      );
      expect(tasks).toHaveLength(1_000);
    }
  });

  it("the filters of each list are read as a client sends them", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 50 });
    const time = fc.oneof(
      fc.integer(),
      fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }),
    );
    const optional = <T>(model: { [Key in keyof T]: fc.Arbitrary<T[Key]> }) =>
      fc.record(model, { requiredKeys: [] });
    const destination = fc.record({ kind: fc.constant("webhook"), url: text });
    const models = {
      approvals: optional({ status: fc.constantFrom("pending", "expired"), workflowId: text }),
      inbound: optional({
        source: text,
        verdict: fc.constantFrom("accepted", "refused"),
        type: text,
        since: time,
        until: time,
      }),
      deliveries: optional({
        state: fc.constantFrom("dead", "waiting"),
        submissionId: text,
        kind: text,
        destination,
      }),
      "dead-letters": optional({ since: time, destination, isUncertain: fc.boolean() }),
      submissions: optional({
        metadata: fc.dictionary(
          text.filter((key) => key !== "__proto__"),
          fc.oneof(
            text,
            fc.integer(),
            fc.double({ noNaN: true, noDefaultInfinity: true }).filter((n) => !Object.is(n, -0)),
            fc.boolean(),
          ),
          { minKeys: 1 },
        ),
      }),
    } as const;
    for (const [name, model] of Object.entries(models)) {
      fc.assert(
        fc.property(model as fc.Arbitrary<Record<string, unknown>>, (given) => {
          const sent = Object.entries(given).map(([key, value]) => [
            key,
            value instanceof Date ? value.toISOString() : value,
          ]);
          const read = queryOf(new URLSearchParams(searchOf(given)), listOf(name)?.filters);
          expect(read).toEqual({ limit: 50, ...Object.fromEntries(sent) });
        }),
      );
    }
  });

  it("an id of many digits stays a text", () => {
    const read = queryOf(
      new URLSearchParams("metadata.order=12345678901234567890&metadata.n=42"),
      listOf("submissions")?.filters,
    );
    expect(read.metadata).toEqual({ order: "12345678901234567890", n: 42 });
  });
});
