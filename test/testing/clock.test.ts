/** The virtual clock, used as a user does: schedules, retries and expiries in the time of a test. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { VirtualClockError, virtualClock } from "../../src/testing/index.ts";
import { givenLedger, until } from "../support/given.ts";
import { release, sleep, submit } from "../support/ledger.ts";
import { ledgerOptions } from "../support/objects/ledger-object.ts";
import { schedulerScripts } from "../support/objects/scheduler-object.ts";
import { task } from "../support/scheduler.ts";
import { HANG_MS } from "../support/sizes.ts";

/** Before the change to summer time in Europe/London, which is at 01:00Z on the 28th. */
const SPRING = "2027-03-27T00:00:00Z";

/** An object with one task; notes each occurrence, and when it came. */
async function givenTask(schedule: string, work = async () => {}) {
  const name = `clock-${crypto.randomUUID()}`;
  const came: { occurrence: string; at: string }[] = [];
  schedulerScripts.set(name, {
    tasks: () => ({
      t: task(
        async ({ scheduledFor }) => {
          const [occurrence, at] = [scheduledFor, Date.now()].map((time) =>
            new Date(time).toISOString(),
          );
          came.push({ occurrence: occurrence ?? "", at: at ?? "" });
          await work();
        },
        { schedule, timezone: "Europe/London" },
      ),
    }),
  });
  const stub = env.SchedulerObject.getByName(name);
  await runInDurableObject(stub, async ({ lifecycle, scheduler }) => {
    await lifecycle.start();
    await scheduler.list();
  });
  return { stub, came, occurrences: () => came.map(({ occurrence }) => occurrence) };
}

describe("schedules", () => {
  it("S1 S5: an hourly task fires 24 times in a day, each at its time and in order", async () => {
    using clock = virtualClock({ at: SPRING, patience: HANG_MS });
    const { stub, came, occurrences } = await givenTask("every hour");
    await clock.advance("1 day", stub);
    expect(came).toHaveLength(24);
    expect(occurrences()).toEqual([...occurrences()].sort());
    for (const { occurrence, at } of came) {
      const late = Date.parse(at) - Date.parse(occurrence);
      expect(late).toBeGreaterThanOrEqual(0);
      expect(late).toBeLessThan(HANG_MS);
    }
  });

  it("S2: a daily task keeps its wall-clock time across the change to summer time", async () => {
    using clock = virtualClock({ at: SPRING, patience: HANG_MS });
    const { stub, occurrences } = await givenTask("every day at 01:30");
    await clock.advance("3 days", stub);
    expect(occurrences()).toEqual([
      "2027-03-27T01:30:00.000Z",
      // 01:30 is left out on that day: the first instant after the gap.
      "2027-03-28T01:00:00.000Z",
      "2027-03-29T00:30:00.000Z",
    ]);
  });

  it("S1: the alarms of several objects run in the order of their times", async () => {
    using clock = virtualClock({ at: SPRING, patience: HANG_MS });
    const order: string[] = [];
    const [one, other] = await Promise.all([
      givenTask("every day at 09:00", async () => void order.push("nine")),
      givenTask("every day at 08:00, 10:00", async () => void order.push("eight or ten")),
    ]);
    await clock.advance("1 day", one.stub, other.stub);
    expect(order).toEqual(["eight or ten", "nine", "eight or ten"]);
  });

  it("S3: an object catches up on time that passed without it when it is woken", async () => {
    using clock = virtualClock({ at: SPRING, patience: HANG_MS });
    const { stub, occurrences } = await givenTask("every hour");
    await clock.advance("5.5 hours");
    expect(occurrences()).toEqual([]);
    await clock.advance(1, stub);
    expect(occurrences()).toEqual([expect.stringMatching(/^2027-03-27T05:00:/)]);
  });

  it("a task that hangs does not block the clock", async () => {
    using clock = virtualClock({ at: SPRING, patience: "0.1 seconds" });
    const { stub, came } = await givenTask("every day at 09:00", () => new Promise(() => {}));
    await clock.advance("9 hours");
    await clock.advance("0.5 hours", stub);
    expect(came).toHaveLength(1);
    expect(new Date().toISOString()).toMatch(/^2027-03-27T09:30:/);
  });
});

describe("submissions", () => {
  it("L8: a 429 is retried after its Retry-After", async () => {
    using clock = virtualClock({ patience: HANG_MS });
    const stub = givenLedger();
    const script = { fail: "busy", failTimes: 1, status: 429, headers: { "retry-after": "3600" } };
    await submit(stub, script, { submissionId: "s" });
    await until(async () => {
      const found = await stub.inspect("s");
      return found?.status === "pending" && found.attempts === 1;
    });
    const begun = Date.now();
    await clock.advance("59 minutes", stub);
    expect(await stub.inspect("s")).toMatchObject({ status: "pending", attempts: 1 });
    await clock.advance("2 minutes", stub);
    const ended = await stub.inspect("s");
    expect(ended).toMatchObject({ status: "completed", attempts: 2 });
    expect((ended?.completedAt ?? 0) - begun).toBeGreaterThanOrEqual(3_500_000);
  });

  it("L1: notBefore delays a turn until its time", async () => {
    using clock = virtualClock({ patience: HANG_MS });
    const stub = givenLedger();
    const at = Date.now() + 7_200_000;
    await submit(stub, {}, { submissionId: "s", notBefore: new Date(at) });
    await clock.advance("1.9 hours", stub);
    expect((await stub.inspect("s"))?.status).toBe("pending");
    await clock.advance("0.2 hours", stub);
    const ended = await stub.inspect("s");
    expect(ended?.status).toBe("completed");
    expect(ended?.startedAt).toBeGreaterThanOrEqual(at);
  });

  it("L1: expiresIn ends a submission that waits too long", async () => {
    using clock = virtualClock({ patience: "0.1 seconds" });
    const stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "first" });
    await submit(stub, {}, { submissionId: "second", expiresIn: "1 minute" });
    await clock.advance("2 minutes", stub);
    await release(stub, "first");
    expect(await stub.wait("first", { timeoutMs: HANG_MS })).toMatchObject({ status: "completed" });
    expect(await stub.wait("second", { timeoutMs: HANG_MS })).toMatchObject({
      status: "skipped",
      attempts: 0,
    });
  });

  it("L9: retention deletes submissions that ended long ago", async () => {
    using clock = virtualClock({ patience: HANG_MS });
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { retention: { maxAge: "1 day" } });
    await submit(stub, {}, { submissionId: "old" });
    await stub.wait("old");
    await clock.advance("2 days", stub);
    await submit(stub, {}, { submissionId: "new" });
    await stub.wait("new");
    // The wake that looks after "new" finds nothing to do but that.
    await clock.advance("1 minute", stub);
    expect((await stub.list()).map(({ submissionId }) => submissionId)).toEqual(["new"]);
  });
});

describe("the clock", () => {
  it("shifts every way to read the time, and restores the machine's time", async () => {
    const before = Date.now();
    const RealDate = Date;
    {
      using clock = virtualClock({ patience: HANG_MS });
      await clock.advance("30 days");
      const month = 30 * 86_400_000;
      for (const now of [
        Date.now(),
        Date.parse(new Date().toISOString()),
        +new RealDate(RealDate.now()),
        clock.now(),
        Date.parse(Date()),
      ]) {
        expect(now - before).toBeGreaterThan(month - 2_000);
        expect(now - before).toBeLessThan(month + HANG_MS);
      }
      const then = clock.now();
      await sleep(30);
      expect(clock.now()).toBeGreaterThanOrEqual(then + 20);
      expect(new Date(0)).toBeInstanceOf(RealDate);
      expect(new RealDate(0)).toBeInstanceOf(Date);
      expect(new Date(0).constructor).toBe(Date);
      expect(new Date(2027, 0, 1)).toEqual(new RealDate(2027, 0, 1));
      class Day extends Date {}
      expect(new Day()).toBeInstanceOf(Day);
      expect(new Day().getTime()).toBeGreaterThan(before + month - 2_000);
    }
    expect(Date).toBe(RealDate);
    expect(new Date(0).constructor).toBe(RealDate);
    expect(Date.now() - before).toBeLessThan(HANG_MS);
  });

  it("only one clock is active at a time, and restore() can be called twice", async () => {
    const clock = virtualClock();
    expect(() => virtualClock()).toThrow(/Another virtual clock is active. Call its restore\(\)/);
    clock.restore();
    clock.restore();
    using _next = virtualClock();
    await expect(clock.advance(1)).rejects.toThrow(/was restored/);
  });

  it("refuses invalid times and durations, and times in the past", async () => {
    using clock = virtualClock({ patience: HANG_MS });
    await expect(clock.advance(-1)).rejects.toThrow(
      /Invalid duration -1: expected a positive number/,
    );
    await expect(clock.advance("a day" as never)).rejects.toThrow(/Invalid duration "a day"/);
    await expect(clock.advance(Number.POSITIVE_INFINITY)).rejects.toThrow(
      /Invalid duration Infinity/,
    );
    await expect(clock.set("tomorrow")).rejects.toThrow(/Invalid time "tomorrow"/);
    await expect(clock.set(0)).rejects.toThrow(
      /Invalid time 1970-01-01T00:00:00.000Z: expected a time after 20/,
    );
    await expect(clock.set(0)).rejects.toBeInstanceOf(VirtualClockError);
    await clock.set(Date.now() + 86_400_000);
    clock.restore();
    expect(() => virtualClock({ at: 0 })).toThrow(/cannot go back/);
    expect(() => virtualClock({ patience: -1 })).toThrow(/Invalid patience -1/);
    // The refused clocks left nothing behind.
    virtualClock().restore();
  });
});
