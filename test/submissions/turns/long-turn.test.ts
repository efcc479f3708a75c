/** How often an object wakes while one of its turns runs. Each wake sets an alarm, which is billed. */

import { expect, it } from "vitest";
import { virtualClock } from "../../../src/testing/index.ts";
import { givenLedger, until } from "../../support/given.ts";
import { submit, within } from "../../support/ledger.ts";

it("L1: a turn of 200 seconds sets at most 4 alarms, and one is always set", async () => {
  using clock = virtualClock({ patience: "0.02 seconds" });
  const stub = givenLedger();
  const alarm = () => within(stub, (_, { storage }) => storage.getAlarm());
  await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
  await until(async () => (await stub.inspect("s"))?.status === "running");
  const from = (await stub.inspect("s"))?.startedAt ?? Number.NaN;
  const alarms = new Set([await alarm()]);
  for (let seconds = 0; seconds < 200; seconds += 10) {
    await clock.advance("10 seconds", stub);
    const at = await alarm();
    expect(at).toBeGreaterThan(Date.now());
    alarms.add(at);
  }
  expect(await stub.inspect("s")).toMatchObject({ status: "running" });
  // The machine's own time passes on the way, too.
  const after = [...alarms].map((at) => 5 * Math.round(((at ?? 0) - from) / 5_000));
  expect(after).toEqual([10, 40, 120, 240]);
  await stub.cancel("s");
});
