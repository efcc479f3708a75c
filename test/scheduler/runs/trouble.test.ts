/** Storage and hosts that fail now and then: nothing is lost for it, and nothing that ended well is done again. */

import { describe, expect, it, onTestFinished, vi } from "vitest";
import { until } from "../../support/given.ts";
import { forever } from "../../support/ledger.ts";
import type { SchedulerObject } from "../../support/objects/scheduler-object.ts";
import { fakeTurns, HOUR, MINUTE, recorder, TestScheduler, task } from "../../support/scheduler.ts";

/** Lets the next write of such a statement fail. */
function failOnce({ meter }: SchedulerObject, isIt: (query: string) => boolean): void {
  meter.onWrite = (_, query) => {
    if (!isIt(query)) return;
    meter.onWrite = undefined;
    throw new Error("disk full");
  };
}

function quiet() {
  const spy = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => spy.mockRestore());
  return () => spy.mock.calls.map((args) => args.map(String).join(" "));
}

/** What waits for thirty seconds waits for a moment only. */
function hurry() {
  const real = globalThis.setTimeout;
  const spy = vi
    .spyOn(globalThis, "setTimeout")
    .mockImplementation(((work: () => void, ms?: number) =>
      real(work, ms === 30_000 ? 5 : ms)) as typeof setTimeout);
  onTestFinished(() => spy.mockRestore());
}

describe("a write that fails", () => {
  it("S1: a wake whose job was not stored is stored later, without a new start", async () => {
    quiet();
    const stage = new TestScheduler({
      tasks: () => ({ t: task(() => {}) }),
      born: (object) => failOnce(object, (query) => query.includes("cf_agents_jobs")),
    });
    hurry();
    await stage.inside(({ lifecycle }) => lifecycle.start());
    await until(async () => (await stage.wakesIn()) === 10 * MINUTE);
  });

  it("S1: an end that was not stored is stored later, and the handler is not called again", async () => {
    quiet();
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.inside((object) =>
      failOnce(object, (query) => query.includes("ended_at = ?") && query.includes("UPDATE")),
    );
    await stage.pass(10 * MINUTE);
    expect(await stage.history()).toEqual(["10 running"]);
    expect(await stage.wakesIn()).toBe(30_000);
    await stage.pass(30_000);
    expect(await stage.history()).toEqual(["10 completed"]);
    expect(record.came).toHaveLength(1);
  });

  it("S1: onFailure gets the handler's error after the failure was stored late", async () => {
    quiet();
    const fails = task(() => Promise.reject(new RangeError("no")), { retry: { maxAttempts: 1 } });
    const stage = new TestScheduler({ tasks: () => ({ t: fails }) });
    await stage.start();
    await stage.inside((object) =>
      failOnce(object, (query) => query.includes("ended_at = ?") && query.includes("UPDATE")),
    );
    await stage.pass(10 * MINUTE);
    await stage.pass(30_000);
    const run = await stage.comes("failed");
    expect(run).toMatchObject({ attempts: 1, error: { name: "RangeError" } });
  });
});

describe("a prompt that is cancelled", () => {
  const declared = { schedule: "every 1 hour", prompt: "p", overlap: "cancelPrevious" } as const;

  it("S3: a submission that cannot be cancelled is logged", async () => {
    const logged = quiet();
    const turns = fakeTurns({
      accept: async (_, { idempotencyKey }) => ({ submissionId: idempotencyKey }),
      inspect: forever,
      cancel: () => Promise.reject(new Error("no ledger")),
    });
    const stage = new TestScheduler({ turns, tasks: () => ({ t: declared }) });
    await stage.start();
    await stage.pass(HOUR);
    await stage.pass(HOUR);
    await until(() => logged().some((text) => text.includes("no ledger")));
  });

  it("S3: its submission is not accepted after that", async () => {
    quiet();
    const accepting: (() => void)[] = [];
    const refused: unknown[] = [];
    const fake = fakeTurns({
      accept: async (_, { idempotencyKey }) => {
        await new Promise<void>((resolve) => void accepting.push(resolve));
        return { submissionId: idempotencyKey };
      },
      inspect: forever,
    });
    const accept: typeof fake.accept = async (...args) => {
      try {
        return await fake.accept(...args);
      } catch (error) {
        refused.push(error);
        throw error;
      }
    };
    const stage = new TestScheduler({ turns: { ...fake, accept }, tasks: () => ({ t: declared }) });
    await stage.start();
    await stage.pass(HOUR);
    await stage.pass(HOUR);
    await stage.inside(() => accepting[0]?.());
    await until(() => refused.length === 1);
    expect(refused[0]).toMatchObject({ name: "RunCancelledError" });
    expect(await stage.history()).toEqual(["60 cancelled", "120 running"]);
  });
});
