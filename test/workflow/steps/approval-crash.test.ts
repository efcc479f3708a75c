/** `step.approval()` when the agent crashes while a person is asked, when the engine crashes, when the workflow is restarted at any of its steps, and in a sub-agent. Crashes at its writes: crash-waits.test.ts. */

import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { outputOf, pauseAndResume, restartFrom, type StepAt } from "../../support/engine.ts";
import { givenThink, until } from "../../support/given.ts";
import { ThinkAgent } from "../../support/think-agent.ts";
import { effects, runs } from "../../support/workflows/approval-workflow.ts";
import {
  type Agent,
  givenWorkflow,
  type Output,
  pendingAt,
} from "../../support/workflows/approvals.ts";

const logged: unknown[] = [];
beforeEach(() => {
  logged.length = 0;
  vi.spyOn(console, "error").mockImplementation((text) => void logged.push(text));
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** The agent dies; what it had committed stays. */
async function crash(agent: Agent): Promise<void> {
  await runInDurableObject<ThinkAgent, void>(agent, async (object, ctx) => {
    await ctx.storage.sync();
    object.die();
  }).catch(() => {});
}

describe("the agent dies", () => {
  it("L1: while a person is asked: the approval is there, and its decision arrives", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    await crash(workflow.agent);
    expect((await capabilitiesOf(workflow.agent).approvals.list()).items).toMatchObject([
      { approvalId },
    ]);
    await crash(workflow.agent);
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId);
    expect((await workflow.output()).outcomes).toMatchObject([{ approved: true }]);
  });
});

describe("the engine dies", () => {
  it("L1: with every agent of the machine, while a person is asked", async () => {
    const workflow = await givenWorkflow([{ name: "first" }, { name: "second" }]);
    const first = await workflow.pending();
    await capabilitiesOf(workflow.agent).approvals.grant(first.approvalId);
    const second = await pendingAt(workflow.agent, first.approvalId);
    await abortAllDurableObjects();
    const step = { name: "second:approval-wait", type: "waitForEvent" } as const;
    await restartFrom(env.APPROVAL_WORKFLOW, workflow.id, step);
    await capabilitiesOf(workflow.agent).approvals.reject(second.approvalId, { by: "ada" });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: true }, { approved: false, by: "ada" }]);
    expect(runs.get(workflow.id)).toBe(2);
    // What came before the crash was not done again.
    expect(effects.get(`${workflow.id}:first`)).toBe(1);
    expect(
      (await capabilitiesOf(workflow.agent).approvals.list({ status: "approved" })).items,
    ).toHaveLength(1);
  });

  it("L1: a pause, a decision, and a resume", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    await pauseAndResume(env.APPROVAL_WORKFLOW, workflow.id, async () => {
      await capabilitiesOf(workflow.agent).approvals.grant(approvalId);
    });
    expect((await workflow.output()).outcomes).toMatchObject([{ approved: true }]);
    expect(runs.get(workflow.id)).toBe(2);
  });

  it.each<[string, StepAt]>([
    ["the question", { name: "wait:approval-submit" }],
    ["the wait", { name: "wait:approval-wait", type: "waitForEvent" }],
  ])("W1: and goes on from %s while a person is asked: the same approval", async (_, step) => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    // An instance is restarted from a step that it has begun.
    await until(() =>
      restartFrom(env.APPROVAL_WORKFLOW, workflow.id, step).then(
        () => true,
        () => false,
      ),
    );
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId);
    expect((await workflow.output()).outcomes).toMatchObject([{ approved: true }]);
    expect(runs.get(workflow.id)).toBe(2);
    expect((await capabilitiesOf(workflow.agent).approvals.list()).items).toEqual([]);
  });
});

describe("W1: a restart at every step", () => {
  const APPROVALS = [
    { name: "first", timeout: 8_000 },
    { name: "second", timeout: 8_000 },
  ];
  const STEPS: [StepAt, number][] = [
    [{ name: "perdure:run" }, 2],
    [{ name: "first:approval-submit" }, 0],
    [{ name: "first:approval-wait", type: "waitForEvent" }, 0],
    [{ name: "after first undefined" }, 0],
    [{ name: "second:approval-submit" }, 0],
    [{ name: "second:approval-wait", type: "waitForEvent" }, 0],
    [{ name: "after second undefined" }, 0],
  ];

  it.each(STEPS)(
    "of a finished workflow, from %j: %d people are asked again",
    async (step, again) => {
      const workflow = await givenWorkflow(APPROVALS);
      const decided = new Set<string>();
      /** Somebody approves whatever is asked, until the workflow has ended. */
      const decideAll = async () => {
        const output = workflow.output();
        let hasEnded = false;
        output.then(
          () => (hasEnded = true),
          () => (hasEnded = true),
        );
        while (!hasEnded) {
          for (const { approvalId } of (await capabilitiesOf(workflow.agent).approvals.list())
            .items) {
            decided.add(approvalId);
            await capabilitiesOf(workflow.agent).approvals.grant(approvalId);
          }
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return (await output).outcomes;
      };
      const before = await decideAll();
      expect(decided.size).toBe(2);
      await restartFrom(env.APPROVAL_WORKFLOW, workflow.id, step);
      const after = await decideAll();
      expect(after).toMatchObject([{ approved: true }, { approved: true }]);
      expect(decided.size).toBe(2 + again);
      if (again === 0) expect(after).toEqual(before);
    },
  );
});

it("a sub-agent asks, is decided at, and crashes with its parent", async () => {
  const parent = givenThink();
  const id = `wf-${crypto.randomUUID()}`;
  const atChild = <T>(work: (child: Pick<ThinkAgent, ChildVerb>) => Promise<T>) =>
    runInDurableObject<ThinkAgent, T>(givenThink(parent.name), async (agent) =>
      work((await agent.subAgent(ThinkAgent, "child")) as unknown as ThinkAgent),
    );
  await atChild((child) =>
    child.runWorkflow(
      "APPROVAL_WORKFLOW",
      { approvals: [{ name: "refund", schema: "refund" }, { name: "second" }] },
      { id },
    ),
  );
  const pending = (other?: string) =>
    until(() =>
      atChild(async (child) =>
        (await capabilitiesOf(child).approvals.list()).items.find(
          ({ approvalId }) => approvalId !== other,
        ),
      ),
    );
  const first = await pending();
  expect((await capabilitiesOf(givenThink(parent.name)).approvals.list()).items).toEqual([]);
  await crash(givenThink(parent.name));
  await atChild((child) =>
    capabilitiesOf(child).approvals.grant(first.approvalId, { payload: { amount: 3 } }),
  );
  const second = await pending(first.approvalId);
  await crash(givenThink(parent.name));
  await atChild((child) => capabilitiesOf(child).approvals.reject(second.approvalId));
  const { outcomes } = await outputOf<Output>(env.APPROVAL_WORKFLOW, id);
  expect(outcomes).toMatchObject([{ payload: { amount: 3 } }, { approved: false }]);
  expect(logged.filter((text) => String(text).includes("announced"))).toEqual([]);
});

type ChildVerb = "runWorkflow";
