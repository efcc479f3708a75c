/** Requests of one arrival run one after the other, and a bounded number runs in all. */

import { expect, it } from "vitest";
import { Serial } from "../../../src/features/inbound/serial.ts";

const never = () => new Promise<never>(() => {});

it("an arrival whose method never ends does not keep the place of others, and does not run again", async () => {
  const serial = new Serial(1, 50);
  void serial.run("hangs", never);
  await expect(serial.run("other", async () => "done")).rejects.toThrow("maxInFlight is 1");
  await expect.poll(() => serial.run("other", async () => "done").catch(() => "busy")).toBe("done");
  let runs = 0;
  void serial.run("hangs", async () => {
    runs++;
  });
  await expect
    .poll(() => serial.run("another", async () => "done").catch(() => "busy"))
    .toBe("done");
  expect(runs).toBe(0);
});

it("arrivals whose methods never end are bounded: ten times maxInFlight", async () => {
  const serial = new Serial(1, 0);
  for (let index = 0; index < 10; index++) {
    await expect
      .poll(() => {
        const running = serial.run(`hangs-${index}`, never);
        return Promise.race([running, Promise.resolve("runs")]).catch(() => "busy");
      })
      .toBe("runs");
  }
  const refusal = () => serial.run("other", async () => "done").catch(String);
  await expect.poll(refusal).toContain("10 arrivals");
});
