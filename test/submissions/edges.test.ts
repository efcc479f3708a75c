/** What a turn meets on its way: a host with a queue of its own, a wake that is late or far off, an end that is large; on the light host. */

import type { LifecycleServices } from "agents/lifecycle";
import { describe, expect, it } from "vitest";
import { givenLedger, message } from "../support/given.ts";
import {
  expectState,
  forever,
  givenWait,
  jobOf,
  type Ledger,
  playing,
  sleep,
  somewhere,
  submit,
  waitingIn,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { chance, couriers, ledgerOptions, time } from "../support/objects/ledger-object.ts";

const DAY_MS = 86_400_000;
const hold = { delayMs: 60_000 };

describe("while a turn waits in the host's own queue", () => {
  /** The first turn has to wait for the host, as it does where Think runs a turn of the app's. */
  async function givenQueue(stub: Ledger) {
    const wait = givenWait();
    await within(stub, ({ turns }) => {
      const { run } = turns;
      turns.run = async (turn) => {
        turns.run = run;
        await wait.pass();
        return run.call(turns, turn);
      };
    });
    return wait;
  }

  it("L1: a debounced repetition becomes part of the turn", async () => {
    const stub = givenLedger();
    const queue = await givenQueue(stub);
    const debounce = { key: "k", delay: 1 } as const;
    const { submissionId } = await submit(stub, "old", { debounce });
    await sleep(5);
    await wakeNow(stub);
    await queue.reached();
    const latest = message("new");
    const again = await within(stub, ({ submissions }) =>
      submissions.submit([latest], { debounce }),
    );
    expect(again).toMatchObject({ submissionId, accepted: true, debounced: true });
    await queue.open(stub);
    await expectState(stub, submissionId, "completed");
    expect(await stub.conversation()).toEqual([latest.id, `reply-${submissionId}`]);
  });

  it("L4: a submission that expires is skipped, and appends no message", async () => {
    const stub = givenLedger();
    const queue = await givenQueue(stub);
    await submit(stub, "x", { submissionId: "s", expiresIn: "1 second" });
    await queue.reached();
    time.aheadMs = 5_000;
    await queue.open(stub);
    await expectState(stub, "s", "skipped", { errorName: "SubmissionExpiredError", attempts: 0 });
    expect(await stub.conversation()).toEqual([]);
  });

  it("L5: an interruption does not cancel it", async () => {
    const stub = givenLedger();
    const queue = await givenQueue(stub);
    await submit(stub, "x", { submissionId: "waits" });
    await queue.reached();
    await expectState(stub, "waits", "pending");
    await submit(stub, "x", { submissionId: "urgent", whenBusy: "interrupt" });
    await queue.open(stub);
    await expectState(stub, "urgent", "completed");
    await expectState(stub, "waits", "completed");
  });
});

describe("the wake", () => {
  it("L1: the wake is armed when submit() resolves, also where arming is slow", () =>
    within(givenLedger(), async ({ submissions, outbox }, ctx) => {
      await submissions.list();
      const services: LifecycleServices = Reflect.get(outbox, "lifecycle");
      let isArming = false;
      const push: typeof services.jobs.push = async (job) => {
        isArming = true;
        await sleep(50);
        return services.jobs.push(job);
      };
      const slow = { ...services, jobs: { ...services.jobs, push } };
      Object.defineProperty(outbox, "lifecycle", { value: slow, configurable: true });
      await submissions.submit([message(hold)], { submissionId: "s" });
      expect(isArming).toBe(true);
      expect(jobOf(ctx)).not.toBeNull();
      await submissions.cancel("s");
    }));

  it("O2: the wake stays close while a delivery is in flight", async () => {
    const stub = givenLedger();
    const to = somewhere();
    couriers.set(to.instance, () => forever());
    const notBefore = new Date(Date.now() + DAY_MS);
    await submit(stub, "x", { submissionId: "tomorrow", notBefore });
    await submit(stub, "x", { submissionId: "s", notify: [to] });
    await expectState(stub, "s", "completed");
    await wakeNow(stub);
    await within(stub, (_, ctx) => {
      expect(waitingIn(ctx)).toHaveLength(1);
      expect(jobOf(ctx)).toBeLessThan(Date.now() + 60_000);
    });
  });

  it("L4: the wake does not repeat for a due thread without a free slot", async () => {
    chance.random = () => 0.99;
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { maxConcurrentTurns: 1 });
    const failing = { fail: "overloaded", status: 503, failTimes: 1 };
    await submit(stub, failing, { submissionId: "off", thread: "side" });
    const { dueAt = 0 } = await expectState(stub, "off", "pending", { attempts: 1 });
    await submit(stub, hold, { submissionId: "main" });
    await expectState(stub, "main", "running");
    time.aheadMs = dueAt - Date.now() + 1;
    await wakeNow(stub);
    let wakes = 0;
    await within(stub, ({ submissions }, ctx) => {
      expect(jobOf(ctx)).toBeGreaterThan(Date.now() + 20_000);
      const onJob = submissions.onJob.bind(submissions);
      submissions.onJob = (context) => {
        wakes++;
        return onJob(context);
      };
    });
    await sleep(200);
    expect(wakes).toBe(0);
    await stub.cancel("main");
    await expectState(stub, "off", "completed", { attempts: 2 });
  });
});

it("L1: an end that is too large for its row still ends the submission", async () => {
  const stub = givenLedger();
  await playing(stub, "s", async (turn) => {
    turn.begin();
    throw new Error(`Type validation failed: ${"y".repeat(600_000)}`);
  });
  const large = message("x".repeat(1_850_000));
  await within(stub, ({ submissions }) => submissions.submit([large], { submissionId: "s" }));
  const ended = await expectState(stub, "s", "error", { attempts: 1 });
  expect(ended.error).toMatch(/^Type validation failed: y/);
});
