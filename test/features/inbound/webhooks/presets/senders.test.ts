/** The ids, types, replies and handshakes of Linear, Twilio, Shopify, Telegram, Meta and GitLab. */

import { describe, expect, it, vi } from "vitest";
import {
  type Endpoint,
  gitlab,
  linear,
  meta,
  shopify,
  telegram,
  twilio,
} from "../../../../../src/features/inbound/webhooks/index.ts";
import { sha256Hex } from "../../../../../src/features/inbound/webhooks/verify.ts";
import { ENV, FORM, hmac, NOW, posted, receive, recording } from "./receive.ts";

const { options, arrivals } = recording();

async function arrivalOf(endpoint: Endpoint, request: Request, env?: object) {
  arrivals.length = 0;
  const response = await receive(endpoint, request, env);
  expect(response.status).toBe(200);
  return arrivals[0];
}

describe("a delivery of Linear", () => {
  it("has the id of its header and the type of its object", async () => {
    const body = JSON.stringify({ type: "Issue", action: "create", webhookTimestamp: NOW });
    const headers = { "linear-delivery": "d-1", "linear-signature": hmac(body) };
    const arrival = await arrivalOf(linear(options), posted("/hooks/linear", body, headers));
    expect(arrival).toMatchObject({ source: "linear", id: "d-1", type: "Issue" });
    expect(arrival?.reply).toBeUndefined();
  });

  it("is malformed without an id", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const body = JSON.stringify({ type: "Issue", webhookTimestamp: NOW });
    const request = posted("/hooks/linear", body, { "linear-signature": hmac(body) });
    expect((await receive(linear(options), request)).status).toBe(400);
  });
});

describe("a delivery of Shopify", () => {
  const send = (body: string, prefix = "x-shopify-") =>
    posted("/hooks/shopify", body, {
      [`${prefix}hmac-sha256`]: hmac(body, { encoding: "base64" }),
      [`${prefix}webhook-id`]: "w-1",
      [`${prefix}topic`]: "orders/create",
      [`${prefix}shop-domain`]: "my-shop.myshopify.com",
    });

  it.each(["x-shopify-", "shopify-"])(
    "has its id, topic and shop from headers %s*",
    async (prefix) => {
      const arrival = await arrivalOf(shopify(options), send('{"id":820982911946154508}', prefix));
      expect(arrival).toMatchObject({
        id: "w-1",
        type: "orders/create",
        body: { shop_domain: "my-shop.myshopify.com" },
      });
    },
  );

  it("keeps the shop that the body has", async () => {
    const arrival = await arrivalOf(shopify(options), send('{"shop_domain":"other"}'));
    expect(arrival?.body).toEqual({ shop_domain: "other" });
    expect((await arrivalOf(shopify(options), send("[1]")))?.body).toEqual([1]);
  });
});

describe("a delivery of GitLab", () => {
  const send = (headers: Record<string, string> = {}, token = ENV.SECRET) =>
    posted("/hooks/gitlab", '{"object_kind":"push"}', {
      "x-gitlab-token": token,
      "x-gitlab-event": "Push Hook",
      "x-gitlab-event-uuid": "shared-by-several",
      ...headers,
    });

  it("has the id of its key, which retries have in common, otherwise the hash of the body", async () => {
    const hash = await sha256Hex('{"object_kind":"push"}');
    const keyed = await arrivalOf(gitlab(options), send({ "idempotency-key": "k-1" }));
    expect(keyed).toMatchObject({ id: "k-1", type: "Push Hook" });
    expect(await arrivalOf(gitlab(options), send())).toMatchObject({ id: hash });
  });

  it("may be signed with a signing token, and has the signed id and the type of its header", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const body = '{"object_kind":"push"}';
    const key = "a key of thirty-two bytes or so..";
    const env = { SECRET: `whsec_${btoa(key)}` };
    const signed = (headers: Record<string, string> = {}) =>
      posted("/hooks/gitlab", body, {
        "x-gitlab-event": "Push Hook",
        "idempotency-key": "not signed",
        "webhook-id": "k-1",
        "webhook-timestamp": `${NOW / 1_000}`,
        "webhook-signature": `v1,${hmac(`k-1.${NOW / 1_000}.${body}`, { encoding: "base64", secret: key })}`,
        ...headers,
      });
    const arrival = await arrivalOf(gitlab(options), signed(), env);
    expect(arrival).toMatchObject({ id: "k-1", type: "Push Hook" });
    const wrong = [
      { "webhook-id": "k-2" },
      { "webhook-timestamp": `${NOW / 1_000 - 301}` },
      { "webhook-signature": "v1,AAAA" },
      { "webhook-signature": "" },
    ];
    for (const headers of wrong)
      expect((await receive(gitlab(options), signed(headers), env)).status).toBe(401);
    // With the token of a webhook that has both, or while one replaces the other.
    const both = signed({ "x-gitlab-token": ENV.SECRET });
    expect(await arrivalOf(gitlab(options), both)).toMatchObject({ id: "k-1" });
    const replaced = gitlab({ ...options, secret: ["OLD", "SECRET"] });
    const secrets = { ...env, OLD: "not base64!" };
    expect(await arrivalOf(replaced, signed(), secrets)).toMatchObject({ id: "k-1" });
    expect((await receive(gitlab(options), signed())).status).toBe(401);
  });

  it("is refused with another token, a part of it, or none", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    for (const token of ["", "x", ENV.SECRET.slice(0, -1), `${ENV.SECRET}s`, ENV.SECRET.repeat(2)])
      expect((await receive(gitlab(options), send({}, token))).status).toBe(401);
    const env = { NEW: "new token", OLD: ENV.SECRET };
    const rotated = gitlab({ ...options, secret: ["NEW", "OLD"] });
    expect((await receive(rotated, send(), env)).status).toBe(200);
    expect((await receive(rotated, send({}, "new token"), env)).status).toBe(200);
  });
});

describe("an update of Telegram", () => {
  const update = (fields: object) =>
    posted("/hooks/telegram", JSON.stringify({ update_id: 7, ...fields }), {
      "x-telegram-bot-api-secret-token": ENV.SECRET,
    });
  const chat = { id: -1001, type: "supergroup" };
  const endpoint = telegram({ ...options, token: "TELEGRAM_TOKEN" });
  const reply = { kind: "telegram", token: "TELEGRAM_TOKEN", chat: -1001 };

  it.each([
    ["message", { message_id: 5, chat }, { ...reply, replyTo: 5 }],
    [
      "edited_message",
      { message_id: 5, chat, message_thread_id: 9, is_topic_message: true },
      { ...reply, thread: 9, replyTo: 5 },
    ],
    ["message", { message_id: 5, chat, message_thread_id: 9 }, { ...reply, replyTo: 5 }],
    ["callback_query", { id: "1", data: "yes", message: { message_id: 5, chat } }, reply],
    ["my_chat_member", { chat, date: 1 }, reply],
    ["business_message", { message_id: 5, chat, business_connection_id: "b" }, undefined],
    ["inline_query", { id: "1", query: "x" }, undefined],
  ])(
    "of the type %s is identified, and replied to in its chat (%#)",
    async (type, fields, expected) => {
      const arrival = await arrivalOf(endpoint, update({ [type]: fields }));
      expect(arrival).toMatchObject({ id: "7", type });
      expect(arrival?.reply).toEqual(expected);
      expect(
        (await arrivalOf(telegram(options), update({ [type]: fields })))?.reply,
      ).toBeUndefined();
    },
  );
});

describe("an arrival of Meta", () => {
  const endpoint = meta({ ...options, verifyToken: "VERIFY" });
  const send = (entry: unknown, object = "whatsapp_business_account") => {
    const body = JSON.stringify({ object, entry });
    const headers = { "x-hub-signature-256": `sha256=${hmac(body)}` };
    return { body, request: posted("/hooks/meta", body, headers) };
  };
  const change = (value: object, field = "messages") => ({ id: "1", changes: [{ field, value }] });

  it("has the message's id if it has one new message, and nothing else", async () => {
    const single = send([change({ messages: [{ id: "wamid_1" }] })]);
    expect(await arrivalOf(endpoint, single.request)).toMatchObject({
      id: "wamid_1",
      type: "messages",
    });
    const long = send([change({ messages: [{ id: "wamid.HBgL=" }] })]);
    expect((await arrivalOf(endpoint, long.request))?.id).toBe(await sha256Hex("wamid.HBgL="));
    const messenger = send([{ id: "1", messaging: [{ message: { mid: "m_1" } }] }], "page");
    expect(await arrivalOf(endpoint, messenger.request)).toMatchObject({
      id: "m_1",
      type: "page",
    });
  });

  it("has the hash of the body for what is no message, and for statuses, which have the id of the message", async () => {
    const message = { id: "wamid_1" };
    const changes: readonly unknown[] = [
      [change({ statuses: [{ ...message, status: "sent" }] })],
      [change({ statuses: [{ ...message, status: "read" }] })],
      [change({ messages: [message] }, "history")],
      [{ id: "1", messaging: [{ read: { watermark: 1 } }] }],
      [{ id: "1", changes: [{ field: "messages" }] }],
      [{ id: "1", changed_fields: ["photos"] }],
      [],
    ];
    const ids = new Set<string | undefined>();
    for (const entry of changes) {
      const { body, request } = send(entry);
      const arrival = await arrivalOf(endpoint, request);
      expect(arrival?.id).toBe(await sha256Hex(body));
      ids.add(arrival?.id);
    }
    expect(ids.size).toBe(changes.length);
  });

  it("is malformed with entries of another form", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    for (const entry of [1, [null], [{ changes: [1, null] }]])
      expect((await receive(endpoint, send(entry).request)).status).toBe(400);
  });
});

describe("the check of Meta's URL", () => {
  const endpoint = meta({ ...options, verifyToken: "VERIFY" });
  const ask = (query: Record<string, string>, env: object = ENV) => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const search = new URLSearchParams(query);
    return receive(endpoint, new Request(`https://app.example/hooks/meta?${search}`), env);
  };
  const good = {
    "hub.mode": "subscribe",
    "hub.verify_token": ENV.VERIFY,
    "hub.challenge": "1158201444",
  };

  it("is answered with the challenge as text", async () => {
    const response = await ask(good);
    expect([response.status, await response.text()]).toEqual([200, "1158201444"]);
    const html = await ask({ ...good, "hub.challenge": "<script>" });
    expect(html.headers.get("content-type")).toMatch(/^text\/plain\b/);
    expect(html.headers.get("x-content-type-options")).toBe("nosniff");
  });

  it("is refused with another token, a part of it or none, and needs the token in env", async () => {
    for (const token of ["", "x", ENV.VERIFY.slice(1), ENV.SECRET]) {
      const response = await ask({ ...good, "hub.verify_token": token });
      expect(response.status).toBe(401);
      expect(await response.text()).not.toContain("1158201444");
    }
    const { "hub.verify_token": _, ...without } = good;
    expect((await ask(without)).status).toBe(401);
    expect((await ask(good, { SECRET: ENV.SECRET })).status).toBe(503);
  });

  it("needs the name of the verify token", () => {
    expect(() => meta(options as never)).toThrow("verifyToken");
    expect(() => meta({ ...options, verifyToken: "not a name" })).toThrow("verifyToken");
  });
});

describe("a webhook of Twilio", () => {
  const URL_ = "https://app.example/hooks/twilio";
  const send = (fields: Record<string, string>, headers: Record<string, string> = {}) => {
    const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
    const signed = URL_ + sorted.flat().join("");
    const body = new URLSearchParams(fields).toString();
    const signature = hmac(signed, { hash: "sha1", encoding: "base64" });
    const request = posted("/hooks/twilio", body, { "x-twilio-signature": signature, ...headers });
    return { body, request };
  };
  const idOf = async (fields: Record<string, string>, headers?: Record<string, string>) =>
    (await arrivalOf(twilio(options), send(fields, headers).request))?.id;

  it("is accepted with the signature of Twilio's documentation", async () => {
    const url = "https://mycompany.com/myapp.php?foo=1&bar=2";
    const body =
      "CallSid=CA1234567890ABCDE&Digits=1234&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309";
    const request = new Request(url, {
      method: "POST",
      body,
      headers: { "content-type": FORM, "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=" },
    });
    const endpoint = twilio({ ...options, path: "/myapp.php" });
    const arrival = await arrivalOf(endpoint, request, { SECRET: "12345" });
    expect(arrival?.body).toMatchObject({ Digits: "1234", To: "+18005551212" });
    const signed =
      "CallSidCA1234567890ABCDECaller+14158675309Digits1234From+14158675309To+18005551212";
    expect(arrival?.id).toBe(await sha256Hex(signed));
  });

  it("has the id of a message, and of each of its states", async () => {
    const message = { MessageSid: "SM1", Body: "hi" };
    expect(await idOf(message)).toBe("SM1");
    expect(await idOf({ ...message, SmsStatus: "received" })).toBe("SM1");
    expect(await idOf({ MessageSid: "SM1", MessageStatus: "sent", SmsStatus: "sent" })).toBe(
      "SM1-sent",
    );
    expect(await idOf({ MessageSid: "SM1", MessageStatus: "delivered" })).toBe("SM1-delivered");
    // A header is not signed, so the signed id comes first.
    expect(await idOf(message, { "i-twilio-idempotency-token": "t-1" })).toBe("SM1");
  });

  it("tells the requests of one call and the events of one conversation apart", async () => {
    const call = { CallSid: "CA1", CallStatus: "in-progress", Digits: "1" };
    const ids = [
      await idOf({ CallSid: "CA1", CallStatus: "ringing" }),
      await idOf(call),
      await idOf({ ...call, Digits: "2" }),
      await idOf(call, { "i-twilio-idempotency-token": "t-1" }),
      await idOf(call, { "i-twilio-idempotency-token": "t-2" }),
      await idOf({ MessageSid: "IM1", EventType: "onMessageAdded" }),
      await idOf({ MessageSid: "IM1", EventType: "onMessageUpdated" }),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    expect(await idOf(call)).toBe(ids[1]);
  });

  it("I1: has the same id when what Twilio does not sign of its parameters changes", async () => {
    const { request } = send({ CallSid: "CA1", Digits: "1 2", To: "+1" });
    const first = await arrivalOf(twilio(options), request.clone());
    const same = ["To=%2B1&Digits=1%202&CallSid=CA1", "CallSid=CA1&Digits=1+2&To=%2B1&To=%2B1"];
    for (const body of same) {
      const { url, headers } = request;
      const again = new Request(url, { method: "POST", body, headers });
      expect((await arrivalOf(twilio(options), again))?.id).toBe(first?.id);
    }
  });

  it("is answered with TwiML without instructions, also as a duplicate", async () => {
    for (let attempt = 0; attempt < 2; attempt++) {
      const { request } = send({ MessageSid: "SM-answer", SmsStatus: "received" });
      const response = await receive(twilio(options), request);
      expect(response.headers.get("content-type")).toBe("text/xml");
      expect(await response.text()).toBe("<Response/>");
    }
  });

  it("refuses an invalid URL", () => {
    for (const url of ["", "example.com", "ftp://x", "https://x#rc=2", "https://", 1])
      expect(() => twilio({ ...options, url } as never)).toThrow("Invalid url");
  });
});
