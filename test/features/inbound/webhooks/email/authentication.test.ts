import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { authenticationOf } from "../../../../../src/features/inbound/webhooks/email/authentication.ts";
import { parseResults } from "../../../../../src/features/inbound/webhooks/email/authentication-results.ts";
import { type Header, parseMime } from "../../../../../src/features/inbound/webhooks/email/mime.ts";
import { emailOf, results } from "./message.ts";

const SERVER = "mx.cloudflare.net";
const check = (
  value: string | readonly Header[],
  { envelopeFrom = "ann@example.org", fromDomain = "example.org" as string | undefined } = {},
) => {
  const headers = typeof value === "string" ? [{ name: "authentication-results", value }] : value;
  return authenticationOf(headers, { server: SERVER, envelopeFrom, fromDomain });
};

const word = fc.stringMatching(/^[a-z]{1,8}$/);
/** Anything that a sender may write, with a bias to what has a meaning. */
const soup = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...[";", "=", '"', "(", ")", "\\", " ", ".", "dmarc=pass", "header.from=example.org"],
        ...["mx.cloudflare.net", "dkim=pass header.d=example.org", "spf=pass", "\t", "\n "],
      ),
      word,
      fc.string({ maxLength: 5 }),
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(""));
/** A text of a comment or a quoted text, with its special characters escaped. */
const escaped = soup.map((text) => text.replace(/[()"\\]/g, "\\$&"));

describe("authenticationOf()", () => {
  it("reads the header that Email Routing writes", () => {
    expect(check(results().slice("Authentication-Results:".length))).toEqual({
      spf: "pass",
      dkim: "pass",
      dmarc: "pass",
      isAuthentic: true,
    });
  });

  it.each([
    ["mx.cloudflare.net; dmarc=pass header.from=example.org", true],
    ["MX.Cloudflare.NET 1; DMARC = Pass header.from = EXAMPLE.org", true],
    [
      "mx.cloudflare.net (a (nested) \\) comment); dmarc=pass (p=none) header.from=example.org",
      true,
    ],
    ["mx.cloudflare.net; dmarc=fail header.from=example.org", false],
    ["mx.cloudflare.net; dmarc=passed header.from=example.org", false],
    ["mx.cloudflare.net; dmarc=pass header.from=sub.example.org", false],
    ["mx.cloudflare.net; dmarc=pass", false],
    [
      "mx.cloudflare.net; dmarc=pass header.from=example.org; dmarc=fail header.from=example.org",
      false,
    ],
    ["mx.cloudflare.net.evil.example; dmarc=pass header.from=example.org", false],
    ["evil.example; mx.cloudflare.net; dmarc=pass header.from=example.org", false],
    ['mx.cloudflare.net; spf=none reason="; dmarc=pass header.from=example.org"', false],
    ["mx.cloudflare.net; spf=none (; dmarc=pass header.from=example.org)", false],
    ["mx.cloudflare.net; dmarc=pass header.from=example.org (no end", false],
    ["mx.cloudflare.net; none", false],
    ["", false],
  ])("%s", (header, isAuthentic) => {
    expect(check(header).isAuthentic).toBe(isAuthentic);
  });

  it("accepts an aligned DKIM or SPF for a domain without a DMARC policy, and no other", () => {
    const without = (rest: string, fromDomain = "mail.example.org") =>
      check(`${SERVER}; dmarc=none header.from=${fromDomain}; ${rest}`, { fromDomain }).isAuthentic;
    expect(without("dkim=pass header.d=mail.example.org")).toBe(true);
    expect(without("dkim=pass header.d=example.org")).toBe(true);
    expect(without("dkim=fail header.d=x.org; dkim=pass header.d=example.org")).toBe(true);
    expect(without("spf=pass smtp.mailfrom=bounce@mail.example.org")).toBe(true);
    expect(without("spf=pass smtp.mailfrom=mail.example.org")).toBe(true);
    expect(without("dkim=pass header.d=org")).toBe(false);
    expect(without("dkim=pass header.d=a.mail.example.org")).toBe(false);
    expect(without("dkim=pass header.d=le.org", "example.org")).toBe(false);
    expect(without("dkim=fail header.d=mail.example.org")).toBe(false);
    expect(without("spf=pass smtp.helo=mail.example.org")).toBe(false);
    expect(without("spf=fail smtp.mailfrom=ann@mail.example.org")).toBe(false);
    expect(without("dkim=pass header.d=evil.example")).toBe(false);
  });

  it("believes nothing where the sender's address could end a comment of the server", () => {
    const evil = '"x) ; dmarc=pass header.from=example.org ("@evil.example';
    const header = `${SERVER}; spf=pass (domain of ${evil} is permitted) smtp.mailfrom=evil.example`;
    expect(check(header, { envelopeFrom: evil }).isAuthentic).toBe(false);
  });

  it("believes no header but the topmost, whatever the sender writes", () => {
    const failed = results({ dmarc: "fail" });
    fc.assert(
      fc.property(soup, fc.array(soup, { maxLength: 3 }), (forged, others) => {
        const line = (value: string) => value.replace(/[\r\n]+[^ \t]/g, " ");
        const headers = [
          `Authentication-Results: ${line(forged)}`,
          `Authentication-Results: ${SERVER}; dmarc=pass header.from=example.org`,
          ...others.map((value) => `X-Other: ${line(value)}`),
        ];
        const email = emailOf({ authentication: failed, headers });
        const parsed = parseMime(new TextEncoder().encode(email));
        expect(check(parsed.headers)).toMatchObject({ isAuthentic: false, dmarc: "fail" });
      }),
    );
  });

  it("finds no result in comments and quoted texts", () => {
    fc.assert(
      fc.property(escaped, escaped, (comment, quoted) => {
        const flat = (text: string) => text.replace(/\s/g, " ");
        const header = `${SERVER} (${flat(comment)}); spf=none reason="${flat(quoted)}" smtp.helo=a.b (${flat(comment)}); dmarc=fail header.from=example.org`;
        expect(parseResults(header)?.results.map(({ method }) => method)).toEqual(["spf", "dmarc"]);
        expect(check(header).isAuthentic).toBe(false);
      }),
    );
  });

  it("reads every header without a failure, and believes none of another server", () => {
    fc.assert(
      fc.property(soup, (text) => {
        parseResults(text);
        expect(check(`mx.evil.example; ${text}`).isAuthentic).toBe(false);
      }),
    );
  });

  it("reads back what it writes", () => {
    const result = fc.record({
      method: word,
      result: word,
      properties: fc.uniqueArray(fc.tuple(word, word, word), {
        selector: ([type, name]) => `${type}.${name}`,
        maxLength: 3,
      }),
    });
    fc.assert(
      fc.property(fc.array(result, { maxLength: 5 }), (list) => {
        const texts = list.map(
          ({ method, result, properties }) =>
            `${method}=${result}${properties.map(([type, name, value]) => ` ${type}.${name}=${value}`).join("")}`,
        );
        const read = parseResults([SERVER, ...texts].join("; "));
        const expected = list.map(({ method, result, properties }) => ({
          method,
          result,
          properties: new Map(properties.map(([type, name, value]) => [`${type}.${name}`, value])),
        }));
        expect(read).toEqual({ server: SERVER, results: expected });
      }),
    );
  });
});
