import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Json } from "../../../../src/core/json.ts";
import {
  type CustomOptions,
  custom,
  InvalidOptionError,
  webhooks,
} from "../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent, FakeContext, post } from "./fakes.ts";

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const agent = new FakeAgent();
const BODY = '{"event":"paid","order":7}';
const NOW = 1_790_000_000_000;
const BASE = {
  secret: "SECRET",
  header: "x-signature",
  agent: () => agent,
  clock: { now: () => NOW },
} as const;

async function send(
  options: CustomOptions<Json, FakeAgent>,
  headers: Record<string, string>,
  { secret = "shared", body = BODY } = {},
) {
  const hooks = webhooks(custom(options));
  const response = await hooks(
    post("/hooks/custom", body, headers),
    { SECRET: secret },
    new FakeContext(),
  );
  return { status: response?.status, ...((await response?.json()) as object) };
}

const hmac = (text: string, hash = "sha256", secret = "shared") =>
  createHmac(hash, secret).update(text);

describe("custom() with an HMAC", () => {
  it("checks hex in either case, base64, SHA-1 and a prefix", async () => {
    const options = { ...BASE, scheme: "hmac" } as const;
    const hex = hmac(BODY).digest("hex");
    expect(await send(options, { "x-signature": hex })).toMatchObject({ status: 200 });
    expect(await send(options, { "x-signature": hex.toUpperCase() })).toMatchObject({
      status: 200,
    });
    expect(await send(options, { "x-signature": `${hex}0` })).toMatchObject({ status: 401 });
    const base64 = hmac(BODY).digest("base64");
    expect(await send({ ...options, encoding: "base64" }, { "x-signature": base64 })).toMatchObject(
      { status: 200 },
    );
    expect(
      await send({ ...options, encoding: "base64" }, { "x-signature": base64.replace("=", "") }),
    ).toMatchObject({ status: 401 });
    const sha1 = `sha1=${hmac(BODY, "sha1").digest("hex")}`;
    const old = { ...options, hash: "SHA-1", prefix: "sha1=" } as const;
    expect(await send(old, { "x-signature": sha1 })).toMatchObject({ status: 200 });
    expect(await send(old, { "x-signature": sha1.slice(5) })).toMatchObject({ status: 401 });
    expect(await send(options, {})).toMatchObject({ status: 401 });
  });

  it("checks a signed time in seconds or milliseconds, in both directions", async () => {
    const options = {
      ...BASE,
      scheme: "hmac",
      timestamp: "x-time",
      tolerance: "1 minute",
    } as const;
    const at = async (time: string) => {
      const signature = hmac(`${time}.${BODY}`).digest("hex");
      return (await send(options, { "x-signature": signature, "x-time": time })).status;
    };
    const seconds = NOW / 1_000;
    for (const time of [seconds, seconds - 60, seconds + 60, NOW, NOW - 60_000])
      expect(await at(String(time))).toBe(200);
    for (const time of [seconds - 61, seconds + 61, NOW - 61_000, 0, "soon", "-1", "1e9", " "])
      expect(await at(String(time))).toBe(401);
    const unsigned = { "x-signature": hmac(BODY).digest("hex"), "x-time": String(seconds) };
    expect(await send(options, unsigned)).toMatchObject({ status: 401 });
    const { "x-time": _, ...without } = unsigned;
    expect(await send(options, without)).toMatchObject({ status: 401 });
  });

  it("signs what `before` says", async () => {
    const options = { ...BASE, scheme: "hmac", before: "v1|" } as const;
    expect(await send(options, { "x-signature": hmac(`v1|${BODY}`).digest("hex") })).toMatchObject({
      status: 200,
    });
    expect(await send(options, { "x-signature": hmac(BODY).digest("hex") })).toMatchObject({
      status: 401,
    });
  });
});

describe("custom() with Ed25519", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
  const other = generateKeyPairSync("ed25519").privateKey;

  it.each(["hex", "base64"] as const)("checks signatures in %s", async (encoding) => {
    const options = { ...BASE, scheme: "ed25519", encoding } as const;
    const secret = raw.toString(encoding);
    const of = (key: typeof privateKey, text = BODY) => ({
      "x-signature": sign(null, Buffer.from(text), key).toString(encoding),
    });
    expect(await send(options, of(privateKey), { secret })).toMatchObject({ status: 200 });
    expect(await send(options, of(privateKey, `${BODY} `), { secret })).toMatchObject({
      status: 401,
    });
    expect(await send(options, of(other), { secret })).toMatchObject({ status: 401 });
    for (const signature of ["", "00", "x".repeat(128), "A".repeat(128)])
      expect(await send(options, { "x-signature": signature }, { secret })).toMatchObject({
        status: 401,
      });
    expect(await send(options, of(privateKey), { secret: "no key" })).toMatchObject({
      status: 503,
    });
  });
});

describe("custom() with a token", () => {
  it("compares the whole token", async () => {
    const options = {
      ...BASE,
      scheme: "token",
      header: "authorization",
      prefix: "Bearer ",
    } as const;
    expect(await send(options, { authorization: "Bearer shared" })).toMatchObject({ status: 200 });
    for (const token of [
      "Bearer share",
      "Bearer shared2",
      "bearer shared",
      "shared",
      "Bearer ",
      "Bearer",
    ])
      expect(await send(options, { authorization: token })).toMatchObject({ status: 401 });
  });
});

describe("custom()", () => {
  const token = { ...BASE, scheme: "token" } as const;
  const headers = { "x-signature": "shared", "x-id": "id-1", "x-event": "paid" };

  it("takes the id and the type from headers or by functions; the id is the body's SHA-256 otherwise", async () => {
    const named = { ...token, id: "x-id", type: "x-event", events: ["paid"] };
    expect(await send(named, headers)).toMatchObject({ status: 200, id: "id-1" });
    const byBody = {
      ...token,
      id: (body: Json) => `order-${(body as { order: number }).order}`,
      events: ["paid"],
      type: (body: Json) => (body as { event: string }).event,
    };
    expect(await send(byBody, headers)).toMatchObject({ status: 200, id: "order-7" });
    const { status, id } = (await send(token, headers)) as { status: number; id: string };
    expect({ status, length: id.length }).toEqual({ status: 200, length: 64 });
    expect(await send({ ...token, id: "x-missing" }, headers)).toMatchObject({ status: 400 });
    const throws = {
      ...token,
      id: () => {
        throw new Error("private");
      },
    };
    expect(await send(throws, headers)).toMatchObject({ status: 400 });
  });

  it("takes forms with format: form, and no JSON then", async () => {
    const form = { ...headers, "content-type": "application/x-www-form-urlencoded" };
    const options = {
      ...token,
      format: "form",
      id: (body: Json) => (body as { id: string }).id,
    } as const;
    expect(await send(options, form, { body: "id=a1&__proto__=x" })).toMatchObject({
      status: 200,
      id: "a1",
    });
    expect(await send(options, headers)).toMatchObject({ status: 415 });
    expect(await send(token, form)).toMatchObject({ status: 415 });
  });

  it.each([
    [{ scheme: "rsa" }, "scheme"],
    [{ scheme: undefined }, "scheme"],
    [{ header: undefined }, "header"],
    [{ header: "a b" }, "header"],
    [{ hash: "MD5" }, "hash"],
    [{ encoding: "utf8" }, "encoding"],
    [{ before: "{timestamp}." }, "before"],
    [{ timestamp: "x-time", before: "v0:" }, "before"],
    [{ timestamp: 7 }, "timestamp"],
    [{ format: "xml" }, "format"],
    [{ id: 7 }, "id"],
    [{ type: "a b" }, "type"],
    [{ scheme: "token", timestamp: "x-time" }, "timestamp"],
    [{ prefix: 7 }, "prefix"],
  ])("refuses %j, and the error names %s", (wrong, option) => {
    const options = { ...BASE, scheme: "hmac", ...wrong } as never;
    expect(() => custom(options)).toThrow(InvalidOptionError);
    expect(() => custom(options)).toThrow(expect.objectContaining({ option }));
  });
});
