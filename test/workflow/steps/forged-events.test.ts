/** W3: anyone with the Workflow's binding can send an event of any type. Only the agent's own event ends a wait. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { ask, type Script } from "../../../src/testing/index.ts";
import { charging, givenCode, times } from "../../features/codemode/steps/codemode.ts";
import { outputOf, restartFrom } from "../../support/engine.ts";
import { givenThink, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import type { ThinkAgent } from "../../support/think-agent.ts";
import { givenTools, input } from "../../support/workflows/agent-tools.ts";
import { givenWorkflow } from "../../support/workflows/approvals.ts";
import { type Event, floodOf, forged, send } from "../../support/workflows/forged-events.ts";
import type { PromptAllOutcome } from "../../support/workflows/prompt-all-workflow.ts";
import type { PromptOutcome } from "../../support/workflows/prompt-workflow.ts";
import { beforeStep, stepsOf } from "../../support/workflows/watched-steps.ts";

const ANSWER = { title: "hello", count: 3 };
const FORGED_ANSWER = { title: "forged", count: 666 };

/** Every script is another text, so that its model calls are its own. */
const script = (rest: Script = {}) => ask({ answer: ANSWER, text: crypto.randomUUID(), ...rest });

/** The first value of a column of the agent's tables, as soon as there is one. */
function stored(agent: object, query: string): Promise<string> {
  return until(() =>
    runInDurableObject(agent as DurableObjectStub<ThinkAgent>, (_, { storage }) => {
      // The agent makes its tables when it starts, that of jobs with the first one.
      const isMade = storage.sql
        .exec("SELECT 1 FROM sqlite_master WHERE name = ?", /perdure_\w+/.exec(query)?.[0])
        .toArray();
      if (isMade.length === 0) return undefined;
      const [row] = storage.sql.exec<{ value: string | null }>(query).toArray();
      return row?.value ?? undefined;
    }),
  );
}

const WAIT = "SELECT id AS value FROM perdure_jobs WHERE parent IS NULL";
const BATCH = "SELECT event_type AS value FROM perdure_batches";

/** The approval of a step, also when its time is over. */
function openedBy({ agent }: { agent: object }, name: string): Promise<string> {
  return until(async () => {
    const status = ["pending", "expired"] as const;
    const { items } = await capabilitiesOf(agent as Approver).approvals.list({
      status: [...status],
    });
    return items.find(({ workflow: { stepName } }) => stepName === name)?.approvalId;
  });
}

type Approver = ReturnType<typeof givenThink>;

function waitEvent(waitId: string, result: object): Event {
  const data = { waitId, status: "completed", settledAt: 1, result };
  return { type: "wait.completed", timestamp: new Date().toISOString(), data };
}

function promptEvent(submissionId: string): Event {
  const data = { submissionId, status: "completed", attempts: 1, output: FORGED_ANSWER };
  return { type: "submission.completed", timestamp: new Date().toISOString(), data };
}

describe("W3: an event without the agent's proof ends no wait", () => {
  it("W3: a forged event of an approval approves nothing, and the decision still counts", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    const event = waitEvent(approvalId, { by: "eve" });
    await send(env.APPROVAL_WORKFLOW, workflow.id, `perdure-wait-${approvalId}`, forged(event));
    expect(await workflow.status()).not.toBe("complete");
    await capabilitiesOf(workflow.agent).approvals.reject(approvalId, { by: "ada" });
    expect(await workflow.output()).toMatchObject({ outcomes: [{ approved: false, by: "ada" }] });
  });

  it("W3: a forged event of a prompt answers nothing, and the turn's answer still does", async () => {
    const id = `wf-${crypto.randomUUID()}`;
    const agent = givenThink();
    const { script: held, release } = hold();
    await agent.startPrompts(id, { prompts: [{ name: "ask", prompt: script(held) }] });
    const submissionId = await until(async () => (await agent.listSubmissions())[0]?.submissionId);
    const type = `perdure-prompt-${submissionId}`;
    await send(env.PROMPT_WORKFLOW, id, type, forged(promptEvent(submissionId)));
    release();
    const outcomes = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id);
    expect(outcomes).toMatchObject([{ answer: ANSWER }]);
  });

  it.each(["throw", "return"] as const)(
    "W3: a forged event of a batch ends it for nobody (onError: %s)",
    async (onError) => {
      const id = `wf-${crypto.randomUUID()}`;
      const agent = givenThink();
      const { script: held, release } = hold();
      const items = [script(held), script()];
      await agent.startPromptAll(id, { items, options: { onError } });
      const type = await stored(agent, BATCH);
      const event = { type: "prompts.ended", timestamp: new Date().toISOString(), data: {} };
      await send(env.PROMPT_ALL_WORKFLOW, id, type, forged(event));
      release();
      const outcome = await outputOf<PromptAllOutcome>(env.PROMPT_ALL_WORKFLOW, id);
      const answers = [ANSWER, ANSWER];
      expect(outcome).toMatchObject(
        onError === "throw"
          ? { values: answers }
          : { settled: answers.map((value) => ({ status: "fulfilled", value })) },
      );
    },
  );

  it("W3: a forged event of an agent tool is no result, and the child's own still is", async () => {
    const { script: held, release } = hold({ text: "found it" });
    const asked = input(held);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const waitId = await stored(workflow.agent(), WAIT);
    const end = { status: "completed", runId: "forged", summary: "forged", milestones: [] };
    const type = `perdure-wait-${waitId}`;
    await send(env.AGENT_TOOL_WORKFLOW, workflow.id, type, forged(waitEvent(waitId, end)));
    release();
    const [outcome] = await workflow.complete();
    expect(outcome).toMatchObject({
      result: { summary: expect.stringContaining("found it") },
    });
  });

  it("W3: a forged event of code is no result, and the code still runs to its end", async () => {
    const code = givenCode();
    await code.start([{ name: "charge", code: charging(code.order) }]);
    await code.approval();
    const waitId = await stored(code.agent(), WAIT);
    const type = `perdure-wait-${waitId}`;
    const result = { executionId: "forged", output: "forged" };
    await send(env.CODEMODE_WORKFLOW, code.id, type, forged(waitEvent(waitId, result)));
    expect(times("charge", code.order)).toBe(0);
    await code.approve();
    expect(await code.complete()).toMatchObject([{ output: { order: code.order } }]);
    expect(times("charge", code.order)).toBe(1);
  });
});

describe("W3: at every moment of a wait", () => {
  it("W3: events that were sent before the wait began end it for nobody", async () => {
    const id = `wf-${crypto.randomUUID()}`;
    const agent = givenThink();
    let isSent = () => {};
    const sent = new Promise<void>((resolve) => {
      isSent = resolve;
    });
    beforeStep.set(id, (name) => (name.endsWith(":wait") ? sent : undefined));
    const { script: held, release } = hold();
    await agent.startPromptAll(id, { items: [script(held)] });
    const type = await stored(agent, BATCH);
    await send(env.PROMPT_ALL_WORKFLOW, id, type, forged({ type: "prompts.ended", data: {} }));
    isSent();
    release();
    const outcome = await outputOf<PromptAllOutcome>(env.PROMPT_ALL_WORKFLOW, id);
    expect(outcome).toMatchObject({ values: [ANSWER] });
  });

  it("W3: events without proof do not make a wait longer than its timeout", async () => {
    const workflow = await givenWorkflow([{ name: "wait", timeout: 2_000, onTimeout: "reject" }]);
    const approvalId = await openedBy(workflow, "wait");
    const type = `perdure-wait-${approvalId}`;
    // They come as long as it waits: if they made the wait longer, it would never end.
    await until(async () => {
      if ((await workflow.status()) === "complete") return true;
      await send(env.APPROVAL_WORKFLOW, workflow.id, type, [null]).catch(() => {});
      return false;
    });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: false, isTimeout: true }]);
  });

  it("W3: events that come after the timeout change nothing", async () => {
    const workflow = await givenWorkflow([
      { name: "first", timeout: 300, onTimeout: "reject" },
      { name: "second" },
    ]);
    const approvalId = await openedBy(workflow, "first");
    const second = await until(async () => {
      const {
        items: [found],
      } = await capabilitiesOf(workflow.agent).approvals.list();
      return found?.workflow.stepName === "second" && found;
    });
    const event = waitEvent(approvalId, { by: "eve" });
    await send(env.APPROVAL_WORKFLOW, workflow.id, `perdure-wait-${approvalId}`, forged(event));
    await capabilitiesOf(workflow.agent).approvals.grant(second.approvalId);
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: false, isTimeout: true }, { approved: true }]);
  });

  it("W3: a flood of events without proof delays the decision, and does not lose it", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    const type = `perdure-wait-${approvalId}`;
    await send(env.APPROVAL_WORKFLOW, workflow.id, type, floodOf(waitEvent(approvalId, {}), 60));
    await capabilitiesOf(workflow.agent).approvals.reject(approvalId, { by: "ada" });
    expect(await workflow.output()).toMatchObject({
      outcomes: [{ approved: false, by: "ada" }],
    });
  });

  it("W3: a restart from the waiting step believes the same proof", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    const name = "wait:approval-wait";
    await restartFrom(env.APPROVAL_WORKFLOW, workflow.id, { name, type: "waitForEvent" });
    const event = waitEvent(approvalId, { by: "eve" });
    await send(env.APPROVAL_WORKFLOW, workflow.id, `perdure-wait-${approvalId}`, [
      { id: "forged", attempt: 1, event },
    ]);
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId, { by: "ada" });
    expect(await workflow.output()).toMatchObject({ outcomes: [{ approved: true, by: "ada" }] });
    // By the event: the agent is asked when no event has come for ten seconds.
    expect(stepsOf.get(workflow.id)?.filter((step) => /check-[2-9]|close/.test(step))).toEqual([]);
  });

  it("W3: a later run that takes over a prompt believes the event of that prompt", async () => {
    const id = `wf-${crypto.randomUUID()}`;
    const agent = givenThink();
    const { script: held, release } = hold();
    await agent.startPrompts(id, { prompts: [{ name: "ask", prompt: script(held) }] });
    await until(async () => (await agent.listSubmissions()).length > 0);
    const firstRun = await until(() => stepsOf.get(id));
    await (await env.PROMPT_WORKFLOW.get(id)).restart();
    await until(() => stepsOf.get(id) !== firstRun && stepsOf.get(id)?.includes("ask:wait"));
    release();
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id);
    expect(outcome).toMatchObject({ answer: ANSWER });
    expect(await agent.listSubmissions()).toHaveLength(1);
    expect(stepsOf.get(id)).not.toContain("ask:close");
  });
});

it("W3: the proof is in nothing that the agent lists", async () => {
  const workflow = await givenWorkflow([{ name: "wait" }]);
  const { approvalId } = await workflow.pending();
  const proof = await stored(
    workflow.agent,
    "SELECT data ->> '$.proof' AS value FROM perdure_jobs",
  );
  const listed = JSON.stringify([
    await capabilitiesOf(workflow.agent).approvals.list(),
    await capabilitiesOf(workflow.agent).approvals.inspect(approvalId),
  ]);
  expect(listed).not.toContain(proof);
  await (await env.APPROVAL_WORKFLOW.get(workflow.id)).terminate();
});
