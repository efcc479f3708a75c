/** The webhook destination against real servers: what it makes of each answer, and what can be a destination. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { transientOf } from "../../../src/core/failures.ts";
import { Destinations } from "../../../src/outbox/destinations/index.ts";
import { KINDS } from "../../../src/outbox/destinations/kinds.generated.ts";
import { contextOf } from "../../support/attempts.ts";
import {
  receivedBy,
  receiverUrl,
  refusingUrl,
  sentBy,
  someReceiver,
} from "../../support/receivers/client.ts";
import { attempt, env, NEW, retried, taken, to, undeliverable } from "./webhooks.ts";

/** More than the sockets between can hold, far less than the whole. */
const MUCH = 32 * 1_024 * 1_024;

describe("A secret that cannot be used", () => {
  it.each([
    ["MISSING", /secret MISSING is not set; .*wrangler secret put MISSING$/],
    ["EMPTY", /secret EMPTY is empty or not base64; .*wrangler secret put EMPTY$/],
    ["PREFIX_ONLY", /secret PREFIX_ONLY is empty or not base64; .*put PREFIX_ONLY$/],
    ["PLAIN", /secret PLAIN is empty or not base64; .*wrangler secret put PLAIN$/],
    ["LOST", /secret LOST could not be read; check/],
    ["constructor", /secret constructor is not set/],
  ])(
    "O3: the secret %s is named in the error, and the attempt is retried",
    async (name, message) => {
      const me = someReceiver();
      const { failure } = await attempt(to(receiverUrl(`/ok/${me}`), name));
      expect({ failure }).toMatchObject(retried(message));
      expect(String(failure)).not.toMatch(/horse|MfKQ9/);
      expect(await receivedBy(me)).toEqual([]);
    },
  );

  it("O3: a secret that cannot be read in time fails the attempt at its time limit", async () => {
    const destination = to(receiverUrl("/ok"), "HANGING");
    const { failure } = await attempt(destination, { signal: AbortSignal.timeout(200) });
    expect(failure).toMatchObject({ name: "TimeoutError" });
  });

  it("O3: an attempt that is aborted before it starts sends nothing", async () => {
    const me = someReceiver();
    const signal = AbortSignal.abort(new Error("over"));
    const { failure } = await attempt(to(receiverUrl(`/ok/${me}`)), { signal });
    expect(failure).toMatchObject({ message: "over" });
    expect(await receivedBy(me)).toEqual([]);
  });
});

describe("The response decides", () => {
  it.each([
    ["/ok", taken],
    ["/status/201", taken],
    ["/status/204", taken],
    ["/status/299", taken],
    ["/slow/300", taken],
    ["/status/304", retried(/answered 304$/, 304)],
    ["/status/400", retried(/answered 400$/, 400)],
    ["/status/401?body=bad%20signature", retried(/answered 401: bad signature$/, 401)],
    ["/status/403", retried(/answered 403$/, 403)],
    ["/status/404", retried(/answered 404$/, 404)],
    ["/status/408", retried(/answered 408$/, 408)],
    ["/status/409", retried(/answered 409$/, 409)],
    ["/status/429", retried(/answered 429$/, 429)],
    ["/status/500?body=%0A%00two%0D%0Alines%20", retried(/answered 500: two lines$/, 500)],
    ["/status/501", retried(/answered 501$/, 501)],
    ["/status/503", retried(/answered 503$/, 503)],
    ["/status/599", retried(/answered 599$/, 599)],
    ["/status/410?body=bye", undeliverable(/answered 410, it wants no more events: bye$/, true)],
    ["/status/413", undeliverable(/answered 413, the event is too large/)],
    ["/status/415", undeliverable(/answered 415, it takes no JSON/)],
    ["/status/422?body=no%20id", undeliverable(/answered 422, it cannot .* event: no id$/)],
    ["/reset", retried(/^127\.0\.0\.1:\d+ could not be reached: /)],
    ["/garbage", retried(/could not be reached: /)],
  ])("O3: the response of %s decides about a retry", async (path, verdict) => {
    expect(await attempt(to(receiverUrl(path)))).toMatchObject(verdict);
  });

  it("O3: a refused connection is retried", async () => {
    const verdict = await attempt(to(refusingUrl()));
    expect(verdict).toMatchObject(retried(/could not be reached: /));
    expect(transientOf(verdict.failure, 0)).toEqual({ retryAfterMs: undefined });
  });

  it("O3: a redirect is not followed, and the error has its address", async () => {
    const me = someReceiver();
    const moved = new RegExp(
      `answered 301, a redirect to "/ok/${me}", which is not followed; set it as the url if it is right`,
    );
    expect(await attempt(to(receiverUrl(`/redirect/${me}`)))).toMatchObject(retried(moved, 301));
    expect((await receivedBy(me)).map(({ path }) => path)).toEqual([`/redirect/${me}`]);
  });

  it("O3: a failing receiver is retried until it succeeds", async () => {
    const url = receiverUrl(`/flaky/${someReceiver()}/2`);
    expect(await attempt(to(url))).toMatchObject(retried(/answered 503/, 503));
    expect(await attempt(to(url))).toMatchObject(retried(/answered 503/, 503));
    expect(await attempt(to(url))).toMatchObject(taken);
  });

  it.each([
    ["7", 7_000],
    ["Wed, 21 Oct 2026 07:28:00 GMT", 60_000],
    ["soon", undefined],
  ])("O3: Retry-After %s is part of the error", async (text, retryAfterMs) => {
    const now = Date.parse("2026-10-21T07:27:00Z");
    for (const status of [429, 503]) {
      const path = `/status/${status}?retry-after=${encodeURIComponent(text)}`;
      const { failure } = await attempt(to(receiverUrl(path)));
      expect(failure).toMatchObject({ responseHeaders: { "retry-after": text } });
      expect(transientOf(failure, now)).toEqual({ retryAfterMs });
    }
  });
});

describe("The status decides, whatever the body is", () => {
  it.each([
    ["/half", taken],
    ["/half-500", retried(/answered 500: half of it$/, 500)],
    ["/stall/200", taken],
    ["/stall/500", retried(/answered 500: the beginning$/, 500)],
    ["/stall/410", undeliverable(/answered 410, .*: the beginning$/, true)],
  ])("O3: the body of %s does not change the outcome", async (path, verdict) => {
    // No time limit: a body that was read to its end would keep the attempt for ever.
    const { signal } = new AbortController();
    const { failure } = await attempt(to(receiverUrl(path)), { signal });
    expect({ failure }).toMatchObject(verdict);
  });

  it("O3: the status decides when the time limit passes during the body", async () => {
    const signal = AbortSignal.timeout(300);
    const { failure } = await attempt(to(receiverUrl("/stall/410")), { signal });
    expect({ failure }).toMatchObject(undeliverable(/410/, true));
  });

  it.each([
    ["/huge", taken],
    ["/huge-500", retried(/answered 500: x{1024}$/, 500)],
  ])("O3: %s does not fill the memory", async (path, verdict) => {
    const me = someReceiver();
    expect(await attempt(to(receiverUrl(`${path}/${me}`)))).toMatchObject(verdict);
    await expect.poll(() => sentBy(me)).toMatchObject({ isOver: true });
    expect((await sentBy(me))?.bytes).toBeLessThan(MUCH);
  });
});

describe("The time limit of an attempt", () => {
  it.each(["/hang", "/slow/60000"])("O2: an attempt on %s ends at its time limit", async (path) => {
    const me = someReceiver();
    const signal = AbortSignal.timeout(300);
    const { failure, ms } = await attempt(to(receiverUrl(`${path}/${me}`)), { signal });
    expect(failure).toMatchObject({ name: "TimeoutError" });
    expect(ms).toBeGreaterThanOrEqual(250);
    // It may have arrived all the same.
    expect(await receivedBy(me)).toHaveLength(1);
  });
});

describe("a destination", () => {
  const strict = KINDS.webhook.connect({ env, allowPrivateAddresses: false, now: Date.now });
  const problemOf = (destination: unknown, allowPrivateAddresses = false, bindings: object = env) =>
    new Destinations(contextOf(bindings, { allowPrivateAddresses })).problemOf(destination);
  const URL_OK = "https://example.com/hook";

  it.each([
    URL_OK,
    "https://example.com:8443/a?b=c#d",
    "HTTPS://EXAMPLE.COM",
    "https://93.184.215.14/",
  ])("O1: the URL %s is valid", (url) => expect(problemOf(to(url))).toBeUndefined());

  it.each([
    [undefined, /^Missing option "url" in destination: expected an absolute URL/],
    [42, /^Invalid destination.url 42: expected an absolute URL/],
    ["", /^Invalid destination.url "": expected an absolute URL/],
    ["/hook", /^Invalid destination.url "\/hook": expected an absolute URL/],
    ["https://a b", /expected an absolute URL/],
    ["http://example.com", /^Invalid destination.url "http:\/\/example.com": expected https:/],
    ["ftp://example.com", /expected https:/],
    ["data:text/plain,x", /expected https:/],
    ["https://localhost/", /expected a public host.* allowPrivateAddresses/],
    [
      "https://2130706433/",
      /^Invalid destination.url "https:\/\/2130706433\/": expected a public host/,
    ],
    ["https://[::ffff:10.0.0.1]/", /expected a public host/],
  ])("O1: the URL %j is refused", (url, problem) => {
    expect(problemOf(to(url as string))).toMatch(problem);
  });

  it("O1: a URL has at most 2,048 characters", () => {
    const longest = `${URL_OK}?`.padEnd(2_048, "x");
    expect(problemOf(to(longest))).toBeUndefined();
    const problem =
      /^Invalid destination.url of 2049 characters: expected at most 2048 characters\.$/;
    expect(problemOf(to(`${longest}x`))).toMatch(problem);
  });

  it.each([
    "https://ann:hunter2@example.com/",
    "https://hunter2@example.com/",
    "https:\\\\ann:hunter2@example.com",
    "https://ann:hunter2@exa mple.com",
    "ann:hunter2@example.com",
    "https://ann:hunter2/3@example.com",
  ])("O1: the error does not show the password of %s", (url) => {
    const problem = problemOf(to(url));
    expect(problem).toMatch(/^Invalid destination.url ".*@exa.*": expected /);
    expect(problem).not.toContain("hunter2");
  });

  it.each([
    [undefined, /^Missing option "secrets" in destination: expected 1 to 8 names/],
    [NEW, /^Invalid destination.secrets \(no list\): expected 1 to 8/],
    [[], /^Invalid destination.secrets of 0 items: expected 1 to 8/],
    [Array(9).fill("NEW"), /^Invalid destination.secrets of 9 items: expected 1 to 8/],
    [["NEW", ""], /^Invalid destination.secrets \(not shown\): .* Item 2 is no name/],
    [["NEW", 7], /Item 2 is no name/],
    [[NEW], /Item 1 is no name\. The secret itself is never stored\.$/],
    [[`v1,${NEW}`], /Item 1 is no name\. The secret itself is never stored\.$/],
  ])("O1: the secrets %j are refused", (secrets, problem) => {
    const text = problemOf({ kind: "webhook", url: URL_OK, secrets });
    expect(text).toMatch(problem);
    expect(text).not.toContain("MfKQ9");
  });

  it("O1: a missing secret is named unless its name may be a secret, and only strings and Secrets Store bindings are secrets", () => {
    const raw = btoa("correct horse battery staple!");
    const bindings = {
      ...env,
      KV: { get: async () => "x", put: async () => {}, list: async () => {} },
      ANY: new Proxy({}, { get: () => () => {} }),
      CALL: () => "x",
      NUMBER: 7,
    };
    const problemOfSecret = (name: string) =>
      problemOf({ kind: "webhook", url: URL_OK, secrets: [name] }, false, bindings);
    expect(problemOfSecret("STORED")).toBeUndefined();
    for (const secret of [raw, "v1", "sk_live_51H8", "A".repeat(101), "DEADBEEF".repeat(4)]) {
      expect(problemOfSecret(secret), secret).toMatch(
        /^Invalid destination\.secrets\[0\] \(not shown, .*\): expected .* put <its name>\.$/,
      );
      expect(problemOfSecret(secret), secret).not.toContain(secret);
    }
    const names = [
      "__proto__",
      "constructor",
      "toString",
      "KV",
      "ANY",
      "CALL",
      "NUMBER",
      "MISSING",
    ];
    for (const name of names) {
      expect(problemOfSecret(name), name).toBe(
        `Invalid destination.secrets[0] ${name}: expected the name of a secret of this Worker. Set it: wrangler secret put ${name}.`,
      );
    }
  });

  it.each(["http://127.0.0.1:8787/hook", "http://localhost/", "https://10.0.0.1/"])(
    "O1: %s is valid only with allowPrivateAddresses",
    async (url) => {
      expect(problemOf(to(url), true)).toBeUndefined();
      expect(problemOf(to(url))).toBeDefined();
    },
  );

  it("O1: a public host needs https: also with allowPrivateAddresses", () => {
    expect(problemOf(to("http://example.com"), true)).toMatch(/expected https:/);
  });

  it("O3: a stored private URL is a permanent failure, and is never called, when it is no longer allowed", async () => {
    const me = someReceiver();
    const destination = to(receiverUrl(`/ok/${me}`));
    const refused = undeliverable(
      /^Invalid url "http:\/\/127\.0\.0\.1:.*": expected a public host/,
    );
    expect(await attempt(destination, { by: strict })).toMatchObject(refused);
    expect(await receivedBy(me)).toEqual([]);
  });

  it("O2: all spellings of a URL have the same key", () => {
    const keys = ["https://example.com", "HTTPS://EXAMPLE.com:443/", "https://example.com/#x"].map(
      (url) => strict.keyOf(to(url)),
    );
    expect(new Set(keys)).toEqual(new Set(["webhook https://example.com/"]));
    const letters = fc.constantFrom("a", "b", "/", "?", "=");
    fc.assert(
      fc.property(fc.array(letters), fc.array(letters), (one, other) => {
        const [a, b] = [one, other].map((path) => new URL(`https://e.com/${path.join("")}`).href);
        expect(strict.keyOf(to(a ?? "")) === strict.keyOf(to(b ?? ""))).toBe(a === b);
      }),
    );
  });
});
