/** W5: a workflow that was terminated elsewhere: the agent asks for its status now and then. */

import { expect, it, vi } from "vitest";
import { WorkflowLiveness } from "../../../src/submissions/turns/workflow-liveness.ts";
import { givenLedger } from "../../support/given.ts";
import {
  crashOne,
  expectState,
  release,
  somewhere,
  submit,
  wakeNow,
} from "../../support/ledger.ts";
import { births, gone, type LedgerObject, time } from "../../support/objects/ledger-object.ts";

const SLOW = { delayMs: 60_000 };
const BECAUSE = { error: "The workflow that waited for it was terminated" };

it("W5: turns of a workflow that was terminated elsewhere are cancelled, running and pending ones", async () => {
  const stub = givenLedger();
  const to = somewhere();
  await submit(stub, SLOW, { submissionId: "runs", notify: [to] });
  await submit(stub, SLOW, { submissionId: "waits", notify: [to] });
  await submit(stub, {}, { submissionId: "another's", notify: [somewhere()] });
  await expectState(stub, "runs", "running");
  gone.add(to.instance);
  time.aheadMs = 30_000;
  await wakeNow(stub);
  await expectState(stub, "runs", "aborted", BECAUSE);
  await expectState(stub, "waits", "aborted", BECAUSE);
  await expectState(stub, "another's", "completed");
});

it("W5: an old pending submission is cancelled when it starts, if its workflow was terminated", async () => {
  const stub = givenLedger();
  const to = somewhere();
  await submit(stub, { isHeld: true }, { submissionId: "first" });
  await submit(stub, SLOW, { submissionId: "second", notify: [to] });
  gone.add(to.instance);
  time.aheadMs = 30_000;
  await release(stub, "first");
  await expectState(stub, "first", "completed");
  await expectState(stub, "second", "aborted", BECAUSE);
});

it("W5: a submission with another destination is not cancelled with its workflow", async () => {
  const stub = givenLedger();
  const to = somewhere();
  await submit(stub, { isHeld: true }, { submissionId: "shared", notify: [to, somewhere()] });
  await expectState(stub, "shared", "running");
  gone.add(to.instance);
  time.aheadMs = 30_000;
  await wakeNow(stub);
  await release(stub, "shared");
  await expectState(stub, "shared", "completed");
});

it("W5: the prompts of a batch are cancelled with their workflow", async () => {
  const stub = givenLedger();
  const { workflow, instance } = somewhere();
  const parts = [{ type: "text" as const, text: JSON.stringify(SLOW) }];
  await stub.acceptPrompts({
    batch: "b",
    run: "1",
    workflow: { name: workflow, id: instance, stepName: "step" },
    answer: {},
    concurrency: 1,
    items: ["x", "y"].map((key) => ({
      idempotencyKey: key,
      key,
      messages: [{ role: "user" as const, parts }],
    })),
  });
  const [, first] = await stub.list();
  await expectState(stub, first?.submissionId ?? "", "running");
  gone.add(instance);
  time.aheadMs = 30_000;
  await wakeNow(stub);
  for (const { submissionId } of await stub.list()) {
    await expectState(stub, submissionId, "aborted", BECAUSE);
  }
  expect(await stub.list()).toHaveLength(2);
});

it("W5: a turn that the host recovers after a crash is cancelled with its workflow", async () => {
  const stub = givenLedger();
  const to = somewhere();
  await submit(stub, SLOW, { submissionId: "runs", notify: [to] });
  await expectState(stub, "runs", "running");
  const stopped: unknown[] = [];
  births.set(stub.name ?? "", ({ turns }: LedgerObject) => {
    turns.isRecovering = async () => true;
    turns.stop = ({ submissionId }) => void stopped.push(submissionId);
  });
  const next = await crashOne(stub);
  await wakeNow(next);
  await expectState(next, "runs", "running", { attempts: 1 });
  gone.add(to.instance);
  time.aheadMs = 30_000;
  await wakeNow(next);
  await expectState(next, "runs", "aborted", { ...BECAUSE, attempts: 1 });
  expect(stopped).toEqual(["runs"]);
});

it("W5: an object that wakes often to recover a turn asks for its workflow every 25 seconds", async () => {
  const stub = givenLedger();
  const to = somewhere();
  await submit(stub, SLOW, { submissionId: "runs", notify: [to] });
  await expectState(stub, "runs", "running");
  births.set(stub.name ?? "", ({ turns }: LedgerObject) => {
    turns.isRecovering = async () => true;
  });
  const asked = vi.spyOn(gone, "has");
  const next = await crashOne(stub);
  for (const seconds of [30, 32, 34, 54, 56, 58, 60, 80]) {
    time.aheadMs = seconds * 1_000;
    await wakeNow(next);
  }
  expect(asked.mock.calls.filter(([instance]) => instance === to.instance)).toHaveLength(2);
  asked.mockRestore();
  await next.cancel("runs");
});

it("L9: many turns of one workflow ask for it once in 25 seconds", () => {
  let now = 1_000_000;
  const asked: string[] = [];
  const batches = {
    waiterOf: (batch: string) => ({ workflow: "w", instance: `of ${batch}` }),
  };
  const liveness = new WorkflowLiveness(
    { batches },
    {
      endOf: async (to) => {
        asked.push(to.kind === "workflow" ? to.instance : "");
        return null;
      },
    },
    { now: () => now },
  );
  const turn = (batch: string) => ({ createdAt: 0, notify: [], batch });
  for (const [aheadMs, expected] of [
    [0, ["of a", "of b"]],
    [24_999, []],
    [25_000, ["of a", "of b"]],
    // A clock that was set back delays no call.
    [-60_000, ["of a", "of b"]],
  ] as const) {
    now = 1_000_000 + aheadMs;
    for (let begun = 0; begun < 100; begun++) liveness.findGone([turn("a"), turn("b")]);
    expect(asked.splice(0)).toEqual(expected);
  }
});
