/** How a receiver reads bodies: large integers, and bodies that are compressed. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { custom, github, shopify, slack } from "../../../../src/features/inbound/webhooks/index.ts";
import { hmac, ofSlack, posted, receive, recording } from "./presets/receive.ts";

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const { options, arrivals } = recording();
const acme = custom({
  ...options,
  name: "acme",
  scheme: "hmac",
  header: "x-acme-signature",
  id: (body: unknown) => String((body as { order: unknown }).order),
} as never);
const signed = (raw: string) => posted("/hooks/acme", raw, { "x-acme-signature": hmac(raw) });

beforeEach(() => {
  arrivals.length = 0;
});

describe("a number beyond the safe integers", () => {
  it("I4: is its text, as it was sent, so two ids stay two arrivals", async () => {
    const sent = ["9007199254740992", "9007199254740993", "-9007199254740993"];
    sent.push("9007199254740993.0", "9.007199254740993e15", "90071992547409.93E+2", "1e20");
    const verdicts = [];
    for (const order of sent)
      verdicts.push(await (await receive(acme, signed(`{"order":${order}}`))).json());
    expect(verdicts).toMatchObject(sent.map(() => ({ verdict: "accepted" })));
    expect(arrivals.map(({ body }) => body)).toEqual([
      { order: "9007199254740992" },
      { order: "9007199254740993" },
      { order: "-9007199254740993" },
      { order: "9007199254740993.0" },
      { order: "9.007199254740993e15" },
      { order: "90071992547409.93E+2" },
      { order: 1e20 },
    ]);
  });

  it("leaves other values as they are", async () => {
    const raw =
      '{"order":9007199254740991,"text":"12345678901234567890","price":0.1234567890123456,"total":12345678.9012345678,"exact":9007199254740991.0,"__proto__":{"at":[12345678901234567890]}}';
    await receive(acme, signed(raw));
    const body = arrivals[0]?.body as object;
    expect(Object.entries(body)).toEqual([
      ["order", 9007199254740991],
      ["text", "12345678901234567890"],
      ["price", 0.1234567890123456],
      ["total", 12345678.901234567],
      ["exact", 9007199254740991],
      ["__proto__", { at: ["12345678901234567890"] }],
    ]);
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
  });

  it("is exact in the forms and for the presets of all senders", async () => {
    const raw = '{"id":820982911946154509}';
    const headers = {
      "x-shopify-hmac-sha256": hmac(raw, { encoding: "base64" }),
      "x-shopify-webhook-id": "w",
    };
    await receive(shopify(options), posted("/hooks/shopify", raw, headers));
    const form = new URLSearchParams({ payload: raw }).toString();
    const ofGithub = { "x-hub-signature-256": `sha256=${hmac(form)}`, "x-github-delivery": "1" };
    await receive(github(options), posted("/hooks/github", form, ofGithub));
    await receive(slack(options), ofSlack(form));
    expect(arrivals.map(({ body }) => (body as { id: unknown }).id)).toEqual(
      Array(3).fill("820982911946154509"),
    );
  });
});

describe("a compressed body", () => {
  const compressed = async (encoding: string) => {
    const stream = new Blob(["{}"]).stream().pipeThrough(new CompressionStream("gzip"));
    const body = await new Response(stream).arrayBuffer();
    const headers = { "content-type": "application/json", "content-encoding": encoding };
    return new Request("https://app.example/hooks/acme", {
      method: "POST",
      body,
      headers: { ...headers, "x-acme-signature": hmac("{}") },
    });
  };

  it.each(["gzip", "br", "deflate, gzip"])(
    "is answered with 415 and the remedy: %s",
    async (encoding) => {
      const response = await receive(acme, await compressed(encoding));
      expect(response.status).toBe(415);
      expect(await response.json()).toEqual({
        error: `The body is compressed with ${encoding}. Send it without Content-Encoding.`,
      });
      expect(response.headers.get("accept-encoding")).toBe("identity");
      expect(arrivals).toEqual([]);
    },
  );

  it("is not one with the encoding identity", async () => {
    const raw = '{"order":1}';
    const headers = { "x-acme-signature": hmac(raw), "content-encoding": "identity" };
    expect((await receive(acme, posted("/hooks/acme", raw, headers))).status).toBe(200);
  });
});
