/** The presets of Slack, Linear, Shopify, Telegram, Meta and Discord against the senders' own packages. */

import { createHmac, generateKeyPairSync, sign as signWith } from "node:crypto";
import "@shopify/shopify-api/adapters/web-api";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import { sign as metaSign, verify as metaVerify } from "@octokit/webhooks-methods";
import { ApiVersion, shopifyApi } from "@shopify/shopify-api";
import { verifySlackRequest } from "@slack/bolt";
import { verifyKey } from "discord-interactions";
import fc from "fast-check";
import { Bot, webhookCallback } from "grammy";
import { beforeEach, describe, expect, it, vi } from "vitest";
import {
  discord,
  linear,
  meta,
  shopify,
  slack,
  telegram,
} from "../../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent, post } from "../fakes.ts";
import { compare, isAcceptedBy, OTHER, SECRET, statusOf } from "./compare.ts";

// Refusals are logged.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const RUNS = { numRuns: 20 };
const agent = () => new FakeAgent();
const NOW = Date.now();
const SECONDS = Math.floor(NOW / 1_000);
const clock = { now: () => SECONDS * 1_000 };

const hmac = (body: string, encoding: "hex" | "base64", secret = SECRET) =>
  createHmac("sha256", secret).update(body).digest(encoding);

/** Bodies with any text in them. */
const bodyWith = (fields: object) =>
  fc.jsonValue().map((data) => JSON.stringify({ ...fields, data }));

describe("the preset of Slack", () => {
  const endpoint = slack({ secret: "SECRET", agent, clock });
  const event = { type: "event_callback", event_id: "Ev1", event: { type: "app_mention" } };
  const form = "application/x-www-form-urlencoded";
  const command = fc
    .string({ unit: "grapheme" })
    .map((text) => new URLSearchParams({ command: "/deploy", text }).toString());
  const click = bodyWith({ type: "block_actions" }).map((payload) =>
    new URLSearchParams({ payload }).toString(),
  );
  const signed = (body: string, time: number | string = SECONDS, secret = SECRET) =>
    hmac(`v0:${time}:${body}`, "hex", secret);
  const request = (body: string, signature: string, time: number | string = SECONDS) =>
    post("/hooks/slack", body, {
      ...(body.startsWith("{") ? {} : { "content-type": form }),
      "x-slack-request-timestamp": String(time),
      "x-slack-signature": signature,
    });
  const oracle = (headers: Headers, body: string) =>
    verifySlackRequest({
      signingSecret: SECRET,
      body,
      headers: {
        "x-slack-signature": headers.get("x-slack-signature") ?? "",
        "x-slack-request-timestamp": Number(headers.get("x-slack-request-timestamp")),
      },
      nowMilliseconds: clock.now(),
    });

  it("accepts and refuses events, clicks and commands as @slack/bolt does", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(bodyWith(event), click, command), (body) =>
        compare({
          endpoint,
          request: (edit) => request(body, `v0=${edit(signed(body))}`.trim()),
          oracle,
        }),
      ),
      RUNS,
    );
  });

  it("refuses an old time as @slack/bolt does, and a future one, which @slack/bolt accepts", async () => {
    const body = JSON.stringify(event);
    for (const offset of [-86_400, -301, -300, 0, 300, 301, 86_400]) {
      const time = SECONDS + offset;
      const sent = request(body, `v0=${signed(body, time)}`, time);
      expect(await isAcceptedBy(() => oracle(sent.headers, body))).toBe(offset >= -300);
      const status = await statusOf(endpoint, sent);
      expect({ offset, status }).toEqual({ offset, status: Math.abs(offset) <= 300 ? 200 : 401 });
    }
  });

  it("refuses another version, secret, body or time, and a header that is missing", async () => {
    const body = JSON.stringify(event);
    const good = signed(body);
    const wrong = [
      request(body, good),
      request(body, `v1=${good}`),
      request(body, `V0=${good}`),
      request(body, `v0=${signed(body, SECONDS, OTHER)}`),
      request(`${body} `, `v0=${good}`),
      request(body, `v0=${good}`, SECONDS + 1),
      request(body, `v0=${signed(body, "")}`, ""),
      request(body, `v0=${signed(body, "now")}`, "now"),
    ];
    for (const sent of wrong) {
      const text = await sent.clone().text();
      expect(await isAcceptedBy(() => oracle(sent.headers, text))).toBe(false);
      expect(await statusOf(endpoint, sent)).toBe(401);
    }
    for (const name of ["x-slack-signature", "x-slack-request-timestamp"]) {
      const sent = request(body, `v0=${good}`);
      sent.headers.delete(name);
      expect(await statusOf(endpoint, sent)).toBe(401);
    }
  });

  it("refuses what follows the signature after a second =, which @slack/bolt ignores", async () => {
    const body = JSON.stringify(event);
    const sent = request(body, `v0=${signed(body)}=more`);
    expect(await isAcceptedBy(() => oracle(sent.headers, body))).toBe(true);
    expect(await statusOf(endpoint, sent)).toBe(401);
  });

  it("accepts each secret while it is rotated", async () => {
    const body = JSON.stringify(event);
    const rotated = slack({ secret: ["NEW", "OLD"], agent, clock });
    const env = { NEW: OTHER, OLD: SECRET };
    for (const secret of [OTHER, SECRET])
      expect(
        await statusOf(rotated, request(body, `v0=${signed(body, SECONDS, secret)}`), env),
      ).toBe(200);
  });
});

describe("the preset of Linear", () => {
  const oracle = new LinearWebhookClient(SECRET);
  // The package reads the clock.
  const endpoint = linear({ secret: "SECRET", agent });
  const verify = (headers: Headers, body: string) =>
    oracle.parseData(
      Buffer.from(body),
      headers.get("linear-signature") ?? "",
      headers.get("linear-timestamp") ?? undefined,
    );
  const request = (body: string, signature = hmac(body, "hex"), time?: number) =>
    post("/hooks/linear", body, {
      "linear-delivery": "d-1",
      "linear-signature": signature,
      ...(time !== undefined && { "linear-timestamp": String(time) }),
    });

  it("accepts and refuses what @linear/sdk does", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (data) => {
        const body = JSON.stringify({ type: "Issue", webhookTimestamp: Date.now(), data });
        await compare({
          endpoint,
          request: (edit) => request(body, edit(hmac(body, "hex"))),
          oracle: verify,
        });
      }),
      RUNS,
    );
  });

  it("trusts the signed time of the body alone, as @linear/sdk does", async () => {
    const times: readonly [body: unknown, header?: number][] = [
      [Date.now()],
      [Date.now() - 58_000],
      [Date.now() + 58_000],
      [Date.now() - 62_000],
      [Date.now() + 62_000],
      [Date.now() - 62_000, Date.now()],
      [Date.now(), Date.now() - 62_000],
      [undefined, Date.now()],
      [null, Date.now()],
      [String(Date.now())],
      [Math.floor(Date.now() / 1_000)],
      [0],
    ];
    for (const [webhookTimestamp, header] of times) {
      const body = JSON.stringify({ type: "Issue", webhookTimestamp });
      const sent = request(body, hmac(body, "hex"), header);
      const isAccepted = await isAcceptedBy(() => verify(sent.headers, body));
      const status = await statusOf(endpoint, sent);
      expect({ webhookTimestamp, header, status }).toEqual({
        webhookTimestamp,
        header,
        status: isAccepted ? 200 : 401,
      });
    }
  });

  it("refuses another secret, another body, no signature, and a body that is not an object", async () => {
    const body = JSON.stringify({ type: "Issue", webhookTimestamp: Date.now() });
    const wrong = [
      request(body, hmac(body, "hex", OTHER)),
      request(`${body} `, hmac(body, "hex")),
      request("null"),
      request("[1]"),
      request("{"),
      request(""),
    ];
    for (const sent of wrong) {
      const text = await sent.clone().text();
      expect(await isAcceptedBy(() => verify(sent.headers, text))).toBe(false);
      expect(await statusOf(endpoint, sent)).toBe(401);
    }
    const unsigned = request(body);
    unsigned.headers.delete("linear-signature");
    expect(await statusOf(endpoint, unsigned)).toBe(401);
  });
});

describe("the preset of Shopify", () => {
  const oracle = shopifyApi({
    apiKey: "key",
    apiSecretKey: SECRET,
    hostName: "app.example",
    apiVersion: ApiVersion.July26,
    isEmbeddedApp: false,
    logger: { level: 0 },
  });
  const endpoint = shopify({ secret: "SECRET", agent });
  const verify = async (headers: Headers, body: string) => {
    const rawRequest = new Request("https://app.example", { method: "POST", headers });
    return (await oracle.webhooks.validate({ rawBody: body, rawRequest })).valid;
  };
  const request = (body: string, signature: string, prefix = "x-shopify-") =>
    post("/hooks/shopify", body, {
      [`${prefix}hmac-sha256`]: signature,
      [`${prefix}topic`]: "orders/create",
      [`${prefix}shop-domain`]: "shop.myshopify.com",
      [`${prefix}api-version`]: "2026-07",
      [`${prefix}webhook-id`]: "w-1",
    });

  it.each(["x-shopify-", "shopify-"])(
    "accepts and refuses what @shopify/shopify-api does, with headers %s*",
    async (prefix) => {
      await fc.assert(
        fc.asyncProperty(bodyWith({ id: 1 }), (body) =>
          compare({
            endpoint,
            request: (edit) => request(body, edit(hmac(body, "base64")), prefix),
            oracle: verify,
          }),
        ),
        RUNS,
      );
    },
  );

  it("refuses another secret, another body, hex, and no signature", async () => {
    const body = '{"id":1}';
    const unsigned = request(body, "");
    unsigned.headers.delete("x-shopify-hmac-sha256");
    const wrong = [
      request(body, hmac(body, "base64", OTHER)),
      request(`${body} `, hmac(body, "base64")),
      request(body, hmac(body, "hex")),
      request(body, hmac(body, "base64").replace(/=+$/, "")),
      unsigned,
    ];
    for (const sent of wrong) {
      const text = await sent.clone().text();
      expect(await isAcceptedBy(() => verify(sent.headers, text))).toBe(false);
      expect(await statusOf(endpoint, sent)).toBe(401);
    }
  });
});

describe("the preset of Telegram", () => {
  const endpoint = telegram({ secret: "SECRET", agent });
  const botInfo = { id: 1, is_bot: true, first_name: "bot", username: "test_bot" } as const;
  const bot = new Bot("1:none", { botInfo: botInfo as never });
  const callback = webhookCallback(bot, "cloudflare-mod", { secretToken: SECRET });
  const oracle = async (headers: Headers, body: string) =>
    (await callback(new Request("https://app.example", { method: "POST", headers, body }))).ok;
  const request = (body: string, token: string) =>
    post("/hooks/telegram", body, { "x-telegram-bot-api-secret-token": token });

  it("accepts and refuses what grammy does", async () => {
    await fc.assert(
      fc.asyncProperty(bodyWith({ update_id: 1 }), (body) =>
        compare({ endpoint, request: (edit) => request(body, edit(SECRET)), oracle }),
      ),
      RUNS,
    );
    const missing = post("/hooks/telegram", '{"update_id":1}');
    expect(await isAcceptedBy(() => oracle(missing.headers, '{"update_id":1}'))).toBe(false);
    expect(await statusOf(endpoint, missing)).toBe(401);
  });
});

describe("the preset of Meta", () => {
  // Meta has no package. It signs as GitHub does.
  const endpoint = meta({ secret: "SECRET", verifyToken: "VERIFY", agent });
  const request = (body: string, signature: string) =>
    post("/hooks/meta", body, { "x-hub-signature-256": signature });

  it("accepts and refuses what @octokit/webhooks-methods does", async () => {
    await fc.assert(
      fc.asyncProperty(bodyWith({ object: "page", entry: [] }), async (body) => {
        const signature = (await metaSign(SECRET, body)).slice("sha256=".length);
        await compare({
          endpoint,
          request: (edit) => request(body, `sha256=${edit(signature)}`.trim()),
          oracle: (headers) => metaVerify(SECRET, body, headers.get("x-hub-signature-256") ?? ""),
        });
      }),
      RUNS,
    );
    const body = '{"object":"page"}';
    const good = await metaSign(SECRET, body);
    for (const signature of [
      good.slice("sha256=".length),
      good.replace("sha256", "sha1"),
      await metaSign(OTHER, body),
      await metaSign(SECRET, `${body} `),
    ])
      expect(await statusOf(endpoint, request(body, signature))).toBe(401);
  });
});

describe("the preset of Discord", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const KEY = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
  const endpoint = discord({ publicKey: "KEY", agent, clock });
  const env = { KEY };
  const signed = (body: string, time: number | string = SECONDS) =>
    signWith(null, Buffer.from(`${time}${body}`), privateKey).toString("hex");
  const request = (body: string, signature: string, time: number | string = SECONDS) =>
    post("/hooks/discord", body, {
      "x-signature-ed25519": signature,
      "x-signature-timestamp": String(time),
    });
  const oracle = (headers: Headers, body: string) => {
    const signature = headers.get("x-signature-ed25519") ?? "";
    return verifyKey(body, signature, headers.get("x-signature-timestamp") ?? "", KEY);
  };

  it("accepts and refuses what discord-interactions does, but for texts that are no hex", async () => {
    await fc.assert(
      fc.asyncProperty(bodyWith({ id: "1", type: 2 }), (body) =>
        compare({
          endpoint,
          env,
          request: (edit) => request(body, edit(signed(body))),
          oracle,
          // The package reads "?a" as 0, and a single digit as a byte.
          refuses: (headers) =>
            !/^([\da-f]{2}){64}$/i.test(headers.get("x-signature-ed25519") ?? ""),
        }),
      ),
      RUNS,
    );
  });

  it("refuses another key, body or time, and a header that is missing", async () => {
    const body = '{"id":"1","type":2}';
    const other = generateKeyPairSync("ed25519").privateKey;
    const forged = signWith(null, Buffer.from(`${SECONDS}${body}`), other).toString("hex");
    const wrong = [
      request(body, forged),
      request(`${body} `, signed(body)),
      request(body, signed(body), SECONDS + 1),
      request(body, "00".repeat(64)),
    ];
    for (const sent of wrong) {
      const text = await sent.clone().text();
      expect(await isAcceptedBy(() => oracle(sent.headers, text))).toBe(false);
      expect(await statusOf(endpoint, sent, env)).toBe(401);
    }
    for (const name of ["x-signature-ed25519", "x-signature-timestamp"]) {
      const sent = request(body, signed(body));
      sent.headers.delete(name);
      expect(await statusOf(endpoint, sent, env)).toBe(401);
    }
  });

  it("refuses a time more than 5 minutes from ours, which discord-interactions accepts", async () => {
    const body = '{"id":"1","type":2}';
    for (const offset of [-86_400, -301, -300, 300, 301, 86_400]) {
      const time = SECONDS + offset;
      const sent = request(body, signed(body, time), time);
      expect(await isAcceptedBy(() => oracle(sent.headers, body))).toBe(true);
      const status = await statusOf(endpoint, sent, env);
      expect({ offset, status }).toEqual({ offset, status: Math.abs(offset) <= 300 ? 200 : 401 });
    }
  });

  it("answers 503 for a public key that is not 32 bytes of hex", async () => {
    for (const key of ["00", `${KEY}00`, "z".repeat(64)])
      expect(await statusOf(endpoint, request("{}", signed("{}")), { KEY: key })).toBe(503);
  });
});
