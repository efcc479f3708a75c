/** Each preset against the sender's own package: both accept and refuse the same requests. */

import { sign as githubSign, verify as githubVerify } from "@octokit/webhooks-methods";
import fc from "fast-check";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";
import { beforeEach, describe, expect, it, vi } from "vitest";
import {
  type Endpoint,
  github,
  standardWebhooks,
  stripe,
  svix,
  webhooks,
} from "../../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent, FakeContext, post } from "../fakes.ts";

// Refusals are logged.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const NOW = Date.now();
const SECONDS = Math.floor(NOW / 1_000);
const SECRET = "the secret of the tests";
const OTHER = "another secret";
const BASE64 = `whsec_${btoa("a key of thirty-two bytes or so..")}`;
const OTHER_BASE64 = `whsec_${btoa("another key of thirty-two bytes..")}`;

/** The packages read the clock. */
const nowSeconds = () => Math.floor(Date.now() / 1_000);

/** Bodies as senders send them: an object with an id, as JSON, with any text in it. */
const bodies = fc
  .record({ id: fc.uuid(), type: fc.constant("test"), data: fc.jsonValue() })
  .map((body) => JSON.stringify(body));

/** What may be wrong with a signature, as an edit of the signature itself. */
const edits: Readonly<Record<string, (signature: string) => string>> = {
  unchanged: (signature) => signature,
  empty: () => "",
  truncated: (signature) => signature.slice(0, -1),
  "truncated by a byte": (signature) => signature.slice(0, -2),
  longer: (signature) => `${signature}00`,
  "repeated in place": (signature) => signature + signature,
  "upper case": (signature) => signature.toUpperCase(),
  "neither hex nor base64": (signature) => `?${signature.slice(1)}`,
  "one digit replaced": (signature) => (signature[0] === "a" ? "b" : "a") + signature.slice(1),
  "spaces around": (signature) => ` ${signature} `,
};

async function statusOf(
  endpoint: Endpoint,
  body: string,
  headers: Record<string, string>,
  env: object,
): Promise<number> {
  const request = post(endpoint.path, body, headers);
  const response = await webhooks(endpoint)(request, env, new FakeContext());
  return response?.status ?? 0;
}

const agent = () => new FakeAgent();
const clock = { now: () => NOW };

async function doesNotThrow(work: () => unknown): Promise<boolean> {
  try {
    return (await work()) !== false;
  } catch {
    return false;
  }
}

/** Both sides, and what they say of each edit of a signature. */
async function compare(options: {
  readonly endpoint: Endpoint;
  readonly env: object;
  readonly body: string;
  /** The headers with an edit of the signature. */
  readonly headers: (edit: (signature: string) => string) => Record<string, string>;
  readonly oracle: (headers: Record<string, string>) => unknown;
}) {
  for (const [name, edit] of Object.entries(edits)) {
    const headers = options.headers(edit);
    const isAccepted = await doesNotThrow(() => options.oracle(headers));
    const status = await statusOf(options.endpoint, options.body, headers, options.env);
    expect({ name, status }).toEqual({ name, status: isAccepted ? 200 : 401 });
    if (name === "unchanged") expect(isAccepted).toBe(true);
  }
}

describe("the preset of GitHub", () => {
  const endpoint = github({ secret: "SECRET", agent, clock });

  it("accepts and refuses what @octokit/webhooks-methods does", async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const signed = await githubSign(SECRET, body);
        const signature = signed.slice("sha256=".length);
        await compare({
          endpoint,
          env: { SECRET },
          body,
          headers: (edit) => ({
            "x-github-delivery": "d-1",
            "x-github-event": "issues",
            "x-hub-signature-256": `sha256=${edit(signature)}`.trim(),
          }),
          oracle: (headers) => githubVerify(SECRET, body, headers["x-hub-signature-256"] as string),
        });
      }),
      { numRuns: 20 },
    );
  });

  it("refuses a signature of another secret, of another body, and without its prefix", async () => {
    const body = '{"id":"1"}';
    const headers = { "x-github-delivery": "d-1", "x-github-event": "issues" };
    const of = (signature: string) => ({ ...headers, "x-hub-signature-256": signature });
    const good = await githubSign(SECRET, body);
    const wrong = [
      await githubSign(OTHER, body),
      await githubSign(SECRET, `${body} `),
      good.slice("sha256=".length),
      good.replace("sha256", "sha1"),
      `${good}, ${good}`,
    ];
    expect(await statusOf(endpoint, body, of(good), { SECRET })).toBe(200);
    for (const signature of wrong) {
      expect(await githubVerify(SECRET, body, signature)).toBe(false);
      expect(await statusOf(endpoint, body, of(signature), { SECRET })).toBe(401);
    }
    expect(await statusOf(endpoint, body, headers, { SECRET })).toBe(401);
  });
});

describe("the preset of Stripe", () => {
  const oracle = new Stripe("sk_test_none").webhooks;
  const endpoint = stripe({ secret: ["SECRET", "OLD"], agent, clock });
  const env = { SECRET, OLD: OTHER };
  const signed = (body: string, { secret = SECRET, timestamp = SECONDS } = {}) =>
    oracle.generateTestHeaderStringAsync({ payload: body, secret, timestamp });
  const verify = (body: string, header: string, secret = SECRET) =>
    oracle.constructEventAsync(body, header, secret, 300, undefined, NOW);

  it("accepts and refuses what the package stripe does", async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const header = await signed(body);
        const [time = "", signature = ""] = header.split(",v1=");
        await compare({
          endpoint: stripe({ secret: "SECRET", agent, clock }),
          env,
          body,
          headers: (edit) => ({ "stripe-signature": `${time},v1=${edit(signature)}`.trim() }),
          oracle: (headers) => verify(body, headers["stripe-signature"] as string),
        });
      }),
      { numRuns: 20 },
    );
  });

  it("accepts each secret while it is rotated, and several signatures in one header", async () => {
    const body = '{"id":"evt_1","type":"payment_intent.succeeded"}';
    const headers = [
      await signed(body),
      await signed(body, { secret: OTHER }),
      `${await signed(body, { secret: "a third secret" })},v1=${(await signed(body)).split("v1=")[1]}`,
      `${await signed(body)},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39`,
    ];
    for (const header of headers)
      expect(await statusOf(endpoint, body, { "stripe-signature": header }, env)).toBe(200);
    const third = await signed(body, { secret: "a third secret" });
    expect(await statusOf(endpoint, body, { "stripe-signature": third }, env)).toBe(401);
  });

  it("refuses an old time as the package does, and a future one, which the package accepts", async () => {
    const body = '{"id":"evt_1","type":"ping"}';
    const cases = [-299, -300, -301, -86_400, 299, 301, 86_400];
    for (const offset of cases) {
      const header = await signed(body, { timestamp: SECONDS + offset });
      const isAccepted = await doesNotThrow(() => verify(body, header));
      expect(isAccepted).toBe(offset >= -300);
      const status = await statusOf(
        stripe({ secret: "SECRET", agent, clock: { now: () => SECONDS * 1_000 } }),
        body,
        { "stripe-signature": header },
        env,
      );
      expect({ offset, status }).toEqual({ offset, status: Math.abs(offset) <= 300 ? 200 : 401 });
    }
  });

  it("refuses headers without a time, without a signature, and of another form", async () => {
    const body = '{"id":"evt_1","type":"ping"}';
    const [time = "", signature = ""] = (await signed(body)).split(",");
    for (const header of [
      time,
      signature,
      "",
      "v1",
      "=,=",
      "t=,v1=",
      `t=x,${signature}`,
      `${time};${signature}`,
    ]) {
      expect(await doesNotThrow(() => verify(body, header))).toBe(false);
      expect(await statusOf(endpoint, body, { "stripe-signature": header }, env)).toBe(401);
    }
    expect(await statusOf(endpoint, body, {}, env)).toBe(401);
  });
});

const standards = [
  {
    name: "Standard Webhooks",
    Oracle: StandardWebhook,
    preset: standardWebhooks,
    prefix: "webhook",
  },
  { name: "Svix", Oracle: SvixWebhook, preset: svix, prefix: "svix" },
] as const;

describe.each(standards)("the preset of $name", ({ Oracle, preset, prefix }) => {
  const oracle = new Oracle(BASE64);
  const endpoint = preset({ secret: "SECRET", agent });
  const env = { SECRET: BASE64 };
  const headersOf = (signature: string, { id = "msg_1", time = nowSeconds() } = {}) => ({
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(time),
    [`${prefix}-signature`]: signature,
  });

  it("accepts and refuses what the package does", async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const signature = oracle.sign("msg_1", new Date(nowSeconds() * 1_000), body).slice(3);
        await compare({
          endpoint,
          env,
          body,
          headers: (edit) => headersOf(`v1,${edit(signature)}`.trim()),
          oracle: (headers) => oracle.verify(body, headers),
        });
      }),
      { numRuns: 20 },
    );
  });

  it("accepts one good signature among several, and no other version", async () => {
    const body = '{"type":"a"}';
    const good = oracle.sign("msg_1", new Date(nowSeconds() * 1_000), body);
    const bad = new Oracle(OTHER_BASE64).sign("msg_1", new Date(nowSeconds() * 1_000), body);
    const cases = [
      good,
      `${bad} ${good}`,
      `${good} ${bad}`,
      bad,
      `${bad} ${bad}`,
      good.replace("v1", "v2"),
      good.slice(3),
      `v1a,${good}`,
    ];
    for (const signature of cases) {
      const headers = headersOf(signature);
      const isAccepted = await doesNotThrow(() => oracle.verify(body, headers));
      expect({ signature, status: await statusOf(endpoint, body, headers, env) }).toEqual({
        signature,
        status: isAccepted ? 200 : 401,
      });
    }
  });

  it("refuses old and future times, another id, and missing headers", async () => {
    const body = '{"type":"a"}';
    for (const offset of [-86_400, -302, -298, 0, 298, 302, 86_400]) {
      const time = nowSeconds() + offset;
      const headers = headersOf(oracle.sign("msg_1", new Date(time * 1_000), body), { time });
      const isAccepted = await doesNotThrow(() => oracle.verify(body, headers));
      const status = await statusOf(endpoint, body, headers, env);
      expect({ offset, status }).toEqual({ offset, status: isAccepted ? 200 : 401 });
    }
    const signature = oracle.sign("msg_1", new Date(nowSeconds() * 1_000), body);
    const headers: Record<string, string> = headersOf(signature);
    expect(await statusOf(endpoint, body, headersOf(signature, { id: "msg_2" }), env)).toBe(401);
    for (const name of Object.keys(headers)) {
      const { [name]: _, ...rest } = headers;
      expect(await statusOf(endpoint, body, rest, env)).toBe(401);
    }
  });

  it("takes a secret with whsec_, with v1,whsec_, and alone", async () => {
    const body = '{"type":"a"}';
    for (const prefix of ["", "whsec_", "v1,whsec_"]) {
      const SECRET = prefix + BASE64.replace(/^whsec_/, "");
      const headers = headersOf(oracle.sign("msg_1", new Date(nowSeconds() * 1_000), body));
      expect([prefix, await statusOf(endpoint, body, headers, { SECRET })]).toEqual([prefix, 200]);
    }
  });

  it("answers 503 for a secret that is not base64", async () => {
    const signature = oracle.sign("msg_1", new Date(nowSeconds() * 1_000), "{}");
    expect(await statusOf(endpoint, "{}", headersOf(signature), { SECRET: "whsec_!" })).toBe(503);
  });
});
