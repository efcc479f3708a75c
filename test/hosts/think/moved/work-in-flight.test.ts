/** Work that was open under Think when the app changed its base classes to Perdure's: all of it ends, and once. */

import {
  introspectWorkflowInstance,
  runInDurableObject,
  type WorkflowInstanceIntrospector,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../../src/hosts/public.ts";
import { ask, modelCalls, type Script } from "../../../../src/testing/index.ts";
import { reached } from "../../../support/engine.ts";
import { message, refusal, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import { answerSchema } from "../../../support/workflows/prompt-workflow.ts";
import { chatClient } from "../peers.ts";
import { givenApp, type MovedBody, movedStatuses, movedTasks, unbound } from "./moved-app.ts";

const ANSWER = { title: "hello", count: 3 };

/** Every script is another text, so that its model calls are its own. */
function script(rest: Script = {}): string {
  return ask({ answer: ANSWER, delayMs: 50, text: crypto.randomUUID(), ...rest });
}

const called = (prompt: string) => until(() => modelCalls.get(prompt));

/** What Think's `step.prompt()` stores with its submission. */
type PromptMetadata = { workflow: { eventType: string } };
type Prompt = { prompt: string; key?: string; timeout?: number; cancelOnTimeout?: boolean };

/** A step that prompts, and says how it failed. */
async function outcomeOf(step: Parameters<MovedBody>[0], name: string, options: Prompt) {
  return step
    .prompt(name, { ...options, output: answerSchema })
    .catch((error: Error) => ({ error: error.name }));
}

/** The time for the event of a prompt that has ended is over at once. */
async function withoutEvent(instance: WorkflowInstanceIntrospector, name: string): Promise<void> {
  await instance.modify(async (modifier) => {
    await modifier.forceEventTimeout({ name: `${name}:wait` });
    await modifier.mockStepResult({ name: `${name}:check-1` }, Date.now() + 60_000);
  });
}

/** A step that waits until the test opens it. Promises do not cross from the test to the workflow. */
function wait() {
  const state = { isReached: false, isOpen: false };
  return {
    open: () => {
      state.isOpen = true;
    },
    reached: () => until(() => state.isReached),
    step: (step: Parameters<MovedBody>[0]) =>
      step.do("wait", async () => {
        state.isReached = true;
        await until(() => state.isOpen);
      }),
  };
}

describe("W1: a workflow that started under Think", () => {
  it("W1: the workflow keeps the prompt that Think answered, waits for the one that Think has queued, and continues", async () => {
    const { script: held, release } = hold();
    const [first, busy, second, third] = [script(), script(held), script(), script()];
    const app = givenApp(async (step) => {
      const one = await outcomeOf(step, "first", { prompt: first });
      await step.do("busy", async () => {
        await app.agent().submitMessages([message(busy)]);
        await called(busy);
      });
      const two = await outcomeOf(step, "second", { prompt: second });
      return [one, two, await outcomeOf(step, "third", { prompt: third })];
    });
    await app.start();
    await called(busy);
    await until(async () => (await app.agent().listSubmissions({ status: "pending" })).length > 0);
    await app.changeAgent();
    release();
    await app.changeWorkflow({ name: "second:wait", type: "waitForEvent" });
    expect(await app.output()).toEqual([ANSWER, ANSWER, ANSWER]);
    expect([first, second, third].map((prompt) => modelCalls.get(prompt))).toEqual([1, 1, 1]);
    // Two of Think's, one of the ledger, and what kept the agent busy.
    expect(await app.agent().listSubmissions({ status: "completed" })).toHaveLength(3);
  });

  it("W1: the workflow gets the answer of an interrupted turn, by Think's own recovery", async () => {
    const { script: held, release } = hold();
    const prompt = script(held);
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await app.start();
    await called(prompt);
    await app.changeAgent();
    release();
    await app.changeWorkflow({ name: "only:wait", type: "waitForEvent" });
    expect(await app.output()).toEqual(ANSWER);
    // The model is asked again by the recovery, and the submission is the same.
    expect(modelCalls.get(prompt)).toBe(2);
    expect(await app.agent().listSubmissions()).toHaveLength(1);
  });

  it("W1: the workflow keeps the results of prompts with keys: answered, cancelled and timed out", async () => {
    const endless = () => script({ delayMs: 600_000 });
    const prompts = [script(), endless(), endless(), script()];
    const opening = wait();
    const app = givenApp(async (step) => {
      const outcomes: unknown[] = [];
      for (const [index, prompt] of prompts.entries()) {
        if (index === 3) await opening.step(step);
        const timeout = index === 2 ? 300 : 60_000;
        outcomes.push(await outcomeOf(step, "each", { prompt, key: `key ${index}`, timeout }));
      }
      return outcomes;
    });
    await app.start();
    await called(prompts[1] as string);
    const [running] = await app.agent().listSubmissions({ status: "running" });
    await app.agent().cancelSubmission(running?.submissionId ?? "");
    await opening.reached();
    await app.changeAgent();
    opening.open();
    await app.changeWorkflow({ name: "wait" });
    const failed = ["ThinkPromptAbortedError", "ThinkPromptTimeoutError"];
    expect(await app.output()).toEqual([ANSWER, ...failed.map((error) => ({ error })), ANSWER]);
    const calls = prompts.map((prompt) => modelCalls.get(prompt) ?? 0);
    // The third may be over before its turn begins.
    expect([calls[0], calls[1], Math.max(1, calls[2] ?? 0), calls[3]]).toEqual([1, 1, 1, 1]);
  });

  it("W1: the workflow finds the submission of a step whose receipt was lost", async () => {
    const { script: held, release } = hold();
    const prompt = script(held);
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await app.start();
    await called(prompt);
    await app.changeAgent();
    release();
    await app.changeWorkflow({ name: "only:submit" });
    expect(await app.output()).toEqual(ANSWER);
    expect(await app.agent().listSubmissions()).toHaveLength(1);
  });

  it("W1: a restarted workflow asks again if the answer was sent to the earlier run", async () => {
    const prompt = script();
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await using instance = await introspectWorkflowInstance(env.MOVED_WORKFLOW, app.id);
    await app.start();
    expect(await app.output()).toEqual(ANSWER);
    await app.changeAgent();
    await withoutEvent(instance, "only");
    await app.changeWorkflow({ name: "only:submit" });
    await until(() => modelCalls.get(prompt) === 2);
    expect(await app.output()).toEqual(ANSWER);
    // Now the ledger has the answer.
    await app.agent().restart(app.id);
    await reached(env.MOVED_WORKFLOW, app.id, "running", "complete");
    expect(await app.output()).toEqual(ANSWER);
    expect(modelCalls.get(prompt)).toBe(2);
  });

  it("W3: the workflow ignores an event of another submission than Think's prompt", async () => {
    const { script: held, release } = hold();
    const prompt = script(held);
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await app.start();
    await called(prompt);
    const [submission] = await app.agent().listSubmissions();
    const asked = submission?.metadata?.__thinkWorkflowPrompt as PromptMetadata | undefined;
    await app.changeAgent();
    await app.changeWorkflow({ name: "only:wait", type: "waitForEvent" });
    const payload = {
      submissionId: "another",
      status: "completed",
      output: { title: "", count: 0 },
    };
    await (await app.instance()).sendEvent({ type: String(asked?.workflow.eventType), payload });
    release();
    expect(await app.output()).toEqual(ANSWER);
  });

  it("W2: the step times out, and cancels the turn that Think runs", async () => {
    const prompt = script({ delayMs: 600_000 });
    const app = givenApp((step) => outcomeOf(step, "only", { prompt, timeout: 5_000 }));
    await app.start();
    await called(prompt);
    await app.changeAgent();
    await app.changeWorkflow({ name: "only:wait", type: "waitForEvent" });
    expect(await app.output()).toEqual({ error: "ThinkPromptTimeoutError" });
    const [submission] = await app.agent().listSubmissions();
    expect(submission).toMatchObject({
      status: "aborted",
      error: "Workflow prompt wait timed out",
    });
  });

  it("W5: terminateWorkflow() cancels the prompt that Think runs", async () => {
    const prompt = script({ delayMs: 600_000 });
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await app.start();
    await called(prompt);
    await app.changeAgent();
    await app.agent().terminateWorkflow(app.id);
    const [submission] = await app.agent().listSubmissions();
    expect(submission).toMatchObject({
      status: "aborted",
      error: "The workflow that waited for it was terminated",
    });
  });
});

it("W1: an approval that AgentWorkflow waits for can be granted after the change", async () => {
  const app = givenApp((_, approval) => approval());
  await app.start();
  const step = { name: "wait-for-approval", type: "waitForEvent" } as const;
  await reached(env.MOVED_WORKFLOW, app.id, "waiting", "running");
  await app.changeAgent();
  await app.changeWorkflow(step);
  await app.agent().approveWorkflow(app.id, { metadata: { by: "anna" } });
  expect(await app.output()).toEqual({ by: "anna" });
});

describe("L1: a submission that Think accepted before the change", () => {
  it("L1: Think's submission ends once, is found by every verb, and runs before later ones", async () => {
    const app = givenApp();
    const [first, second] = [hold(), hold()];
    const prompts = [script(first.script), script(second.script), script(), script()];
    const agent = app.agent();
    for (const [index, prompt] of prompts.entries()) {
      const options = { submissionId: `s${index}`, metadata: { index } };
      if (index < 3) await agent.submitMessages([message(prompt)], options);
    }
    await called(prompts[0] as string);
    await app.changeAgent();
    const moved = app.agent();
    await moved.submitMessages([message(prompts[3] as string)], { submissionId: "s3" });
    expect(await moved.submissionStats()).toMatchObject({ pending: expect.any(Number) });
    expect(await moved.cancelSubmission("s2")).toMatchObject({ outcome: "cancelled" });
    for (const { release } of [first, second]) release();
    expect(await moved.waitForSubmission("s1")).toMatchObject({
      status: "completed",
      thread: "main",
      attempts: 1,
    });
    expect(await moved.waitForSubmission("s3")).toMatchObject({ status: "completed" });
    const statuses = movedStatuses.get(app.name) ?? [];
    expect(statuses).toContain("s1 completed main");
    expect(statuses.indexOf("s1 completed main")).toBeLessThan(statuses.indexOf("s3 running main"));
    expect(prompts.slice(2).map((prompt) => modelCalls.get(prompt))).toEqual([undefined, 1]);
    const list = async (options: object) =>
      (await moved.listSubmissions(options)).map(({ submissionId }) => submissionId);
    expect(await list({})).toEqual(["s3", "s2", "s1", "s0"]);
    expect(await list({ before: "s2" })).toEqual(["s1", "s0"]);
    expect(await list({ metadata: { index: 1 } })).toEqual(["s1"]);
    const kindsOf = async (id: string) =>
      (await capabilitiesOf(moved).operations.traceSubmission(id))?.spans.map(
        ({ kind, endedAt }) => [kind, endedAt !== undefined],
      );
    expect(await kindsOf("s1")).toEqual([
      ["submission", true],
      ["wait", true],
      ["attempt", true],
    ]);
    expect((await kindsOf("s2"))?.[0]).toEqual(["submission", true]);
    expect(await refusal(moved.retrySubmission("s2"))).toMatchObject({
      name: "InvalidSubmissionError",
    });
    expect(await moved.deleteSubmission("s2")).toBe(true);
    expect(await moved.deleteSubmissions()).toBe(3);
    expect(await list({})).toEqual([]);
  });

  it.each([
    ["with nothing of its reply", 0],
    ["in its reply", 12],
  ])(
    "L1: a turn that is interrupted %s while others wait never gets the reply of another one",
    async (_, count) => {
      const app = givenApp();
      const words = "one two three four five six seven eight nine ten eleven twelve thirteen";
      const { script: held, release } = hold({ text: words, wordMs: 1 }, { words: count });
      const prompts = [script(held), script(), script(), script()];
      const client = await chatClient(app.agent() as never);
      for (const [index, prompt] of prompts.entries())
        await app.agent().submitMessages([message(prompt)], { submissionId: `s${index}` });
      await called(prompts[0] as string);
      if (count > 0) await until(() => JSON.stringify(client.frames).includes("twelve"));
      await app.changeAgent();
      release();
      const moved = app.agent();
      const ends = await Promise.all(
        prompts.map((_, index) => moved.waitForSubmission(`s${index}`)),
      );
      expect(ends[0]).toMatchObject({
        status: "error",
        error: "Submission was interrupted and automatic continuation was declined.",
      });
      for (const [index, end] of ends.entries())
        if (index > 0)
          expect(end).toMatchObject({
            status: "completed",
            output: (JSON.parse(prompts[index] as string) as Script).text,
          });
      expect(prompts.map((prompt) => modelCalls.get(prompt))).toEqual([1, 1, 1, 1]);
    },
  );

  it("L3: Think's submission is found by its key and by its id", async () => {
    const app = givenApp();
    const prompt = script();
    const keyed = { idempotencyKey: "hook-1" };
    const { submissionId } = await app.agent().submitMessages([message(prompt)], keyed);
    await app.agent().waitForSubmission(submissionId);
    await app.changeAgent();
    const moved = app.agent();
    const known = { submissionId, accepted: false, status: "completed" };
    expect(await moved.submitMessages([message(prompt)], keyed)).toMatchObject(known);
    expect(await moved.submitMessages([message(prompt)], { submissionId })).toMatchObject(known);
    const other = { submissionId: "another", ...keyed };
    const refused = await refusal(moved.submitMessages([message(prompt)], other));
    expect(refused.name).toBe("SubmissionIdentityError");
    const [again, isNew] = await moved.submitMany([
      { messages: [message(prompt)], options: keyed },
      { messages: [message(script())], options: { idempotencyKey: "hook-2" } },
    ]);
    expect([again?.accepted, isNew?.accepted]).toEqual([false, true]);
    for (const options of [{ idempotencyKey: 5 }, { submissionId: {} }, null]) {
      const call = moved.submitMessages([message(script())], options as never);
      expect(await refusal(call)).toMatchObject({ name: "InvalidSubmissionError" });
    }
    expect(modelCalls.get(prompt)).toBe(1);
  });
});

describe("L1: on the way back to Think", () => {
  it("L1: submissions of the ledger wait, and end once when the app extends DurableThink again", async () => {
    const app = givenApp();
    await app.changeAgent();
    const { script: held, release } = hold();
    const prompts = [script(held), script()];
    for (const [index, prompt] of prompts.entries()) {
      await app.agent().submitMessages([message(prompt)], { submissionId: `s${index}` });
    }
    await called(prompts[0] as string);
    await app.goBack();
    expect(await app.agent().inspectSubmission("s1")).toBe(null);
    await app.changeAgent();
    release();
    expect(await app.agent().waitForSubmission("s1")).toMatchObject({ status: "completed" });
    expect(modelCalls.get(prompts[1] as string)).toBe(1);
  });

  it("W1: a prompt that Perdure has accepted fails at its timeout", async () => {
    const prompt = script({ delayMs: 600_000 });
    const app = givenApp((step) => outcomeOf(step, "only", { prompt, timeout: 5_000 }));
    await app.changeAgent();
    await app.changeWorkflow();
    await app.start();
    await called(prompt);
    await app.goBack({ name: "only:wait", type: "waitForEvent" });
    expect(await app.output()).toEqual({ error: "ThinkPromptTimeoutError" });
  });
});

describe("S1: a task that Think has armed", () => {
  const daily = (prompt: string) => ({
    daily: { schedule: "every day at 09:00", timezone: "UTC", prompt } as const,
  });

  /** An agent of Think's with an occurrence that came a moment ago. */
  async function givenDue() {
    const app = givenApp();
    const prompt = script();
    movedTasks.set(app.name, daily(prompt));
    const next = Number(await app.agent().nextSchedule());
    const due = next - 86_400_000;
    await runInDurableObject(app.agent(), (_, { storage }) => {
      const sql = "UPDATE cf_agents_jobs SET time = ?, payload = replace(payload, ?, ?)";
      storage.sql.exec(sql, due, String(next), String(due));
    });
    return { app, prompt, next, due };
  }

  it("S1: a task fires for the occurrence that was due during the change", async () => {
    const { app, prompt, next, due } = await givenDue();
    await app.changeAgent();
    await called(prompt);
    const moved = app.agent();
    const {
      items: [run, ...others],
    } = await capabilitiesOf(moved).schedules.runs("daily");
    expect([run?.scheduledFor, others.length]).toEqual([due, 0]);
    expect((await capabilitiesOf(moved).schedules.inspect("daily"))?.next).toBe(next);
    expect(await moved.listSubmissions()).toHaveLength(1);
  });

  it("S1: a task does not fire for an occurrence whose prompt Think has submitted", async () => {
    const { app, next, due } = await givenDue();
    const metadata = { source: "scheduled-task", taskId: "daily", scheduledFor: due };
    await app.agent().submitMessages([message(script())], { metadata });
    await app.changeAgent();
    const moved = app.agent();
    expect((await capabilitiesOf(moved).schedules.inspect("daily"))?.next).toBe(next);
    expect((await capabilitiesOf(moved).schedules.runs("daily")).items).toEqual([]);
    expect(await moved.listSubmissions()).toHaveLength(1);
  });

  it("S1: a task keeps the time of its next occurrence", async () => {
    const app = givenApp();
    movedTasks.set(app.name, {
      often: { schedule: "every 2 hours", handler: () => {} },
    });
    const armed = await app.agent().nextSchedule();
    await app.changeAgent();
    const {
      items: [task],
    } = await capabilitiesOf(app.agent()).schedules.list();
    expect(task?.next).toBe(armed);
    expect(await app.agent().nextSchedule()).toBe(null);
  });
});

describe("W5: terminateWorkflow()", () => {
  it.each([false, true])(
    "W5: terminateWorkflow() throws the SDK's errors for an unknown workflow and a renamed binding, with rollback %s",
    async (rollback) => {
      const app = givenApp((step) =>
        outcomeOf(step, "only", { prompt: script({ delayMs: 600_000 }) }),
      );
      await app.start();
      unbound.add(app.name);
      const messages = async () => {
        const options = { rollback };
        const calls = ["unknown", app.id].map((id) =>
          refusal(app.agent().terminateWorkflow(id, options)),
        );
        return (await Promise.all(calls)).map(({ message }) => message);
      };
      await app.goBack();
      const theirs = await messages();
      await app.changeAgent();
      expect(await messages()).toEqual(theirs);
      expect(theirs).toEqual([
        "Workflow unknown not found in tracking table",
        "Workflow binding 'MOVED_WORKFLOW' not found in environment",
      ]);
    },
  );
});

describe("W1: half a change", () => {
  it("W1: an agent that extends DurableThink answers Think's ThinkWorkflow", async () => {
    const prompt = script();
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await app.changeAgent();
    await app.start();
    expect(await app.output()).toEqual(ANSWER);
    expect(modelCalls.get(prompt)).toBe(1);
  });

  it("W1: Perdure's ThinkWorkflow fails at once on an agent that extends Think, and names the remedy", async () => {
    const app = givenApp((step) => step.prompt("only", { prompt: script(), output: answerSchema }));
    await app.changeWorkflow();
    await app.start();
    const { message: text } = await refusal(app.output());
    expect(text).toContain("has to extend a host of Perdure, e.g. DurableThink");
  });

  it("W2: an answer that an earlier run has received fails the step by name, without another model call", async () => {
    const prompt = script();
    const app = givenApp((step) => outcomeOf(step, "only", { prompt }));
    await using instance = await introspectWorkflowInstance(env.MOVED_WORKFLOW, app.id);
    await app.start();
    expect(await app.output()).toEqual(ANSWER);
    await app.changeAgent();
    await withoutEvent(instance, "only");
    await app.changeWorkflow({ name: "only:wait", type: "waitForEvent" });
    expect(await app.output()).toEqual({ error: "ThinkPromptNotFoundError" });
    expect(modelCalls.get(prompt)).toBe(1);
  });
});
