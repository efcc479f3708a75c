/** Submissions that wait for a limit before their turn starts, by a scripted gate; on the light host. */

import { describe, expect, it, vi } from "vitest";
import type { Admission } from "../../../src/submissions/gate.ts";
import type { Submission } from "../../../src/submissions/store/rows.ts";
import { givenLedger, message, until } from "../../support/given.ts";
import {
  crashOne,
  expectState,
  forever,
  type Ledger,
  release,
  sleep,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import { full, gated, ScriptedGate } from "../../support/limits/gate.ts";
import { time } from "../../support/objects/ledger-object.ts";

const MINUTE = 60_000;

/** A ledger in which these submissions wait for a minute each time, until they are let in. */
function givenWaiting(...ids: string[]) {
  const stub = givenLedger();
  const waiting = new Set(ids);
  const gate = new ScriptedGate(({ submissionId }) =>
    waiting.has(submissionId) ? full(MINUTE) : undefined,
  );
  gated(stub, gate);
  return { stub, gate, letIn: (id: string) => waiting.delete(id) };
}

async function waits(stub: Ledger, id: string) {
  await until(async () => (await stub.inspect(id))?.waitingFor);
  return expectState(stub, id, "pending", { attempts: 0 });
}

async function later(stub: Ledger, ms: number) {
  time.aheadMs += ms;
  await wakeNow(stub);
}

describe("a submission that waits for a limit", () => {
  it("L5: is pending with what it waits for, and nothing of its turn has happened", async () => {
    const { stub } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s" });
    const found = await waits(stub, "s");
    expect(found.waitingFor).toMatchObject({ limit: "openai", key: "", why: "full" });
    expect(found.dueAt).toBe(found.waitingFor?.until);
    expect(await stub.list()).toMatchObject([{ waitingFor: found.waitingFor }]);
    expect(await stub.conversation()).toEqual([]);
  });

  it("starts when its time has come and the gate lets it in", async () => {
    const { stub, letIn, gate } = givenWaiting("s");
    await submit(stub, { isHeld: true }, { submissionId: "s" });
    await waits(stub, "s");
    letIn("s");
    await wakeNow(stub);
    await expectState(stub, "s", "pending");
    expect(gate.asked).toEqual(["s"]);
    await later(stub, MINUTE);
    expect(await expectState(stub, "s", "running", { attempts: 1 })).not.toHaveProperty(
      "waitingFor",
    );
    await release(stub, "s");
    expect(await expectState(stub, "s", "completed")).not.toHaveProperty("waitingFor");
    expect(gate.asked).toEqual(["s", "s"]);
  });

  it("L1: waits on after a crash, and no wake is lost", async () => {
    const { stub, letIn } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s" });
    await waits(stub, "s");
    const next = await crashOne(stub);
    expect(await waits(next, "s")).toMatchObject({ waitingFor: { limit: "openai" } });
    letIn("s");
    await later(next, MINUTE);
    await expectState(next, "s", "completed", { attempts: 1 });
  });

  it("the first wait is 1 statement and 1 row; the same one, less than 10 seconds longer, is none", async () => {
    const stub = givenLedger();
    let end = Date.now() + 5_000;
    const gate = new ScriptedGate(() => full(0, { until: end }));
    gated(stub, gate);
    await stub.list();
    const costOf = async (work: () => Promise<unknown>) => {
      await within(stub, ({ meter }) => meter.reset());
      await work();
      await sleep(20);
      return within(stub, ({ meter }) =>
        meter.rowsWrittenBy((query) => query.includes("waiting_for = ?")),
      );
    };
    expect(await costOf(() => submit(stub, "x"))).toBe(1);
    const again = (next: number) => {
      time.aheadMs = end - Date.now() + 1;
      end = next;
      return costOf(() => wakeNow(stub));
    };
    expect(await again(end + 9_000)).toBe(0);
    expect(gate.asked).toHaveLength(2);
    expect(await again(end + 11_000)).toBe(1);
    expect(gate.asked).toHaveLength(3);
  });

  it("L5: cancelling it appends no message, and the gate hears of it", async () => {
    const { stub, gate, letIn } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s" });
    await waits(stub, "s");
    gate.free.length = 0;
    expect(await stub.cancel("s")).toMatchObject({ outcome: "cancelled", messagesApplied: false });
    expect(gate.free).toEqual([1]);
    letIn("s");
    await later(stub, MINUTE);
    expect(await expectState(stub, "s", "aborted")).not.toHaveProperty("waitingFor");
    expect(await stub.conversation()).toEqual([]);
  });

  it("expires in time, and not only when it would be looked at again", async () => {
    const { stub, gate } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s", expiresIn: "5 seconds" });
    await waits(stub, "s");
    await later(stub, 5_100);
    await expectState(stub, "s", "skipped", { errorName: "SubmissionExpiredError" });
    expect(gate.asked).toEqual(["s"]);
  });

  it("L5: clearing its thread, or resetting the conversation, skips it", async () => {
    const { stub } = givenWaiting("s", "main");
    await submit(stub, "x", { submissionId: "s", thread: "t" });
    await waits(stub, "s");
    await submit(stub, "x", { submissionId: "main" });
    await waits(stub, "main");
    const failure = { name: "ThreadClearedError", message: "cleared" };
    await within(stub, ({ submissions }) => submissions.turns.clear("t", failure));
    await expectState(stub, "s", "skipped");
    await stub.reset();
    await expectState(stub, "main", "skipped");
  });

  it("debounced repetitions replace its messages, and one turn follows", async () => {
    const stub = givenLedger();
    let isFull = true;
    gated(stub, new ScriptedGate(() => (isFull ? full(MINUTE) : undefined)));
    const debounce = { key: "k", delay: 10 };
    const first = await submit(stub, "first", { debounce });
    await later(stub, 20);
    await waits(stub, first.submissionId);
    await within(stub, ({ submissions }) =>
      submissions.accept([{ messages: [message("second", "second")], options: { debounce } }]),
    );
    isFull = false;
    await later(stub, MINUTE);
    await expectState(stub, first.submissionId, "completed", { attempts: 1 });
    expect((await stub.conversation())[0]).toBe("second");
  });
});

describe("L4: the order of a thread in which a submission waits", () => {
  it("later ones wait behind it, and other threads go on", async () => {
    const { stub, letIn } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s" });
    await submit(stub, "x", { submissionId: "behind" });
    await waits(stub, "s");
    await submit(stub, "x", { submissionId: "other", thread: "t" });
    await expectState(stub, "other", "completed");
    await expectState(stub, "behind", "pending");
    letIn("s");
    await later(stub, MINUTE);
    await expectState(stub, "behind", "completed");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply"));
    expect(replies).toEqual(["reply-s", "reply-behind"]);
  });

  it.each([
    ["a higher priority", { priority: 1 }],
    ["whenBusy interrupt", { whenBusy: "interrupt" }],
    ["whenBusy rollback", { whenBusy: "rollback" }],
    ["whenBusy steer", { whenBusy: "steer" }],
  ] as const)("one with %s goes first, and it stays the next one", async (_, options) => {
    const { stub, letIn } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s" });
    await submit(stub, "x", { submissionId: "behind" });
    await waits(stub, "s");
    await submit(stub, "x", { submissionId: "first", ...options });
    await expectState(stub, "first", "completed");
    await waits(stub, "s");
    letIn("s");
    await later(stub, MINUTE);
    await expectState(stub, "behind", "completed");
    const replies = (await stub.conversation()).filter((id) => id.startsWith("reply"));
    expect(replies).toEqual(["reply-first", "reply-s", "reply-behind"]);
  });

  it("a steering one that joins the running turn is not asked about, and uses nothing", async () => {
    const { stub, gate } = givenWaiting("steer");
    await submit(stub, { isHeld: true, calls: 2 }, { submissionId: "s" });
    await expectState(stub, "s", "running");
    await submit(stub, "x", { submissionId: "steer", whenBusy: "steer" });
    await release(stub, "s");
    await expectState(stub, "steer", "completed", { mergedInto: "s" });
    expect(gate.asked).toEqual(["s"]);
    expect(gate.free.filter((seq) => seq === 2).length).toBeGreaterThan(1);
  });

  it.each([
    ["isolated", { thread: "isolated" }],
    ["of a pool", { thread: "isolated", batch: { id: "b", concurrency: 1 } }],
  ])("one that is %s does not block the others", async (_, options) => {
    const { stub, letIn } = givenWaiting("s");
    await submit(stub, "x", { submissionId: "s", ...options });
    await waits(stub, "s");
    await submit(stub, "x", { submissionId: "other", ...options });
    await expectState(stub, "other", "completed");
    const next = await crashOne(stub);
    await waits(next, "s");
    letIn("s");
    await later(next, MINUTE);
    await expectState(next, "s", "completed", { attempts: 1 });
  });
});

describe("decisions that take time", () => {
  function givenAsking() {
    const stub = givenLedger();
    const open = new Map<string, PromiseWithResolvers<Admission>>();
    const decided = new Set<string>();
    const gate = new ScriptedGate(({ submissionId }: Submission) => {
      if (decided.has(submissionId)) return undefined;
      const decision = Promise.withResolvers<Admission>();
      open.set(submissionId, decision);
      return decision.promise;
    });
    gated(stub, gate);
    const decide = (id: string, admission: Admission) =>
      within(stub, () => {
        decided.add(id);
        open.get(id)?.resolve(admission);
      });
    const fail = (id: string) => within(stub, () => open.get(id)?.reject(new Error("no keeper")));
    const isAsked = (id: string) => until(() => open.has(id));
    return { stub, gate, decide, fail, isAsked };
  }

  it("the thread pauses until then, and starts at once", async () => {
    const { stub, gate, decide, isAsked } = givenAsking();
    await submit(stub, "x", { submissionId: "s" });
    await submit(stub, "x", { submissionId: "behind" });
    await isAsked("s");
    expect(gate.asked).toEqual(["s"]);
    await decide("s", undefined);
    await expectState(stub, "s", "completed", { attempts: 1 });
    await isAsked("behind");
    await decide("behind", undefined);
    await expectState(stub, "behind", "completed");
    expect(gate.asked).toEqual(["s", "s", "behind", "behind"]);
  });

  it("L9: no more are asked for at the same time than turns may run", async () => {
    const { stub, gate, decide } = givenAsking();
    for (let n = 0; n < 9; n++) await submit(stub, "x", { submissionId: `${n}`, thread: `${n}` });
    expect(gate.asked).toHaveLength(4);
    for (let n = 0; n < 9; n++) await decide(`${n}`, undefined);
    for (let n = 0; n < 9; n++) await expectState(stub, `${n}`, "completed");
  });

  it("L1: one that fails is logged, and the gate is asked again after a pause", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const { stub, gate, decide, fail, isAsked } = givenAsking();
    await submit(stub, "x", { submissionId: "s" });
    await isAsked("s");
    await fail("s");
    await until(() => log.mock.calls.map(String).join().includes("no keeper"));
    log.mockRestore();
    await wakeNow(stub);
    expect(gate.asked).toEqual(["s"]);
    await later(stub, 2_000);
    await decide("s", undefined);
    await expectState(stub, "s", "completed", { attempts: 1 });
  });

  it("L1: one that never comes is given up after 30 seconds, and the gate is asked again", async () => {
    const stub = givenLedger();
    let isLost = true;
    const gate = new ScriptedGate(() => (isLost ? (forever() as Promise<Admission>) : undefined));
    gated(stub, gate);
    await submit(stub, "x", { submissionId: "s" });
    await until(() => gate.asked.length === 1);
    isLost = false;
    await later(stub, 29_000);
    expect(gate.asked).toHaveLength(1);
    await later(stub, 1_100);
    await expectState(stub, "s", "completed");
  });

  it.each(["error", "aborted", "skipped"] as const)("a refusal ends it as %s", async (status) => {
    const { stub, gate, decide, isAsked } = givenAsking();
    await submit(stub, "x", { submissionId: "s" });
    await isAsked("s");
    const failure = { name: "LimitReachedError", message: "no dollars are left" };
    await decide("s", { status, failure });
    const facts = { attempts: 0, errorName: "LimitReachedError", error: "no dollars are left" };
    await expectState(stub, "s", status, facts);
    expect(gate.free).toContain(1);
    expect(await stub.conversation()).toEqual([]);
  });

  it.each(["undefined", "waits", "is refused"])(
    "L5: one that was cancelled meanwhile stays aborted when the gate says %s",
    async (what) => {
      const { stub, decide, isAsked } = givenAsking();
      await submit(stub, "x", { submissionId: "s" });
      await isAsked("s");
      await stub.cancel("s");
      const failure = { name: "LimitReachedError", message: "no" };
      const refused = { status: "error", failure } as const;
      await decide("s", what === "waits" ? full(10) : what === "undefined" ? undefined : refused);
      await sleep(30);
      await expectState(stub, "s", "aborted", { attempts: 0 });
      await submit(stub, "x", { submissionId: "next" });
      await isAsked("next");
      await decide("next", undefined);
      await expectState(stub, "next", "completed");
    },
  );

  it("the gate hears of an attempt that is over, and of one that did not begin", async () => {
    const { stub, gate } = givenWaiting();
    await submit(stub, { fail: "overloaded", status: 503, failTimes: 1 }, { submissionId: "s" });
    await expectState(stub, "s", "pending", { attempts: 1 });
    expect(gate.free.filter((seq) => seq === 1).length).toBeGreaterThan(1);
    gate.free.length = 0;
    await within(stub, ({ turns }) => {
      turns.run = async () => ({ outcome: "recovering" });
    });
    await submit(stub, "x", { submissionId: "unbegun", thread: "t" });
    await until(() => gate.free.filter((seq) => seq === 2).length > 1);
  });
});
