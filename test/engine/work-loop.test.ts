import type { LifecycleJob, LifecycleServices } from "agents/lifecycle";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { earliest } from "../../src/core/clock.ts";
import { WorkLoop } from "../../src/engine/work-loop.ts";

const HEARTBEAT_MS = 30_000;

/** A loop with a clock and a job queue that the test controls. */
function givenLoop(drive: (loop: WorkLoop) => number | null = () => null, watch?: () => void) {
  const time = { now: 1_000 };
  const jobs: number[] = [];
  const tracked: Promise<unknown>[] = [];
  const services = {
    jobs: {
      get: () => undefined,
      push: async (job: LifecycleJob) => void jobs.push(job.time),
    },
    routes: { source: undefined },
    storage: {},
    trackAlarmWork: (work: Promise<unknown>) => tracked.push(work) > 0,
  } as unknown as LifecycleServices;
  const clock = { now: () => time.now, random: () => 0 };
  const loop: WorkLoop = new WorkLoop(
    "test.loop",
    clock,
    () => services,
    async () => drive(loop),
    watch,
  );
  const fire = () => loop.wake.onJob({ job: {} as LifecycleJob, attempt: 1 });
  return { loop, time, jobs, tracked, fire };
}

function givenLog() {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => log.mockRestore());
  return log;
}

describe("work loop", () => {
  it("the earliest of no times is null", () => {
    expect(earliest([])).toBeNull();
    expect(earliest([null, null])).toBeNull();
    expect(earliest([null, 7, 3, null, 5])).toBe(3);
    expect(earliest([0, 1])).toBe(0);
  });

  it("without work in flight the next wake is when the module wants it", async () => {
    const { loop, fire, tracked } = givenLoop(() => 500_000);
    expect(loop.isBusy).toBe(false);
    expect(loop.nextWake(null)).toBeNull();
    expect(await fire()).toEqual({ rescheduleAt: 500_000 });
    expect(tracked).toEqual([]);
  });

  it("while work is in flight the object wakes every 30 seconds, and the alarm waits for the work", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { loop, time, fire, tracked } = givenLoop();
    loop.track({}, promise);
    expect(await fire()).toEqual({ rescheduleAt: time.now + HEARTBEAT_MS });
    time.now += 20_000;
    expect(loop.nextWake(null)).toBe(time.now + HEARTBEAT_MS);
    expect(loop.nextWake(time.now + 5)).toBe(time.now + 5);
    let hasEnded = false;
    const waiting = Promise.all(tracked).then(() => {
      hasEnded = true;
    });
    await Promise.resolve();
    expect([tracked.length, hasEnded]).toEqual([1, false]);
    resolve();
    await waiting;
    expect(loop.isBusy).toBe(false);
    expect(await fire()).toBeUndefined();
  });

  it("watched work is looked at every 10 seconds until it has ended, and its heartbeat grows to 2 minutes", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const watch = vi.fn();
    const { loop, time } = givenLoop(undefined, watch);
    const [one, other] = [{}, {}];
    const endless = new Promise<never>(() => {});
    const heartbeat = () => (loop.nextWake(null) ?? 0) - time.now;
    loop.track(one, endless);
    expect(heartbeat()).toBe(HEARTBEAT_MS);
    time.now += 40_000;
    expect(heartbeat()).toBe(80_000);
    time.now += 80_000;
    expect(heartbeat()).toBe(120_000);
    loop.track(other, endless);
    expect(heartbeat()).toBe(HEARTBEAT_MS);
    loop.untrack(other);
    vi.advanceTimersByTime(60_000);
    expect(watch).toHaveBeenCalledTimes(6);
    loop.untrack(one);
    vi.advanceTimersByTime(60_000);
    expect(watch).toHaveBeenCalledTimes(6);
    expect(loop.nextWake(null)).toBeNull();
  });

  it("work that a drive starts counts for its wake", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { time, fire, tracked } = givenLoop((loop) => {
      loop.track({}, promise);
      return time.now + 2 * HEARTBEAT_MS;
    });
    expect(await fire()).toEqual({ rescheduleAt: time.now + HEARTBEAT_MS });
    expect(tracked).toHaveLength(1);
    resolve();
  });

  it("work that is given up keeps the object awake no longer, and other work does", () => {
    const { loop } = givenLoop();
    const endless = new Promise<never>(() => {});
    const [one, other] = [{}, {}];
    loop.track(one, endless);
    loop.track(other, endless);
    loop.untrack(one);
    expect(loop.isBusy).toBe(true);
    loop.untrack(other);
    expect(loop.isBusy).toBe(false);
    expect(loop.nextWake(null)).toBeNull();
  });

  it("the end of earlier work does not end later work with the same key", async () => {
    const { loop } = givenLoop();
    const key = {};
    const first = Promise.withResolvers<void>();
    loop.track(key, first.promise);
    loop.track(key, new Promise<never>(() => {}));
    first.resolve();
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(loop.isBusy).toBe(true);
  });

  it("a failed storage call is logged and pauses its key alone, and a wake tries it again", async () => {
    const log = givenLog();
    const failure = new Error("disk full");
    let calls = 0;
    const { loop, time, fire } = givenLoop(() => {
      if (!loop.isPaused("one")) {
        loop.tryOrPause("one", "it could not be stored", () => {
          calls++;
          if (calls === 1) throw failure;
        });
      }
      return null;
    });
    const retryAt = time.now + HEARTBEAT_MS;
    expect(await fire()).toEqual({ rescheduleAt: retryAt });
    expect(log.mock.calls).toEqual([["[perdure] it could not be stored:", failure]]);
    expect([loop.paused, loop.isPaused("one"), loop.isPaused("two")]).toEqual([
      ["one"],
      true,
      false,
    ]);
    // A wake before the end of the pause keeps it.
    time.now = retryAt - 1;
    expect(await fire()).toEqual({ rescheduleAt: retryAt });
    expect(calls).toBe(1);
    // The pause is over, and its wake is still to come.
    time.now = retryAt;
    expect([loop.isPaused("one"), loop.paused]).toEqual([false, []]);
    expect(loop.nextWake(null)).toBe(retryAt);
    expect(await fire()).toBeUndefined();
    expect([calls, loop.nextWake(null), log.mock.calls.length]).toEqual([2, null, 1]);
  });

  it("a pause alone requests no wake of its own", () => {
    const { loop, time, jobs } = givenLoop();
    expect(loop.pause("one")).toBe(time.now + HEARTBEAT_MS);
    expect(loop.nextWake(null)).toBe(time.now + HEARTBEAT_MS);
    expect(jobs).toEqual([]);
  });
});
