import { env as bindings } from "cloudflare:workers";
import { type Agent, getAgentByName } from "agents";
import { beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import * as z from "zod";
import { handlers, offer } from "../../../../src/features/inbound/offer.ts";
import type { RawArrival } from "../../../../src/features/inbound/protocol.ts";
import {
  type EndpointOptions,
  type GitHubBody,
  github,
  InvalidOptionError,
  standardWebhooks,
  stripe,
  webhooks,
} from "../../../../src/features/inbound/webhooks/index.ts";
import type { DurableThink } from "../../../../src/hosts/think/index.ts";
import { FeatureNotInstalledError } from "../../../../src/workflow/agent/features.ts";
import { HANG_MS } from "../../../support/sizes.ts";
import { FakeAgent, FakeContext, hmacHex, linesOf, post, streamed } from "./fakes.ts";

const LONG = "x".repeat(5_000);
const SECRET = "It's a Secret to Everybody";
const env = { GITHUB_SECRET: SECRET };
const BODY = JSON.stringify({
  action: "opened",
  repository: { full_name: "octo/app", name: "app" },
  sender: { login: "ann" },
  issue: { number: 7, title: "It fails", body: null },
});

let agent: FakeAgent;
let ctx: FakeContext;
let warn: ReturnType<typeof vi.spyOn> & { mock: { calls: unknown[][] } };
let sources = 0;
let name: string;

beforeEach(() => {
  agent = new FakeAgent();
  ctx = new FakeContext();
  // The rate of log lines counts per source.
  name = `source-${++sources}`;
  warn = vi.spyOn(console, "warn").mockImplementation(() => {}) as never;
  warn.mockClear();
});

type Options = Partial<EndpointOptions<GitHubBody, FakeAgent | null>>;

function hooksOf(options: Options = {}) {
  return webhooks(
    github<FakeAgent | null>({
      secret: "GITHUB_SECRET",
      path: "/hooks/github",
      name,
      agent: () => agent,
      handle: (arrival, target) => target.start(arrival.id, arrival.body),
      ...options,
    }),
  );
}

async function signed(body: BodyInit & (string | Uint8Array), headers = {}) {
  return post("/hooks/github", body, {
    "x-hub-signature-256": `sha256=${await hmacHex(SECRET, body)}`,
    "x-github-delivery": "d-1",
    "x-github-event": "issues",
    ...headers,
  });
}

async function send(
  request: Request | Promise<Request>,
  options: Options = {},
  bindings: object = env,
) {
  const response = await hooksOf(options)(await request, bindings, ctx);
  if (!response) throw new Error("no response");
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : "" };
}

describe("an accepted arrival", () => {
  it("is answered with its verdict and id, and its handler has called the agent once", async () => {
    expect(await send(signed(BODY))).toMatchObject({
      status: 200,
      body: { verdict: "accepted", id: "d-1" },
    });
    expect(agent.calls).toEqual([{ verb: "start", args: ["d-1", JSON.parse(BODY)] }]);
    const { arrival } = agent.requests[0] ?? {};
    expect(arrival).toMatchObject({
      source: name,
      id: "d-1",
      type: "issues",
      body: JSON.parse(BODY),
      bytes: BODY.length,
    });
    expect(arrival?.hash).toMatch(/^[\da-f]{64}$/);
    expect(ctx.works).toHaveLength(1);
    expect(warn).not.toHaveBeenCalled();
  });

  it("is answered with 200 also as a duplicate", async () => {
    const hooks = hooksOf();
    await hooks(await signed(BODY), env, ctx);
    const response = await hooks(await signed(BODY), env, ctx);
    expect(response?.status).toBe(200);
    expect(await response?.json()).toEqual({ verdict: "duplicate", id: "d-1" });
    expect(agent.calls).toHaveLength(1);
  });

  it("may be a form with the field payload, as GitHub sends it by default", async () => {
    const form = new URLSearchParams({ payload: BODY }).toString();
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    expect(await send(signed(form, headers))).toMatchObject({ status: 200 });
    expect(agent.calls[0]?.args[1]).toEqual(JSON.parse(BODY));
  });

  it("has a reply where the endpoint has a token", async () => {
    const hooks = (token?: string) =>
      webhooks(
        github({
          secret: "GITHUB_SECRET",
          ...(token && { token }),
          agent: () => agent,
          handle: ({ reply }, target) => target.start(reply ?? null),
        }),
      );
    await hooks("GITHUB_TOKEN")(await signed(BODY), env, ctx);
    await hooks()(await signed(BODY, { "x-github-delivery": "d-2" }), env, ctx);
    expect(agent.calls.map(({ args }) => args)).toEqual([
      [{ kind: "github-comment", token: "GITHUB_TOKEN", repository: "octo/app", issue: 7 }],
      [null],
    ]);
  });

  it.each(["", "-x.y", "x".repeat(101), "ä", "a b", "../x"])(
    "has the SHA-256 of its id in place of the id %j, unless it is missing",
    async (id) => {
      const request = await signed(BODY);
      const headers = new Headers(request.headers);
      headers.set("x-github-delivery", encodeURI(id));
      const { status, body } = await send(new Request(request, { headers }));
      if (id === "") return expect(status).toBe(400);
      expect(body.id).toMatch(/^[\da-f]{64}$/);
    },
  );

  it("is filtered where the agent is null, where the type is not among `events`, and where nothing is called", async () => {
    const filtered = { status: 200, body: { verdict: "filtered", id: "d-1" } };
    expect(await send(signed(BODY), { agent: () => null })).toMatchObject(filtered);
    expect(await send(signed(BODY), { events: ["push"] })).toMatchObject(filtered);
    expect(agent.requests).toHaveLength(0);
    expect(await send(signed(BODY), { handle: () => "nothing" })).toMatchObject(filtered);
    expect(agent.requests).toHaveLength(1);
    expect(agent.requests[0]).not.toHaveProperty("call");
  });

  it("is answered with the Response of its handler", async () => {
    const handle: Options["handle"] = async (_arrival, target) => {
      await target.start();
      return new Response("{}", { status: 202 });
    };
    expect(await send(signed(BODY), { handle })).toMatchObject({ status: 202 });
    expect(agent.calls).toHaveLength(1);
    const used: Options["handle"] = async (arrival, target) => {
      const response = (await handle?.(arrival, target)) as Response;
      await response.text();
      return response;
    };
    // One that was read cannot be sent.
    expect(await send(signed(BODY), { handle: used })).toMatchObject({
      status: 200,
      body: { verdict: "duplicate" },
    });
  });

  it("is found by replays, under the name of the endpoint", async () => {
    hooksOf();
    const arrival: RawArrival = {
      source: name,
      id: "d-1-replay-1",
      type: "issues",
      body: JSON.parse(BODY),
      bytes: 1,
      hash: "",
      receivedAt: 1,
    };
    const handler = handlers.get(name);
    if (!handler) throw new Error("not registered");
    expect(await offer(handler, arrival, agent)).toMatchObject({ verdict: "accepted" });
    expect(agent.calls).toEqual([{ verb: "start", args: ["d-1-replay-1", JSON.parse(BODY)] }]);
  });
});

describe("a handshake", () => {
  it("of GitHub is answered without an agent, and only if it is signed", async () => {
    const ping = { "x-github-event": "ping" };
    expect(await send(signed('{"zen":"x"}', ping))).toMatchObject({ status: 200 });
    const unsigned = signed("{}", { ...ping, "x-hub-signature-256": "sha256=00" });
    expect(await send(unsigned)).toMatchObject({ status: 401 });
    expect(agent.requests).toHaveLength(0);
  });
});

describe("a refused request", () => {
  it("is not of the receiver for another path", async () => {
    for (const path of ["/", "/hooks", "/hooks/github/", "/hooks/githuB", "//hooks/github"])
      expect(await hooksOf()(post(path, BODY), env, ctx)).toBeNull();
  });

  it("has 405 and Allow for another method", async () => {
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]) {
      const request = new Request("https://app.example/hooks/github", { method });
      const response = await hooksOf()(request, env, ctx);
      expect(response?.status).toBe(405);
      expect(response?.headers.get("allow")).toBe("POST");
    }
  });

  it.each([
    "text/plain",
    "application/xml",
    "multipart/form-data; boundary=x",
    "application/jsonx",
    "json",
  ])("has 415 for the content type %s", async (type) => {
    expect(await send(signed(BODY, { "content-type": type }))).toMatchObject({ status: 415 });
  });

  it.each(["application/json; charset=utf-8", "APPLICATION/JSON", "application/cloudevents+json"])(
    "is none for the content type %s",
    async (type) => {
      expect(await send(signed(BODY, { "content-type": type }))).toMatchObject({ status: 200 });
    },
  );

  it.each([
    ["not JSON", "{"],
    ["empty", ""],
    ["a number", "7"],
    ["null", "null"],
    ["a text", '"x"'],
    ["nested 100,000 deep", "[".repeat(100_000) + "]".repeat(100_000)],
    ["nested 600 deep in objects", `${'{"a":'.repeat(600)}1${"}".repeat(600)}`],
  ])("has 400 for a body that is %s", async (_, body) => {
    expect(await send(signed(body))).toMatchObject({ status: 400 });
    expect(agent.requests).toHaveLength(0);
  });

  it("has 400 for a body that is not UTF-8", async () => {
    const body = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    expect(await send(signed(body))).toMatchObject({ status: 400 });
  });

  it("has 401 for a wrong, missing, truncated or malformed signature, and no agent hears of it", async () => {
    const good = await hmacHex(SECRET, BODY);
    const wrong = [
      "",
      "sha256=",
      good,
      `sha256=${good.slice(1)}`,
      `sha256=${good}00`,
      `sha256=${"0".repeat(64)}`,
      `sha256=${"z".repeat(64)}`,
      `sha256=${good}, sha256=${good}`,
      `sha1=${good}`,
      "x".repeat(50_000),
      `sha256=${"00,".repeat(10_000)}`,
    ];
    for (const signature of wrong)
      expect(await send(signed(BODY, { "x-hub-signature-256": signature }))).toMatchObject({
        status: 401,
      });
    const { headers } = await signed(BODY);
    const { "x-hub-signature-256": _, ...rest } = Object.fromEntries(headers);
    expect(await send(post("/hooks/github", BODY, rest))).toMatchObject({ status: 401 });
    expect(agent.requests).toHaveLength(0);
  });

  it("has 503 for a missing secret, and the log names the binding but no value", async () => {
    for (const bindings of [
      {},
      { GITHUB_SECRET: "" },
      { GITHUB_SECRET: 7 },
      { GITHUB_SECRET: null },
    ]) {
      const { status, headers, body } = await send(signed(BODY), {}, bindings);
      expect({ status, retry: headers.get("retry-after") }).toEqual({ status: 503, retry: "30" });
      expect(JSON.stringify(body)).not.toContain("GITHUB_SECRET");
    }
    expect(linesOf(warn)[0]).toMatchObject({ source: name, status: 503 });
    expect(linesOf(warn)[0]?.reason).toContain("env.GITHUB_SECRET");
  });

  it("has 503 when one secret is missing and the others do not match", async () => {
    const secret = ["NEW", "OLD"];
    expect(await send(signed(BODY), { secret }, { OLD: SECRET })).toMatchObject({ status: 200 });
    expect(await send(signed(BODY), { secret }, { OLD: "wrong" })).toMatchObject({ status: 503 });
    expect(linesOf(warn)[0]?.reason).toBe("Secret env.NEW: missing");
    const both = { NEW: "wrong", OLD: "wrong too" };
    expect(await send(signed(BODY), { secret }, both)).toMatchObject({ status: 401 });
  });

  it("reads secrets of the Secrets Store, and has 503 when the store fails", async () => {
    const of = (get: () => Promise<string>) => ({ GITHUB_SECRET: { get } });
    expect(
      await send(
        signed(BODY),
        {},
        of(async () => SECRET),
      ),
    ).toMatchObject({ status: 200 });
    const fails = of(async () => Promise.reject(new Error("unreachable")));
    expect(await send(signed(BODY), {}, fails)).toMatchObject({ status: 503 });
  });

  it("has 429 and the agent's Retry-After when the agent has no room", async () => {
    agent = new FakeAgent(() => ({
      verdict: "refused",
      error: { name: "BacklogFullError", message: "full" },
      retryAfter: 12,
    }));
    const { status, headers } = await send(signed(BODY));
    expect({ status, retry: headers.get("retry-after") }).toEqual({ status: 429, retry: "12" });
  });

  it("has 500 without the error's message when the handler fails", async () => {
    const handle = () => {
      throw new TypeError("private");
    };
    const { status, body } = await send(signed(BODY), { handle });
    expect(status).toBe(500);
    expect(JSON.stringify(body)).not.toContain("private");
    expect(agent.requests[0]).toMatchObject({ refusal: "TypeError: private" });
    expect(linesOf(warn)[0]).toMatchObject({ id: "d-1", reason: "TypeError" });
  });

  const tooLong = () => getAgentByName(bindings.ReceiverAgent as never, LONG);

  it.each([
    ["agent", tooLong],
    ["callKernel()", () => ({ callKernel: tooLong })],
  ])("has 400 when %s finds a name that is too long for the platform", async (_, named) => {
    const { status, body } = await send(signed(BODY), { agent: named as never });
    expect(status).toBe(400);
    expect(body).toMatchObject({ error: "Invalid agent." });
  });

  it("reads JSON behind a byte order mark, which is a part of what is signed", async () => {
    expect(await send(signed(`\ufeff${BODY}`))).toMatchObject({ status: 200 });
  });

  it("has 503 and Retry-After when the agent cannot be reached", async () => {
    agent = new FakeAgent(() => {
      throw new Error("Network connection lost.");
    });
    const { status, headers } = await send(signed(BODY));
    expect({ status, retry: headers.get("retry-after") }).toEqual({ status: 503, retry: "30" });
    const lost = () => Promise.reject(new Error("no such namespace"));
    expect(await send(signed(BODY), { agent: lost as never })).toMatchObject({ status: 503 });
  });

  it("has 503 where the agent is no agent of Perdure, and the log names the method", async () => {
    const stub = () => {
      throw new TypeError('The RPC receiver does not implement the method "callKernel".');
    };
    for (const wrong of [{}, { callKernel: stub }, "a name"])
      expect(await send(signed(BODY), { agent: () => wrong as never })).toMatchObject({
        status: 503,
        body: { error: "The agent could not be reached." },
      });
    const lines = linesOf(warn);
    expect(lines).toHaveLength(3);
    for (const { reason } of lines) expect(reason).toMatch(/^TypeError: .*callKernel/);
  });

  it("has 503, so that the sender tries again, where the agent installs no inbound(), and the log has the line to add", async () => {
    const missing = new FeatureNotInstalledError("inbound", "A receiver", "Support");
    const bare = { callKernel: () => Promise.reject(missing) };
    const { status, headers, body } = await send(signed(BODY), { agent: () => bare as never });
    expect({ status, body, retry: headers.get("retry-after") }).toEqual({
      status: 503,
      body: { error: "The agent could not be reached.", id: "d-1" },
      retry: "30",
    });
    const [line] = linesOf(warn);
    expect(line?.reason).toContain(
      "class Support: static override readonly features = [inbound()]",
    );
    expect(line?.reason).toContain('Import it from "perdure/inbound"');
  });

  it("is logged in at most ten lines a minute, and the next line counts the others", async () => {
    let now = Date.now();
    const options = { clock: { now: () => now } };
    const bad = () => signed(BODY, { "x-hub-signature-256": "sha256=00" });
    for (let index = 0; index < 25; index++) await send(bad(), options);
    expect(linesOf(warn)).toHaveLength(10);
    // Other reasons have lines of their own.
    await send(signed("{"), options);
    expect(linesOf(warn)).toHaveLength(11);
    now += 60_000;
    await send(bad(), options);
    expect(linesOf(warn).at(-1)).toMatchObject({ source: name, status: 401, suppressed: 15 });
    const text = JSON.stringify(linesOf(warn));
    expect(text).not.toContain("octo/app");
    expect(text).not.toContain(SECRET);
  });

  it("is logged in a bounded line", async () => {
    const handle = () => {
      throw new Error("x".repeat(100_000));
    };
    await send(signed(BODY), { handle });
    expect(JSON.stringify(linesOf(warn)[0]).length).toBeLessThan(1_000);
  });
});

describe("the size of a body", () => {
  const MIB = 1_048_576;

  it("is at most maxBytes, to the byte", async () => {
    const body = (bytes: number) => `"${"x".repeat(bytes - 2)}"`;
    // A text is no body, so the last check before it is that of the size.
    expect(await send(signed(body(100)), { maxBytes: 100 })).toMatchObject({ status: 400 });
    expect(await send(signed(body(101)), { maxBytes: 100 })).toMatchObject({ status: 413 });
    expect(await send(signed(body(MIB)))).toMatchObject({ status: 400 });
    expect(await send(signed(body(MIB + 1)))).toMatchObject({ status: 413 });
  });

  it("is refused by its Content-Length before anything is read", async () => {
    const { stream, seen } = streamed(async () => new Uint8Array(1_024));
    const request = post("/hooks/github", stream, { "content-length": "104857600" });
    expect(await send(request)).toMatchObject({ status: 413 });
    expect(seen.chunks).toBe(0);
  });

  it.each([undefined, "5", "-1", "x", "0"])(
    "of 100 MiB with the Content-Length %s is refused when the limit is read, and the rest is not",
    async (length) => {
      const { stream, seen } = streamed(async (index) =>
        index < 1_600 ? new Uint8Array(65_536) : undefined,
      );
      const request = post("/hooks/github", stream, length ? { "content-length": length } : {});
      expect(await send(request)).toMatchObject({ status: 413 });
      expect(seen.chunks).toBe(17);
      await vi.waitFor(() => expect(seen.isCancelled).toBe(true), { timeout: HANG_MS });
    },
  );

  it("is whole when it comes byte by byte", async () => {
    const bytes = new TextEncoder().encode(BODY);
    const { stream } = streamed(async (index) =>
      index < bytes.length ? bytes.slice(index, index + 1) : undefined,
    );
    const { headers } = await signed(BODY);
    const request = new Request("https://app.example/hooks/github", {
      method: "POST",
      body: stream,
      headers,
    });
    expect(await send(request)).toMatchObject({ status: 200 });
    expect(agent.calls[0]?.args[1]).toEqual(JSON.parse(BODY));
  });

  it("is read until the time limit, and then refused with 400", async () => {
    const { stream, seen } = streamed(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return new Uint8Array(1);
    });
    const { status, body } = await send(post("/hooks/github", stream), { timeLimit: 200 });
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: "The body did not arrive in time." },
    });
    await vi.waitFor(() => expect(seen.isCancelled).toBe(true), { timeout: HANG_MS });
    await Promise.all(ctx.works);
  });

  it("is refused with 400 when a body never comes, or breaks off", async () => {
    const never = streamed(() => new Promise(() => {}));
    expect(await send(post("/hooks/github", never.stream), { timeLimit: 50 })).toMatchObject({
      status: 400,
    });
    const broken = streamed(async () => Promise.reject(new Error("connection reset")));
    expect(await send(post("/hooks/github", broken.stream))).toMatchObject({ status: 400 });
  });
});

describe("the time limit", () => {
  it("answers 503 with Retry-After, and the work continues in waitUntil", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const handle: Options["handle"] = async (_arrival, target) => {
      await promise;
      await target.start();
    };
    const { status, headers } = await send(signed(BODY), { timeLimit: 50, handle });
    expect({ status, retry: headers.get("retry-after") }).toEqual({ status: 503, retry: "30" });
    expect(agent.calls).toHaveLength(0);
    resolve();
    await Promise.all(ctx.works);
    expect(agent.calls).toHaveLength(1);
  });
});

describe("a schema", () => {
  const schema = z.object({ issue: z.object({ number: z.number() }), when: z.coerce.date() });
  const hooks = () =>
    webhooks(
      github({
        secret: "GITHUB_SECRET",
        name,
        path: "/hooks/github",
        schema,
        agent: () => agent,
        handle: ({ body }, target) => {
          expectTypeOf(body).toEqualTypeOf<{ issue: { number: number }; when: Date }>();
          return target.start(body.when.getTime());
        },
      }),
    );

  it("makes the body that the handler gets; the log keeps the one that was sent", async () => {
    const body = '{"issue":{"number":7},"when":"2026-01-01T00:00:00Z"}';
    expect((await hooks()(await signed(body), env, ctx))?.status).toBe(200);
    expect(agent.calls[0]?.args).toEqual([Date.UTC(2026, 0, 1)]);
    expect(agent.requests[0]?.arrival.body).toEqual(JSON.parse(body));
  });

  it("refuses other bodies with 400 and their paths, without their values", async () => {
    const body = '{"issue":{"number":"a private value"},"when":"never"}';
    const response = await hooks()(await signed(body), env, ctx);
    expect(response?.status).toBe(400);
    expect(await response?.json()).toMatchObject({
      error: "The body does not match its schema at: issue.number, when",
    });
    expect(JSON.stringify(linesOf(warn))).not.toContain("private");
    expect(agent.requests).toHaveLength(0);
  });

  it("of a filtered type is not asked", async () => {
    const endpoint = github({
      secret: "GITHUB_SECRET",
      name,
      schema,
      events: ["push"],
      path: "/hooks/github",
      agent: () => agent,
    });
    const response = await webhooks(endpoint)(await signed("{}"), env, ctx);
    expect(await response?.json()).toEqual({ verdict: "filtered", id: "d-1" });
  });
});

describe("a hostile body", () => {
  it("with __proto__ changes no prototype, and its fields are not inherited", async () => {
    const body = '{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}';
    expect(await send(signed(body))).toMatchObject({ status: 200 });
    const form = `payload=${encodeURIComponent(body)}&__proto__=x`;
    const type = {
      "content-type": "application/x-www-form-urlencoded",
      "x-github-delivery": "d-2",
    };
    expect(await send(signed(form, type))).toMatchObject({ status: 200 });
    expect(({} as Record<string, unknown>).isAdmin).toBeUndefined();
    for (const { args } of agent.calls) {
      const received = args[1] as Record<string, unknown>;
      expect(Object.getPrototypeOf(received)).toBe(Object.prototype);
      expect(received.isAdmin).toBeUndefined();
    }
  });

  it("of other shapes than the sender's is no failure of the receiver", async () => {
    const bodies = ["{}", "[]", '{"issue":null,"repository":7}', '{"issue":7,"repository":[]}'];
    for (const [index, body] of bodies.entries()) {
      const headers = { "x-github-delivery": `s-${index}` };
      expect(await send(signed(body, headers), { token: "TOKEN" } as never)).toMatchObject({
        status: 200,
      });
    }
  });
});

describe("the calls of a handler", () => {
  const refuses = (verb: string, retryAfter?: number) =>
    new FakeAgent(({ call }) =>
      call?.verb === verb
        ? {
            verdict: "refused",
            error: { name: "BacklogFullError", message: "full" },
            ...(retryAfter && { retryAfter }),
          }
        : undefined,
    );
  const any = (target: unknown) => target as Record<string, () => Promise<unknown>>;

  it("count also where the handler does not await them", async () => {
    const handle: Options["handle"] = (_arrival, target) => {
      void target.start();
    };
    expect(await send(signed(BODY), { handle })).toMatchObject({ body: { verdict: "accepted" } });
    agent = refuses("start", 9);
    expect(await send(signed(BODY), { handle })).toMatchObject({ status: 429 });
  });

  it("may be refused: a handler that catches that may call another method", async () => {
    agent = refuses("first", 9);
    const handle: Options["handle"] = async (_arrival, target) => {
      await any(target)
        .first?.()
        .catch(() => any(target).second?.());
    };
    expect(await send(signed(BODY), { handle })).toMatchObject({ body: { verdict: "accepted" } });
  });

  it("that are all refused refuse the arrival, also if the handler catches that", async () => {
    agent = refuses("first", 9);
    const handle: Options["handle"] = async (_arrival, target) => {
      await any(target)
        .first?.()
        .catch(() => {});
    };
    expect(await send(signed(BODY), { handle })).toMatchObject({ status: 429 });
    const answers: Options["handle"] = async (_arrival, target) => {
      await any(target)
        .first?.()
        .catch(() => {});
      return Response.json({ text: "Busy" });
    };
    expect(await send(signed(BODY), { handle: answers })).toMatchObject({ body: { text: "Busy" } });
  });

  it("that do not reach the agent are repeated by the sender, also if the handler catches that", async () => {
    agent = new FakeAgent(({ call }) => {
      if (call?.verb === "second") throw new Error("Network connection lost.");
      return undefined;
    });
    const handle: Options["handle"] = async (_arrival, target) => {
      await any(target).first?.();
      await any(target)
        .second?.()
        .catch(() => {});
    };
    expect(await send(signed(BODY), { handle })).toMatchObject({ status: 503 });
  });
});

describe("the options", () => {
  const valid = { secret: "GITHUB_SECRET", agent: () => agent };
  const make = (options: unknown) => () => github(options as typeof valid);

  it.each([
    [{ agent: valid.agent }, "secret"],
    [{ secret: "A" }, "agent"],
    [{ ...valid, secret: [] }, "secret"],
    [{ ...valid, secret: ["A", ""] }, "secret"],
    [{ ...valid, secret: 7 }, "secret"],
    [{ ...valid, secret: Array(11).fill("A") }, "secret"],
    [{ ...valid, agent: "Triage" }, "agent"],
    [{ ...valid, handle: {} }, "handle"],
    [{ ...valid, schema: {} }, "schema"],
    [{ ...valid, events: "issues" }, "events"],
    [{ ...valid, path: "hooks" }, "path"],
    [{ ...valid, path: "/a?b" }, "path"],
    [{ ...valid, path: "/a/../b" }, "path"],
    [{ ...valid, path: "//a.example/b" }, "path"],
    [{ ...valid, name: "a b" }, "name"],
    [{ ...valid, name: "" }, "name"],
    [{ ...valid, maxBytes: 0 }, "maxBytes"],
    [{ ...valid, maxBytes: "1 MiB" }, "maxBytes"],
    [{ ...valid, maxBytes: 25 * 1_048_576 + 1 }, "maxBytes"],
    [{ ...valid, timeLimit: "1 minute" }, "timeLimit"],
    [{ ...valid, timeLimit: 0 }, "timeLimit"],
    [{ ...valid, timeLimit: Object.create(null) }, "timeLimit"],
    [{ ...valid, path: Object.create(null) }, "path"],
    [{ ...valid, tolerance: -1 }, "tolerance"],
    [{ ...valid, tolerance: "1 moment" }, "tolerance"],
    [{ ...valid, token: 7 }, "token"],
    [{ ...valid, secrets: "A" }, "secrets"],
    [{ ...valid, clock: 7 }, "clock"],
  ])("%j are refused, and the error names %s", (options, option) => {
    expect(make(options)).toThrow(InvalidOptionError);
    expect(make(options)).toThrow(expect.objectContaining({ option }));
  });

  it("lists the valid ones for an unknown one", () => {
    expect(make({ ...valid, pth: "/x" })).toThrow(
      'Unknown option "pth" in options of github(). Valid options: secret, agent, handle,',
    );
    expect(make(undefined)).toThrow();
    expect(make(null)).toThrow();
  });

  it("refuses a secret in place of its name, and does not repeat it", () => {
    for (const secret of [
      "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
      "It's a Secret",
      "ghp_abc",
      "a".repeat(64),
      "8f742231b10e8888abcd99acfe3285a5",
    ]) {
      const refused = make({ ...valid, secret });
      expect(refused).toThrow(InvalidOptionError);
      try {
        refused();
      } catch (error) {
        expect(String(error)).not.toContain(secret);
      }
    }
  });

  it("refuses two endpoints of the same name or path", () => {
    const one = () => github(valid);
    expect(() => webhooks(one(), one())).toThrow(InvalidOptionError);
    expect(() =>
      webhooks(one(), github({ ...valid, name: "other", path: "/hooks/github" })),
    ).toThrow("/hooks/github");
    expect(() => webhooks(one(), github({ ...valid, path: "/other" }))).toThrow("github");
  });

  it("must be passed one by one: a list, undefined and other values are refused, with the remedy", () => {
    const remedy = "expected what a preset returns, each as an argument.";
    for (const wrong of [[github(valid)], [], undefined, null, {}, "github", () => github(valid)])
      expect(() => webhooks(wrong as never)).toThrow(remedy);
    expect(() => webhooks(undefined as never)).toThrow(`Invalid endpoint undefined: ${remedy}`);
    expect(() => webhooks([github(valid)] as never)).toThrow(InvalidOptionError);
  });
});

describe("the vectors of the senders", () => {
  it("of GitHub's documentation match", async () => {
    expect(await hmacHex(SECRET, "Hello, World!")).toBe(
      "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    );
    const headers = {
      "x-hub-signature-256":
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    };
    // The signature is right, and the body is no JSON.
    expect(await send(post("/hooks/github", "Hello, World!", headers))).toMatchObject({
      status: 400,
    });
    expect(await send(post("/hooks/github", "Hello, World?", headers))).toMatchObject({
      status: 401,
    });
  });

  it("of Standard Webhooks match, within five minutes of their time", async () => {
    const statusAt = async (seconds: number) => {
      const hooks = webhooks(
        standardWebhooks({
          secret: "SECRET",
          agent: () => agent,
          clock: { now: () => seconds * 1_000 },
        }),
      );
      const request = post("/hooks/standard-webhooks", '{"test": 2432232314}', {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
      });
      return (await hooks(request, { SECRET: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }, ctx))
        ?.status;
    };
    for (const offset of [-300, 0, 300]) expect(await statusAt(1_614_265_330 + offset)).toBe(200);
    for (const offset of [-301, 301]) expect(await statusAt(1_614_265_330 + offset)).toBe(401);
  });
});

describe("the types", () => {
  it("take agents of Perdure and their stubs, without annotations, and no others", () => {
    type Namespaces = {
      Triage: DurableObjectNamespace<DurableThink<Cloudflare.Env>>;
      Plain: DurableObjectNamespace<Agent<Cloudflare.Env>>;
    };
    const secret = "GITHUB_SECRET";
    const endpoints = (
      { Triage, Plain }: Namespaces,
      getByName: typeof import("agents").getAgentByName,
    ) => [
      github({
        secret,
        agent: ({ body }) => getByName(Triage, body.repository.full_name),
        handle: ({ id, body }, target) => {
          expectTypeOf(body).toEqualTypeOf<GitHubBody>();
          return target.runWorkflow("TRIAGE", body, { id });
        },
      }),
      github({
        secret,
        agent: ({ body }) => (body.action ? Triage.getByName("one") : null),
        handle: (_arrival, target) => target.getWorkflow("TRIAGE"),
      }),
      // @ts-expect-error: an agent without callKernel()
      github({ secret, agent: ({ body }) => getByName(Plain, body.repository.full_name) }),
      // @ts-expect-error: an agent without callKernel(), or none
      github({ secret, agent: ({ body }) => (body.action ? Plain.getByName("one") : null) }),
      // @ts-expect-error: no agent
      stripe({ secret, agent: () => "payments" }),
    ];
    expect(endpoints).toBeTypeOf("function");
  });

  it("infer the body and the agent, and take any env", () => {
    stripe({
      secret: ["NEW", "OLD"],
      agent: async ({ body, id, type, reply }, bindings) => {
        expectTypeOf(body.data.object).toBeObject();
        expectTypeOf(id).toEqualTypeOf<string>();
        expectTypeOf(type).toEqualTypeOf<string>();
        expectTypeOf(reply).toBeNullable();
        expectTypeOf(bindings).toEqualTypeOf<Cloudflare.Env>();
        return body.livemode ? agent : null;
      },
      handle: (arrival, target) => {
        expectTypeOf(target).toEqualTypeOf<FakeAgent>();
        expectTypeOf(arrival.body.id).toEqualTypeOf<string>();
        return target.start(arrival.body);
      },
    });
    class Desk {
      readonly hooks = webhooks(
        github({
          secret: "GITHUB_SECRET",
          agent: () => this,
          handle: ({ body }, target) => target.open(body.repository.full_name),
        }),
      );
      async callKernel() {
        return { verdict: "accepted" } as const;
      }
      waitForSubmission() {}
      async open(repository: string) {
        return repository;
      }
    }
    const desk = new Desk();
    expectTypeOf(desk.hooks).parameter(1).toEqualTypeOf<object>();
    // @ts-expect-error: the name of a binding
    const wrong = () => github({ secret: 7, agent: () => agent });
    expect(wrong).toThrow();
  });
});
