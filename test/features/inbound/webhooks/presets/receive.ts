/** Sends signed requests of senders to a receiver, and shows what the app got. */

import { createHmac, type KeyObject, sign } from "node:crypto";
import type { Arrival } from "../../../../../src/features/inbound/webhooks/arrival.ts";
import { type Endpoint, webhooks } from "../../../../../src/features/inbound/webhooks/index.ts";
import type { EndpointOptions } from "../../../../../src/features/inbound/webhooks/preset.ts";
import { FakeAgent, FakeContext } from "../fakes.ts";

export const ENV = { SECRET: "the secret of the tests", VERIFY: "the verify token" };
export const NOW = 1_800_000_000_000;

/** The options of a preset: its arrivals are kept, and each starts something. */
export function recording(agent = new FakeAgent()) {
  const arrivals: Arrival<unknown>[] = [];
  const options: EndpointOptions<never, FakeAgent> = {
    secret: "SECRET",
    agent: () => agent,
    handle: async (arrival: Arrival<unknown>, calls: FakeAgent) => {
      arrivals.push(arrival);
      await calls.start(arrival.id);
    },
    clock: { now: () => NOW },
  };
  return { agent, arrivals, options };
}

export async function receive(endpoint: Endpoint, request: Request, env: object = ENV) {
  const response = await webhooks(endpoint)(request, env, new FakeContext());
  if (!response) throw new Error("No endpoint has this path.");
  return response;
}

export function hmac(
  text: string,
  { encoding = "hex", hash = "sha256", secret = ENV.SECRET } = {} as {
    readonly encoding?: "hex" | "base64";
    readonly hash?: "sha1" | "sha256";
    readonly secret?: string;
  },
): string {
  return createHmac(hash, secret).update(text).digest(encoding);
}

type Headers_ = Readonly<Record<string, string>>;

export const FORM = "application/x-www-form-urlencoded";

export function posted(path: string, body: string, headers: Headers_ = {}): Request {
  const type = body.startsWith("{") || body.startsWith("[") ? "application/json" : FORM;
  return new Request(`https://app.example${path}`, {
    method: "POST",
    body,
    headers: { "content-type": type, ...headers },
  });
}

export function ofSlack(body: object | string, headers: Headers_ = {}): Request {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const time = String(NOW / 1_000);
  return posted("/hooks/slack", text, {
    "x-slack-request-timestamp": time,
    "x-slack-signature": `v0=${hmac(`v0:${time}:${text}`)}`,
    ...headers,
  });
}

/** An interaction, as Slack sends it. */
export function clickOfSlack(payload: object): Request {
  return ofSlack(new URLSearchParams({ payload: JSON.stringify(payload) }).toString());
}

export function ofDiscord(body: object, privateKey: KeyObject): Request {
  const text = JSON.stringify(body);
  const time = String(NOW / 1_000);
  return posted("/hooks/discord", text, {
    "x-signature-timestamp": time,
    "x-signature-ed25519": sign(null, Buffer.from(time + text), privateKey).toString("hex"),
  });
}
