/** What each provider is sent, and what its answers mean. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { failureOf } from "../../../src/core/failures.ts";
import type { Problem } from "../../../src/core/problems.ts";
import { slack } from "../../../src/features/replies/index.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import { type Answer, givenProvider } from "./fake-provider.ts";
import { apisAt, DONE, endOf, INTERACTION, NAMES, type Name, sendTo, TO, TOKEN } from "./kinds.ts";

/** The one request that an event causes. */
async function sentBy(name: Name, event: unknown, to: (typeof TO)[Name] = TO[name]) {
  const { url, asked } = givenProvider(() => DONE[name]);
  const problems: Problem[] = [];
  const { failure, marks } = await sendTo(to, event, {
    apis: apisAt(url),
    reportProblem: (problem) => problems.push(problem),
  });
  expect(failure).toBeUndefined();
  expect(asked).toHaveLength(1);
  const [request] = asked;
  if (!request) throw new Error("Nothing was sent");
  return { ...request, marks, problems };
}

const TEXT_OF: Record<Name, (body: Record<string, string>) => string | undefined> = {
  slack: ({ text }) => text,
  discord: ({ content }) => content,
  interaction: ({ content }) => content,
  telegram: ({ text }) => text,
  github: ({ body }) => body?.replace(/\n\n<!-- perdure:[\w-]{22} -->$/, ""),
};

describe("A message", () => {
  it.each(["slack", "discord", "telegram", "github"] as const)(
    "O2: %s gets the title and the links of a requested approval",
    async (name) => {
      const links = {
        grant: "https://app.example/l?token=g",
        reject: "https://app.example/l?token=r",
      };
      const data = { approvalId: "a", title: "Ship 17?", links };
      const { body } = await sentBy(name, { type: "approval.requested", timestamp: "", data });
      const text = TEXT_OF[name](body as never) ?? "";
      for (const part of ["Ship 17?", links.grant, links.reject])
        expect(text.replaceAll("\\", "")).toContain(part);
    },
  );

  it("O2: Slack gets the channel, the thread and the token of the bot", async () => {
    const { method, path, headers, body, marks } = await sentBy("slack", { text: "done" });
    expect([method, path, marks]).toEqual(["POST", "/chat.postMessage", 1]);
    expect(headers.get("authorization")).toBe(`Bearer ${TOKEN}`);
    expect(body).toEqual({
      channel: "C0123456789",
      thread_ts: "1712345678.123456",
      text: "done",
      link_names: false,
    });
  });

  it.each(NAMES)("L7: %s says that an answer is incomplete", async (name) => {
    const { data, ...event } = endOf("completed", "Your refund of");
    const partial = { ...event, data: { ...data, finishReason: "length", isPartial: true } };
    const { body } = await sentBy(name, partial);
    expect(TEXT_OF[name](body)).toMatch(/^Your refund of\n\n.*incomplete/);
  });

  it("O2: a response_url of Slack gets the text, without a token", async () => {
    const { url, asked } = givenProvider(
      () => ({ status: 200, body: "ok" }),
      "https://hooks.slack.com",
    );
    const to = slack({ responseUrl: `${url}/commands/T1/2/three` });
    const event = { text: "done", response_type: "in_channel" };
    expect(await sendTo(to, event, {})).toMatchObject({ failure: undefined, marks: 1 });
    expect(asked[0]).toMatchObject({
      path: "/commands/T1/2/three",
      body: { text: "done", response_type: "in_channel" },
    });
    expect(asked[0]?.headers.has("authorization")).toBe(false);
  });

  it("O2: Discord gets a nonce of at most 25 characters, and a message without mentions", async () => {
    const { method, path, headers, body, marks } = await sentBy("discord", { text: "@everyone" });
    expect([method, path, marks]).toEqual(["POST", "/channels/1122334455667788990/messages", 1]);
    expect(headers.get("authorization")).toBe(`Bot ${TOKEN}`);
    expect(body).toEqual({
      content: "@everyone",
      allowed_mentions: { parse: [] },
      nonce: expect.stringMatching(/^[\w-]{1,25}$/),
      enforce_nonce: true,
      message_reference: { message_id: "1122334455667788991", fail_if_not_exists: false },
    });
    const { body: again } = await sentBy("discord", { text: "@everyone" });
    expect(again.nonce).toBe(body.nonce);
  });

  it("O2: the answer to an interaction of Discord edits its message, and needs no mark", async () => {
    const { method, path, headers, body, marks } = await sentBy("interaction", "done");
    expect([method, path, marks]).toEqual([
      "PATCH",
      `/webhooks/1122334455667788992/${INTERACTION}/messages/@original`,
      0,
    ]);
    expect(headers.has("authorization")).toBe(false);
    expect(body).toEqual({ content: "done", allowed_mentions: { parse: [] } });
  });

  it("O2: Telegram gets the chat, the topic and the message that is answered", async () => {
    const { path, body, marks } = await sentBy("telegram", { text: "<b>", parse_mode: "HTML" });
    expect([path, marks]).toEqual([`/bot${encodeURIComponent(TOKEN)}/sendMessage`, 1]);
    expect(body).toEqual({
      chat_id: -100123,
      text: "<b>",
      parse_mode: "HTML",
      message_thread_id: 4,
      reply_parameters: { message_id: 5, allow_sending_without_reply: true },
    });
  });

  it("O2: GitHub gets a comment with a hidden marker of the delivery", async () => {
    const { method, path, headers, body, marks } = await sentBy("github", { text: "done" });
    expect([method, path, marks]).toEqual(["POST", "/repos/octo/shop/issues/7/comments", 1]);
    expect(headers.get("authorization")).toBe(`Bearer ${TOKEN}`);
    expect(body.body).toMatch(/^done\n\n<!-- perdure:[\w-]{22} -->$/);
  });

  it("O2: the token may be in a Secrets Store, with white space around it", async () => {
    const to = slack("C0123456789", { token: "STORED" });
    const { headers } = await sentBy("slack", "done", to as typeof TO.slack);
    expect(headers.get("authorization")).toBe(`Bearer ${TOKEN}`);
  });
});

describe("The text of an event", () => {
  const text = async (name: Name, event: unknown) =>
    TEXT_OF[name]((await sentBy(name, event)).body);

  it.each([
    ["a text", "done", "done"],
    ["an object", { text: "done" }, "done"],
    ["an output that is a text", endOf("completed", "done"), "done"],
    ["an invalid output", endOf("completed", { a: [1] }), '{\n  "a": [\n    1\n  ]\n}'],
    ["an empty output", endOf("completed", " "), "The answer is empty."],
    ["a failure", endOf("error"), "Sorry, this request failed."],
    ["a cancelled submission", endOf("aborted"), "This request was cancelled."],
    ["a skipped submission", endOf("skipped"), "This request was not run."],
  ])("O2: %s is sent as text, without internals", async (_, event, expected) => {
    expect(await text("telegram", event)).toBe(expected);
  });

  it("O2: a text that is too long is cut with a mark, and reported once it was delivered", async () => {
    const limits: Record<Name, number> = {
      slack: 40_000,
      discord: 2_000,
      interaction: 2_000,
      telegram: 4_096,
      github: 65_472,
    };
    for (const name of NAMES) {
      const limit = limits[name];
      const { body, problems } = await sentBy(name, { text: "🙂".repeat(limit) });
      const sent = TEXT_OF[name](body) ?? "";
      expect(sent.length).toBeLessThanOrEqual(limit);
      expect(sent.length).toBeGreaterThan(limit - 8);
      expect(sent).toMatch(/🙂\n\[cut\]$/u);
      expect(sent.isWellFormed()).toBe(true);
      expect(problems).toEqual([
        expect.objectContaining({ type: "outbox:cut", level: "warn", ids: expect.anything() }),
      ]);
      const fits = await sentBy(name, { text: "x".repeat(limit) });
      expect(TEXT_OF[name](fits.body)).toBe("x".repeat(limit));
      expect(fits.problems).toEqual([]);
    }
  });

  it("O2: Slack's control characters are escaped in any text, so that it has no mentions", async () => {
    expect(await text("slack", "<!channel> <@U1> <https://a|b> a&b")).toBe(
      "&lt;!channel&gt; &lt;@U1&gt; &lt;https://a|b&gt; a&amp;b",
    );
    expect(await text("slack", "<".repeat(20_000))).toMatch(/^(&lt;)+\n\[cut\]$/);
  });

  it("O2: any text that is no Markdown arrives as it is, but for control and half characters", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 300 }),
        async (given) => {
          const clean = given.toWellFormed().replace(/(?![\t\n])\p{Cc}/gu, "");
          fc.pre(clean.trim() !== "");
          expect(await text("telegram", { text: given, entities: [] })).toBe(clean);
          const escaped = await text("slack", { text: given, mrkdwn: false });
          expect(escaped).not.toMatch(/[<>]/);
          const read = escaped
            ?.replaceAll("&lt;", "<")
            .replaceAll("&gt;", ">")
            .replaceAll("&amp;", "&");
          expect(read).toBe(clean);
        },
      ),
      { numRuns: 100 },
    );
  });
});

type Means = "refused" | "permanent" | "unknown";
const ANSWERS: readonly [Name, string, Answer, Means, number?][] = [
  ...NAMES.flatMap((name): [Name, string, Answer, Means, number?][] => [
    [name, "429", { status: 429, headers: { "retry-after": "7" } }, "refused", 7_000],
    [name, "401", { status: 401 }, name === "interaction" ? "permanent" : "refused"],
    [name, "500", { status: 500, body: "oops" }, "unknown"],
    [name, "503", { status: 503 }, "unknown"],
    [name, "521", { status: 521 }, "refused"],
    [name, "530", { status: 530 }, "refused"],
    [name, "a redirect", { status: 307, headers: { location: "https://b.example" } }, "permanent"],
    [name, "400", { status: 400 }, "permanent"],
    [name, "403", { status: 403, body: "no" }, "permanent"],
    [name, "a lost connection", "lost", "unknown"],
  ]),
  [
    "slack",
    "ratelimited",
    { status: 200, body: { ok: false, error: "ratelimited" }, headers: { "retry-after": "3" } },
    "refused",
    3_000,
  ],
  ["slack", "invalid_auth", { status: 200, body: { ok: false, error: "invalid_auth" } }, "refused"],
  [
    "slack",
    "channel_not_found",
    { status: 200, body: { ok: false, error: "channel_not_found" } },
    "permanent",
  ],
  [
    "slack",
    "not_in_channel",
    { status: 200, body: { ok: false, error: "not_in_channel" } },
    "permanent",
  ],
  [
    "slack",
    "internal_error",
    { status: 200, body: { ok: false, error: "internal_error" } },
    "unknown",
  ],
  ["slack", "no JSON", { status: 200, body: "<html>" }, "unknown"],
  [
    "discord",
    "retry_after",
    { status: 429, body: { retry_after: 1.25 }, headers: { "retry-after": "2" } },
    "refused",
    1_250,
  ],
  ["discord", "404", { status: 404, body: { code: 10003 } }, "permanent"],
  ["interaction", "404, as it is early", { status: 404, body: { code: 10015 } }, "refused"],
  [
    "telegram",
    "retry_after",
    { status: 429, body: { ok: false, parameters: { retry_after: 11 } } },
    "refused",
    11_000,
  ],
  ["telegram", "404", { status: 404, body: { ok: false } }, "refused"],
  ["telegram", "429 without a time", { status: 429, body: { ok: false } }, "refused", 60_000],
  ["discord", "200 without JSON", { status: 200, body: "<html>" }, "unknown"],
  ["discord", "200 without an id", { status: 200, body: { ok: true } }, "unknown"],
  ["discord", "204", { status: 200, body: "" }, "unknown"],
  ["github", "200 with a comment", { status: 200, body: { id: 1 } }, "unknown"],
  ["github", "202", { status: 202 }, "unknown"],
  ["github", "410", { status: 410 }, "permanent"],
  ["github", "422", { status: 422 }, "permanent"],
  [
    "github",
    "a secondary limit",
    { status: 403, body: { message: "You have exceeded a secondary rate limit" } },
    "refused",
    60_000,
  ],
  [
    "github",
    "a secondary limit in its older wording",
    { status: 403, body: { message: "You have triggered an abuse detection mechanism" } },
    "refused",
    60_000,
  ],
  [
    "github",
    "content that is created too fast",
    { status: 403, body: { message: "was submitted too quickly" } },
    "refused",
    60_000,
  ],
  [
    "github",
    "content that is created too fast, as a failed validation",
    { status: 422, body: { errors: [{ message: "was submitted too quickly" }] } },
    "refused",
    60_000,
  ],
  [
    "github",
    "a missing permission",
    { status: 403, body: { message: "Resource not accessible by integration" } },
    "permanent",
  ],
  [
    "github",
    "403 with Retry-After",
    { status: 403, headers: { "retry-after": "9" } },
    "refused",
    9_000,
  ],
];

describe("An answer", () => {
  it.each(ANSWERS)("O3: %s, %s", async (name, _, answer, means, retryAfterMs) => {
    const { url } = givenProvider(() => answer);
    const { failure } = await sendTo(TO[name], "done", { apis: apisAt(url) });
    const names = { refused: "RefusedError", permanent: "UndeliverableError", unknown: "Error" };
    expect(failure).toMatchObject({ name: names[means] });
    if (means === "refused") expect(failure).toMatchObject({ retryAfterMs });
  });

  it.each(NAMES)("O3: %s: a date in Retry-After is waited for, at most a day", async (name) => {
    const waited = async (date: string) => {
      const { url } = givenProvider(() => ({ status: 429, headers: { "retry-after": date } }));
      const { failure } = await sendTo(TO[name], "done", { apis: apisAt(url) });
      expect(failure?.name).toBe("RefusedError");
      return (failure as { retryAfterMs?: number }).retryAfterMs ?? 0;
    };
    const soon = await waited(new Date(Date.now() + 100_000).toUTCString());
    expect(soon).toBeGreaterThan(90_000);
    expect(soon).toBeLessThanOrEqual(101_000);
    expect(await waited(new Date(Date.now() - 100_000).toUTCString())).toBe(1);
    expect(await waited("Fri, 01 Jan 2100 00:00:00 GMT")).toBe(86_400_000);
    expect(await waited("soon")).toBe(60_000);
  });

  it.each([
    ["slack", { status: 200, body: { ok: false, error: "token_revoked" } }],
    ["slack", { status: 200, body: { ok: false, error: "invalid_auth" } }],
    ["telegram", { status: 404, body: { ok: false, description: "Not Found" } }],
    ["discord", { status: 401, body: { message: "401: Unauthorized" } }],
    ["github", { status: 401, body: { message: "Bad credentials" } }],
  ] as const)(
    "O3: a token that %s refuses is a refused secret, whatever the status",
    async (name, answer) => {
      const { url } = givenProvider(() => answer);
      const { failure } = await sendTo(TO[name], "done", { apis: apisAt(url) });
      expect(failure).toMatchObject({ name: "RefusedError" });
      expect(failureOf(failure).cause).toEqual({ code: "answered", detail: 401 });
    },
  );

  it("O3: GitHub's primary limit is waited for until its reset", async () => {
    const reset = Math.ceil(Date.now() / 1_000) + 100;
    const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(reset) };
    const { url } = givenProvider(() => ({ status: 403, headers }));
    const { failure } = await sendTo(TO.github, "done", { apis: apisAt(url) });
    const { retryAfterMs } = failure as { retryAfterMs?: number };
    expect(retryAfterMs).toBeGreaterThan(95_000);
    expect(retryAfterMs).toBeLessThan(102_000);
  });

  it("O3: an answer to an interaction is refused permanently once its message must exist", async () => {
    const { url } = givenProvider(() => ({ status: 404 }));
    const attempt = { createdAt: Date.now() - 60_000 };
    const { failure } = await sendTo(TO.interaction, "done", { apis: apisAt(url), attempt });
    expect(failure?.name).toBe("UndeliverableError");
  });

  it("O3: no error has the token, the response_url or the interaction's token", async () => {
    for (const name of NAMES) {
      const { url } = givenProvider(({ path, headers }) => ({
        status: 400,
        body: `${path} ${headers.get("authorization")}`,
      }));
      const { failure } = await sendTo(TO[name], "done", { apis: apisAt(url) });
      expect(failure?.message).toMatch(/answered 400: /);
      expect(failure?.message).not.toContain(TOKEN);
      expect(failure?.message).not.toContain(encodeURIComponent(TOKEN));
      expect(failure?.message).not.toContain(INTERACTION);
    }
    const { url } = givenProvider(
      ({ path }) => ({ status: 404, body: path }),
      "https://hooks.slack.com",
    );
    const to = slack({ responseUrl: `${url}/commands/T1/2/three` });
    const { failure } = await sendTo(to, "done", {});
    expect(failure?.message).toBe("Slack answered 404: (hidden)");
  });

  it("O3: a response_url that has expired is a permanent failure", async () => {
    const body = { ok: false, error: "expired_url" };
    const { url } = givenProvider(() => ({ status: 404, body }), "https://hooks.slack.com");
    const { failure } = await sendTo(slack({ responseUrl: `${url}/a/b` }), "done", {});
    expect(failure).toMatchObject({ name: "UndeliverableError" });
  });
});

describe("Before the request", () => {
  it.each([
    ["missing", {}, /The secret TOKEN is not set/],
    ["empty", { TOKEN: " " }, /The secret TOKEN is not set/],
    ["two lines", { TOKEN: "a\nb" }, /The secret TOKEN has characters that no token has/],
    ["unreadable", { TOKEN: { get: () => Promise.reject(new Error("x")) } }, /could not be read/],
  ])("O3: a token that is %s is retried, and nothing is sent", async (_, env, message) => {
    for (const to of [TO.slack, TO.discord, TO.telegram, TO.github]) {
      const { url, asked } = givenProvider(() => ({ status: 200 }));
      const { failure, marks } = await sendTo(to, "done", { env, apis: apisAt(url) });
      expect(failure).toMatchObject({ name: "Error", message: expect.stringMatching(message) });
      expect([asked.length, marks]).toEqual([0, 0]);
    }
  });

  it("O2: an event that is no message is a permanent failure", async () => {
    for (const event of [1, {}, { text: "" }, { text: "a", channel: "C1" }, null]) {
      const { url, asked } = givenProvider(() => ({ status: 200 }));
      const { failure } = await sendTo(TO.slack, event, { apis: apisAt(url) });
      expect(failure?.name).toBe("UndeliverableError");
      expect(asked).toEqual([]);
    }
  });
});

describe("A comment of GitHub that may be a repetition", () => {
  const attempt = { isRepeated: true, createdAt: Date.parse("2026-03-01T00:10:00Z") };
  const markerOf = async () => (await sentBy("github", "done")).body.body.split("\n").at(-1);

  it("O2: it is not posted again where a comment since then has its marker", async () => {
    const marker = await markerOf();
    const { url, asked } = givenProvider(({ path }) => {
      const isLast = path.includes("page=2");
      const comments = Array.from({ length: isLast ? 3 : 50 }, () => ({ body: "other" }));
      return {
        status: 200,
        body: isLast ? [...comments, { body: `done\n\n${marker}\n` }] : comments,
      };
    });
    expect(await sendTo(TO.github, "done", { apis: apisAt(url), attempt })).toMatchObject({
      failure: undefined,
      marks: 0,
    });
    expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual(
      [1, 2].map(
        (page) =>
          `GET /repos/octo/shop/issues/7/comments?since=2026-03-01T00:05:00.000Z&per_page=50&page=${page}`,
      ),
    );
  });

  it("O2: it is posted where none has its marker at the end", async () => {
    const marker = await markerOf();
    const { url, asked } = givenProvider(({ method }) =>
      method === "GET" ? { status: 200, body: [{ body: `${marker} quoted` }] } : { status: 201 },
    );
    expect(await sendTo(TO.github, "done", { apis: apisAt(url), attempt })).toMatchObject({
      failure: undefined,
      marks: 1,
    });
    expect(asked.map(({ method }) => method)).toEqual(["GET", "POST"]);
  });

  it("O2: it is not posted where there are more comments than are searched", async () => {
    const body = Array.from({ length: 50 }, () => ({ body: "other" }));
    const { url, asked } = givenProvider(() => ({ status: 200, body }));
    const { failure } = await sendTo(TO.github, "done", { apis: apisAt(url), attempt });
    expect(failure).toMatchObject({
      name: "UndeliverableError",
      message: expect.stringMatching(/more comments since .* than the 1000 that are searched/),
    });
    expect(asked).toHaveLength(20);
  });

  it("O3: a search that fails is retried", async () => {
    const { url, asked } = givenProvider(() => ({ status: 500 }));
    const { failure } = await sendTo(TO.github, "done", { apis: apisAt(url), attempt });
    expect(failure?.name).toBe("Error");
    expect(asked).toHaveLength(1);
  });
});

describe("Provider fields of an event", () => {
  it("O2: fields that the provider takes are sent, and cannot replace the destination", async () => {
    const { body } = await sentBy("slack", {
      text: "a",
      blocks: [{ type: "divider" }],
      mrkdwn: true,
    });
    expect(body).toMatchObject({ blocks: [{ type: "divider" }], mrkdwn: true, text: "a" });
    const allowed_mentions = { users: ["1"] };
    const { body: other } = await sentBy("discord", { text: "a", embeds: [{}], allowed_mentions });
    expect(other).toMatchObject({ embeds: [{}], allowed_mentions });
  });
});
