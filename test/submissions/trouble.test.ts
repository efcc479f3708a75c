/** One thing that goes wrong in the ledger for good: nothing else waits for it, and it is not tried all the time. */

import { describe, expect, it, vi } from "vitest";
import { givenLedger, message } from "../support/given.ts";
import {
  arrived,
  crashOne,
  expectState,
  forever,
  release,
  sleep,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { births, chance, time } from "../support/objects/ledger-object.ts";
import { HANG_MS } from "../support/sizes.ts";

const hold = { delayMs: 60_000 };

/** How many errors are logged while `ms` pass. */
async function errorsWithin(ms: number): Promise<number> {
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  await sleep(ms);
  const { length } = errors.mock.calls;
  errors.mockRestore();
  return length;
}

/** Storage refuses what would change this submission. */
function refuseChanges(storage: DurableObjectStorage, id: string): void {
  storage.sql.exec(
    `CREATE TRIGGER refuse BEFORE UPDATE ON perdure_submissions WHEN OLD.submission_id = '${id}'
     BEGIN SELECT RAISE(ABORT, 'refused'); END`,
  );
}

describe("after a crash", () => {
  it("L1: a host that does not answer holds up no other thread", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "left", thread: "a" });
    await submit(stub, hold, { submissionId: "before", thread: "b" });
    await submit(stub, "x", { submissionId: "waits", thread: "b" });
    await expectState(stub, "left", "running");
    births.set(stub.name ?? "", ({ turns }, { storage }) => {
      turns.inspectConversation = forever;
      storage.sql.exec("DELETE FROM perdure_submissions WHERE submission_id = 'before'");
    });
    const next = await crashOne(stub);
    wakeNow(next).catch(() => {});
    await expectState(next, "waits", "completed");
    await expectState(next, "left", "running");
    // Otherwise the object would ask its host every few seconds until the end of all tests.
    births.delete(stub.name ?? "");
    const last = await crashOne(next);
    await last.cancel("left");
    await expectState(last, "left", "aborted");
  });

  it("L6: an end that cannot be written does not block the recovery of others", async () => {
    const stub = givenLedger();
    await submit(stub, hold, { submissionId: "bad", thread: "a" });
    await submit(stub, { isHeld: true }, { submissionId: "good", thread: "b" });
    await expectState(stub, "good", "running");
    let hasAnswered = false;
    births.set(stub.name ?? "", ({ turns }) => {
      const inspect = turns.inspectConversation.bind(turns);
      turns.inspectConversation = async (turn) => {
        if (turn.submissionId === "bad" || !hasAnswered) throw new Error("The host is not ready");
        return inspect(turn);
      };
    });
    const next = await crashOne(stub);
    await next.list();
    await within(next, (_, { storage }) => refuseChanges(storage, "bad"));
    await wakeNow(next);
    await expectState(next, "good", "running", { attempts: 1 });
    hasAnswered = true;
    // Long enough for the bad one to be given up, which storage refuses.
    time.aheadMs = 601_000;
    await wakeNow(next);
    await release(next, "good");
    await expectState(next, "good", "completed", { attempts: 2 });
    await expectState(next, "bad", "running");
  });
});

describe("L9: a failed operation is not retried in a loop", () => {
  it("a thread that cannot be read", async () => {
    chance.random = () => 0;
    const stub = givenLedger();
    const failing = { fail: "overloaded", status: 503, headers: { "retry-after-ms": "300" } };
    await submit(stub, failing, { submissionId: "s", thread: "a" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    await within(stub, (_, { storage }) =>
      storage.sql.exec("UPDATE perdure_submissions SET messages = '{'"),
    );
    expect(await errorsWithin(1_300)).toBeLessThan(5);
    await within(stub, (_, { storage }) => storage.sql.exec("DELETE FROM perdure_submissions"));
  });

  it("a scheduled submission that cannot join the queue", async () => {
    const stub = givenLedger();
    await submit(stub, "x", { submissionId: "s", notBefore: new Date(Date.now() + 200) });
    await within(stub, (_, { storage }) => refuseChanges(storage, "s"));
    expect(await errorsWithin(1_300)).toBeLessThan(5);
    await within(stub, (_, { storage }) => storage.sql.exec("DROP TRIGGER refuse"));
    await sleep(1_000);
    await wakeNow(stub);
    await expectState(stub, "s", "completed");
  });
});

describe("an outbox that cannot start its deliveries", () => {
  it("O1: an outbox that cannot start does not block waits for an end, and delivers it later", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = givenLedger();
    const to = somewhere();
    await within(stub, async ({ submissions, outbox, turns }) => {
      const flush = outbox.flush.bind(outbox);
      let refusals = 2;
      outbox.flush = () => {
        if (refusals-- > 0) throw new Error("storage is busy");
        flush();
      };
      await submissions.submit([message("x")], { submissionId: "s", notify: [to] });
      expect((await submissions.wait("s", { timeoutMs: HANG_MS }))?.status).toBe("completed");
      expect(turns.statuses).toContain("s:completed");
    });
    for (let wake = 0; wake < 2; wake++) await wakeNow(stub);
    log.mockRestore();
    expect(await arrived(to)).toHaveLength(1);
  });

  it("L1: an outbox that cannot start does not block the accepted prompts of a batch", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = givenLedger();
    const { workflow, instance } = somewhere();
    const request = {
      workflow: { name: workflow, id: instance, stepName: "s" },
      ...{ batch: "b", concurrency: 4, run: "r", answer: {} },
    };
    const item = (key: string) => ({ idempotencyKey: key, key, messages: [message("x")] });
    await within(stub, (object) => object.acceptPrompts({ ...request, items: [item("a")] }));
    await within(stub, ({ outbox }) => {
      outbox.flush = () => {
        throw new Error("storage is busy");
      };
    });
    const items = [item("a"), item("b")];
    const { submissionIds } = await within(stub, (object) =>
      object.acceptPrompts({ ...request, items }),
    );
    await expectState(stub, submissionIds[1] ?? "", "completed");
    log.mockRestore();
  });
});
