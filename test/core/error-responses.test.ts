/** What an error says of the answer of a server, wherever in it. */

import { APICallError, RetryError } from "ai";
import { describe, expect, it } from "vitest";
import { responseOf, transientOf, withProviderCause } from "../../src/core/failures.ts";

const api = (statusCode: number | undefined, more: object = {}) =>
  new APICallError({
    message: "refused",
    url: "http://model.test",
    requestBodyValues: {},
    isRetryable: false,
    ...(statusCode !== undefined && { statusCode }),
    ...more,
  });

const NO_CREDIT = "You exceeded your current quota, please check your plan and billing details.";
const openAiBody = JSON.stringify({ error: { message: NO_CREDIT, code: "insufficient_quota" } });

describe("a transient failure", () => {
  it.each<[string, unknown, number | undefined]>([
    ["a 429", api(429, { responseHeaders: { "retry-after": "3" } }), 3_000],
    [
      "a 429 inside of a wrapper with the status 200",
      api(200, { cause: api(429, { responseHeaders: { "retry-after-ms": "20" } }) }),
      20,
    ],
    [
      "a 503 as the cause of an error without a status",
      new Error("x", { cause: api(503) }),
      undefined,
    ],
    [
      "a 529 as the last error of the AI SDK's retries",
      new RetryError({ message: "x", reason: "maxRetriesExceeded", errors: [api(529)] }),
      undefined,
    ],
    ["a field code", { code: 429, message: "slow down" }, undefined],
    ["a field status", Object.assign(new Error("x"), { status: 503 }), undefined],
    ["a code as a text", { code: "429" }, undefined],
    ["a body of an error chunk", { type: "error", error: { type: "overloaded_error" } }, undefined],
    [
      "a body under a status of success",
      api(200, { responseBody: '{"error":{"code":502}}' }),
      undefined,
    ],
    [
      "a message that is JSON",
      new Error('{"error":{"code":503,"status":"UNAVAILABLE"}}'),
      undefined,
    ],
    ["a text", "upstream overloaded", undefined],
    ["a text with a status", "429 Too Many Requests", undefined],
    ["a message with a status", new Error("Request failed with status code 503"), undefined],
    ["a reset connection", Object.assign(new Error("x"), { code: "ECONNRESET" }), undefined],
    [
      "Google's limit per minute",
      api(429, {
        message: NO_CREDIT,
        responseBody: '{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}',
      }),
      undefined,
    ],
  ])("is %s", (_, error, retryAfterMs) => {
    expect(transientOf(error, 0)).toEqual({ retryAfterMs });
  });

  it.each<[string, unknown]>([
    ["a 400", api(400)],
    ["a 401 inside of a 500", api(500, { cause: api(401) })],
    ["a text with a final status", "404 Not Found"],
    ["a code that is no status", { code: 20, message: "x" }],
    ["an ordinary text", "The order 429 has no owner"],
    ["an account without credit", api(429, { responseBody: openAiBody, isRetryable: true })],
    ["the same, as a chunk of a stream", { error: { code: "insufficient_quota", message: "x" } }],
    ["the same, as a text", NO_CREDIT],
    ["a 402 of a provider", api(402, { message: "Insufficient Balance" })],
    ["Anthropic's account without credit", api(400, { message: "Your credit balance is too low" })],
  ])("is not %s", (_, error) => {
    expect(transientOf(error, 0)).toBeUndefined();
  });

  it("is found in errors that contain themselves", () => {
    const error: { cause?: unknown; message: string } = { message: "x" };
    error.cause = { error, cause: api(503) };
    expect(responseOf(error)).toMatchObject({ status: 503 });
  });
});

describe("the cause of a provider's failure", () => {
  const failure = { name: "AI_APICallError", message: "refused" };

  it("is a rate limit where only a cause has the status", () => {
    const wrapped = new Error("refused", { cause: api(429) });
    expect(withProviderCause(failure, wrapped).cause).toEqual({ code: "rate-limited" });
  });

  it("is an account without credit, with what to do about it", () => {
    const found = withProviderCause(failure, api(429, { responseBody: openAiBody }));
    expect(found.cause).toEqual({ code: "no-credit" });
    expect(found.message).toMatch(/add credit .* The provider's error: refused$/);
    const stored = withProviderCause({ ...failure, message: NO_CREDIT });
    expect(stored.cause).toEqual({ code: "no-credit" });
  });
});
