/** A replay of the code that has made the run finds nothing: at several points of runs in the real engine. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Json } from "../../../src/core/json.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { sleepUntilNext } from "../../../src/scheduler/index.ts";
import { ask, replayWorkflow } from "../../../src/testing/index.ts";
import { restartFrom } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import { sample } from "../../support/sizes.ts";
import { historiesOf, historyAt, problemsAtAllPoints } from "../../support/workflows/histories.ts";
import {
  givenScriptedWorkflow,
  ScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

const Ticket = z.object({ title: z.string() });
const Lucky = z.object({ n: z.number().refine((n) => n !== 13, "13 brings bad luck") });

type Workflow = Awaited<ReturnType<typeof givenScriptedWorkflow>>;

/** Decides each approval of the workflow, and returns whether the run is over. */
async function decide(workflow: Workflow, payloads: Json[] = []): Promise<boolean> {
  const { approvals } = capabilitiesOf(workflow.agent);
  const { items } = await approvals.list({ workflowId: workflow.id });
  for (const { approvalId } of items) {
    const payload = payloads.shift();
    await approvals.grant(approvalId, payload === undefined ? {} : { payload });
  }
  const { status } = await (await workflow.handle()).status();
  return ["complete", "errored", "terminated"].includes(status);
}

/** Replays all histories of a run, and returns the problems and how the last replay ended. */
async function replayed(workflow: Workflow, isOver = () => decide(workflow)) {
  const histories = await historiesOf(() => workflow.agent, workflow.id, isOver);
  const [whole] = histories.slice(-1);
  if (!whole) throw new Error("The agent does not track the workflow");
  const problems = await problemsAtAllPoints(ScriptedWorkflow, whole);
  for (const history of histories) {
    const found = await replayWorkflow(ScriptedWorkflow, history);
    problems.push(...found.problems.map(({ text }) => text));
  }
  const { at } = await replayWorkflow(ScriptedWorkflow, whole);
  return { problems, at, points: whole.platform.length };
}

const BODIES: Readonly<Record<string, WorkflowBody>> = {
  "steps of the platform": async (step) => {
    const { n } = await step.do("load", async () => ({ n: 2 }));
    await step.sleep("pause", 50);
    for (let i = 0; i < n; i++) await step.do("again", async () => i);
    await step.do("void", async () => {});
    return step.do(`last of ${n}`, async () => new Date()).then((date) => date.getTime());
  },
  "a failed step in try and catch": async (step) => {
    try {
      await step.do("fails", { retries: { limit: 1, delay: 1 } }, async () => {
        throw new TypeError("not today");
      });
    } catch (error) {
      return step.do(`after ${(error as Error).message}`, async () => (error as Error).message);
    }
    return step.do("never", async () => 0);
  },
  "a failed step": async (step) => {
    await step.do("before", async () => 1);
    await step.do("fails", { retries: { limit: 0, delay: 1 } }, async () => {
      throw new TypeError("not today");
    });
  },
  "prompts with and without a schema": async (step) => {
    const { title } = await step.prompt("file", {
      prompt: ask({ answer: { title: "fire" }, delayMs: 30 }),
      output: Ticket,
      repair: 2,
      retry: { maxAttempts: 2 },
      thread: "isolated",
    });
    const { output } = await step.promptResult("reply", { prompt: `About ${title}` });
    return step.do(`sent ${output.length > 0}`, async () => title);
  },
  "a failing prompt": async (step) => {
    try {
      await step.prompt("fails", {
        prompt: ask({ fail: "broken", status: 400 }),
        retry: { maxAttempts: 1 },
      });
    } catch (error) {
      await step.do(`after ${(error as Error).name}`, async () => 1);
      throw error;
    }
  },
  "a prompt whose answer only the schema refuses": async (step) => {
    try {
      await step.prompt("lucky", { prompt: ask({ answer: { n: 13 } }), output: Lucky, repair: 1 });
    } catch (error) {
      return step.do("gave up", async () => (error as Error).name);
    }
    return step.do("never", async () => 0);
  },
  "a loop with keys": async (step) => {
    const titles: string[] = [];
    for (const key of ["a", "b", "c/ä"]) {
      const { title } = await step.prompt("file", {
        key,
        prompt: ask({ answer: { title: key } }),
        output: Ticket,
      });
      titles.push(await step.do("save", async () => title));
    }
    return titles;
  },
  "branches side by side": async (step) => {
    const branch = async (name: string, delay: number) => {
      const first = await step.do(`${name} 1`, async () => {
        await new Promise((resolve) => setTimeout(resolve, delay));
        return delay;
      });
      await step.sleep(`${name} nap`, delay);
      await step.prompt(`${name} prompt`, { prompt: ask({ delayMs: delay }), thread: "isolated" });
      return step.do(`${name} 2`, async () => first);
    };
    return Promise.all([branch("a", 60), branch("b", 5), branch("c", 30)]);
  },
  "a large answer": async (step) => {
    const text = await step.prompt("large", { prompt: ask({ text: "x".repeat(400_000) }) });
    return step.do(`has ${text.length}`, async () => text.length);
  },
  "a batch": async (step) => {
    const all = await step.promptAll("moods", ["a", "b", "c", "d"], {
      prompt: (item) => ask({ answer: { title: item }, delayMs: 20 }),
      output: Ticket,
      concurrency: 2,
    });
    return step.do(`has ${all.map(({ title }) => title).join("")}`, async () => all.length);
  },
  "a batch with failures as values, and repairs": async (step) => {
    const all = await step.promptAll("lucky", [1, 13, 2], {
      prompt: (n) => ask({ answer: { n } }),
      output: Lucky,
      repair: 1,
      onError: "return",
    });
    return step.do(all.map(({ status }) => status).join(), async () => all.length);
  },
  "a batch that fails fast": async (step) => {
    try {
      await step.promptAll("mixed", ["ok", "bad"], {
        prompt: (item) => ask(item === "bad" ? { fail: "broken", status: 400 } : { delayMs: 300 }),
        retry: { maxAttempts: 1 },
      });
    } catch (error) {
      return step.do(`after ${(error as Error).name}`, async () => 1);
    }
    return step.do("never", async () => 0);
  },
  "approvals that time out": async (step) => {
    const first = await step.approval("soon", { timeout: 100, onTimeout: "reject" });
    return step.do(`is ${first.approved}`, async () => 1);
  },
  "a schedule": async (step) => {
    const at = await sleepUntilNext(step, "second", "every 1 minute");
    return step.do("woken", async () => at);
  },
  "the agent's own reports": async (step, self) => {
    await self.tell({ step: "one", percent: 0.5 });
    await step.sendEvent({ kind: "half" });
    await step.updateAgentState({ a: 1 });
    await step.reportComplete({ done: true });
    return step.do("last", async () => 1);
  },
  "calls of the agent outside of steps": async (step, { agent }) => {
    const state = await agent.currentState();
    return step.do("after", async () => state !== undefined);
  },
};

describe("a replay of the code that has made the run finds no problem", () => {
  it.each(sample("REPLAY_STRIDE", 3, Object.entries(BODIES)))("%s", async (name, body) => {
    await using workflow = await givenScriptedWorkflow(body);
    if (name === "a schedule") await workflow.instance.modify((one) => one.disableSleeps());
    await workflow.start();
    const isOver = async () => {
      const { status } = await (await workflow.handle()).status();
      return ["complete", "errored", "terminated"].includes(status);
    };
    const { problems, at, points } = await replayed(workflow, isOver);
    expect(problems).toEqual([]);
    expect(points).toBeGreaterThan(0);
    expect(at).toBe("ended");
  });

  it("approvals with refused payloads, and large data", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const decision = await step.approval("lucky", { schema: Lucky, data: "x".repeat(100_000) });
      await step.approval("plain");
      return step.do(`is ${decision.approved && decision.payload.n}`, async () => 1);
    });
    await workflow.start();
    const payloads: Json[] = [{ n: 13 }, { n: 13 }, { n: 7 }];
    const { problems, at } = await replayed(workflow, () => decide(workflow, payloads));
    expect(problems).toEqual([]);
    expect(at).toBe("ended");
  });

  it("a run that waits for an event of the app, and one that had it", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const { payload } = await step.waitForEvent<{ n: number }>("go", { type: "go" });
      return step.do("after", async () => payload.n);
    });
    await workflow.start();
    const waiting = await historyAt(workflow.agent, workflow.id, "go");
    expect(await replayWorkflow(ScriptedWorkflow, waiting)).toEqual({
      problems: [],
      replayed: ["go"],
      at: "waits",
    });
    await workflow.agent.tell(workflow.id, { type: "go", payload: { n: 1 } });
    const { problems, at } = await replayed(workflow);
    expect(problems).toEqual([]);
    expect(at).toBe("ended");
  });

  it("waitForApproval() of agents, approved and rejected", async () => {
    for (const isApproved of [true, false]) {
      await using workflow = await givenScriptedWorkflow(async (step, self) => {
        const by = await self.approval(step);
        return step.do("after", async () => String(by));
      });
      await workflow.start();
      await historyAt(workflow.agent, workflow.id, "wait-for-approval");
      await (isApproved
        ? workflow.agent.approve(workflow.id, { by: "ada" })
        : workflow.agent.disapprove(workflow.id, "not today"));
      const { problems } = await replayed(workflow);
      // The platform does not tell what was decided.
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems)
        expect(String(problem)).toMatch(/made-up value of the payload/);
    }
  });

  it("an approval that was decided after the step had asked its agent again", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const { approved } = await step.approval("first");
      await step.approval(`second ${approved}`);
    });
    await workflow.instance.modify((one) => one.forceEventTimeout({ name: "first:approval-wait" }));
    await workflow.start();
    await historyAt(workflow.agent, workflow.id, "first:approval-wait-2");
    const { approvals } = capabilitiesOf(workflow.agent);
    const [pending] = (await approvals.list()).items;
    await approvals.grant(pending?.approvalId ?? "", { by: "ada" });
    await historyAt(workflow.agent, workflow.id, "second true:approval-wait");
    expect((await replayed(workflow)).problems).toEqual([]);
  });

  it("a run that was restarted, from the start and from a step", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.do("one", async () => 1);
      await step.approval("ok");
      return step.do("two", async () => 2);
    });
    await workflow.start();
    await historyAt(workflow.agent, workflow.id, "ok:approval-wait");
    await (await workflow.handle()).restart();
    expect((await replayed(workflow)).problems).toEqual([]);
    await restartFrom(env.SCRIPTED_WORKFLOW, workflow.id, { name: "two" });
    const { problems, at } = await replayed(workflow);
    expect(problems).toEqual([]);
    expect(at).toBe("ended");
  });

  it("a run that was terminated", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.approval("ok");
      return step.do("two", async () => 2);
    });
    await workflow.start();
    await historyAt(workflow.agent, workflow.id, "ok:approval-wait");
    await workflow.agent.terminate(workflow.id);
    await until(async () => (await (await workflow.handle()).status()).status === "terminated");
    expect((await replayed(workflow)).problems).toEqual([]);
  });
});
