/** The ledger's other verbs on the light host: wait, list, delete, skip, starting over. */

import { describe, expect, it, vi } from "vitest";
import { StatusHooks } from "../../src/submissions/status-hooks.ts";
import type { SubmissionInspection } from "../../src/submissions/types.ts";
import type { Script } from "../../src/testing/index.ts";
import { givenLedger, message, until } from "../support/given.ts";
import {
  again,
  crashOne,
  expectState,
  forever,
  type Ledger,
  release,
  sleep,
  submit,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { births, time } from "../support/objects/ledger-object.ts";

const LONG: Script = { delayMs: 60_000 };

describe("L1: invalid arguments are refused at the call, with their values, and nothing is stored", () => {
  const file = (part: object) => [{ ...message("x"), parts: [{ type: "file", ...part }] }];
  type Verbs = { [Verb in "submit" | "submitMany" | "wait" | "list" | "deleteMany"]: unknown };
  const cases: [string, keyof Verbs, unknown[], RegExp][] = [
    ["an option of wait that there is none of", "wait", ["s", { isBeside: true }], /isBeside/],
    ["a number in place of wait's options", "wait", ["s", 1_000], /1000: expected an object/],
    ["a BigInt as a timeout", "wait", ["s", { timeoutMs: 5n }], /Invalid timeoutMs 5n/],
    ["no array for submitMany", "submitMany", [{}], /expected an array/],
    ["null in submitMany", "submitMany", [[null]], /Invalid item 0 of submitMany\(\) null/],
    [
      "options beside the messages of an item",
      "submitMany",
      [[{ messages: [message("x")], thread: "side" }]],
      /Unknown option "thread" in item 0/,
    ],
    [
      "true as a length of time",
      "submit",
      [[message("x")], { expiresIn: true }],
      /Invalid expiresIn true/,
    ],
    [
      "a list as a length of time",
      "submit",
      [[message("x")], { expiresIn: [5] }],
      /Invalid expiresIn \[5\]/,
    ],
    ["a date as options", "submit", [[message("x")], new Date(0)], /expected an object/],
    ["a list as metadata", "submit", [[message("x")], { metadata: [] }], /Invalid metadata \[\]/],
    [
      "a file without a media type",
      "submit",
      [file({ url: "https://a.example/" })],
      /has the part/,
    ],
    [
      "a data URL that is not in Base64",
      "submit",
      [file({ mediaType: "text/plain", url: "data:,x" })],
      /has the part/,
    ],
    [
      "a status within a list",
      "deleteMany",
      [{ status: [["completed"]] }],
      /expected one or more of pending/,
    ],
    ["undefined as a status", "list", [{ status: [undefined] }], /expected one or more of pending/],
    [
      "more metadata than a query can compare",
      "list",
      [{ metadata: Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`k${n}`, 1])) }],
      /up to 20 values/,
    ],
    [
      "an object in a metadata filter",
      "list",
      [{ metadata: { a: {} } }],
      /Invalid metadata\.a \{\}/,
    ],
    [
      "a long name of metadata, which is cut",
      "list",
      [{ metadata: { ["x".repeat(100_000)]: {} } }],
      /^Invalid metadata\.x{91}\.\.\. \{\}: expected a string, a finite/,
    ],
  ];

  it.each(cases)("%s", async (_, verb, args, problem) => {
    const stub = givenLedger();
    await within(stub, async ({ submissions }) => {
      const call = submissions[verb] as (...given: unknown[]) => Promise<unknown>;
      await expect(Promise.resolve().then(() => call.apply(submissions, args))).rejects.toThrow(
        problem,
      );
    });
    expect(await stub.list()).toEqual([]);
  });

  it("L9: 12,000 hooks at once are called, and none is reported as hanging", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    let statusCalls = 0;
    const open = sleep(20);
    const hook = async () => {
      await open;
      statusCalls++;
    };
    const hooks = new StatusHooks(hook, { hookTimeoutMs: 30_000 });
    const inspection = (submissionId: string) =>
      ({ submissionId, status: "pending" }) as SubmissionInspection;
    for (let nth = 0; nth < 12_000; nth++) hooks.announce(inspection(String(nth)));
    await until(() => statusCalls === 12_000 && hooks.pending === 0);
    expect(log).not.toHaveBeenCalled();
    log.mockRestore();
  });
});

describe("wait", () => {
  it("resolves for all waiting callers at the end, after the app's hook", async () => {
    const stub = givenLedger();
    await within(stub, async ({ submissions, turns }) => {
      const order: string[] = [];
      turns.onStatus = async ({ status }) => {
        await sleep(20);
        order.push(`hook: ${status}`);
      };
      await submissions.submit([message({ delayMs: 30 })], { submissionId: "s" });
      const ends = [1, 2].map(() =>
        submissions.wait("s").then((end) => order.push(`wait: ${end?.status}`)),
      );
      await Promise.all(ends);
      expect(order).toEqual([
        "hook: pending",
        "hook: running",
        "hook: completed",
        "wait: completed",
        "wait: completed",
      ]);
    });
    expect(await stub.wait("s")).toMatchObject({ status: "completed" });
  });

  it("asked between the end and the hook for it still comes after the hook", async () => {
    await within(givenLedger(), async ({ submissions, turns }) => {
      const order: string[] = [];
      const hook = Promise.withResolvers<void>();
      turns.onStatus = async ({ status }) => {
        if (status !== "completed") return;
        await hook.promise;
        order.push("hook");
      };
      await submissions.submit([message("x")], { submissionId: "s" });
      await until(async () => (await submissions.inspect("s"))?.status === "completed");
      const waited = submissions.wait("s").then(() => order.push("wait"));
      hook.resolve();
      await waited;
      expect(order).toEqual(["hook", "wait"]);
    });
  });

  it("waitForSubmission() returns an open submission after its timeout, and null for an unknown one", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    expect(await stub.wait("s", { timeoutMs: 50 })).toMatchObject({ status: "running" });
    expect(await stub.wait("?")).toBeNull();
    expect(await stub.inspect("?")).toBeNull();
    await stub.cancel("s");
  });

  it.each(["cancelled", "skipped"] as const)("resolves when it is %s", async (how) => {
    const stub = givenLedger();
    await within(stub, async (object) => {
      object.turns.run = forever;
      await object.submit([message("x")], { submissionId: "s" });
      const end = object.wait("s");
      await (how === "cancelled" ? object.cancel("s") : object.reset());
      expect((await end)?.status).toBe(how === "cancelled" ? "aborted" : "skipped");
    });
  });

  it("waitForSubmission() is refused where it could never end: in the status hook and in a turn", async () => {
    await within(givenLedger(), async ({ submissions, turns }) => {
      const refused: string[] = [];
      const note = (error: Error) => void refused.push(error.message);
      turns.onStatus = async ({ submissionId, status }) => {
        if (status === "running") await submissions.wait(submissionId).catch(note);
      };
      await submissions.submit([message({ delayMs: 30 })], { submissionId: "s" });
      turns.isInsideTurn = () => true;
      await submissions.wait("s").catch(note);
      turns.isInsideTurn = () => false;
      expect((await submissions.wait("s"))?.status).toBe("completed");
      expect(refused.sort()).toEqual([
        expect.stringMatching(/cannot be called from inside an active turn/),
        expect.stringMatching(/cannot be called from onSubmissionStatus/),
      ]);
    });
  });

  it("a hook that throws does not block waits", async () => {
    await within(givenLedger(), async ({ submissions, turns }) => {
      turns.onStatus = async () => {
        throw new Error("the app's own trouble");
      };
      await submissions.submit([message("x")], { submissionId: "s" });
      expect((await submissions.wait("s"))?.status).toBe("completed");
    });
  });
});

/** One completed, one failed, one cancelled, one running, two pending. */
async function givenMany(): Promise<Ledger> {
  const stub = givenLedger();
  await submit(stub, "x", { submissionId: "completed" });
  await submit(stub, { fail: "no" }, { submissionId: "error" });
  await submit(stub, LONG, { submissionId: "running" });
  for (const submissionId of ["aborted", "pending-1", "pending-2"])
    await submit(stub, "x", { submissionId });
  await stub.cancel("aborted");
  await expectState(stub, "running", "running");
  return stub;
}

const idsOf = async (stub: Ledger, options?: Parameters<Ledger["list"]>[0]) =>
  (await stub.list(options)).map(({ submissionId }) => submissionId);

describe("list", () => {
  it("the list is newest first, filtered by status, and has at most the limit", async () => {
    const stub = await givenMany();
    const all = ["pending-2", "pending-1", "aborted", "running", "error", "completed"];
    expect(await idsOf(stub)).toEqual(all);
    expect(await idsOf(stub, { limit: 2 })).toEqual(all.slice(0, 2));
    expect(await idsOf(stub, { status: "pending" })).toEqual(["pending-2", "pending-1"]);
    expect(await idsOf(stub, { status: ["error", "running"] })).toEqual(["running", "error"]);
    expect(await idsOf(stub, { status: ["pending", "completed"], limit: 1 })).toEqual([
      "pending-2",
    ]);
    expect(await idsOf(stub, { status: [] })).toEqual([]);
    expect(await idsOf(stub, { status: "skipped" })).toEqual([]);
  });
});

describe("an invalid filter is refused with its name", () => {
  it.each([
    ["limit", { limit: 0 }, "Invalid limit 0: expected a whole number from 1 to"],
    ["limit", { limit: 2.5 }, "Invalid limit 2.5"],
    ["limit", { limit: -1 }, "Invalid limit -1"],
    [
      "status",
      { status: "done" as "completed" },
      'Invalid status "done": expected one or more of pending',
    ],
  ])("%s: %j", (field, options, text) =>
    within(givenLedger(), async ({ submissions }) => {
      const refused = { field, message: expect.stringContaining(text) };
      await expect(submissions.list(options)).rejects.toMatchObject(refused);
      await expect(submissions.deleteMany(options)).rejects.toMatchObject(refused);
    }),
  );
});

describe("delete", () => {
  it("forgets one that has ended, and no other", async () => {
    const stub = await givenMany();
    await within(stub, async ({ submissions }) => {
      for (const id of ["completed", "error", "aborted"])
        expect(await submissions.delete(id)).toBe(true);
      for (const id of ["completed", "running", "pending-1", "?"])
        expect(await submissions.delete(id)).toBe(false);
    });
    expect(await idsOf(stub)).toEqual(["pending-2", "pending-1", "running"]);
  });

  it("a deletion of many takes the oldest first, by status, age and number", async () => {
    const stub = await givenMany();
    const past = new Date(Date.now() - 60_000);
    const future = new Date(Date.now() + 60_000);
    await within(stub, async ({ submissions }) => {
      expect(await submissions.deleteMany({ completedBefore: past })).toBe(0);
      expect(
        await submissions.deleteMany({ status: ["pending", "running"], completedBefore: future }),
      ).toBe(0);
      expect(
        await submissions.deleteMany({ status: ["error", "pending"], completedBefore: future }),
      ).toBe(1);
      expect(await submissions.deleteMany({ limit: 1 })).toBe(1);
    });
    expect(await idsOf(stub)).toEqual(["pending-2", "pending-1", "aborted", "running"]);
    expect(await within(stub, ({ submissions }) => submissions.deleteMany())).toBe(1);
    expect(await idsOf(stub)).toEqual(["pending-2", "pending-1", "running"]);
  });

  it("a deletion frees the idempotency key", async () => {
    const stub = givenLedger();
    const first = await submit(stub, "x", { idempotencyKey: "k" });
    await stub.wait(first.submissionId);
    await within(stub, ({ submissions }) => submissions.delete(first.submissionId));
    expect(await submit(stub, "another", { idempotencyKey: "k" })).toMatchObject({
      accepted: true,
    });
  });
});

describe("reset", () => {
  it("L5: a reset ends what waits and what runs, appends nothing of it, and leaves what has ended", async () => {
    const stub = await givenMany();
    await stub.reset();
    for (const id of ["pending-1", "pending-2"]) {
      await expectState(stub, id, "skipped", {
        error: "Submission was skipped by turn reset.",
        errorName: "TurnResetError",
      });
    }
    await expectState(stub, "running", "aborted", { errorName: "TurnResetError" });
    for (const id of ["completed", "error", "aborted"] as const) await expectState(stub, id, id);
    await submit(stub, "x", { submissionId: "new" });
    await expectState(stub, "new", "completed");
    expect(await idsOf(stub, { status: "skipped" })).toEqual(["pending-2", "pending-1"]);
    expect(await stub.conversation()).toHaveLength(6);
  });

  it("L5: a reset ends a turn that a crash has interrupted, though that is being decided about", async () => {
    const stub = givenLedger();
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    let decide = () => {};
    births.set(stub.name ?? "", ({ turns }) => {
      const inspect = turns.inspectConversation.bind(turns);
      turns.inspectConversation = async (turn) => {
        await new Promise<void>((resolve) => {
          decide = resolve;
        });
        return inspect(turn);
      };
    });
    const next = await crashOne(stub);
    await within(next, async (object) => {
      await object.lifecycle.start();
      void object.submissions.stats();
    });
    await wakeNow(next);
    await within(next, (object) => {
      object.reset();
      decide();
    });
    await expectState(next, "s", "skipped", { errorName: "TurnResetError", attempts: 1 });
    await wakeNow(next);
    await submit(next, "x", { submissionId: "next" });
    await expectState(next, "next", "completed");
    await expectState(next, "s", "skipped", { attempts: 1 });
  });

  it("a reset with no open submission does nothing", async () => {
    const stub = givenLedger();
    await stub.list();
    await stub.reset();
    expect(await stub.list()).toEqual([]);
  });
});

describe("L6: starting over after a crash", () => {
  it("starting over counts an attempt, keeps the messages, and calls the status hook", async () => {
    const stub = givenLedger();
    const metadata = { kept: true };
    await within(stub, ({ submissions }) =>
      submissions.submit([message("x", "m1"), message({ isHeld: true }, "m2")], {
        submissionId: "s",
        metadata,
      }),
    );
    await expectState(stub, "s", "running");
    const next = await crashOne(stub);
    await expectState(next, "s", "running", { attempts: 2 });
    await release(next, "s");
    await expectState(next, "s", "completed", { attempts: 2 });
    expect(await next.inspect("s")).toMatchObject({ metadata });
    expect(await next.conversation()).toEqual(["m1", "m2", "reply-s"]);
    await within(again(stub), ({ turns }) => {
      expect(turns.statuses).toEqual(["s:pending", "s:running", "s:completed"]);
    });
  });

  it("starting over is repeated if the conversation could not be read", async () => {
    const stub = givenLedger();
    await submit(stub, { isHeld: true }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    let failures = 0;
    births.set(stub.name ?? "", ({ turns }) => {
      const inspect = turns.inspectConversation.bind(turns);
      turns.inspectConversation = async (messages) => {
        if (++failures <= 4) throw new Error("the conversation cannot be read");
        return inspect(messages);
      };
    });
    const next = await crashOne(stub);
    await until(async () => {
      await wakeNow(next);
      return (await next.inspect("s"))?.attempts === 2;
    });
    expect(failures).toBeGreaterThan(4);
    await release(next, "s");
    await expectState(next, "s", "completed", { attempts: 2 });
  });

  it("a turn with unrecorded effects is not repeated", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s" });
    await expectState(stub, "s", "running");
    const next = await crashOne(stub);
    await within(next, async ({ turns, lifecycle }) => {
      turns.inspectConversation = async () => ({ applied: "all", hasEffects: true });
      await lifecycle.start();
    });
    await expectState(next, "s", "error", { attempts: 1, errorName: "TurnInterruptedError" });
  });

  it("a turn whose host cannot tell its state ends, and blocks no other meanwhile", async () => {
    const stub = givenLedger();
    await submit(stub, LONG, { submissionId: "s", thread: "side" });
    await submit(stub, LONG, { submissionId: "main" });
    await expectState(stub, "s", "running");
    births.set(stub.name ?? "", ({ turns }) => {
      const inspect = turns.inspectConversation.bind(turns);
      turns.inspectConversation = async (turn) => {
        if (turn.thread === "side") throw new Error("the thread cannot be read");
        return inspect(turn);
      };
    });
    const next = await crashOne(stub);
    await wakeNow(next);
    await expectState(next, "main", "running", { attempts: 2 });
    await expectState(next, "s", "running", { attempts: 1 });
    time.aheadMs = 600_000;
    await wakeNow(next);
    const ended = await expectState(next, "s", "error", { errorName: "TurnInterruptedError" });
    expect(ended.error).toContain("the thread cannot be read");
    await next.cancel("main");
  });
});
