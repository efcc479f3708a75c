/** The preset of Twilio against the package twilio. */

import fc from "fast-check";
import twilioPackage from "twilio";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { twilio } from "../../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent } from "../fakes.ts";
import { compare, isAcceptedBy, OTHER, SECRET, statusOf } from "./compare.ts";

const {
  getExpectedBodyHash: hashOf,
  getExpectedTwilioSignature: sign,
  validateRequest,
  validateRequestWithBody,
} = twilioPackage;

// Refusals are logged.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const RUNS = { numRuns: 30 };
const agent = () => new FakeAgent();
const endpoint = twilio({ secret: "SECRET", agent });
const FORM = "application/x-www-form-urlencoded; charset=utf-8";

function request(url: string, body: string, signature: string, type = FORM): Request {
  const headers = { "content-type": type, "x-twilio-signature": signature };
  return new Request(url, { method: "POST", body, headers });
}

/** As Express gives it to the package: a list where a parameter occurs more than once. */
function parametersOf(body: string): Record<string, string | string[]> {
  const search = new URLSearchParams(body);
  const entries = [...search.keys()].map((name) => {
    const values = search.getAll(name);
    return [name, values.length === 1 ? (values[0] as string) : values] as const;
  });
  return Object.fromEntries(entries);
}

const isForm = (headers: Headers, body: string, url: string) =>
  validateRequest(SECRET, headers.get("x-twilio-signature") ?? "", url, parametersOf(body));
const isJson = (headers: Headers, body: string, url: string) =>
  validateRequestWithBody(SECRET, headers.get("x-twilio-signature") ?? "", url, body);

const text = fc.string({ unit: "grapheme", maxLength: 8 });
const forms = fc
  .array(fc.tuple(fc.oneof(fc.constantFrom("To", "Body", "to", "__proto__", "1"), text), text), {
    maxLength: 8,
  })
  .map((pairs) => new URLSearchParams([["MessageSid", "SM1"], ...pairs]).toString());
const URL_ = "https://app.example/hooks/twilio";
const urls = fc
  .record({
    scheme: fc.constantFrom("https", "http"),
    port: fc.constantFrom("", ":443", ":80", ":8443"),
    query: fc.oneof(
      fc.constant(""),
      fc
        .uniqueArray(fc.tuple(text, text), { selector: ([name]) => name })
        .map((pairs) => `?${new URLSearchParams(pairs)}`),
      fc.constantFrom("?foo=1&bar=2", "?name=O'Neil", "?a=b c", "?a=(b)*!~", "?flag", "?a=%41"),
    ),
  })
  .map(({ scheme, port, query }) => `${scheme}://app.example${port}/hooks/twilio${query}`);

describe("the preset of Twilio", () => {
  it("accepts and refuses forms as the package does, whatever the parameters and the URL", async () => {
    await fc.assert(
      fc.asyncProperty(forms, urls, (body, url) =>
        compare({
          endpoint,
          request: (edit) =>
            request(url, body, edit(sign(SECRET, new URL(url).href, parametersOf(body)))),
          oracle: isForm,
        }),
      ),
      RUNS,
    );
  });

  it("accepts a signature of the URL with and without its port, and before it was parsed", async () => {
    const body = "MessageSid=SM1";
    const cases = [
      ["https://app.example/hooks/twilio", "https://app.example:443/hooks/twilio"],
      ["https://app.example:443/hooks/twilio", "https://app.example/hooks/twilio"],
      ["http://app.example/hooks/twilio?a=1", "http://app.example:80/hooks/twilio?a=1"],
      ["https://app.example:8443/hooks/twilio", "https://app.example/hooks/twilio"],
      ["https://app.example/hooks/twilio?n=O'N", "https://app.example/hooks/twilio?n=O'N"],
      ["https://app.example/hooks/twilio?n=O'N+x", "https://app.example/hooks/twilio?n=O'N+x"],
      [
        "https://app.example/hooks/twilio?n=a%2Bb+c'd",
        "https://app.example/hooks/twilio?n=a%2Bb+c'd",
      ],
    ] as const;
    for (const [url, signedUrl] of cases) {
      const sent = request(url, body, sign(SECRET, signedUrl, parametersOf(body)));
      expect(isForm(sent.headers, body, url)).toBe(true);
      expect({ url, status: await statusOf(endpoint, sent) }).toEqual({ url, status: 200 });
    }
  });

  it("accepts a signature of the URL as it is written at Twilio, which Request escapes", async () => {
    const body = "MessageSid=SM1";
    const at = (url: string) =>
      twilio({ secret: "SECRET", agent, path: new URL(url).pathname as `/${string}` });
    const urls = [
      "https://app.example/hooks/twilio?city=Orléans",
      "https://app.example/hooks/twilio?city=Orl%C3%A9ans",
      "https://app.example/hooks/twilio?city=L'Haÿ+des&x=日本",
      "https://app.example/hooks/orléans?a=%2B",
      "https://app.example/hooks/twilio?city=é%FF",
    ];
    for (const url of urls) {
      const sent = request(url, body, sign(SECRET, url, parametersOf(body)));
      expect({ url, status: await statusOf(at(url), sent) }).toEqual({ url, status: 200 });
    }
    const [url = ""] = urls;
    const sent = request(url, body, sign(SECRET, url.replace("é", "e"), parametersOf(body)));
    expect(await statusOf(endpoint, sent)).toBe(401);
  });

  it("accepts a body whose characters beyond ASCII are not escaped, as the package does", async () => {
    for (const body of [
      "MessageSid=SM1&Body=Orléans+日本",
      "Ortschaft=Köln&MessageSid=SM1&é=%C3%A9",
    ]) {
      const sent = request(URL_, body, sign(SECRET, URL_, parametersOf(body)));
      expect(isForm(sent.headers, body, URL_)).toBe(true);
      expect(await statusOf(endpoint, sent)).toBe(200);
      const other = request(URL_, body.replace("é", "e"), sign(SECRET, URL_, parametersOf(body)));
      expect(await statusOf(endpoint, other)).toBe(401);
    }
  });

  it("refuses another scheme, host, path, query, port or secret, as the package does", async () => {
    const body = "MessageSid=SM1&Body=hi";
    const others = [
      "http://app.example/hooks/twilio",
      "https://other.example/hooks/twilio",
      "https://app.example/hooks/other",
      "https://app.example/hooks/twilio/",
      "https://app.example/hooks/twilio?a=1",
      "https://app.example:8443/hooks/twilio",
    ];
    for (const signedUrl of others) {
      const sent = request(URL_, body, sign(SECRET, signedUrl, parametersOf(body)));
      expect(isForm(sent.headers, body, URL_)).toBe(false);
      expect({ signedUrl, status: await statusOf(endpoint, sent) }).toEqual({
        signedUrl,
        status: 401,
      });
    }
    const forged = request(URL_, body, sign(OTHER, URL_, parametersOf(body)));
    expect(await statusOf(endpoint, forged)).toBe(401);
    const unsigned = request(URL_, body, "");
    unsigned.headers.delete("x-twilio-signature");
    expect(await statusOf(endpoint, unsigned)).toBe(401);
  });

  it("refuses a parameter that was added, removed, changed or moved, as the package does", async () => {
    const signature = sign(SECRET, URL_, { A: "1", B: "2", MessageSid: "SM1" });
    const bodies = [
      "A=1&B=2&MessageSid=SM1&C=3",
      "A=1&MessageSid=SM1",
      "A=1&B=3&MessageSid=SM1",
      "A=2&B=1&MessageSid=SM1",
      "A=1&A=2&B=2&MessageSid=SM1",
      "",
    ];
    for (const body of bodies) {
      const sent = request(URL_, body, signature);
      expect(isForm(sent.headers, body, URL_)).toBe(false);
      expect(await statusOf(endpoint, sent)).toBe(401);
    }
    for (const body of ["MessageSid=SM1&B=2&A=1", "A=1&A=1&B=2&MessageSid=SM1"]) {
      const sent = request(URL_, body, signature);
      expect(isForm(sent.headers, body, URL_)).toBe(true);
      expect(await statusOf(endpoint, sent)).toBe(200);
    }
  });

  it("accepts and refuses JSON as the package does, by the hash in the signed query", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), urls, async (data, start) => {
        const body = JSON.stringify({ data });
        const query = `bodySHA256=${hashOf(body)}`;
        const url = new URL(start.includes("?") ? `${start}&${query}` : `${start}?${query}`).href;
        await compare({
          endpoint,
          request: (edit) => request(url, body, edit(sign(SECRET, url, {})), "application/json"),
          oracle: isJson,
        });
      }),
      RUNS,
    );
  });

  it("refuses JSON whose hash is missing, unsigned or of another body", async () => {
    const body = '{"id":"1"}';
    const good = `${URL_}?bodySHA256=${hashOf(body)}`;
    const upper = `${URL_}?bodySHA256=${hashOf(body).toUpperCase()}`;
    const wrong = [
      request(good, '{"id":"2"}', sign(SECRET, good, {}), "application/json"),
      request(good, body, sign(SECRET, URL_, {}), "application/json"),
      request(upper, body, sign(SECRET, upper, {}), "application/json"),
      request(URL_, body, sign(SECRET, URL_, {}), "application/json"),
      request(`${URL_}?bodySHA256=`, body, sign(SECRET, `${URL_}?bodySHA256=`, {}), "text/json"),
    ];
    for (const sent of wrong) {
      const text = await sent.clone().text();
      expect(await isAcceptedBy(() => isJson(sent.headers, text, sent.url))).toBe(false);
      expect(await statusOf(endpoint, sent)).toBe(401);
    }
    const sent = request(good, body, sign(SECRET, good, {}), "application/json");
    expect(await statusOf(endpoint, sent)).toBe(200);
  });

  it("takes the URL that is configured, where a proxy has changed it", async () => {
    const url = "https://public.example/sms?tenant=1";
    const proxied = twilio({ secret: "SECRET", agent, url });
    const body = "MessageSid=SM1";
    const of = (signedUrl: string) => sign(SECRET, signedUrl, parametersOf(body));
    const requested = "http://localhost:8787/hooks/twilio";
    const status = (signedUrl: string, query = "") =>
      statusOf(proxied, request(`${requested}${query}`, body, of(signedUrl)));
    expect(await status(url)).toBe(200);
    expect(await status(url.replace(".example", ".example:443"))).toBe(200);
    expect(await status("https://public.example/sms?tenant=2", "?tenant=2")).toBe(200);
    expect(await status("https://public.example/sms?tenant=2")).toBe(401);
    expect(await status(requested)).toBe(401);
    const json = '{"id":"1"}';
    const query = `?tenant=1&bodySHA256=${hashOf(json)}`;
    const signature = sign(SECRET, `https://public.example/sms${query}`, {});
    const sent = request(`${requested}${query}`, json, signature, "application/json");
    expect(await statusOf(proxied, sent)).toBe(200);
  });
});
