/** `step.promptAll()` on DurableThink, in the real engine: W1 to W5, and what it takes. */

import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { ask, modelCalls, type Script } from "../../../src/testing/index.ts";
import { givenThink, message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { forever } from "../../support/ledger.ts";
import { silence } from "../../support/scheduler.ts";
import { limitMs, sizeOf } from "../../support/sizes.ts";
import { type Agent, texts } from "../../support/think.ts";
import {
  type AppHooks,
  appHooks,
  cutOff,
  type ThinkAgent,
  thinkOptions,
} from "../../support/think-agent.ts";
import type {
  PromptAllOutcome,
  PromptAllParams,
} from "../../support/workflows/prompt-all-workflow.ts";
import { beforeStep, holdWait, stepsOf } from "../../support/workflows/watched-steps.ts";

/** Every script is another text, so that its model calls are its own. */
function script(count: number, rest: Script = {}): string {
  return ask({ answer: { title: "t", count }, text: crypto.randomUUID(), ...rest });
}

function scripts(count: number, rest: Script = {}): string[] {
  return Array.from({ length: count }, (_, index) => script(index, rest));
}

const failing = (rest: Script = {}) => script(1, { fail: "no model today", ...rest });

function counted(count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => ({ title: "t", count: index }));
}

async function givenWorkflow(
  params: PromptAllParams,
  { hooks, options }: { hooks?: AppHooks; options?: object } = {},
) {
  const id = `wf-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  if (hooks) appHooks.set(name, hooks);
  if (options) thinkOptions.set(name, options);
  const instance = await introspectWorkflowInstance(env.PROMPT_ALL_WORKFLOW, id);
  const agent = () => givenThink(name);
  return {
    id,
    name,
    agent,
    instance,
    start: () => agent().startPromptAll(id, params),
    complete: async () => {
      await instance.waitForStatus("complete");
      return (await instance.getOutput()) as PromptAllOutcome;
    },
    /** The outcome of a run after the first: the introspection knows that one only. */
    completeAgain: (isIt: (outcome: PromptAllOutcome) => boolean) =>
      until(async () => {
        const { status, output } = await (await env.PROMPT_ALL_WORKFLOW.get(id)).status();
        return (
          status === "complete" && isIt(output as PromptAllOutcome) && (output as PromptAllOutcome)
        );
      }),
    [Symbol.asyncDispose]: () => instance.dispose(),
  };
}

const callsOf = (items: readonly string[]) => items.map((item) => modelCalls.get(item) ?? 0);

/** Rows of a table of the agent. */
function rowsIn(agent: DurableObjectStub<ThinkAgent>, table: string): Promise<number> {
  return runInDurableObject(agent, (_, { storage }) => {
    const query = `SELECT COUNT(*) AS rows FROM ${table}`;
    return storage.sql.exec<{ rows: number }>(query).one().rows;
  });
}

describe("answers", () => {
  it("L4: come in the order of the items, whatever the order of their ends, and leave no trace", async () => {
    const items = Array.from({ length: 9 }, (_, n) => script(n, { delayMs: (9 - n) * 30 }));
    await using workflow = await givenWorkflow({ items });
    await workflow.start();
    expect(await workflow.complete()).toEqual({ values: counted(9) });
    expect(callsOf(items)).toEqual(items.map(() => 1));
    expect(await workflow.agent().texts()).toEqual([]);
    expect(await rowsIn(workflow.agent(), "perdure_batches")).toBe(0);
  });

  it("a batch without items has no answers and takes no step", async () => {
    await using workflow = await givenWorkflow({ items: [] });
    await workflow.start();
    expect(await workflow.complete()).toEqual({ values: [] });
    expect(stepsOf.get(workflow.id)).toEqual([]);
  });

  it("come to lists of messages as to texts", async () => {
    const items = scripts(2);
    await using workflow = await givenWorkflow({ items, asMessages: true });
    await workflow.start();
    expect(await workflow.complete()).toEqual({ values: counted(2) });
  });

  it("L4: come one after the other in a thread that has a name", async () => {
    const items = scripts(3, { delayMs: 20 });
    await using workflow = await givenWorkflow({ items, options: { thread: "side" } });
    await workflow.start();
    expect(await workflow.complete()).toEqual({ values: counted(3) });
    const said = await texts(workflow.agent() as unknown as Agent, "side");
    expect(said.filter((text) => text.startsWith("user:"))).toHaveLength(3);
  });

  it("O4: that are large are read in parts, each in a step of its own", async () => {
    const title = { text: "é", times: 400_000 };
    const items = scripts(3).map((item) =>
      ask({ ...(JSON.parse(item) as Script), long: { title } }),
    );
    await using workflow = await givenWorkflow({ items, title });
    await workflow.start();
    expect(await workflow.complete()).toEqual({ values: [true, true, true] });
    const parts = (stepsOf.get(workflow.id) ?? []).filter((name) => name.includes("-result-"));
    expect(new Set(parts).size).toBe(6);
  });
});

/** Two whole chunks and a part of one; `npm run prove` takes 1,000. */
const ITEMS = sizeOf("BATCH_ITEMS", 250);
/** A step for each chunk of 100, and ten for all the rest: 20 for 1,000 items. */
const MOST_STEPS = Math.ceil(ITEMS / 100) + 10;

it(`${ITEMS} items take at most ${MOST_STEPS} steps, never run more than the concurrency at a time, and come in order`, {
  timeout: limitMs(180_000),
}, async () => {
  const under = { now: 0, most: 0 };
  const hooks: AppHooks = {
    onStatus: async ({ status }) => {
      if (status === "running") under.most = Math.max(under.most, ++under.now);
      else if (status !== "pending") under.now--;
    },
  };
  const items = scripts(ITEMS);
  const options = { concurrency: 8 };
  await using workflow = await givenWorkflow(
    { items, options },
    { hooks, options: { maxConcurrentTurns: 16 } },
  );
  await workflow.start();
  expect(await workflow.complete()).toEqual({ values: counted(ITEMS) });
  const names = new Set(stepsOf.get(workflow.id));
  expect(names.size).toBeLessThanOrEqual(MOST_STEPS);
  expect(under.most).toBeLessThanOrEqual(8);
  expect(under.most).toBeGreaterThan(4);
});

describe("W1: a batch is idempotent", () => {
  it("W1: a restart finds what was answered, asks the model nothing, and waits for nothing", async () => {
    const items = scripts(5);
    await using workflow = await givenWorkflow({ items });
    await workflow.start();
    const first = await workflow.complete();
    stepsOf.delete(workflow.id);
    await workflow.agent().restart(workflow.id);
    await until(() => (stepsOf.get(workflow.id) ?? []).some((name) => name.includes("results")));
    expect(await workflow.completeAgain(() => true)).toEqual(first);
    expect(callsOf(items)).toEqual([1, 1, 1, 1, 1]);
    expect((stepsOf.get(workflow.id) ?? []).filter((name) => name.endsWith(":wait"))).toEqual([]);
    expect(await rowsIn(workflow.agent(), "perdure_batches")).toBe(0);
  });

  it("W1: a restart tries those that have failed afresh, and only those", async () => {
    const items = [script(0), failing({ failTimes: 1 }), script(2)];
    await using workflow = await givenWorkflow({ items, options: { onError: "return" } });
    await workflow.start();
    expect(await workflow.complete()).toMatchObject({
      settled: [
        { status: "fulfilled", key: "0" },
        {
          status: "rejected",
          key: "1",
          reason: {
            name: "ThinkPromptError",
            message: expect.stringContaining('item 1 (key "1"): no model today'),
          },
        },
        { status: "fulfilled", key: "2" },
      ],
    });
    await workflow.agent().restart(workflow.id);
    const again = await workflow.completeAgain(
      (outcome) => "settled" in outcome && outcome.settled[1]?.status === "fulfilled",
    );
    expect(again).toMatchObject({ settled: items.map(() => ({ status: "fulfilled" })) });
    expect(callsOf(items)).toEqual([1, 2, 1]);
  });

  it("W1: a crash of the agent in the middle of a batch loses nothing, and repeats nothing that had ended", async () => {
    const quick = scripts(4);
    const held = Array.from({ length: 8 }, () => hold());
    const items = [...quick, ...held.map(({ script: slow }, index) => script(index, slow))];
    await using workflow = await givenWorkflow({ items });
    await workflow.start();
    await until(
      async () => (await workflow.agent().listSubmissions({ status: "completed" })).length === 4,
    );
    await until(() => callsOf(items).filter((calls) => calls > 0).length > 5);
    silence();
    await runInDurableObject(workflow.agent(), (_, ctx) => ctx.abort("crash")).catch(() => {});
    for (const { release } of held) release();
    // AttemptPlan wakes the agent, where an alarm would do so later.
    await until(async () => (await workflow.agent().listSubmissions()).length > 0);
    expect(await workflow.complete()).toMatchObject({ values: items.map(() => ({ title: "t" })) });
    expect(callsOf(quick)).toEqual([1, 1, 1, 1]);
  });

  it("W1: a crash of the workflow's isolate while it waits is replayed, and nothing is asked twice", async () => {
    const held = Array.from({ length: 6 }, () => hold());
    const items = held.map(({ script: slow }, index) => script(index, slow));
    await using workflow = await givenWorkflow({ items, options: { concurrency: 2 } });
    await workflow.start();
    await until(() => (stepsOf.get(workflow.id) ?? []).some((name) => name.endsWith(":wait")));
    const handle = await env.PROMPT_ALL_WORKFLOW.get(workflow.id);
    await handle.pause();
    await until(async () => (await handle.status()).status === "paused");
    stepsOf.delete(workflow.id);
    await handle.resume();
    for (const { release } of held) release();
    expect(await workflow.complete()).toEqual({ values: counted(6) });
    // It was a new life: the steps before the wait were found again.
    expect((stepsOf.get(workflow.id) ?? []).some((name) => name.endsWith(":submit-0"))).toBe(true);
    expect(callsOf(items)).toEqual(items.map(() => 1));
  });
});

describe.each(["submit-0", "check-0", "wait", "check", "results-0"])(
  "W1: at the border before the step %s",
  (part) => {
    it.each(["a crash of the workflow's isolate", "a restart"])(
      "%s loses nothing, and nothing is asked twice",
      async (what) => {
        const items = scripts(5, { delayMs: 150 });
        await using workflow = await givenWorkflow({ items });
        const handle = async () => env.PROMPT_ALL_WORKFLOW.get(workflow.id);
        let isReached = false;
        beforeStep.set(workflow.id, async (name) => {
          if (isReached || !name.endsWith(`:${part}`)) return;
          isReached = true;
          // A pause takes the workflow's isolate down at the step that comes next.
          if (what !== "a restart") return (await handle()).pause();
          await forever();
        });
        await workflow.start();
        await until(() => isReached);
        const firstLife = stepsOf.get(workflow.id);
        if (what === "a restart") await workflow.agent().restart(workflow.id);
        else {
          await until(async () => (await (await handle()).status()).status === "paused");
          await (await handle()).resume();
        }
        expect(await workflow.completeAgain(() => true)).toEqual({ values: counted(5) });
        expect(stepsOf.get(workflow.id)).not.toBe(firstLife);
        expect(callsOf(items)).toEqual(items.map(() => 1));
        expect(await rowsIn(workflow.agent(), "perdure_batches")).toBe(0);
      },
    );
  },
);

describe("partial failure", () => {
  it("a batch throws the first failure in the order of the items, with its index and key, and cancels the rest", async () => {
    const slow = script(0, { delayMs: 600_000 });
    const items = [
      `a=${slow}`,
      `b=${failing()}`,
      ...scripts(20, { delayMs: 600_000 }).map((s, n) => `c${n}=${s}`),
    ];
    await using workflow = await givenWorkflow({ items, hasKeys: true });
    await workflow.start();
    const outcome = await workflow.complete();
    expect(outcome).toMatchObject({
      error: "ThinkPromptError",
      message: expect.stringMatching(
        /^step\.promptAll\(".*"\), item 1 \(key "b"\): no model today$/,
      ),
      index: 1,
      key: "b",
    });
    const all = await workflow.agent().listSubmissions();
    expect(all.filter(({ status }) => status === "aborted")).toHaveLength(21);
    // None of those that waited was begun in the place of one that was cancelled.
    expect(all.filter(({ attempts }) => attempts > 0).length).toBeLessThanOrEqual(5);
    expect(await rowsIn(workflow.agent(), "perdure_batches")).toBe(0);
  });

  it("W1: is over by a restart, which asks again what had failed and what was cancelled for it", async () => {
    const [fails, isCancelled] = [hold(), hold()];
    const items = [
      script(0),
      failing({ ...fails.script, failTimes: 1 }),
      script(2, isCancelled.script),
    ];
    await using workflow = await givenWorkflow({ items });
    await workflow.start();
    await until(() => callsOf(items).every((calls) => calls === 1));
    await until(
      async () => (await workflow.agent().listSubmissions({ status: "completed" })).length === 1,
    );
    fails.release();
    expect(await workflow.complete()).toMatchObject({ error: "ThinkPromptError", index: 1 });
    isCancelled.release();
    await workflow.agent().restart(workflow.id);
    const again = await workflow.completeAgain((outcome) => "values" in outcome);
    expect(again).toMatchObject({ values: [{ count: 0 }, { count: 1 }, { count: 2 }] });
    expect(callsOf(items)).toEqual([1, 2, 2]);
  });

  it("W4: an answer that does not match is that item's failure", async () => {
    const items = [script(0), script(1, { answer: { title: 7 } })];
    await using workflow = await givenWorkflow({ items, options: { onError: "return" } });
    await workflow.start();
    const { settled } = (await workflow.complete()) as { settled: unknown[] };
    expect(settled[0]).toEqual({ status: "fulfilled", value: { title: "t", count: 0 }, key: "0" });
    expect(settled[1]).toMatchObject({ reason: { name: "ThinkPromptValidationError" } });
  });
});

describe("W2: no wait hangs", () => {
  const slow = () => [script(0), script(1, { delayMs: 600_000 }), script(2)];

  /** The batch is waited for when so many of its items have ended, and its time is over then. */
  function holdUntil({ id, agent }: Awaited<ReturnType<typeof givenWorkflow>>, ended: number) {
    holdWait(id, () =>
      until(async () => (await agent().listSubmissions({ status: "completed" })).length === ended),
    );
  }

  it("W2: a timeout cancels what has not ended, and throws the first of it", async () => {
    await using workflow = await givenWorkflow({ items: slow(), options: { timeout: 500 } });
    holdUntil(workflow, 2);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject({
      error: "ThinkPromptTimeoutError",
      index: 1,
      key: "1",
    });
    const [aborted, ...others] = await workflow.agent().listSubmissions({ status: "aborted" });
    expect(aborted).toMatchObject({ error: "Workflow prompt wait timed out" });
    expect(others).toEqual([]);
    expect(await rowsIn(workflow.agent(), "perdure_batches")).toBe(0);
  });

  it('W2 with onError: "return" what has ended by then is there', async () => {
    const options = { timeout: 500, onError: "return" } as const;
    await using workflow = await givenWorkflow({ items: slow(), options });
    holdUntil(workflow, 2);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject({
      settled: [
        { status: "fulfilled" },
        { status: "rejected", reason: { name: "ThinkPromptTimeoutError" } },
        { status: "fulfilled" },
      ],
    });
  });

  it("W2: results whose event never came win over the timeout", async () => {
    const held = Array.from({ length: 3 }, () => hold());
    const items = held.map(({ script: slow }, index) => script(index, slow));
    await using workflow = await givenWorkflow({ items, options: { timeout: 500 } });
    holdUntil(workflow, 3);
    await workflow.start();
    cutOff.add(workflow.name);
    for (const { release } of held) release();
    expect(await workflow.complete()).toEqual({ values: counted(3) });
  });
});

it("W5: terminating a workflow cancels its batch, what runs and what waits, and nothing else", async () => {
  const items = scripts(30, { delayMs: 600_000 });
  await using workflow = await givenWorkflow({ items, options: { concurrency: 2 } });
  await workflow.start();
  await until(() => callsOf(items).filter(Boolean).length === 2);
  const other = await workflow.agent().submitMessages([message({ text: "of nobody's workflow" })]);
  await workflow.agent().terminate(workflow.id);
  const aborted = await workflow.agent().listSubmissions({ status: "aborted" });
  expect(aborted).toHaveLength(30);
  expect(aborted[0]).toMatchObject({ error: "The workflow that waited for it was terminated" });
  expect(callsOf(items).filter(Boolean)).toHaveLength(2);
  expect(await workflow.agent().waitForSubmission(other.submissionId)).toMatchObject({
    status: "completed",
  });
  expect(await rowsIn(workflow.agent(), "perdure_batches")).toBe(0);
  expect(await rowsIn(workflow.agent(), "perdure_outbox")).toBe(0);
});

describe("bad input is refused at the call, and nothing is stored", () => {
  it.each<[string, PromptAllParams, string]>([
    [
      "concurrency",
      { items: ["a"], options: { concurrency: 0 } },
      "Invalid concurrency 0: expected a whole number from 1 to 100, or an object with key and limit.",
    ],
    ["concurrency", { items: ["a"], options: { concurrency: 101 } }, "from 1 to 100"],
    [
      "keys",
      { items: ["k=a", "l=b", "k=c"], hasKeys: true },
      'Invalid key "k" of the items 0 and 2: expected a different key for each item.',
    ],
    ["prompt", { items: ["a", " "] }, 'Invalid prompt of item 1 " ": expected'],
    ["thread", { items: ["a"], options: { thread: "isolated/4/x" } }, "Invalid thread"],
    ["timeout", { items: ["a"], options: { timeout: 0 } }, "Invalid timeout 0"],
    [
      "items",
      { items: Array.from({ length: 10_001 }, () => "") },
      "Invalid items of 10001 items: expected at most 10000 items.",
    ],
  ])("refuses bad %s", async (_, params, text) => {
    await using workflow = await givenWorkflow(params);
    await workflow.start();
    await workflow.instance.waitForStatus("errored");
    expect((await workflow.instance.getError()).message).toContain(text);
    expect(await workflow.agent().listSubmissions()).toEqual([]);
  });
});
