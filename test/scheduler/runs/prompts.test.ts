/** Prompt tasks: a run is one submission, and open until that has ended. */

import { describe, expect, it } from "vitest";
import type { Overlap, ScheduledTask } from "../../../src/scheduler/index.ts";
import type { SubmissionInspection } from "../../../src/submissions/types.ts";
import { until } from "../../support/given.ts";
import type { SchedulerObject } from "../../support/objects/scheduler-object.ts";
import { fakeTurns, MINUTE, MONDAY, TestScheduler } from "../../support/scheduler.ts";

/** How a submission ends, as its inspection says it. */
type End = Pick<SubmissionInspection, "status" | "error" | "errorName">;

/** A ledger of turns, which survives crashes of the object. */
function givenTurns() {
  const submissions = new Map<string, { prompt: string; options: object; end?: End }>();
  const cancelled: string[] = [];
  let refusals = 0;
  const read = (id: string) => {
    const found = submissions.get(id);
    return found ? (found.end ?? { status: "running" }) : null;
  };
  const turns = fakeTurns({
    accept: async ([message], options) => {
      if (refusals-- > 0) throw new Error("backlog");
      const submissionId = `s-${options.idempotencyKey}`;
      const [part] = message?.parts ?? [];
      const prompt = part?.type === "text" ? part.text : "";
      if (!submissions.has(submissionId)) submissions.set(submissionId, { prompt, options });
      return { submissionId };
    },
    inspect: async (submissionId) => read(submissionId),
    cancel: async (submissionId, reason) => {
      cancelled.push(String(reason));
      const found = submissions.get(submissionId);
      if (found) found.end = { status: "aborted", errorName: "Cancelled", error: String(reason) };
    },
  });
  /** The submission ends, and the ledger reports it, unless the object is down. */
  const end = (index: number, how: End, object?: SchedulerObject) => {
    const [submissionId = "", found] = [...submissions][index] ?? [];
    if (found) found.end = how;
    object?.scheduler.submissionEnded({ submissionId, ...how } as SubmissionInspection);
  };
  return {
    turns,
    submissions,
    cancelled,
    end,
    refuse: (times: number) => {
      refusals = times;
    },
  };
}

async function given(options: { overlap?: Overlap; prompt?: ScheduledTask["prompt"] } = {}) {
  const ledger = givenTurns();
  const declared = {
    schedule: "every 10 minutes",
    prompt: "report",
    metadata: { team: "a" },
    retry: { maxAttempts: 2, baseDelayMs: 1_000 },
    ...options,
  } as ScheduledTask;
  const stage = new TestScheduler({
    turns: ledger.turns,
    owner: "me",
    tasks: () => ({ t: declared }),
  });
  await stage.start();
  await stage.pass(10 * MINUTE);
  return { ...ledger, stage };
}

describe("a prompt", () => {
  it("S3: a prompt that ends while the object is down is found at its start, and holds no alarm until then", async () => {
    const { stage, end } = await given({ overlap: "queue" });
    await stage.comes("running");
    await stage.pass(0.5 * MINUTE);
    expect(await stage.wakesIn()).toBe(9.5 * MINUTE);
    await stage.crash();
    end(0, { status: "completed" });
    await stage.start();
    await stage.comes("completed");
  });

  it("S1: a prompt whose end is reported several times ends once", async () => {
    const { stage, end, submissions } = await given();
    await stage.comes("running");
    const failed = { status: "error", errorName: "E", error: "no" } as const;
    await stage.inside((object) => {
      for (let times = 0; times < 3; times++) end(0, failed, object);
    });
    await stage.comes("failed");
    expect((await stage.info()).counts).toMatchObject({ failed: 1 });
    expect(submissions.size).toBe(1);
  });

  it("S1: a prompt is submitted under the key of its run, with its metadata", async () => {
    const { stage, submissions, end } = await given();
    const [run] = await stage.runs();
    const [[id, { prompt, options }] = ["", { prompt: "", options: {} }]] = submissions;
    expect(prompt).toBe("report");
    expect(options).toEqual({
      idempotencyKey: run?.idempotencyKey,
      metadata: {
        team: "a",
        source: "scheduled-task",
        ownerKey: "me",
        taskId: "t",
        scheduledFor: MONDAY + 10 * MINUTE,
        schedule: "every 10 minutes",
      },
      retry: { maxAttempts: 2 },
    });
    expect(run).toMatchObject({ status: "running", submissionId: id });
    await stage.inside((object) => end(0, { status: "completed" }, object));
    await stage.comes("completed");
  });

  it("S3: a prompt overlaps the next occurrence until its turn ends, also after a crash", async () => {
    const { stage, submissions, end } = await given();
    await stage.crash();
    await stage.pass(10 * MINUTE);
    expect(await stage.history()).toEqual(["10 running", "20 skipped"]);
    await stage.inside((object) => end(0, { status: "completed" }, object));
    await until(async () => (await stage.history())[0] === "10 completed");
    expect(submissions.size).toBe(1);
    expect((await stage.runs()).at(-1)?.attempts).toBe(1);
  });

  it("S3: the next occurrence cancels a prompt with cancelPrevious", async () => {
    const { stage, cancelled } = await given({ overlap: "cancelPrevious" });
    await stage.pass(10 * MINUTE);
    expect(await stage.history()).toEqual(["10 cancelled", "20 running"]);
    expect(cancelled).toHaveLength(1);
  });

  it.each<[End, object]>([
    [
      { status: "error", errorName: "AI_Error", error: "no" },
      { status: "failed", error: { name: "AI_Error", message: "no" } },
    ],
    [
      { status: "aborted", errorName: "Abort", error: "by hand" },
      { status: "cancelled", reason: "by hand" },
    ],
    [{ status: "skipped" }, { status: "skipped" }],
  ])("S1: a prompt's run ends as its submission: %o", async (how, run) => {
    const { stage, end } = await given();
    await stage.inside((object) => end(0, how, object));
    await until(async () => (await stage.runs())[0]?.status !== "running");
    expect((await stage.runs())[0]).toMatchObject(run);
  });

  it("S1: a prompt whose submission is no longer stored has failed", async () => {
    const { stage, submissions } = await given();
    await stage.crash();
    submissions.clear();
    await stage.wake();
    expect(await stage.comes("failed")).toMatchObject({ error: { name: "PromptLostError" } });
  });

  it("S1: a prompt that cannot be submitted is tried again", async () => {
    const { stage, refuse, submissions } = await given({ overlap: "allow" });
    stage.script.chance = 0.5;
    refuse(1);
    await stage.pass(10 * MINUTE);
    expect((await stage.runs())[0]).toMatchObject({
      status: "waiting",
      error: { message: "backlog" },
    });
    await stage.pass(500);
    expect((await stage.runs())[0]).toMatchObject({ status: "running", attempts: 2 });
    expect(submissions.size).toBe(2);
  });

  it("S1: a prompt function is called when the task fires, in the host's context", async () => {
    let count = 0;
    const { stage, submissions } = await given({ prompt: async () => `number ${++count}` });
    expect([...submissions.values()].map(({ prompt }) => prompt)).toEqual(["number 1"]);
    expect(stage.now).toBe(MONDAY + 10 * MINUTE);
  });

  it("S1: a prompt function that returns no text fails its run", async () => {
    const { stage } = await given({ prompt: () => "" });
    await stage.pass(1_000);
    expect(await stage.comes("failed")).toMatchObject({ error: { name: "TypeError" } });
  });
});
