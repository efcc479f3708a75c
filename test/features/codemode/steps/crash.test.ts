/** L6 `runCode()` when the agent dies, or the engine begins again: no call is repeated, and no wait hangs. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { pauseAndResume, restartFrom } from "../../../support/engine.ts";
import { refusal, until } from "../../../support/given.ts";
import { silence } from "../../../support/scheduler.ts";
import { charging, dyingAt, givenCode, isAsked, times, waitingFrom } from "./codemode.ts";
import type { CodemodeAgent, CodemodeHooks } from "./codemode-agent.ts";

describe("L6: the agent dies", () => {
  it("before the code has begun: it runs once", async () => {
    silence();
    const code = givenCode(dyingAt("before", "execute"));
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.revived();
    await code.approve();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("look", code.order)).toBe(1);
    expect(await code.agent().executions()).toHaveLength(1);
  });

  it("in the code before any call: it runs afresh, and the cut-off record is gone", async () => {
    silence();
    const hooks = { description: "at first" };
    const code = givenCode(hooks);
    const text = `async () => {
      const found = JSON.stringify(await codemode.search("look"));
      if (!found.includes("after the crash")) await new Promise(() => {});
      return shop.look({ order: "${code.order}" });
    }`;
    await code.start([{ name: "look", code: text }]);
    await until(async () => (await code.agent().executions())[0]?.status === "running");
    hooks.description = "after the crash";
    await code
      .agent()
      .die()
      .catch(() => undefined);
    await code.revived();
    expect(await code.complete()).toMatchObject([{ output: { done: "look" } }]);
    expect(times("look", code.order)).toBe(1);
    expect(await code.agent().executions()).toHaveLength(1);
  });

  it("after a call had its effect: the call is not repeated, and the error names it", async () => {
    silence();
    const code = givenCode(dyingAt("after", "charge"));
    const text = `async () => {
      await shop.reserve({ order: "${code.order}" });
      return shop.charge({ order: "${code.order}" });
    }`;
    await code.start([{ name: "charge", code: text }]);
    await code.approve();
    await code.revived();
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({
      error: "CodemodeInterruptedError",
      calls: [
        { method: "reserve", state: "applied" },
        { method: "charge", state: "executing" },
      ],
    });
    expect((outcome as { message: string }).message).toContain("Applied: shop.reserve.");
    expect((outcome as { message: string }).message).toContain("maybe with effect: shop.charge.");
    expect(times("charge", code.order)).toBe(1);
  });

  it("W1: and an interrupted run is run afresh by a restart of the workflow only", async () => {
    silence();
    const code = givenCode(dyingAt("after", "look"));
    const text = `async () => shop.look({ order: "${code.order}" })`;
    await code.start([{ name: "look", code: text }]);
    await code.revived();
    const [first] = await code.complete();
    expect(first).toMatchObject({ error: "CodemodeInterruptedError" });
    const runs = times("run", code.id);
    // The step asks its agent again, within the same run of the workflow.
    await restartFrom(env.CODEMODE_WORKFLOW, code.id, { name: "look:codemode-submit" });
    await until(() => times("run", code.id) > runs);
    expect(await code.complete()).toEqual([first]);
    expect(times("look", code.order)).toBe(1);
    await code.agent().restart(code.id);
    await until(() => times("look", code.order) === 2);
  });

  it.each<[string, CodemodeHooks]>([
    ["when the code has paused", dyingAt("after", "execute")],
    ["between the approval and the continuation", dyingAt("before", "approve")],
    ["when the continuation has ended", dyingAt("after", "approve")],
    ["while it looks for the record", dyingAt("before", "executions")],
  ])("%s: it goes on from the record", async (_, hooks) => {
    silence();
    const code = givenCode(hooks);
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.approve();
    await code.revived();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("look", code.order)).toBe(1);
    expect(times("charge", code.order)).toBe(1);
    expect(await code.agent().executions()).toHaveLength(1);
  });

  it("while it is paused: the approval is still there, and is asked once", async () => {
    silence();
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order) }]);
    const before = await code.approval();
    await code
      .agent()
      .die()
      .catch(() => undefined);
    await code.revived();
    expect(await code.agent().openApprovals()).toEqual([before]);
    await code.approve();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("charge", code.order)).toBe(1);
  });

  it.each<["before" | "after", string]>([
    ["before", "reject"],
    ["after", "reject"],
  ])("%s the rejection is passed to the runtime: the step is rejected", async (point, what) => {
    silence();
    const code = givenCode(dyingAt(point, what));
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.reject("no");
    await code.revived();
    expect(await code.complete()).toMatchObject([
      { error: "CodemodeRejectedError", rejection: { by: "ann", reason: "no" } },
    ]);
    expect(times("charge", code.order)).toBe(0);
  });

  it("W2: while what has timed out is stopped: the action is rejected after all", async () => {
    silence();
    const code = givenCode(Object.assign(dyingAt("before", "reject"), waitingFrom(isAsked)));
    await code.start([{ name: "charge", code: charging(code.order), timeout: 1_000 }]);
    expect(await code.complete()).toMatchObject([{ error: "CodemodeTimeoutError" }]);
    await code.revived();
    await until(async () => (await code.agent().executions())[0]?.status === "rejected");
  });

  it("and a sub-agent with it, while its code is paused: it goes on", async () => {
    silence();
    const code = givenCode();
    const codes = [{ name: "charge", code: charging(code.order) }];
    await code.agent().startInChild(code.id, { codes });
    const approval = await until(async () => (await code.agent().approvalsOfChild())[0]);
    await expect(refusal(code.agent().die())).resolves.toBeInstanceOf(Error);
    await until(async () => {
      const [first] = await code.agent().approvalsOfChild();
      return first?.waitId === approval.waitId;
    });
    await code.agent().settleInChild(approval.waitId);
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("charge", code.order)).toBe(1);
  });

  it("a record that was deleted is said to be, and nothing runs again", async () => {
    silence();
    const hooks = {
      hasDied: false,
      after: async (what: string, agent: CodemodeAgent) => {
        if (what !== "approve" || hooks.hasDied) return;
        hooks.hasDied = true;
        await agent.forgetExecutions();
        await agent.die();
      },
    };
    const code = givenCode(hooks);
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.approve();
    await code.revived();
    const [outcome] = await code.complete();
    expect(outcome).toMatchObject({ error: "CodemodeError" });
    expect((outcome as { message: string }).message).toContain("deleted");
    expect(times("charge", code.order)).toBe(1);
  });
});

describe("L6: the engine begins again", () => {
  it("W1: while the code is paused: it takes the same execution's result", async () => {
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.approval();
    await pauseAndResume(env.CODEMODE_WORKFLOW, code.id);
    await code.approve();
    expect(await code.complete()).toMatchObject([{ output: { done: "charge" } }]);
    expect(times("look", code.order)).toBe(1);
    expect(times("charge", code.order)).toBe(1);
  });
});
