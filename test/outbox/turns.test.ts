/** Destinations in turn, and O3 a backlog does not cost more the longer it is. */

import { beforeEach, describe, expect, it } from "vitest";
import type { Destination } from "../../src/outbox/index.ts";
import { givenLedger, until } from "../support/given.ts";
import {
  arrived,
  givenLedgerWith,
  idsAt,
  send,
  sleep,
  somewhere,
  within,
} from "../support/ledger.ts";
import { Recorder } from "../support/ledger-scale.ts";
import { chance, couriers, type LedgerObject, time } from "../support/objects/ledger-object.ts";
import { STATEMENTS, tally } from "./outbox-load.ts";

beforeEach(() => {
  // No alarm comes while something is counted.
  time.aheadMs = 86_400_000;
});
/** An object whose outbox tells one destination at a time. */
const givenOneAtATime = () => givenLedgerWith({ concurrency: 1 });

function entriesFor(to: Destination, count: number, prefix = "e") {
  return Array.from({ length: count }, (_, index) => ({ id: `${prefix}-${index}`, to }));
}

describe("Destinations in turn", () => {
  it("O2: a delivery does not wait for the backlog of another destination", async () => {
    const [crowded, other] = [somewhere(), somewhere()];
    couriers.set(crowded.instance, () => sleep(10));
    let before = 0;
    let between = Number.POSITIVE_INFINITY;
    couriers.set(other.instance, async () => {
      between = idsAt(crowded).length - before;
    });
    await within(givenOneAtATime(), async (object, { storage }) => {
      await object.lifecycle.start();
      put(object, storage, entriesFor(crowded, 60));
      await arrived(crowded);
      before = idsAt(crowded).length;
      put(object, storage, [{ id: "other", to: other }]);
      await arrived(other);
    });
    expect(between).toBeLessThanOrEqual(2);
  });

  it("O2: a delivery does not wait for slow destinations with a backlog that use all slots", async () => {
    const stub = givenOneAtATime();
    const other = somewhere();
    const policy = { timeout: 1_200, backoff: { base: 1, cap: 1 } };
    const hanging = Array.from({ length: 10 }, () => ({ ...somewhere(), policy }));
    let begun = 0;
    for (const { instance } of hanging) {
      couriers.set(instance, async () => {
        begun++;
        await sleep(1_200);
      });
    }
    await send(
      stub,
      hanging.flatMap((to) => entriesFor(to, 5, to.instance)),
    );
    // All the room is taken by those of which nothing is known yet. Then it is known.
    await until(() => begun > 12);
    const before = begun;
    await send(stub, [{ id: "other", to: other }]);
    await arrived(other);
    // It is not behind their backlog.
    expect(begun - before).toBeLessThanOrEqual(10);
  });
});

describe("The cost of a delivery with many waiting entries", () => {
  it("O3: the rows are read once for 64 entries of the same destination", async () => {
    const to = somewhere();
    const entries = entriesFor(to, 1_000);
    const statements = await within(givenLedger(), async (object, { storage }) => {
      await object.lifecycle.start();
      return new Recorder(object.meter).during(async () => {
        put(object, storage, entries);
        await until(() => idsAt(to).length === 1_000);
      });
    });
    expect(tally(statements, STATEMENTS.look).times).toBeLessThanOrEqual(1_000 / 64 + 2);
    expect(idsAt(to)).toEqual(entries.map(({ id }) => id));
  });

  it("O3: an entry for a healthy destination starts without a read beside a failing one", async () => {
    const [broken, other] = [somewhere(), somewhere()];
    // None of them is tried again while the test runs.
    chance.random = () => 0.999;
    const policy = { backoff: { base: 3_600_000 } };
    let refused = 0;
    couriers.set(broken.instance, async () => {
      refused++;
      throw new Error("down");
    });
    const statements = await within(givenLedger(), async (object, { storage }) => {
      await object.lifecycle.start();
      put(object, storage, entriesFor({ ...broken, policy }, 200));
      await until(() => refused === 200);
      await sleep(20);
      return new Recorder(object.meter).during(async () => {
        for (const entry of entriesFor(other, 20, "other")) {
          put(object, storage, [entry]);
          await until(() => idsAt(other).includes(entry.id));
        }
      });
    });
    expect(tally(statements, STATEMENTS.look)).toMatchObject({ times: 0, rowsRead: 0 });
  });
});

it("O2: an outcome that cannot be stored is retried after a pause", async () => {
  const destinations = [somewhere(), somewhere(), somewhere()];
  await within(givenLedger(), async (object, { storage }) => {
    await object.lifecycle.start();
    object.meter.onWrite = (_, what) => {
      if (what.startsWith("DELETE FROM perdure_outbox")) throw new Error("the disk is full");
    };
    for (const to of destinations) {
      couriers.set(to.instance, () => sleep(5));
      put(object, storage, entriesFor(to, 2, to.instance));
      // The next ones come while these are in flight.
      await sleep(1);
    }
    await sleep(500);
    object.meter.onWrite = undefined;
  });
  expect(destinations.map((to) => idsAt(to).length)).toEqual([1, 1, 1]);
});

function put(
  { outbox }: LedgerObject,
  storage: DurableObjectStorage,
  entries: { id: string; to: Destination }[],
): void {
  storage.transactionSync(() => {
    for (const { id, to } of entries) outbox.put(to, null, { id });
  });
}
