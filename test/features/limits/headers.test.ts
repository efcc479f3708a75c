/** What providers say of their own limits. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { responseOf } from "../../../src/core/failures.ts";
import {
  comparable,
  readLimitHeaders,
  refusalOf,
} from "../../../src/features/limits/calls/headers.ts";
import { refused } from "./support.ts";

const NOW = Date.UTC(2026, 10, 26, 12);

describe("the headers of a provider", () => {
  it("of OpenAI say what it allows, and when what is used up comes back", () => {
    const headers = {
      "X-RateLimit-Limit-Requests": "60",
      "x-ratelimit-limit-tokens": "150000",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-remaining-tokens": "149984",
      "x-ratelimit-reset-requests": "1s",
      "x-ratelimit-reset-tokens": "6m0s",
    };
    expect(readLimitHeaders(headers, NOW)).toEqual({
      allowed: { requests: 60, tokens: 150_000 },
      resetMs: 1_000,
    });
  });

  it("of Anthropic have times of RFC 3339", () => {
    const headers = {
      "anthropic-ratelimit-requests-limit": "50",
      "anthropic-ratelimit-requests-remaining": "0",
      "anthropic-ratelimit-requests-reset": "2026-11-26T12:00:30Z",
      "anthropic-ratelimit-tokens-limit": "80000",
      "anthropic-ratelimit-tokens-remaining": "0",
      "anthropic-ratelimit-tokens-reset": "2026-11-26T13:01:00+01:00",
    };
    expect(readLimitHeaders(headers, NOW)).toEqual({
      allowed: { requests: 50, tokens: 80_000 },
      resetMs: 60_000,
    });
  });

  it("of Anthropic name input and output apart, whose sum is the limit of tokens", () => {
    const headers = {
      "anthropic-ratelimit-input-tokens-limit": "30000",
      "anthropic-ratelimit-input-tokens-remaining": "21000",
      "anthropic-ratelimit-input-tokens-reset": "2026-11-26T12:00:50Z",
      "anthropic-ratelimit-output-tokens-limit": "8000",
      "anthropic-ratelimit-output-tokens-remaining": "0",
      "anthropic-ratelimit-output-tokens-reset": "2026-11-26T12:00:20Z",
    };
    const sum = { allowed: { tokens: 38_000 }, resetMs: 20_000 };
    expect(readLimitHeaders(headers, NOW)).toEqual(sum);
    const total = { "anthropic-ratelimit-tokens-limit": "35000" };
    expect(readLimitHeaders({ ...headers, ...total }, NOW).allowed).toEqual({ tokens: 35_000 });
    const { "anthropic-ratelimit-output-tokens-limit": _, ...input } = headers;
    expect(readLimitHeaders(input, NOW).allowed).toEqual({});
  });

  it.each([
    ["1s", 1_000],
    ["6m0s", 360_000],
    ["12ms", 12],
    ["1h2m3.5s", 3_723_500],
    ["1d", 86_400_000],
    ["2.5", 2_500],
    ["2026-11-26T11:00:00Z", 0],
    ["soon", undefined],
    ["-5", undefined],
    ["1s ", 1_000],
    ["2026-13-40T99:00:00Z", undefined],
    ["9".repeat(80), undefined],
  ])("with the reset %j mean %s ms", (reset, ms) => {
    const headers = { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": reset };
    expect(readLimitHeaders(headers, NOW).resetMs).toBe(ms);
  });

  it("are compared with rules of a minute only", () => {
    const allowed = { requests: 10, tokens: 20 };
    const rules = {
      requests: { amount: 5, window: { ms: 60_000 } },
      tokens: { amount: 5, window: { ms: 1_000 } },
    };
    expect(comparable(allowed, rules)).toEqual({ requests: 10 });
  });

  it("give whole numbers in bounds, whatever they contain", () => {
    const names = ["anthropic-ratelimit-tokens-", "x-ratelimit-"].flatMap((prefix) =>
      ["limit", "remaining", "reset", "limit-tokens", "remaining-tokens", "reset-tokens"].map(
        (name) => prefix + name,
      ),
    );
    const text = fc.oneof(
      fc.string(),
      fc.integer().map(String),
      fc.double().map(String),
      fc.stringMatching(/^\d{1,4}[hms]{1,2}\d{0,3}s?$/),
      fc.constantFrom("0", "1e9", "Infinity", "NaN", "0x10", " 7 "),
    );
    const headers = fc.dictionary(fc.constantFrom(...names, "retry-after", "retry-after-ms"), text);
    fc.assert(
      fc.property(headers, fc.constantFrom(200, 429, 503, 529), (given, status) => {
        const { allowed, resetMs = 0 } = readLimitHeaders(given, NOW);
        for (const amount of Object.values(allowed)) {
          expect(Number.isSafeInteger(amount)).toBe(true);
          expect(amount).toBeGreaterThan(0);
        }
        expect(resetMs).toBeGreaterThanOrEqual(0);
        const { retryAfterMs = 0 } = refusalOf({ status, headers: given }, NOW) ?? {};
        expect(retryAfterMs).toBeGreaterThanOrEqual(0);
        expect(retryAfterMs).toBeLessThanOrEqual(86_400_000);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a refusal", () => {
  const of = (status: number, headers: Record<string, string> = {}) =>
    refusalOf(responseOf(refused(status, headers)), NOW);

  it.each([
    [429, {}, {}],
    [429, { "retry-after": "3" }, { retryAfterMs: 3_000 }],
    [429, { "retry-after-ms": "250", "retry-after": "3" }, { retryAfterMs: 250 }],
    [429, { "retry-after": "Thu, 26 Nov 2026 12:01:00 GMT" }, { retryAfterMs: 60_000 }],
    [429, { "retry-after": "999999999" }, { retryAfterMs: 86_400_000 }],
    [
      429,
      { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "8s" },
      { retryAfterMs: 8_000 },
    ],
    [529, { "retry-after": "3" }, { retryAfterMs: 3_000 }],
    [503, { "retry-after": "3" }, { retryAfterMs: 3_000 }],
    [529, {}, undefined],
    [503, {}, undefined],
    [500, { "retry-after": "3" }, undefined],
    [400, {}, undefined],
  ])("%d with %j is %j", (status, headers, refusal) => {
    expect(of(status, headers as Record<string, string>)).toEqual(refusal);
  });

  it("is found in an error that wraps it", () => {
    const wrapped = new Error("retried", { cause: { lastError: refused(429) } });
    expect(refusalOf(responseOf(wrapped), NOW)).toEqual({});
    expect(refusalOf(responseOf(new Error("other")), NOW)).toBeUndefined();
  });

  it.each([
    ["the cause of a wrapper with the status 200", { statusCode: 200, cause: refused(429) }],
    ["a code", { code: 429, message: "slow down" }],
    ["a text", "429 Too Many Requests"],
  ])("is found in %s", (_, error) => {
    expect(refusalOf(responseOf(error), NOW)).toEqual({});
  });

  it("is none where the account has no credit left", () => {
    const error = Object.assign(refused(429), { data: { error: { code: "insufficient_quota" } } });
    expect(refusalOf(responseOf(error), NOW)).toBeUndefined();
  });
});
