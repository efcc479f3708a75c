/** The endpoint of signed links, with an agent of the test: pages, statuses, headers, hostile text. */

import fc from "fast-check";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Json } from "../../../../src/core/json.ts";
import { type Link, signLink } from "../../../../src/core/links.ts";
import type { LinkAnswer, LinkCall } from "../../../../src/features/inbound/protocol.ts";
import { links, webhooks } from "../../../../src/features/inbound/webhooks/index.ts";
import { FeatureNotInstalledError } from "../../../../src/workflow/agent/features.ts";
import type { Approval } from "../../../../src/workflow/waits/kinds/approval-types.ts";
import { ANY_CHARACTER } from "../../../support/characters.ts";
import { linesOf } from "./fakes.ts";

const NOW = Date.UTC(2027, 0, 15, 12, 30);
const clock = { now: () => NOW };
const DAY = 86_400_000;

const pending: Approval = {
  approvalId: "a1",
  status: "pending",
  title: "Refund order 7",
  data: { order: 7, lines: ["x"] },
  schema: null,
  workflow: { name: "REFUND", id: "wf", stepName: "ask" },
  createdAt: NOW - 1_000,
  expiresAt: NOW + 2 * DAY,
};

/** The calls of the agent, and what it answers. */
const calls: { path: unknown; call: LinkCall }[] = [];
let answer: (call: LinkCall) => LinkAnswer | Promise<LinkAnswer>;
const agent = {
  callKernel: async (name: string, path: unknown, call: LinkCall) => {
    expect(name).toBe("followLink");
    calls.push({ path, call });
    return answer(call);
  },
};
const env = { Desk: { getByName: () => agent }, LINKS: "secret", OLD: "old secret" };
const ctx = { waitUntil: () => {} };
const hooks = webhooks(links({ secret: "LINKS", clock }));

beforeEach(() => {
  calls.length = 0;
  answer = (call) =>
    call.do === "inspect"
      ? { approval: pending }
      : {
          decided: {
            outcome: "decided",
            approval: {
              ...pending,
              status: call.do === "grant" ? "approved" : "rejected",
              by: "ann",
              decidedAt: NOW,
            },
          },
        };
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const base = { binding: "Desk", name: "ann", expires: NOW + DAY };
const approval = { ...base, what: "approval", id: "a1", decision: "grant", by: "ann" } as const;
const hook = { ...base, what: "webhook", id: "u-1" } as const;

async function send(
  link: Link | string,
  init: RequestInit & { accept?: string } = {},
  { on = hooks, secret = "secret", at = env as object } = {},
): Promise<{ status: number; text: string; headers: Headers; json: () => Record<string, Json> }> {
  const token = typeof link === "string" ? link : await signLink(link, secret);
  const { accept = "text/html", headers, ...rest } = init;
  const all = new Headers(headers as HeadersInit);
  if (!all.has("accept")) all.set("accept", accept);
  const request = new Request(`https://app.example/hooks/links?token=${token}`, {
    ...rest,
    headers: all,
  } as RequestInit);
  const response = (await on(request, at, ctx)) as Response;
  const text = await response.text();
  return {
    status: response.status,
    text,
    headers: response.headers,
    json: () => JSON.parse(text) as never,
  };
}

describe("an approval's link", () => {
  it("shows a page that asks, and decides nothing, for GET and HEAD", async () => {
    for (const method of ["GET", "HEAD"]) {
      const { status, text, headers } = await send(approval, { method });
      expect(status).toBe(200);
      expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
      if (method === "HEAD") {
        expect(text).toBe("");
        continue;
      }
      expect(text).toContain('<h1 dir="auto">Approve: Refund order 7</h1>');
      expect(text).toContain("&#34;order&#34;: 7");
      expect(text).toContain('<form method="post"><button type="submit">Approve</button></form>');
      expect(text).toContain("2027-01-16 12:30 UTC");
      expect(text).toContain('<html lang="en">');
      expect(text).toContain('name="viewport"');
      expect(text).not.toMatch(/<script|https?:\/\/|onclick|src=/i);
    }
    expect(calls.map(({ call }) => call.do)).toEqual(["inspect", "inspect"]);
  });

  it("is private: nothing stores, embeds, indexes it, or runs a script in it", async () => {
    const { headers, text } = await send(approval);
    const nonce = /<style nonce="([^"]+)">/.exec(text)?.[1];
    expect(headers.get("content-security-policy")).toBe(
      `default-src 'none'; style-src 'nonce-${nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
    );
    expect(Object.fromEntries(headers)).toMatchObject({
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "x-robots-tag": "noindex, nofollow",
    });
    const again = await send(approval);
    expect(/nonce="([^"]+)"/.exec(again.text)?.[1]).not.toBe(nonce);
  });

  it("decides by POST, as the link says", async () => {
    const granted = await send({ ...approval, payload: { amount: 7 } }, { method: "POST" });
    expect(granted.status).toBe(200);
    expect(granted.text).toContain('<h1 dir="auto">Approved</h1>');
    const path = [{ className: "Child", name: "c" }];
    const rejected = await send({ ...approval, decision: "reject", path }, { method: "POST" });
    expect(rejected.text).toContain('<h1 dir="auto">Rejected</h1>');
    expect(calls).toEqual([
      { path: [], call: { do: "grant", approvalId: "a1", by: "ann", payload: { amount: 7 } } },
      { path, call: { do: "reject", approvalId: "a1", by: "ann" } },
    ]);
  });

  it("answers in JSON where that is asked for", async () => {
    const asked = await send(approval, { accept: "application/json" });
    expect(asked.json()).toEqual({
      decision: "grant",
      approvalId: "a1",
      status: "pending",
      title: "Refund order 7",
      data: pending.data,
      expiresAt: pending.expiresAt,
    });
    const decided = await send(approval, { accept: "application/json", method: "POST" });
    expect(decided.json()).toMatchObject({ outcome: "decided", status: "approved", by: "ann" });
    expect(decided.headers.get("cache-control")).toBe("no-store");
    const wrong = await send("x.y", { accept: "application/json" });
    expect(wrong.json()).toEqual({ error: expect.stringContaining("not valid") });
  });

  it("answers a service that posts without Accept with JSON, and a GET without it with a page", async () => {
    const posted = await send(approval, { accept: "*/*", method: "POST" });
    expect(posted.headers.get("content-type")).toBe("application/json");
    const got = await send(approval, { accept: "*/*" });
    expect(got.headers.get("content-type")).toContain("text/html");
  });

  const decided = { status: "approved", by: "bob", decidedAt: NOW } as const;
  it.each<[string, Link, Partial<Approval> | null, string, number, RegExp]>([
    ["approved, opened", approval, decided, "GET", 200, /Already approved by bob/],
    ["approved, approved again", approval, decided, "POST", 200, /Already approved by bob/],
    [
      "rejected, approved",
      approval,
      { ...decided, status: "rejected" },
      "POST",
      409,
      /Already rejected by bob/,
    ],
    [
      "rejected, opened",
      approval,
      { status: "rejected", decidedAt: NOW },
      "GET",
      200,
      /Already rejected</,
    ],
    [
      "approved, rejected",
      { ...approval, decision: "reject" },
      decided,
      "POST",
      409,
      /Already approved by bob/,
    ],
    ["expired", approval, { status: "expired" }, "GET", 410, /time to decide is over/],
    ["expired, approved", approval, { status: "expired" }, "POST", 410, /time to decide is over/],
    ["cancelled", approval, { status: "cancelled" }, "GET", 410, /No decision is needed/],
    ["refused", approval, { status: "refused" }, "POST", 410, /asks again/],
    ["unknown", approval, null, "GET", 404, /does not exist any more/],
    ["unknown, approved", approval, null, "POST", 404, /does not exist any more/],
  ])("of an approval that is %s", async (_, link, change, method, status, text) => {
    const found = change && { ...pending, ...change };
    answer = (call) => {
      if (call.do === "inspect") return { approval: found };
      if (!found) return { decided: { outcome: "not_found", approvalId: "a1" } };
      return { decided: { outcome: "already_decided", approval: found } };
    };
    const response = await send(link, { method });
    expect(response.status).toBe(status);
    expect(response.text).toMatch(text);
    expect(response.text).not.toContain("<button");
  });

  it("shows hostile text as text, bounded, and without characters that reorder it", async () => {
    const hostile = `</title><script>alert(1)</script><img src=x onerror='x'>"&\u202Egpj.exe`;
    answer = () => ({
      approval: {
        ...pending,
        title: hostile.repeat(20),
        data: { [hostile]: "</pre><form action=//evil>".repeat(10_000) },
      },
    });
    const { text } = await send(approval);
    expect(text).not.toMatch(/<script|<img|<form action|\u202e/);
    expect(text.match(/<form/g)).toHaveLength(1);
    expect(text.length).toBeLessThan(400_000);
    expect(text).toMatch(/cut: \d+ more characters are not shown/);
  });

  it("has no markup but its own, whatever the texts are", async () => {
    const markup = (html: string) => html.replace(/nonce="[^"]*"/, "").match(/<[^>]*>/g);
    const text = fc.oneof(
      fc.string({ unit: ANY_CHARACTER }),
      fc
        .array(
          fc.constantFrom(
            "<",
            ">",
            "&",
            '"',
            "'",
            "`",
            "=",
            "/",
            "script",
            "\u2066",
            "\0",
            "\ud800",
          ),
        )
        .map((parts) => parts.join("")),
    );
    answer = () => ({ approval: { ...pending, title: "plain", data: "plain" } });
    const own = markup((await send(approval)).text);
    await fc.assert(
      fc.asyncProperty(text, text, async (title, data) => {
        answer = () => ({ approval: { ...pending, title, data } });
        expect(markup((await send(approval)).text)).toEqual(own);
      }),
      { numRuns: 200 },
    );
  });
});

describe("an invalid link", () => {
  it.each<[string, () => Promise<{ status: number; text: string }>, number, RegExp]>([
    ["without a token", () => send(""), 404, /not complete/],
    ["forged", () => send(approval, {}, { secret: "guess" }), 403, /not valid/],
    ["garbage", () => send("%3Cscript%3E"), 403, /not valid/],
    ["expired", () => send({ ...approval, expires: NOW }), 410, /expired/],
    [
      "for another binding",
      () => send({ ...approval, binding: "Gone" }),
      503,
      /could not be found/,
    ],
    ["by PUT", () => send(approval, { method: "PUT" }), 405, /expected GET, HEAD, POST/],
  ])("%s is answered by a page, and no agent is called", async (_, sent, status, text) => {
    const response = await sent();
    expect(response.status).toBe(status);
    expect(response.text).toMatch(text);
    expect(calls).toEqual([]);
  });

  it("is not refused for ever while a secret is missing", async () => {
    const on = webhooks(links({ secret: ["LINKS", "GONE"], clock }));
    expect(await send(approval, {}, { on })).toMatchObject({ status: 200 });
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const unknown = await send(approval, {}, { on, secret: "gone" });
    expect(unknown.status).toBe(503);
    expect(unknown.headers.get("retry-after")).toBe("30");
    expect(unknown.text).not.toContain("GONE");
    expect(linesOf(warn as never).at(-1)?.reason).toMatch(/^Invalid secret env\.GONE: /);
  });

  it("is opened by each of the secrets while they are rotated", async () => {
    const on = webhooks(links({ secret: ["LINKS", "OLD"], clock }));
    for (const secret of ["secret", "old secret"]) {
      expect(await send(approval, {}, { on, secret })).toMatchObject({ status: 200 });
    }
  });

  it("whose agent fails is answered with 503, and whose payload does not match with 409", async () => {
    answer = () => Promise.reject(new Error("the object was reset"));
    const json = { method: "POST", accept: "application/json" };
    const failed = await send(approval, json);
    expect(failed.status).toBe(503);
    expect(failed.text).not.toContain("reset");
    expect(failed.json()).toEqual({
      error:
        "The agent could not be reached. Try again in a moment. Only the first decision counts.",
    });
    answer = () => Promise.reject(new FeatureNotInstalledError("signedLinks", "A link", "Desk"));
    const notServed = await send(approval, json);
    expect(notServed.status).toBe(503);
    expect(notServed.json()).toEqual({
      error: "This link is not served now. Ask the sender of the link for another way.",
    });
    answer = () => Promise.reject(Object.assign(new Error("x"), { name: "InvalidApprovalError" }));
    expect(await send(approval, { method: "POST" })).toMatchObject({ status: 409 });
  });
});

describe("the URL of a step", () => {
  const post = (body: BodyInit, type?: string, rest: object = {}) =>
    send(hook, {
      method: "POST",
      body,
      headers: { ...(type && { "content-type": type }) },
      accept: "application/json",
      ...rest,
    });

  beforeEach(() => {
    answer = () => ({ received: { outcome: "accepted" } });
  });

  it.each<[string, BodyInit, string, Json]>([
    ["JSON", '{"a":[1]}', "application/json; charset=utf-8", { a: [1] }],
    ["a form", "a=1&b=%C3%A9&a=2", "application/x-www-form-urlencoded", { a: "2", b: "é" }],
    ["text", "hello", "text/plain", "hello"],
    ["nothing", "", "text/plain", ""],
  ])("takes %s", async (_, body, type, expected) => {
    const response = await post(body, type);
    expect(response.status).toBe(200);
    expect(response.json()).toEqual({ verdict: "accepted" });
    expect(calls).toMatchObject([
      { call: { do: "receive", topic: "u-1", body: expected, receivedAt: NOW } },
    ]);
    expect(calls).toMatchObject([{ call: { hash: expect.stringMatching(/^[\da-f]{64}$/) } }]);
  });

  it("answers a duplicate, one that comes too late, and a body that does not match", async () => {
    answer = () => ({ received: { outcome: "duplicate" } });
    expect((await post("{}", "application/json")).json()).toEqual({ verdict: "duplicate" });
    answer = () => ({ received: { outcome: "gone" } });
    expect(await post("{}", "application/json")).toMatchObject({ status: 410 });
    answer = () => ({ received: { outcome: "refused", problems: ["amount: is missing"] } });
    const refused = await post("{}", "application/json");
    expect(refused.status).toBe(400);
    expect(refused.json()).toMatchObject({ problems: ["amount: is missing"] });
  });

  it.each<[string, BodyInit, string, number]>([
    ["broken JSON", "{", "application/json", 400],
    ["text that is not UTF-8", new Uint8Array([0xff]), "text/plain", 400],
    ["JSON that is too deep", "[".repeat(501) + "]".repeat(501), "application/json", 400],
    ["a file", "x", "multipart/form-data; boundary=x", 415],
    ["more than 1 MiB", "x".repeat(1_048_577), "text/plain", 413],
  ])("refuses %s, and stays open", async (_, body, type, status) => {
    expect(await post(body, type)).toMatchObject({ status });
    expect(calls).toEqual([]);
  });

  it("takes 1 MiB", async () => {
    expect(await post("x".repeat(1_048_576), "text/plain")).toMatchObject({ status: 200 });
  });

  it("tells a browser that opens it what it is for", async () => {
    const { status, headers, text } = await send(hook);
    expect(status).toBe(405);
    expect(headers.get("allow")).toBe("POST");
    expect(text).toContain("takes a POST");
    expect(calls).toEqual([]);
  });
});

describe("links()", () => {
  it.each<[object, RegExp]>([
    [{}, /Missing option "secret" in options of links\(\)/],
    [{ secret: "whsec_abcdefghijklmnop" }, /not a secret itself/],
    [{ secret: [] }, /1 to 10 names/],
    [{ secret: "A", path: "x" }, /Invalid path "x"/],
    [{ secret: "A", paths: "/x" }, /Unknown option "paths"/],
    [{ secret: "A", clock: 1 }, /clock/],
  ])("refuses %j", (options, message) => {
    expect(() => links(options as never)).toThrow(message);
  });

  it("leaves other paths to the app", async () => {
    expect(await hooks(new Request("https://app.example/hooks/links/x"), env, ctx)).toBeNull();
  });
});
