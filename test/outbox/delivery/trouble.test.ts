/**
 * O2, O3: one destination fails in every way that a server can, and nine healthy ones are not delayed. Real requests to
 * real servers.
 */

import { describe, expect, it } from "vitest";
import { type Destination, webhook } from "../../../src/outbox/index.ts";
import { until } from "../../support/given.ts";
import { givenLedgerWith, type Ledger, send, within } from "../../support/ledger.ts";
import { chance } from "../../support/objects/ledger-object.ts";
import {
  receivedBy,
  receiverUrl,
  refusingUrl,
  someReceiver,
} from "../../support/receivers/client.ts";

const EVENTS = 5;
/** The time limit where the test waits for the end of an attempt at a silent server. */
const SOON_MS = 500;
/** Longer than the test waits for the healthy ones. */
const NEVER_MS = 60_000;

type State = "waiting" | "delivered" | "dead";
/** What a server does, and the state of an event for it after one attempt: the next one comes an hour later. */
const TROUBLES: [what: string, url: (name: string) => string, state: State][] = [
  ["refuses the connection", () => refusingUrl(), "waiting"],
  ["resets the connection", (name) => receiverUrl(`/reset/${name}`), "waiting"],
  ["answers after the timeout", (name) => receiverUrl(`/slow/60000/${name}`), "waiting"],
  ["is slow", (name) => receiverUrl(`/slow/400/${name}`), "delivered"],
  ["accepts with half a body", (name) => receiverUrl(`/half/${name}`), "delivered"],
  ["fails with half a body", (name) => receiverUrl(`/half-500/${name}`), "waiting"],
  ["answers 500", (name) => receiverUrl(`/status/500/${name}`), "waiting"],
  ["answers 429", (name) => receiverUrl(`/status/429/${name}?retry-after=900`), "waiting"],
  ["answers 410", (name) => receiverUrl(`/status/410/${name}`), "dead"],
  ["answers 422", (name) => receiverUrl(`/status/422/${name}`), "dead"],
  ["answers 301", (name) => receiverUrl(`/redirect/${name}`), "waiting"],
  ["accepts with a huge body", (name) => receiverUrl(`/huge/${name}`), "delivered"],
  ["fails with a huge body", (name) => receiverUrl(`/huge-500/${name}`), "waiting"],
  ["never answers", (name) => receiverUrl(`/hang/${name}`), "waiting"],
  ["stops in the middle of its answer", (name) => receiverUrl(`/stall/500/${name}`), "waiting"],
  ["does not speak HTTP", (name) => receiverUrl(`/garbage/${name}`), "waiting"],
];

/** Servers that do not answer before the timeout. */
const SILENT = ["answers after the timeout", "never answers"];
/** Servers whose attempt ends by its timeout, or when others wait for its slot. */
const ENDLESS = [...SILENT, "stops in the middle of its answer"];

function givenOutbox(timeout: number): Ledger {
  const policy = { timeout, backoff: { base: "1 hour" } } as const;
  const stub = givenLedgerWith({ allowPrivateAddresses: true, policy });
  // No retry within the test.
  chance.random = () => 0.999;
  return stub;
}

const to = (url: string) => webhook(url, { secret: "HOOK_SECRET" });

/** Events for all destinations, in turn. */
function eventsFor(destinations: Record<string, Destination>) {
  return Array.from({ length: EVENTS }, (_, index) =>
    Object.entries(destinations).map(([name, destination]) => ({
      id: `${name}:${index}`,
      to: destination,
      payload: index,
    })),
  ).flat();
}

function someHealthy() {
  const names = Array.from({ length: 9 }, someReceiver);
  const destinations = Object.fromEntries(
    names.map((name) => [name, to(receiverUrl(`/ok/${name}`))]),
  );
  return { names, destinations };
}

/** Every event has arrived once, in order, at its first attempt. */
async function expectUndisturbed(names: string[]): Promise<void> {
  for (const name of names) {
    const arrived = (await receivedBy(name)).map(({ headers, body }) => [
      headers["webhook-id"],
      headers["webhook-attempt"],
      body,
    ]);
    expect(arrived).toEqual(
      Array.from({ length: EVENTS }, (_, index) => [`${name}:${index}`, "1", String(index)]),
    );
  }
}

/** Waits until these have taken all their events. */
async function drained(stub: Ledger, names: string[]): Promise<void> {
  const left = (name: string) => `${name}:${EVENTS - 1}`;
  await until(() =>
    within(stub, async ({ outbox }) => {
      const states = await Promise.all(names.map((name) => outbox.inspect(left(name))));
      return states.every((state) => state === null);
    }),
  );
}

describe("Nine healthy destinations beside one that", () => {
  it.each(TROUBLES)("O3: %s does not affect healthy destinations", async (what, urlOf, wanted) => {
    const stub = givenOutbox(NEVER_MS);
    const { names, destinations } = someHealthy();
    const bad = someReceiver();
    const foundIn = (one: Ledger) => within(one, ({ outbox }) => outbox.inspect(`${bad}:0`));
    await send(stub, eventsFor({ [bad]: to(urlOf(bad)), ...destinations }));
    await drained(stub, names);
    // No healthy destination has waited for the end of this attempt.
    if (SILENT.includes(what)) expect(await foundIn(stub)).toMatchObject({ attempt: 1 });
    await expectUndisturbed(names);
    const isEndless = ENDLESS.includes(what);
    const ending = isEndless ? givenOutbox(SOON_MS) : stub;
    if (isEndless) await send(ending, [{ id: `${bad}:0`, to: to(urlOf(bad)) }]);
    await until(async () => {
      const event = await foundIn(ending);
      return event?.state !== "waiting" || event.attempt === 2;
    });
    expect((await foundIn(ending))?.state ?? "delivered").toBe(wanted);
  });

  it("O3: all of these failures at once do not affect healthy destinations", async () => {
    const stub = givenOutbox(NEVER_MS);
    const { names, destinations } = someHealthy();
    const bad = TROUBLES.map(([, urlOf]) => {
      const name = someReceiver();
      return [name, to(urlOf(name))] as const;
    });
    await send(stub, eventsFor({ ...Object.fromEntries(bad), ...destinations }));
    // The silent ones keep their slots for a second each, and their attempts last longer than this wait.
    await drained(stub, names);
    await expectUndisturbed(names);
  });
});
