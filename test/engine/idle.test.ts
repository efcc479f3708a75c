/** How often an object wakes while it waits: docs/cost.md says so. Awake time is billed, and each alarm. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { virtualClock } from "../../src/testing/index.ts";
import { givenLedger } from "../support/given.ts";
import { send, sleep, somewhere, submit } from "../support/ledger.ts";
import { couriers, refusals } from "../support/objects/ledger-object.ts";
import { schedulerScripts } from "../support/objects/scheduler-object.ts";
import { task } from "../support/scheduler.ts";
import { HANG_MS } from "../support/sizes.ts";
import { ask, givenWaits, open } from "../support/waits.ts";

type Clock = ReturnType<typeof virtualClock>;

const DAY_MS = 86_400_000;

function alarmOf(stub: object): Promise<number | null> {
  return runInDurableObject(stub as DurableObjectStub, (_, { storage }) => storage.getAlarm());
}

/** The times at which the object wakes within a time. */
async function wakes(clock: Clock, stub: DurableObjectStub<undefined>, hours: number) {
  const until = Date.now() + hours * 3_600_000;
  const times: number[] = [];
  for (;;) {
    // What the wake has started sets the next alarm when it ends.
    await sleep(30);
    const at = await alarmOf(stub);
    if (at === null || at > until || times.length > 1_000) break;
    times.push(at);
    await clock.advance(Math.max(1, at - Date.now() + 1), stub);
  }
  await clock.advance(Math.max(0, until - Date.now()), stub);
  return times;
}

const asStub = (stub: object) => stub as DurableObjectStub<undefined>;

it("O5: an object that waits for a person for six days does not wake", async () => {
  using clock = virtualClock({ patience: HANG_MS });
  const stub = givenWaits();
  await open(stub, ask({ timeoutMs: 7 * DAY_MS }));
  expect(await wakes(clock, asStub(stub), 6 * 24)).toEqual([]);
});

it("S1: an object that waits for a schedule wakes at its time, and once after it", async () => {
  using clock = virtualClock({ at: "2027-03-27T00:00:00Z", patience: HANG_MS });
  const name = `idle-${crypto.randomUUID()}`;
  schedulerScripts.set(name, {
    tasks: () => ({ t: task(async () => {}, { schedule: "every day at 09:00", timezone: "UTC" }) }),
  });
  const stub = env.SchedulerObject.getByName(name);
  await runInDurableObject(stub, async ({ lifecycle, scheduler }) => {
    await lifecycle.start();
    await scheduler.list();
  });
  expect(await wakes(clock, asStub(stub), 8.9)).toEqual([]);
  const [first, second = 0, ...others] = await wakes(clock, asStub(stub), 24);
  expect(first).toBe(Date.parse("2027-03-27T09:00:00Z"));
  expect(second - (first ?? 0)).toBeLessThan(60_000);
  expect(others).toEqual([]);
});

it("O3: an object with a delivery in backoff wakes for each attempt, and once after it", async () => {
  using clock = virtualClock({ patience: HANG_MS });
  const stub = givenLedger();
  const to = somewhere();
  let attempts = 0;
  couriers.set(to.instance, async () => void attempts++);
  refusals.set(to.instance, { times: 1_000 });
  await send(stub, [{ id: "e", to }]);
  const times = await wakes(clock, asStub(stub), 24);
  expect(attempts).toBeGreaterThan(20);
  expect(times.length).toBeLessThanOrEqual(2 * attempts);
});

it("O5: an object whose turn has ended wakes once more, and then never", async () => {
  using clock = virtualClock({ patience: HANG_MS });
  const stub = givenLedger();
  await submit(stub, {}, { submissionId: "s", notify: [somewhere()] });
  await stub.wait("s");
  expect((await wakes(clock, asStub(stub), 24)).length).toBeLessThanOrEqual(1);
  expect(await alarmOf(stub)).toBeNull();
});
