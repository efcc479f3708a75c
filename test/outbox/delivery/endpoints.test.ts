/** Webhooks as users of the outbox see them: signed, distinguished, and with a state for each URL. */

import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { type DeliveryPolicy, type Endpoint, webhook } from "../../../src/outbox/index.ts";
import { until } from "../../support/given.ts";
import {
  crashOne,
  givenLedgerWith,
  idsAt,
  type Ledger,
  send,
  sleep,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import { chance, notified, time } from "../../support/objects/ledger-object.ts";
import { receivedBy, receiverUrl, someReceiver } from "../../support/receivers/client.ts";
import { NEW } from "../destinations/webhooks.ts";

function givenOutbox(): Ledger {
  const stub = givenLedgerWith({ allowPrivateAddresses: true });
  chance.random = () => 0;
  return stub;
}

const to = (path: string, policy?: DeliveryPolicy) =>
  webhook(receiverUrl(path), { secret: "HOOK_SECRET", ...(policy && { policy }) });

const stateOf = (stub: Ledger, { url }: { url: string }): Promise<Endpoint> =>
  within(stub, ({ outbox }) => outbox.inspectEndpoint(url));

const idsReceived = async (name: string) =>
  (await receivedBy(name)).map(({ headers }) => headers["webhook-id"]);

it("O1: the end of a submission is sent as a signed request with its outcome as the type", async () => {
  const stub = givenOutbox();
  const me = someReceiver();
  await submit(stub, {}, { submissionId: "s", notify: [to(`/ok/${me}`)] });
  const [request] = await until(async () => {
    const received = await receivedBy(me);
    return received.length > 0 && received;
  });
  if (!request) throw new Error("Nothing arrived");
  const event = new Webhook(NEW).verify(request.body, request.headers as Record<string, string>);
  expect(event).toEqual({
    type: "submission.completed",
    timestamp: expect.stringMatching(/^20\d\d-\d\d-\d\dT.*Z$/),
    data: {
      submissionId: "s",
      thread: "main",
      status: "completed",
      output: "done",
      attempts: 1,
      messageId: "reply-s",
    },
  });
  expect(request.headers).toMatchObject({
    "webhook-id": expect.any(String),
    "webhook-attempt": "1",
  });
});

it("O2: a webhook repeats the id, and counts the attempts", async () => {
  const stub = givenOutbox();
  const me = someReceiver();
  await send(stub, [{ id: "e", to: to(`/flaky/${me}/2`) }]);
  await until(async () => (await receivedBy(me)).length === 3);
  const seen = (await receivedBy(me)).map(({ headers }) => [
    headers["webhook-id"],
    headers["webhook-attempt"],
  ]);
  expect(seen).toEqual([
    ["e", "1"],
    ["e", "2"],
    ["e", "3"],
  ]);
});

describe("An endpoint", () => {
  it("O3: an endpoint fails from its first failure until its next success, and has a row only then", async () => {
    const stub = givenOutbox();
    const me = someReceiver();
    const hook = to(`/flaky/${me}/1`, { backoff: { base: "1 hour" } });
    chance.random = () => 0.99;
    const before = Date.now();
    await send(stub, [{ id: "e", to: hook }]);
    const failing = await until(async () => {
      const endpoint = await stateOf(stub, hook);
      return endpoint.state === "failing" && endpoint;
    });
    expect(failing).toEqual({
      url: hook.url,
      state: "failing",
      since: expect.any(Number),
      reason: expect.stringContaining("503"),
    });
    expect(failing.since).toBeGreaterThanOrEqual(before);
    const next = await crashOne(stub);
    expect((await within(next, ({ outbox }) => outbox.listEndpoints())).items).toEqual([failing]);
    time.aheadMs = 7_200_000;
    await until(async () => {
      await wakeNow(next);
      return (await receivedBy(me)).length === 2;
    });
    await until(async () => (await stateOf(next, hook)).state === "healthy");
    expect((await within(next, ({ outbox }) => outbox.listEndpoints())).items).toEqual([]);
  });

  it("O3: Retry-After holds back all entries of the endpoint", async () => {
    const stub = givenOutbox();
    const me = someReceiver();
    const hook = to(`/flaky/${me}/1?status=429&retry-after=60`);
    await send(stub, [
      { id: "a", to: hook },
      { id: "b", to: hook },
    ]);
    await until(async () => (await stateOf(stub, hook)).state === "failing");
    await send(stub, [{ id: "c", to: hook }]);
    await sleep(100);
    expect(await idsReceived(me)).toEqual(["a"]);
    expect(await stateOf(stub, hook)).toMatchObject({ heldUntil: expect.any(Number) });
    const next = await crashOne(stub);
    await next.list();
    await sleep(100);
    expect(await idsReceived(me)).toEqual(["a"]);
    time.aheadMs = 61_000;
    await wakeNow(next);
    // The crash may have interrupted "b", as far as the next life can know: it comes a little later.
    await until(async () => {
      time.aheadMs += 1_000;
      await wakeNow(next);
      return (await receivedBy(me)).length === 4;
    });
    expect((await idsReceived(me)).toSorted()).toEqual(["a", "a", "b", "c"]);
    expect((await stateOf(next, hook)).state).toBe("healthy");
  });

  it("O3: a 410 disables the endpoint, and its entries become dead letters", async () => {
    const stub = givenOutbox();
    const me = someReceiver();
    const hook = to(`/flaky/${me}/1?status=410`);
    const other = somewhere();
    const [a, b, c] = [1, 2, 3].map(() => crypto.randomUUID()) as [string, string, string];
    await send(stub, [
      { id: a, to: hook },
      { id: b, to: hook },
      { id: "other", to: other },
    ]);
    await until(() => notified.has(a) && notified.has(b));
    expect(await stateOf(stub, hook)).toEqual({
      url: hook.url,
      state: "disabled",
      since: expect.any(Number),
      reason: expect.stringContaining("410"),
    });
    const next = await crashOne(stub);
    await next.list();
    await send(next, [{ id: c, to: hook }]);
    await until(() => notified.has(c));
    expect(await idsReceived(me)).toEqual([a]);
    expect(idsAt(other)).toEqual(["other"]);
    await within(next, async (_, ctx) => expect(await ctx.storage.getAlarm()).toBeNull());

    expect(await within(next, ({ outbox }) => outbox.enableEndpoint(hook.url))).toBe(3);
    await until(async () => (await receivedBy(me)).length === 4);
    expect(await idsReceived(me)).toEqual([a, a, b, c]);
    expect((await stateOf(next, hook)).state).toBe("healthy");
    expect(await within(next, ({ outbox }) => outbox.countDeadLetters())).toBe(0);
  });

  it("O3: Retry-After holds the endpoint also where the event becomes a dead letter", async () => {
    const stub = givenOutbox();
    const me = someReceiver();
    const hook = to(`/status/429/${me}?retry-after=60`, { maxAttempts: 1 });
    const id = crypto.randomUUID();
    await send(stub, [
      { id, to: hook },
      { id: "b", to: hook },
    ]);
    await until(() => notified.has(id));
    await sleep(50);
    expect(await idsReceived(me)).toEqual([id]);
    expect(await stateOf(stub, hook)).toMatchObject({ heldUntil: expect.any(Number) });
  });

  it("O3: an endpoint that refuses one event permanently stays healthy", async () => {
    const stub = givenOutbox();
    const hook = to(`/status/422/${someReceiver()}`);
    const id = crypto.randomUUID();
    await send(stub, [{ id, to: hook }]);
    await until(() => notified.has(id));
    expect((await stateOf(stub, hook)).state).toBe("healthy");
  });

  it("O3: enabling an endpoint also retries the entries that wait for their next attempt", async () => {
    const stub = givenOutbox();
    const me = someReceiver();
    const hook = to(`/flaky/${me}/1`, { backoff: { base: "1 hour" } });
    chance.random = () => 0.9;
    await send(stub, [{ id: "e", to: hook }]);
    await until(async () => (await stateOf(stub, hook)).state === "failing");
    expect(await within(stub, ({ outbox }) => outbox.enableEndpoint(hook.url))).toBe(0);
    await until(async () => (await receivedBy(me)).length === 2);
  });

  it("O3: disabling an endpoint also ends the entries that wait for their next attempt", async () => {
    const stub = givenOutbox();
    const id = crypto.randomUUID();
    const hook = to(`/status/500/${someReceiver()}`, { backoff: { base: "1 hour" } });
    chance.random = () => 0.9;
    await send(stub, [{ id, to: hook }]);
    await until(async () => (await stateOf(stub, hook)).state === "failing");
    await within(stub, ({ outbox }) => outbox.disableEndpoint(hook.url));
    await until(() => notified.has(id));
  });

  it("O3: an endpoint that failed for a month without entries is deleted at a start", async () => {
    const stub = givenOutbox();
    const id = crypto.randomUUID();
    const hook = to(`/status/500/${someReceiver()}`, { maxAttempts: 1 });
    await send(stub, [{ id, to: hook }]);
    await until(() => notified.has(id));
    expect((await stateOf(stub, hook)).state).toBe("failing");
    const next = await crashOne(stub);
    time.aheadMs = 31 * 86_400_000;
    expect((await stateOf(next, hook)).state).toBe("healthy");
  });

  it("O3: an endpoint is disabled and enabled by hand, by any spelling of its URL", async () => {
    const stub = givenOutbox();
    const me = someReceiver();
    const hook = to(`/ok/${me}`);
    const id = crypto.randomUUID();
    const spelled = hook.url.replace("http://", "HTTP://");
    await within(stub, ({ outbox }) => outbox.disableEndpoint(spelled, "moving house"));
    await send(stub, [{ id, to: hook }]);
    await until(() => notified.has(id));
    expect(await stateOf(stub, hook)).toMatchObject({ state: "disabled", reason: "moving house" });
    expect(await within(stub, ({ outbox }) => outbox.enableEndpoint(hook.url))).toBe(1);
    await until(async () => (await receivedBy(me)).length === 1);
    expect(await within(stub, ({ outbox }) => outbox.enableEndpoint(hook.url))).toBe(0);
  });

  it("O3: endpoints are listed in pages, by URL", async () => {
    await within(givenOutbox(), async ({ outbox }) => {
      const urls = ["b", "a", "c"].map((name) => `https://${name}.example.com/`);
      for (const url of urls) await outbox.disableEndpoint(url);
      const first = await outbox.listEndpoints({ limit: 2 });
      const second = await outbox.listEndpoints({ limit: 2, cursor: first.cursor });
      const listed = [...first.items, ...second.items].map(({ url }) => url);
      expect(listed).toEqual(urls.toSorted());
      expect(second.cursor).toBeUndefined();
      for (const wrong of [{ limit: 0 }, { cursor: 7 }, { page: 1 }, null])
        await expect(outbox.listEndpoints(wrong as never)).rejects.toThrow(/^(Invalid|Unknown) /);
    });
  });

  it("O3: an invalid URL of an endpoint is refused", async () => {
    await within(givenOutbox(), async ({ outbox }) => {
      await expect(outbox.enableEndpoint("example")).rejects.toThrow(
        /Invalid url "example": expected an absolute URL/,
      );
      for (const url of ["javascript:alert(1)", "mailto:a@b.c", "https://me:secret@example.com/"]) {
        const error = await outbox.disableEndpoint(url).catch((thrown: Error) => thrown);
        expect(error).toMatchObject({ name: "InvalidDestinationError" });
        expect((error as Error).message).not.toContain("secret@");
      }
      expect(await outbox.listEndpoints()).toEqual({ items: [] });
    });
  });
});
