import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { handlers } from "../../../../../src/features/inbound/offer.ts";
import {
  type EmailBody,
  type EmailOptions,
  email,
} from "../../../../../src/features/inbound/webhooks/email/index.ts";
import { FakeAgent, NO_ROOM } from "../sources/fake-agent.ts";
import { emailOf, results, send } from "./message.ts";

let agent: FakeAgent;
let logged: string[];
beforeEach(() => {
  agent = new FakeAgent();
  logged = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void logged.push(line));
});
afterEach(() => vi.restoreAllMocks());

type Options = Partial<EmailOptions<EmailBody, FakeAgent>>;
const receiver = (options: Options = {}) =>
  email<FakeAgent>({
    binding: "EMAIL",
    ...options,
    agent: () => agent,
    handle: ({ reply }, stub) => stub.submitMessages([reply]),
  });

async function receive(
  text: string | Uint8Array,
  options: Options = {},
  envelope: Parameters<typeof send>[1] = {},
) {
  const sent = send(text, envelope);
  await receiver(options)(sent.message, env, createExecutionContext());
  const request = agent.requests.at(-1);
  return {
    sent,
    rejected: sent.rejected,
    body: request?.arrival.body as unknown as EmailBody,
    id: request?.arrival.id,
    reply: request?.call?.args.flat()[0],
  };
}

describe("email()", () => {
  it("accepts an authenticated e-mail as an arrival with its text, its people and its thread", async () => {
    const { body, id, rejected } = await receive(emailOf());
    expect(rejected).toBeUndefined();
    expect(id).toMatch(/^[0-9a-f]{64}$/);
    expect(agent.requests[0]?.arrival).toMatchObject({ source: "email", type: "" });
    expect(body).toEqual({
      from: "ann@example.org",
      fromName: "Ann",
      to: "help@shop.example",
      recipients: ["help@shop.example"],
      subject: "A question",
      text: "Hello",
      messageId: "<q1@example.org>",
      references: [],
      thread: "q1@example.org",
      date: "2026-06-14T21:02:17.000Z",
      attachments: [],
      authentication: { spf: "pass", dkim: "pass", dmarc: "pass" },
    });
  });

  it("accepts an e-mail once, also where the sending server repeats it by another way", async () => {
    const first = await receive(emailOf());
    const again = await receive(`Received: by another.example\r\n${emailOf()}`);
    expect(again.id).toBe(first.id);
    expect(agent.accepted.size).toBe(1);
    expect((await receive(emailOf(), {}, { to: "sales@shop.example" })).id).not.toBe(first.id);
  });

  it("answers to the sender, in the conversation", async () => {
    const headers = [
      "References: <root@a.b> <q0@a.b>",
      "In-Reply-To: <q0@a.b>",
      "Subject: RE: re: Order",
    ];
    const { reply, body } = await receive(emailOf({ headers }));
    expect(body.thread).toBe("root@a.b");
    expect(reply).toEqual({
      kind: "email",
      binding: "EMAIL",
      from: "help@shop.example",
      to: "ann@example.org",
      subject: "Re: Order",
      inReplyTo: "<q1@example.org>",
      references: "<root@a.b> <q0@a.b> <q1@example.org>",
    });
    const { reply: other } = await receive(emailOf(), { from: "shop@shop.example" });
    expect(other).toMatchObject({ from: "shop@shop.example" });
  });

  it("ignores Reply-To, which is not authenticated", async () => {
    const { reply } = await receive(emailOf({ headers: ["Reply-To: victim@bank.example"] }));
    expect(reply).toMatchObject({ to: "ann@example.org" });
  });

  it("has no reply without a binding", async () => {
    const sent = send(emailOf());
    const seen: unknown[] = [];
    const handler = email({ agent: () => agent, handle: ({ reply }) => void seen.push(reply) });
    await handler(sent.message, env, createExecutionContext());
    expect(seen).toEqual([undefined]);
  });
});

describe("refusals of email()", () => {
  it.each([
    ["DMARC fails", results({ dmarc: "fail" })],
    ["another domain", results({ from: "other.example" })],
    ["no DMARC", "Authentication-Results: mx.cloudflare.net; spf=pass smtp.mailfrom=a@example.org"],
    ["a forged header below", `${results({ dmarc: "fail" })}\n${results()}`],
  ])("rejects an e-mail that is not authenticated: %s", async (_, authentication) => {
    const { rejected } = await receive(emailOf({ authentication }));
    expect(rejected).toBe("Message could not be authenticated");
    expect(agent.requests).toEqual([]);
  });

  const unverified: [string, string][] = [
    ["no header", ""],
    ["the seal of a list alone", "ARC-Authentication-Results: i=1; mx.cloudflare.net; arc=none"],
    ["no method but arc", "Authentication-Results: mx.cloudflare.net; arc=none"],
    ["another server", results().replace("mx.cloudflare.net", "mx2.cloudflare.net")],
    ["a header that is malformed", "Authentication-Results: mx.cloudflare.net (; dmarc=pass"],
  ];
  it.each(unverified)(
    "holds an e-mail without results, and asks for another attempt: %s",
    async (_, authentication) => {
      const text = emailOf({ authentication });
      await expect(receive(text)).rejects.toThrow("was stored");
      expect(agent.requests).toEqual([
        {
          arrival: expect.objectContaining({
            source: "email",
            body: expect.objectContaining({ from: "ann@example.org" }),
          }),
          held: "UnauthenticatedError: it has no results of the server mx.cloudflare.net",
        },
      ]);
      expect(logged.join()).toContain("HeldError");
      // The sending server tries again, and the header is back.
      const { rejected } = await receive(emailOf());
      expect(rejected).toBeUndefined();
      const [held, accepted] = agent.requests.map(({ arrival }) => [arrival.id, arrival.hash]);
      expect(accepted).toEqual(held);
      expect(agent.accepted.size).toBe(1);
    },
  );

  it("lets an e-mail without results go that a replay has accepted", async () => {
    agent.next.push({ verdict: "duplicate" });
    const { rejected } = await receive(emailOf({ authentication: "" }));
    expect(rejected).toBeUndefined();
  });

  it.each(unverified)("rejects it where the option says so: %s", async (_, authentication) => {
    const { rejected } = await receive(emailOf({ authentication }), { unverified: "refuse" });
    expect(rejected).toBe("Message could not be authenticated");
    expect(agent.requests).toEqual([]);
    expect(() => receiver({ unverified: "keep" as never })).toThrow(/"hold" or "refuse"/);
  });

  it("rejects an e-mail whose sender could have hidden the results", async () => {
    const { rejected } = await receive(
      emailOf({ authentication: "" }),
      {},
      { from: '"a;b"@example.org' },
    );
    expect(rejected).toBe("Message could not be authenticated");
  });

  it("accepts every sender with authentication `none`, and still reports the results", async () => {
    const text = emailOf({ authentication: "" });
    const { body, rejected } = await receive(text, { authentication: "none" });
    expect(rejected).toBeUndefined();
    expect(body.authentication).toEqual({ spf: "none", dkim: "none", dmarc: "none" });
  });

  it("drops what it refuses where the option says so, and logs it without its text", async () => {
    const text = emailOf({ authentication: "", body: "SECRET" });
    const { rejected } = await receive(text, { refused: "drop", unverified: "refuse" });
    expect(rejected).toBeUndefined();
    expect(logged.join()).toContain("UnauthenticatedError: spf=none");
    expect(logged.join()).not.toContain("SECRET");
  });

  it("refuses an e-mail above the limit before it reads it, or as soon as it has more bytes", async () => {
    const large = emailOf({ body: "x".repeat(100_000) });
    const known = await receive(large, { maxBytes: 10_000 });
    expect(known.rejected).toBe("Message too large");
    expect(known.sent.read).toBe(0);
    const unknown = await receive(large, { maxBytes: 10_000 }, { rawSize: 1 });
    expect(unknown.rejected).toBe("Message too large");
    expect(unknown.sent.read).toBeLessThan(20_000);
  });

  it("rejects a body that does not match the schema, for good", async () => {
    const schema = z.object({ subject: z.literal("Order") });
    const sent = send(emailOf());
    const handler = email({ schema, agent: () => agent, handle: () => {} });
    await handler(sent.message, env, createExecutionContext());
    expect(sent.rejected).toBe("Message was not accepted");
  });

  it.each([
    ["the agent has no room", NO_ROOM],
    ["the agent is unreachable", new Error("Network connection lost.")],
  ])("throws, so that the sending server tries again: %s", async (_, answer) => {
    agent.next.push(answer);
    const sent = send(emailOf());
    const work = receiver()(sent.message, env, createExecutionContext());
    await expect(work).rejects.toThrow("The sending server tries again");
    expect(sent.rejected).toBeUndefined();
    await receive(emailOf());
    expect(agent.accepted.size).toBe(1);
  });

  it("throws when the agent gives no answer in time", async () => {
    agent.next.push(new Promise<never>(() => {}));
    await expect(receive(emailOf(), { timeout: 50 })).rejects.toThrow("tries again");
  });

  it.each([
    ["Auto-Submitted: auto-replied"],
    ["X-Auto-Response-Suppress: All"],
    ["Precedence: bulk"],
    ["Precedence: auto_reply"],
    ["List-Id: <news.example.org>"],
    ["List-Unsubscribe: <mailto:off@example.org>"],
    ["X-Perdure-Delivery: 1"],
    ["X-Failed-Recipients: ann@example.org"],
    ["X-Loop: help@example.org"],
    ["Content-Type: multipart/report; report-type=delivery-status"],
  ])("ignores an automatic e-mail: %s", async (header) => {
    const { rejected } = await receive(emailOf({ headers: [header] }));
    expect(rejected).toBeUndefined();
    expect(agent.requests).toEqual([]);
    await receive(emailOf({ headers: [header] }), { automatic: "accept" });
    expect(agent.requests).toHaveLength(1);
  });

  it("ignores bounces, which have no sender, and does not bounce them", async () => {
    for (const from of ["", "<>", "MAILER-DAEMON@example.org"]) {
      const { rejected } = await receive(emailOf({ authentication: "" }), {}, { from });
      expect(rejected).toBeUndefined();
    }
    for (const name of ["MAILER-DAEMON", "postmaster"]) {
      for (const envelope of ["", "<>", "bounces+7@example.org", "MAILER-DAEMON@mx.example.org"]) {
        const bounce = emailOf().replace(/^From: .*$/m, `From: System <${name}@example.org>`);
        const { rejected } = await receive(bounce, {}, { from: envelope });
        expect([envelope, rejected]).toEqual([envelope, undefined]);
      }
    }
    expect(agent.requests).toEqual([]);
  });

  it("accepts an e-mail that a person has written as postmaster", async () => {
    const text = emailOf().replace(/^From: .*$/m, "From: Ann <postmaster@example.org>");
    await receive(text, {}, { from: "ann@example.org" });
    expect(agent.requests).toHaveLength(1);
  });

  it("ignores e-mail from its own address, and from a loop of servers", async () => {
    await receive(emailOf(), {}, { to: "Ann@example.org" });
    await receive(emailOf(), { from: "ann@example.org" });
    const hops = Array.from({ length: 51 }, (_, n) => `Received: by server${n}.example`);
    await receive(emailOf({ headers: hops }));
    expect(agent.requests).toEqual([]);
  });

  it("refuses several senders in From", async () => {
    for (const headers of [
      ["From: ann@example.org, eve@evil.example"],
      ["From: ann@example.org", "From: eve@evil.example"],
      ["From: undisclosed:;"],
      ["From: nobody"],
    ]) {
      const { rejected } = await receive(emailOf({ headers }));
      expect(rejected).toBe("Message could not be authenticated");
      const open = await receive(emailOf({ headers }), { authentication: "none" });
      expect(open.rejected).toBe("Message could not be read");
    }
  });
});

describe("the body of email()", () => {
  const multipart = (type: string, ...parts: string[]) => ({
    headers: [`Content-Type: ${type}; boundary="b-1"`],
    body: `preamble\n${parts.map((part) => `--b-1\n${part}\n`).join("")}--b-1--\nepilogue`,
  });

  it("has the text and the HTML of both alternatives, in their charsets", async () => {
    const text =
      "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nGr=FC=\n=DFe";
    const html = `Content-Type: text/html; charset="utf-8"\nContent-Transfer-Encoding: base64\n\n${btoa("<p>Hi</p>")}`;
    const { body } = await receive(emailOf(multipart("multipart/alternative", text, html)));
    expect(body.text).toBe("Grüße");
    expect(body.html).toBe("<p>Hi</p>");
  });

  it("makes the text of an e-mail that has only HTML", async () => {
    const { body } = await receive(
      emailOf({
        headers: ["Content-Type: text/html"],
        body: "<html><head><style>p { color: red }</style></head><body><p>Dear   shop,</p><br>5 &lt; 6 &amp;&#33;<!-- > no --></body>",
      }),
    );
    expect(body.text).toBe("Dear shop,\n\n5 < 6 &!");
  });

  it("has attachments with their content up to the limit, then only their names and sizes", async () => {
    const file = (name: string, size: number) =>
      `Content-Type: application/pdf\nContent-Disposition: attachment; filename="${name}"\nContent-Transfer-Encoding: base64\n\n${btoa("x".repeat(size))}`;
    const parts = multipart("multipart/mixed", "\nHello", file("a.pdf", 3), file("b.pdf", 100));
    const { body } = await receive(emailOf(parts), { maxAttachmentBytes: 50 });
    expect(body.text).toBe("Hello");
    expect(body.attachments).toEqual([
      { name: "a.pdf", type: "application/pdf", bytes: 3, content: btoa("xxx") },
      { name: "b.pdf", type: "application/pdf", bytes: 100 },
    ]);
  });

  it("reads names of attachments in encoded words and in pieces", async () => {
    const named = (disposition: string) =>
      `Content-Type: image/png\nContent-Disposition: ${disposition}\n\nx`;
    const { body } = await receive(
      emailOf(
        multipart(
          "multipart/mixed",
          named('attachment; filename="=?utf-8?q?gr=C3=BCn.png?="'),
          named("inline; filename*=utf-8''gr%C3%BCn.png"),
          named("attachment; filename*0*=iso-8859-1''gr%FC; filename*1=n.png"),
          named("attachment"),
        ),
      ),
    );
    expect(body.attachments.map(({ name }) => name)).toEqual([
      "grün.png",
      "grün.png",
      "grün.png",
      "",
    ]);
  });

  it("decodes the subject, and lets no line break into the subject of the answer", async () => {
    const headers = ["Subject: =?utf-8?q?Hi=0D=0ABcc:_eve@evil.example?=\n =?utf-8?b?4oKs?="];
    const { body, reply } = await receive(emailOf({ headers }));
    expect(body.subject).toBe("Hi Bcc: eve@evil.example€");
    expect(reply).toMatchObject({ subject: "Re: Hi Bcc: eve@evil.example€" });
  });

  it("reads an unknown charset and bytes that are not UTF-8, without a failure", async () => {
    const raw = new TextEncoder().encode(
      emailOf({ headers: ["Content-Type: text/plain; charset=klingon"], body: "a?b" }),
    );
    raw[raw.length - 2] = 0xff;
    expect((await receive(raw)).body.text).toBe("a\uFFFDb");
  });

  it("has at most 100 recipients of 10,000, and 31 references", async () => {
    const many = (count: number, make: (n: number) => string, separator: string) =>
      Array.from({ length: count }, (_, n) => make(n)).join(separator);
    const to = `To: ${many(3_000, (n) => `a${n}@b.example`, ",\n ")}`;
    const references = `References: ${many(300, (n) => `<${n}@a.b>`, "\n ")}`;
    const { body, reply } = await receive(emailOf({ headers: [to, references] }));
    expect(body.recipients).toHaveLength(100);
    expect(body.references).toHaveLength(31);
    expect(body.thread).toBe("0@a.b");
    expect(body.references.at(-1)).toBe("<299@a.b>");
    expect(reply).toMatchObject({
      references: expect.stringMatching(/^<0@a.b> .*<q1@example.org>$/),
    });
    const { rejected } = await receive(
      emailOf({ headers: [`To: ${many(10_000, (n) => `a${n}@b.example`, ", ")}`] }),
    );
    expect(rejected).toBe("The message's headers are too large");
  });

  it("leaves out long HTML, and refuses a text that no row can hold", async () => {
    const html = multipart(
      "multipart/alternative",
      "Content-Type: text/plain\n\nshort",
      `Content-Type: text/html\n\n${"h".repeat(500_000)}`,
    );
    const { body } = await receive(emailOf(html));
    expect(body).toMatchObject({ text: "short" });
    expect(body.html).toBeUndefined();
    const { rejected } = await receive(emailOf({ body: "x".repeat(2_000_000) }));
    expect(rejected).toBe("The message's text is too large");
    expect(logged.at(-1)).toMatch(
      /Its text takes 20\d{5} bytes as JSON, and the limit is 1400000\./,
    );
  });

  it.each([
    ["empty lines", "\n", 5_000_000],
    ["tags without an end", "<", 4_000_000],
    ["style elements", "<style>", 500_000],
  ])("takes linear time for an e-mail of %s", async (_, part, most) => {
    const timeOf = async (times: number) => {
      const started = performance.now();
      for (const type of ["html", "plain"])
        await receive(
          emailOf({ headers: [`Content-Type: text/${type}`], body: part.repeat(times) }),
        );
      return performance.now() - started;
    };
    // Ten times as much takes ten times as long; in quadratic time it would be a hundred times.
    const tenth = Math.max(await timeOf(most / 10), 50);
    expect(await timeOf(most)).toBeLessThan(40 * tenth);
  });

  it("refuses too many parts, parts in parts, and long headers", async () => {
    const nested = (depth: number): string =>
      depth === 0
        ? "Content-Type: text/plain\n\nx"
        : `Content-Type: multipart/mixed; boundary=b${depth}\n\n--b${depth}\n${nested(depth - 1)}\n--b${depth}--`;
    const bombs: [Parameters<typeof emailOf>[0], string, RegExp][] = [
      [
        multipart("multipart/mixed", ...Array.from({ length: 201 }, () => "\nx")),
        "The message has too many parts",
        /201 parts or more, and the limit is 200\./,
      ],
      [
        {
          headers: ["Content-Type: multipart/mixed; boundary=b"],
          body: `--b\n${nested(11)}\n--b--`,
        },
        "The message's parts are nested too deeply",
        /nested 11 levels deep or more, and the limit is 10\./,
      ],
      [
        { headers: [`X-Long: ${"x".repeat(70_000)}`] },
        "The message's headers are too large",
        /headers of 7\d{4} bytes, and the limit is 65536\./,
      ],
      [
        multipart("multipart/mixed", `X-Long: ${"x".repeat(9_000)}\n\nx`),
        "The message's headers are too large",
        /headers of 9008 bytes, and the limit is 8192\./,
      ],
      [
        multipart(
          "multipart/mixed",
          ...Array.from({ length: 101 }, () => "Content-Disposition: attachment\n\nx"),
        ),
        "The message has too many attachments",
        /101 attachments, and the limit is 100\./,
      ],
    ];
    for (const [bomb, reason, line] of bombs) {
      expect((await receive(emailOf(bomb))).rejected).toBe(reason);
      expect(logged.at(-1)).toMatch(line);
    }
    expect(agent.requests).toEqual([]);
  });

  it("gives a replay the same reply, from the stored body", async () => {
    const { body, reply } = await receive(emailOf());
    const submitMessages = vi.fn();
    const arrival = { source: "email", id: "x", type: "", bytes: 1, hash: "", receivedAt: 1 };
    const stored = JSON.parse(JSON.stringify(body));
    await handlers.get("email")?.handle({ ...arrival, body: stored }, { submitMessages });
    expect(submitMessages).toHaveBeenCalledWith([reply]);
  });
});

describe("options of email()", () => {
  it("refuses invalid ones when it is made", () => {
    const refused = (options: object) => () => receiver(options as Options);
    expect(refused({ dmarc: true })).toThrow('Unknown option "dmarc" in the options of email()');
    expect(refused({ authentication: "spf" })).toThrow('expected "dmarc" or "none"');
    expect(refused({ refused: 1 })).toThrow('Invalid refused 1: expected "reject" or "drop"');
    expect(refused({ automatic: true })).toThrow('expected "ignore" or "accept"');
    expect(refused({ binding: "my-binding" })).toThrow('Invalid binding "my-binding"');
    expect(refused({ from: "Shop <a@b.c>" })).toThrow("Invalid from");
    expect(refused({ maxBytes: 26 * 1_048_576 })).toThrow("from 1 to 26214400");
    expect(refused({ maxAttachmentBytes: 500_000 })).toThrow("from 1 to 409600");
    expect(refused({ timeout: "1 hour" })).toThrow("Invalid timeout");
    expect(refused({ authenticationServer: "a b" })).toThrow("Invalid authenticationServer");
  });
});
