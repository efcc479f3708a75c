/**
 * O2, O3: a destination that fails in every way in which a server can, beside
 * nine healthy ones that notice nothing. Real requests to real servers.
 */

import { describe, expect, it } from "vitest";
import { type Destination, webhook } from "../../../src/outbox/index.ts";
import { until } from "../../support/given.ts";
import { givenLedgerWith, type Ledger, send, within } from "../../support/ledger.ts";
import { chance } from "../../support/ledger-object.ts";
import {
  receivedBy,
  receiverUrl,
  refusingUrl,
  someReceiver,
} from "../../support/receivers/client.ts";

const EVENTS = 5;
const TIMEOUT_MS = 1_500;
/** Nine healthy destinations take five events each in much less; a single attempt at a silent one takes longer. */
const UNNOTICED_MS = 1_400;

type Fate = "waiting" | "delivered" | "dead";
/** What a server does, and what becomes of what was for it, as far as an hour's backoff lets it. */
const TROUBLES: [what: string, url: (name: string) => string, fate: Fate][] = [
  ["refuses the connection", () => refusingUrl(), "waiting"],
  ["resets the connection", (name) => receiverUrl(`/reset/${name}`), "waiting"],
  ["is slower than it may be", (name) => receiverUrl(`/slow/60000/${name}`), "waiting"],
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
  ["says nothing at all", (name) => receiverUrl(`/hang/${name}`), "waiting"],
  ["stops in the middle", (name) => receiverUrl(`/stall/500/${name}`), "waiting"],
  ["does not speak HTTP", (name) => receiverUrl(`/garbage/${name}`), "waiting"],
];

function givenOutbox(): Ledger {
  const policy = { timeout: TIMEOUT_MS, backoff: { base: "1 hour" } } as const;
  const stub = givenLedgerWith({ allowPrivateAddresses: true, policy });
  // No retry within the test.
  chance.random = () => 0.999;
  return stub;
}

const to = (url: string) => webhook(url, { secret: "HOOK_SECRET" });

/** Events for each destination, the destinations in turn. */
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

/** Every event once, in order, by its first attempt. */
async function expectUnnoticed(names: string[]): Promise<void> {
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

/** How long it took until everything for these was taken. */
async function drained(stub: Ledger, names: string[], begun: number): Promise<number> {
  const left = (name: string) => `${name}:${EVENTS - 1}`;
  await until(
    () =>
      within(stub, async ({ outbox }) => {
        const states = await Promise.all(names.map((name) => outbox.inspect(left(name))));
        return states.every((state) => state === null);
      }),
    20_000,
  );
  return Date.now() - begun;
}

describe("Nine healthy destinations beside one that", () => {
  it.each(TROUBLES)("O3: %s does not affect healthy destinations", async (_, urlOf, fate) => {
    const stub = givenOutbox();
    const { names, destinations } = someHealthy();
    const bad = someReceiver();
    const begun = Date.now();
    await send(stub, eventsFor({ [bad]: to(urlOf(bad)), ...destinations }));
    expect(await drained(stub, names, begun)).toBeLessThan(UNNOTICED_MS);
    await expectUnnoticed(names);
    const fateOf = async () =>
      (await within(stub, ({ outbox }) => outbox.inspect(`${bad}:0`)))?.state ?? "delivered";
    const isAttempted = async () => {
      const state = await within(stub, ({ outbox }) => outbox.inspect(`${bad}:0`));
      return state?.state !== "waiting" || state.attempt === 2;
    };
    await until(isAttempted, 2 * TIMEOUT_MS + 1_000);
    expect(await fateOf()).toBe(fate);
  });

  it("O3: all of these failures at once do not affect healthy destinations", async () => {
    const stub = givenOutbox();
    const { names, destinations } = someHealthy();
    const bad = TROUBLES.map(([, urlOf]) => {
      const name = someReceiver();
      return [name, to(urlOf(name))] as const;
    });
    const begun = Date.now();
    await send(stub, eventsFor({ ...Object.fromEntries(bad), ...destinations }));
    // More than eight take their time: each of those makes room after a second.
    expect(await drained(stub, names, begun)).toBeLessThan(3 * TIMEOUT_MS);
    await expectUnnoticed(names);
  });
});
