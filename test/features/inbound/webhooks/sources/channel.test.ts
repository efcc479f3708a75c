/** Requests as Slack and Telegram send them, to the SDK's own ingresses. */

import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { ChannelIngressEventInput } from "agents/experimental/channels";
import { slackWebhook } from "agents/experimental/channels/slack";
import { telegramWebhook } from "agents/experimental/channels/telegram";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Arrival } from "../../../../../src/features/inbound/webhooks/arrival.ts";
import {
  type ChannelOptions,
  channel,
} from "../../../../../src/features/inbound/webhooks/sources/channel.ts";
import { FakeAgent, NO_ROOM } from "./fake-agent.ts";

const SECRET = "8f742231b10e8888abcd99yyyzzz85a5";
let agent: FakeAgent;
let seen: Arrival<ChannelIngressEventInput>[];
beforeEach(() => {
  agent = new FakeAgent();
  seen = [];
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => vi.restoreAllMocks());

type Options = Partial<ChannelOptions<FakeAgent>>;
const optionsWith = (options: Options) => ({
  name: "chat",
  token: "BOT_TOKEN",
  ...options,
  agent: () => agent,
  handle: (arrival: Arrival<ChannelIngressEventInput>, stub: FakeAgent) => {
    seen.push(arrival);
    return stub.submitMessages([]);
  },
});
const slack = (options: Options = {}) =>
  channel(slackWebhook({ signingSecret: SECRET }), optionsWith(options));

async function slackRequest(body: string, type = "application/json", path = "/webhooks/slack") {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const bytes = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes.encode(SECRET), algorithm, false, [
    "sign",
  ]);
  const signed = await crypto.subtle.sign("HMAC", key, bytes.encode(`v0:${timestamp}:${body}`));
  const hex = [...new Uint8Array(signed)].map((byte) => byte.toString(16).padStart(2, "0"));
  const headers = {
    "content-type": type,
    "x-slack-request-timestamp": timestamp,
    "x-slack-signature": `v0=${hex.join("")}`,
  };
  return new Request(`https://app.example${path}`, { method: "POST", headers, body });
}

const messageEvent = (id = "Ev1") =>
  JSON.stringify({
    type: "event_callback",
    event_id: id,
    team_id: "T1",
    event: {
      type: "message",
      channel_type: "im",
      channel: "D7",
      user: "U1",
      text: "hi",
      ts: "1.2",
    },
  });
const send = async (receiver: ReturnType<typeof slack>, request: Request) =>
  receiver(request, env, createExecutionContext());

describe("channel()", () => {
  it("accepts a message of Slack once, with its event id and where to answer", async () => {
    const receiver = slack();
    for (let n = 0; n < 2; n++) {
      const response = await send(receiver, await slackRequest(messageEvent()));
      expect(response?.status).toBe(200);
    }
    expect(agent.accepted.size).toBe(1);
    expect(seen[0]).toMatchObject({
      source: "chat",
      type: "message",
      body: { type: "message", message: { text: "hi" }, thread: { isDirectMessage: true } },
      reply: { kind: "slack", token: "BOT_TOKEN", channel: "D7" },
    });
    expect(seen[0]?.click).toBeUndefined();
  });

  it("makes one arrival of each event of a request, and a click of an approval", async () => {
    const action = (decision: string, n: number) => ({
      action_id: `agents:approval:${decision}`,
      value: JSON.stringify({ v: 1, approvalId: `a${n}`, decision }),
    });
    const events: ChannelIngressEventInput[] = ["approve", "reject"].map((decision, n) => ({
      type: "approval-response",
      eventId: `event ${n} ${action(decision, n).action_id}`,
      thread: { id: "t", isDirectMessage: false },
      replySurface: { version: 1, address: { channelId: "C1", threadTs: "9.8" }, label: "" },
      actor: { id: "slack:T1:user:U1", username: "ann" },
      approvalId: `a${n}`,
      decision: decision as "approve",
      reference: "r",
    }));
    const ingress = {
      receive: async () => ({
        events: events.map((event) => ({ event, raw: {} })),
        response: new Response("ok"),
      }),
    };
    const response = await send(channel(ingress, optionsWith({})), await slackRequest("{}"));
    expect(await response?.text()).toBe("ok");
    expect(seen.map(({ click, reply }) => [click, reply])).toEqual(
      ["grant", "reject"].map((decision, n) => [
        { approvalId: `a${n}`, decision, agent: undefined, by: "slack:T1:user:U1 (ann)" },
        { kind: "slack", token: "BOT_TOKEN", channel: "C1", thread: "9.8" },
      ]),
    );
    expect(agent.accepted.size).toBe(2);
    expect([...agent.accepted].every((id) => /^[0-9a-f]{64}$/.test(id))).toBe(true);
  });

  it("answers to the topic and the message of Telegram", async () => {
    const receiver = channel(telegramWebhook({ secretToken: "s3" }), optionsWith({}));
    const update = {
      update_id: 7,
      message: {
        message_id: 5,
        message_thread_id: 3,
        date: 1,
        chat: { id: -10, type: "supergroup" },
        from: { id: 2, is_bot: false, first_name: "Ann" },
        text: "hi",
      },
    };
    const request = new Request("https://app.example/webhooks/telegram", {
      method: "POST",
      headers: {
        "x-telegram-bot-api-secret-token": "s3",
        "content-type": "application/json",
      },
      body: JSON.stringify(update),
    });
    expect((await send(receiver, request))?.status).toBe(200);
    expect(seen[0]?.reply).toEqual({
      kind: "telegram",
      token: "BOT_TOKEN",
      chat: "-10",
      thread: 3,
      replyTo: 5,
    });
  });

  it("answers what the ingress answers to a handshake and to a wrong signature", async () => {
    const handshake = JSON.stringify({ type: "url_verification", challenge: "c" });
    const response = await send(slack(), await slackRequest(handshake));
    expect(await response?.json()).toEqual({ challenge: "c" });
    const forged = await slackRequest(messageEvent());
    forged.headers.set("x-slack-signature", `v0=${"0".repeat(64)}`);
    expect((await send(slack(), forged))?.status).toBe(401);
    expect(agent.requests).toEqual([]);
  });

  it("leaves a request that the ingress does not own to the app, with its body", async () => {
    const request = await slackRequest("the body", "text/plain", "/other");
    expect(await send(slack(), request)).toBeNull();
    expect(await request.text()).toBe("the body");
  });

  it("answers so that Slack repeats a request whose event was not accepted", async () => {
    agent.next.push(NO_ROOM);
    const full = await send(slack(), await slackRequest(messageEvent()));
    expect([full?.status, full?.headers.get("retry-after")]).toEqual([429, "30"]);
    agent.next.push(new Error("unreachable"));
    expect((await send(slack(), await slackRequest(messageEvent())))?.status).toBe(503);
    agent.next.push(new Promise<never>(() => {}));
    const late = await send(slack({ timeout: 20 }), await slackRequest(messageEvent()));
    expect(late?.status).toBe(503);
    expect((await send(slack(), await slackRequest(messageEvent())))?.status).toBe(200);
    expect(agent.accepted.size).toBe(1);
  });

  it("refuses a large request and too many events", async () => {
    const large = await slackRequest(JSON.stringify({ type: "x".repeat(5_000) }));
    expect((await send(slack({ maxBytes: 1_000 }), large))?.status).toBe(413);
    const event = { type: "message", eventId: "e", thread: { id: "t", isDirectMessage: true } };
    const events = Array.from({ length: 101 }, () => ({ event: event as never, raw: {} }));
    const ingress = { receive: async () => ({ events, response: new Response("ok") }) };
    const response = await send(channel(ingress, optionsWith({})), await slackRequest("{}"));
    expect(response?.status).toBe(400);
    expect(agent.requests).toEqual([]);
  });

  it("refuses invalid options when it is made", () => {
    expect(() => slack({ name: "" })).toThrow('Invalid name ""');
    expect(() => slack({ token: "xoxb-1-2" })).toThrow('Invalid token "(not shown)"');
    expect(() => slack({ timeout: "1 minute" })).toThrow("Invalid timeout");
    expect(() => slack({ maxBytes: 0 })).toThrow("Invalid maxBytes 0");
    expect(() => slack({ secret: "S" } as Options)).toThrow('Unknown option "secret"');
    expect(() => channel({} as never, optionsWith({}))).toThrow("Invalid ingress {}");
  });
});
