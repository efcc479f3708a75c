/** What a webhook's request holds and how it is signed, as two receivers see it: the library's, and one from the spec. */

import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { describe, expect, it, vi } from "vitest";
import type { Problem } from "../../../src/core/problems.ts";
import { KINDS } from "../../../src/outbox/destinations/kinds.generated.ts";
import { contextOf } from "../../support/attempts.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import { refusalOf, type SignedHeaders } from "../../support/receivers/signature.ts";
import { arrivalOf, attempt, env, NEW, OLD, STRANGER, some, taken, to } from "./webhooks.ts";

describe("the independent receiver", () => {
  const headers = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const body = '{"test": 2432232314}';
  const now = 1_614_265_330_000;

  // https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/javascript/src/webhook.test.ts
  it("O2: the independent receiver accepts the example of the spec's authors", async () => {
    expect(await refusalOf({ headers, body }, NEW, now)).toBeUndefined();
  });

  it("O2: the independent receiver refuses another secret, and another time", async () => {
    expect(await refusalOf({ headers, body }, OLD, now)).toBe("no signature fits");
    for (const minutes of [-6, 6]) {
      const at = now + minutes * 60_000;
      expect(await refusalOf({ headers, body }, NEW, at)).toBe("too old or too new");
    }
  });
});

describe("a request", () => {
  it("O2: a request has the event as JSON, and its id, time, attempt and signature as headers", async () => {
    const event = { type: "done", text: "çä€ 😀 \ud800", nested: [1, null, { a: "\u2028" }] };
    const before = Math.floor(Date.now() / 1_000);
    const { method, body, headers } = await arrivalOf(["NEW"], { id: "e:7", attempt: 3, event });
    expect({ method, body }).toEqual({ method: "POST", body: JSON.stringify(event) });
    expect(headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": "Perdure",
      "webhook-id": "e:7",
      "webhook-attempt": "3",
    });
    const timestamp = Number(headers["webhook-timestamp"]);
    expect(timestamp).toBeGreaterThanOrEqual(before);
    expect(timestamp).toBeLessThanOrEqual(Date.now() / 1_000);
  });

  it.each(["null", "false", '""', "[]", "42"])("may be of the event %s", async (json) => {
    const { body, headers } = await arrivalOf(["NEW"], some(JSON.parse(json)));
    expect(body).toBe(json);
    expect(await refusalOf({ headers, body }, NEW)).toBeUndefined();
  });

  it("O4: a request of a megabyte arrives whole and signed", async () => {
    const { body, headers } = await arrivalOf(["NEW"], some("é".repeat(500_000)));
    expect(body).toHaveLength(500_002);
    expect(await refusalOf({ headers, body }, NEW)).toBeUndefined();
  });

  it("O2: requests have the same id on every attempt, and the time of each attempt", async () => {
    const times = [1_700_000_000_999, 1_700_000_300_000];
    const by = KINDS.webhook.connect({
      env,
      allowPrivateAddresses: true,
      now: () => times.shift() ?? 0,
    });
    const first = await arrivalOf(["NEW"], { id: "e", attempt: 1, event: 1 }, by);
    const second = await arrivalOf(["NEW"], { id: "e", attempt: 2, event: 1 }, by);
    const signed = [first, second].map(({ headers }) => [
      headers["webhook-id"],
      headers["webhook-timestamp"],
    ]);
    expect(signed).toEqual([
      ["e", "1700000000"],
      ["e", "1700000300"],
    ]);
    expect(await refusalOf(second, NEW, 1_700_000_300_000)).toBeUndefined();
  });

  it.each([
    ["a.1700000000", "a%2E1700000000"],
    ["100%", "100%25"],
    ["två\nrader", "tv%C3%A5%0Arader"],
    ["\ud800", "%EF%BF%BD"],
    ["sub-1:0/x?y=z", "sub-1:0/x?y=z"],
  ])("O2: the id %j is sent as %s, which is safe in headers and signatures", async (id, sent) => {
    const { headers, body } = await arrivalOf(["NEW"], { id, attempt: 1, event: 1 });
    expect(headers["webhook-id"]).toBe(sent);
    expect(await refusalOf({ headers, body }, NEW)).toBeUndefined();
  });
});

describe("the signature", () => {
  it("O2: the headers are those of the library, for any secrets, id, time and event", async () => {
    const secrets = fc.array(fc.uint8Array({ minLength: 1, maxLength: 200 }), {
      minLength: 1,
      maxLength: 8,
    });
    const times = fc.integer({ min: 0, max: 4_102_444_800_000 });
    const ids = fc.string({ unit: ANY_CHARACTER, maxLength: 50 });
    const requests: RequestInit[] = [];
    vi.spyOn(globalThis, "fetch").mockImplementation(async (_, init) => {
      requests.push(init ?? {});
      return new Response();
    });
    await fc.assert(
      fc.asyncProperty(secrets, ids, times, fc.jsonValue(), async (bytes, id, at, event) => {
        const texts = bytes.map((one) => `whsec_${one.toBase64()}`);
        const names = texts.map((_, index) => `S${index}`);
        const by = KINDS.webhook.connect({
          env: Object.fromEntries(names.map((name, index) => [name, texts[index]])),
          allowPrivateAddresses: false,
          now: () => at,
        });
        const sent = { id, attempt: 1, event: event as never };
        const result = await attempt(to("https://example.com/", ...names), { delivery: sent, by });
        expect(result).toMatchObject(taken);
        const { headers, body } = requests.pop() as { headers: SignedHeaders; body: string };
        expect(headers["webhook-timestamp"]).toBe(String(Math.floor(at / 1_000)));
        const signed = texts.map((text) =>
          new Webhook(text).sign(headers["webhook-id"], new Date(at), body),
        );
        expect(headers["webhook-signature"]).toBe(signed.join(" "));
      }),
    );
    vi.restoreAllMocks();
  });

  it.each(["NEW", "BARE", "PASTED", "STORED", "VERSIONED"])(
    "by the secret %s fits, for the library and for the spec",
    async (name) => {
      const { headers, body } = await arrivalOf([name]);
      expect(new Webhook(NEW).verify(body, headers)).toEqual({ type: "done" });
      expect(await refusalOf({ headers, body }, NEW)).toBeUndefined();
    },
  );

  it("O2: a signature by two secrets is valid for a receiver with either one", async () => {
    const { headers, body } = await arrivalOf(["NEW", "OLD"]);
    expect(headers["webhook-signature"]).toMatch(/^v1,\S{44} v1,\S{44}$/);
    for (const secret of [NEW, OLD]) {
      expect(new Webhook(secret).verify(body, headers)).toEqual({ type: "done" });
      expect(await refusalOf({ headers, body }, secret)).toBeUndefined();
    }
    expect(() => new Webhook(STRANGER).verify(body, headers)).toThrow("No matching signature");
    expect(await refusalOf({ headers, body }, STRANGER)).toBe("no signature fits");
  });

  it("O2: of two secrets, those that exist sign, and each that does not is reported once", async () => {
    const problems: Problem[] = [];
    const reportProblem = (problem: Problem) => void problems.push(problem);
    const by = KINDS.webhook.connect({
      ...contextOf(env),
      allowPrivateAddresses: true,
      reportProblem,
    });
    for (const gone of ["MISSING", "EMPTY", "PLAIN", "LOST", "MISSING"]) {
      const { body, headers } = await arrivalOf([gone, "NEW"], some(), by);
      expect(await refusalOf({ headers, body }, NEW)).toBeUndefined();
      expect(headers["webhook-signature"]).not.toContain(" ");
    }
    expect(problems.map(({ type, message }) => [type, /secret (\w+)/.exec(message)?.[1]])).toEqual(
      ["MISSING", "EMPTY", "PLAIN", "LOST"].map((name) => ["outbox:secret", name]),
    );
    expect(JSON.stringify(problems)).not.toMatch(/horse|MfKQ9/);
    const destination = (...secrets: string[]) =>
      by.problemOf({ kind: "webhook", url: "https://example.com/", secrets });
    expect(destination("MISSING", "NEW")).toBeUndefined();
    expect(destination("MISSING", "GONE")).toMatchObject({ field: "secrets[0]", given: "MISSING" });
  });

  it("O2: a signature is invalid for a changed request", async () => {
    const { headers, body } = await arrivalOf(["NEW", "OLD"]);
    const later = String(Number(headers["webhook-timestamp"]) + 1);
    const forgeries = [
      { headers, body: body.replace("done", "gone") },
      { headers, body: ` ${body}` },
      { headers: { ...headers, "webhook-timestamp": later }, body },
      { headers: { ...headers, "webhook-id": "e:1" }, body },
      { headers: { ...headers, "webhook-signature": "v1,AAAA" }, body },
    ];
    for (const forgery of forgeries) {
      expect(() => new Webhook(NEW).verify(forgery.body, forgery.headers)).toThrow("No matching");
      expect(await refusalOf(forgery, NEW)).toBe("no signature fits");
    }
  });

  it("O2: a signature is valid for five minutes", async () => {
    const now = () => Date.now() - 301_000;
    const by = KINDS.webhook.connect({ env, allowPrivateAddresses: true, now });
    const { headers, body } = await arrivalOf(["NEW"], some(), by);
    expect(() => new Webhook(NEW).verify(body, headers)).toThrow("too old");
    expect(await refusalOf({ headers, body }, NEW)).toBe("too old or too new");
  });
});
