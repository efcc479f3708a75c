/** The app's status hook: which calls wait for it, how long, and that none waits for the hook of another submission. */

import { describe, expect, it, vi } from "vitest";
import { StatusHooks } from "../../src/submissions/status-hooks.ts";
import type { SubmissionInspection } from "../../src/submissions/types.ts";
import { givenLedger, message, until } from "../support/given.ts";
import { forever, type Ledger, sleep, submit, within } from "../support/ledger.ts";
import {
  type LedgerObject,
  ledgerOptions,
  type TestOptions,
} from "../support/objects/ledger-object.ts";

/** Longer than a test may take. */
const NEVER_MS = 600_000;

type Hook = (submission: SubmissionInspection, object: LedgerObject) => Promise<void>;

/** An object whose app has this status hook. */
async function givenHook(hook: Hook, options: TestOptions = {}): Promise<Ledger> {
  const stub = givenLedger();
  ledgerOptions.set(stub.name ?? "", options);
  await within(stub, (object) => {
    object.turns.onStatus = (submission) => hook(submission, object);
  });
  return stub;
}

const hang: Hook = ({ submissionId, status }) =>
  submissionId === "hangs" && status === "pending" ? forever() : Promise.resolve();

describe("a status hook that hangs", () => {
  it("L9: a hanging hook does not block waits for its own submission or another", async () => {
    const stub = await givenHook(hang, { hookTimeoutMs: 50 });
    await within(stub, async ({ submissions }) => {
      const hangs = submissions.submit([message("x")], { submissionId: "hangs" });
      await submissions.submit([message("x")], { submissionId: "other", thread: "side" });
      expect((await submissions.wait("other"))?.status).toBe("completed");
      expect((await hangs).accepted).toBe(true);
      expect((await submissions.wait("hangs"))?.status).toBe("completed");
    });
  });

  it("L9: a hanging hook is logged once, with the id of its submission", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = await givenHook(hang, { hookTimeoutMs: 10 });
    await submit(stub, "x", { submissionId: "hangs" });
    await stub.wait("hangs");
    const lines = log.mock.calls.map(String).filter((line) => line.includes("onSubmissionStatus"));
    log.mockRestore();
    expect(lines).toEqual([
      expect.stringMatching(/has not returned for hangs \(pending\) within 10 ms/),
    ]);
  });

  it("L9: times out after 30 seconds by default", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    try {
      const hooks = new StatusHooks(forever, { hookTimeoutMs: 30_000 });
      const ended = { submissionId: "s", status: "completed" } as SubmissionInspection;
      let isTold = false;
      hooks.announce(ended);
      const waited = hooks.wait("s").then(() => {
        isTold = true;
      });
      await vi.advanceTimersByTimeAsync(29_999);
      expect(isTold).toBe(false);
      await vi.advanceTimersByTimeAsync(1);
      await waited;
      expect(hooks.isAnnouncing("s")).toBe(false);
    } finally {
      log.mockRestore();
      vi.useRealTimers();
    }
  });

  it("L1: where the app has no hook, nothing waits: followers and waiting callers are told at once", async () => {
    const told: string[] = [];
    const follow = async ({ status }: SubmissionInspection) => void told.push(status);
    const hooks = new StatusHooks(follow, { hookTimeoutMs: 1_000 }, () => false);
    const waited = hooks.wait("s");
    for (const status of ["pending", "running", "completed"] as const) {
      hooks.announce({ submissionId: "s", status } as SubmissionInspection);
    }
    expect(told).toEqual(["pending", "running", "completed"]);
    expect([hooks.pending, hooks.isAnnouncing("s")]).toEqual([0, false]);
    expect(await waited).toMatchObject({ status: "completed" });
  });

  it("L9: a hanging hook leaves nothing in memory", async () => {
    const hooks = new StatusHooks(async () => {}, { hookTimeoutMs: 1_000 });
    for (const status of ["pending", "running", "completed"] as const) {
      hooks.announce({ submissionId: "s", status } as SubmissionInspection);
    }
    await hooks.whenNotified("s");
    expect(await Promise.race([hooks.whenNotified("s").then(() => "at once"), sleep(0)])).toBe(
      "at once",
    );
    expect(hooks.pending).toBe(0);
  });
});

describe("calls that wait for the status hook", () => {
  const slow =
    (log: string[]): Hook =>
    async ({ submissionId, status }) => {
      await sleep(30);
      log.push(`${submissionId} ${status}`);
    };

  it("L1: submitMessages() resolves when the hook has returned for pending", async () => {
    const log: string[] = [];
    const stub = await givenHook(slow(log));
    await within(stub, async ({ submissions }) => {
      await submissions.submit([message("x")], { submissionId: "a" });
      expect(log).toContain("a pending");
      const more = { messages: [message("x")], options: { submissionId: "b" } };
      await submissions.submitMany([more]);
      expect(log).toContain("b pending");
      // What is known is returned without any wait.
      log.length = 0;
      const known = await submissions.submit([message("x")], { submissionId: "b" });
      expect([known.accepted, log]).toEqual([false, []]);
    });
  });

  it("L1: the model is called when the hook has returned for running", async () => {
    const log: string[] = [];
    const stub = await givenHook(slow(log));
    await within(stub, ({ turns }) => {
      turns.run = async (turn) => {
        turn.begin();
        await turn.announced();
        log.push("the model is called");
        return { outcome: "completed" };
      };
    });
    await submit(stub, "x", { submissionId: "s" });
    await stub.wait("s");
    expect(log).toEqual(["s pending", "s running", "the model is called", "s completed"]);
  });

  it("L5: cancelSubmission() resolves when the hook has returned for aborted", async () => {
    const log: string[] = [];
    const stub = await givenHook(slow(log));
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
    await until(() => log.includes("s running"));
    await stub.cancel("s");
    expect(log).toContain("s aborted");
  });

  it("L5: a turn that is cancelled does not wait for the hook any longer", async () => {
    const stub = await givenHook(({ status }) => (status === "running" ? forever() : sleep(0)));
    await submit(stub, "x", { submissionId: "s" });
    await submit(stub, "x", { submissionId: "next", thread: "main" });
    await until(async () => (await stub.inspect("s"))?.status === "running");
    await within(stub, ({ submissions }) => {
      // Its hook for `aborted` comes after that for `running`, which hangs.
      void submissions.cancel("s");
    });
    await until(async () => (await stub.inspect("next"))?.status === "running");
  });

  it("L4: a submission does not wait for the hook of another", async () => {
    const log: string[] = [];
    const slow = Promise.withResolvers<void>();
    const stub = await givenHook(async ({ submissionId, status }) => {
      if (submissionId === "slow") await slow.promise;
      log.push(`${submissionId} ${status}`);
    });
    await within(stub, async ({ submissions }) => {
      const slowly = submissions.submit([message("x")], { submissionId: "slow" });
      for (let n = 0; n < 20; n++) {
        const options = { submissionId: `s${n}`, thread: "isolated" };
        await submissions.submit([message("x")], options);
        await submissions.wait(`s${n}`);
      }
      expect(log.filter((line) => line.startsWith("slow"))).toEqual([]);
      expect(log).toHaveLength(60);
      slow.resolve();
      await slowly;
      await submissions.wait("slow");
    });
    expect(log.filter((line) => line.startsWith("slow"))).toEqual([
      "slow pending",
      "slow running",
      "slow completed",
    ]);
  });
});

describe("a status hook that uses the ledger itself", () => {
  it("L9: a hook that cancels, submits, retries or inspects does not wait for itself", async () => {
    const seen: string[] = [];
    const stub = await givenHook(
      async ({ submissionId, status }, { submissions }) => {
        seen.push(`${submissionId} ${status}`);
        if (submissionId === "a" && status === "pending") {
          expect(await submissions.cancel("a")).toMatchObject({
            outcome: "cancelled",
            messagesApplied: false,
          });
          expect((await submissions.inspect("a"))?.status).toBe("aborted");
          expect((await submissions.retry("a"))?.accepted).toBe(true);
          const b = await submissions.submit([message("x")], { submissionId: "b" });
          expect(b.accepted).toBe(true);
          seen.push("done");
        }
        if (submissionId === "b" && status === "running") await submissions.cancel("b");
      },
      { hookTimeoutMs: NEVER_MS },
    );
    await within(stub, async ({ submissions }) => {
      await submissions.submit([message("x", "asked")], { submissionId: "a" });
      expect(await submissions.wait("b")).toMatchObject({ status: "aborted" });
    });
    expect(seen).toContain("done");
    expect(seen.filter((line) => /^a (pending|aborted)$/.test(line))).toHaveLength(2);
    // Only its retry was said: the others were cancelled before they could be.
    expect(await stub.conversation()).toEqual(["asked", expect.stringMatching(/^reply-[0-9a-z]/)]);
    expect(seen.filter((line) => line.startsWith("b "))).toEqual([
      "b pending",
      "b running",
      "b aborted",
    ]);
  });

  it("L9: two hooks that cancel each other's submissions both return", async () => {
    const other = { a: "b", b: "a" } as Record<string, string>;
    const stub = await givenHook(
      async ({ submissionId, status }, { submissions }) => {
        if (status === "running") await submissions.cancel(other[submissionId] ?? "");
      },
      { hookTimeoutMs: NEVER_MS },
    );
    await within(stub, async ({ submissions }) => {
      const both = ["a", "b"].map((submissionId) =>
        submissions.submit([message({ delayMs: NEVER_MS })], {
          submissionId,
          thread: submissionId,
        }),
      );
      await Promise.all(both);
      await Promise.all([submissions.wait("a"), submissions.wait("b")]);
    });
  });
});
