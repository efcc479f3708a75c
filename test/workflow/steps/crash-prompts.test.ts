/** An agent crashes at any write or delivery of `step.prompt()` and `step.promptAll()`. */

import { z } from "zod";
import { ask, longText, modelCalls, type Script } from "../../../src/testing/index.ts";
import { PLAYED } from "../../hosts/think/crash/crash-verbs.ts";
import { differs } from "../../support/crash/objects.ts";
import {
  ACCEPTED,
  ACTED,
  type Agent,
  ANY,
  BATCHED,
  begun,
  CLAIMED,
  ENDED,
  met,
  playThinkMatrix,
  REFUSED,
  type Run,
  replied,
  said,
  stateOf,
  statuses,
  type ThinkScenario,
  TRIED,
  terminate,
  workflow,
} from "../../support/crash/think.ts";
import { charges } from "../../support/think-agent.ts";

const ANSWER = { title: "hello", count: 3 };
const WRONG = { title: 3 };
const output = z.object({ title: z.string(), count: z.number().int() });
/** Over the 1 MiB of an event: it is told by a reference, and read in parts. */
const LONG = { text: "a long answer ", times: 90_000 };

/** A prompt that no other play has. */
const prompt = (id: string, script: Script = {}) => ask({ text: id, answer: ANSWER, ...script });

/** One turn, that is completed, of one message. */
async function oneTurn(agent: Agent, thread: string, text: string): Promise<string[]> {
  return [
    ...differs("the submissions are", await statuses(agent), ["completed"]),
    ...differs(`${thread} has`, await said(agent, thread), [text]),
  ];
}

const callsOf = (id: string, script: Script = {}) => modelCalls.get(prompt(id, script)) ?? 0;

const ONE: readonly ThinkScenario[] = [
  workflow({
    name: "L1 W1 step.prompt in the main conversation",
    verbs: ["step.prompt", "openWait"],
    soonAfter: ENDED,
    stride: 89,
    body: (step, id) => step.prompt("ask", { prompt: prompt(id), output }),
    steps: [],
    output: () => ANSWER,
    check: (agent, { id }) => oneTurn(agent, "main", prompt(id)),
  }),
  workflow({
    name: "L1 step.promptResult for a text, in a named thread",
    verbs: ["step.promptResult", "openWait"],
    soonAfter: CLAIMED,
    stride: 97,
    body: async (step, id) =>
      (await step.promptResult("ask", { prompt: prompt(id), thread: "side" })).output,
    steps: [],
    output: (id) => id,
    check: (agent, { id }) => oneTurn(agent, "side", prompt(id)),
  }),
  workflow({
    name: "L1 step.prompt for a text in the main conversation",
    verbs: ["step.prompt", "openWait"],
    soonAfter: ACCEPTED,
    stride: 97,
    body: (step, id) => step.prompt("ask", { prompt: prompt(id) }),
    steps: [],
    output: (id) => id,
    check: async (agent, { id }) => [
      ...(await oneTurn(agent, "main", prompt(id))),
      ...differs("the model has said", await replied(agent), id),
    ],
  }),
  workflow({
    name: "L1 step.prompt in no conversation",
    verbs: ["step.prompt", "openWait"],
    soonAfter: ENDED,
    stride: 53,
    body: (step, id) => step.prompt("ask", { prompt: prompt(id), output, thread: "isolated" }),
    steps: [],
    output: () => ANSWER,
    check: async (agent) => [
      ...differs("the submissions are", await statuses(agent), ["completed"]),
      ...differs("main has", await said(agent), []),
    ],
  }),
  workflow({
    name: "W4 step.prompt as JSON that is repaired, in main",
    verbs: ["step.prompt", "openWait"],
    soonAfter: TRIED,
    stride: 127,
    body: (step, id) =>
      step.prompt("ask", {
        prompt: prompt(id, { answers: ["none", ANSWER] }),
        output,
        strategy: "json",
        repair: 1,
      }),
    steps: [],
    output: () => ANSWER,
    check: (agent, { id }) => oneTurn(agent, "main", prompt(id, { answers: ["none", ANSWER] })),
  }),
  workflow({
    name: "W4 step.prompt with an answer that is repaired, in main",
    verbs: ["step.prompt", "openWait"],
    soonAfter: TRIED,
    stride: 113,
    body: (step, id) =>
      step.prompt("ask", { prompt: prompt(id, { answers: [WRONG, ANSWER] }), output, repair: 1 }),
    steps: [],
    output: () => ANSWER,
    check: (agent, { id }) => oneTurn(agent, "main", prompt(id, { answers: [WRONG, ANSWER] })),
  }),
  workflow({
    name: "L6 step.prompt whose tool has an effect",
    verbs: ["step.prompt", "openWait"],
    soonAfter: ACTED,
    stride: 101,
    body: (step, id) => step.prompt("ask", { prompt: prompt(id, charging(id)), output }),
    steps: [],
    output: () => ANSWER,
    check: (_, { id }) => differs("the account was charged", charges.get(id), 1),
  }),
  workflow({
    name: "O4 step.prompt with an answer that is told by a reference",
    verbs: ["step.prompt", "openWait", "readWait"],
    soonAfter: ENDED,
    stride: 103,
    body: async (step, id) => {
      const { title } = await step.prompt("ask", {
        prompt: prompt(id, { long: { title: LONG } }),
        output,
      });
      return title === longText(LONG);
    },
    steps: [],
    output: () => true,
  }),
  workflow({
    name: "W2 step.prompt whose time is over",
    verbs: ["step.prompt", "openWait", "closeWait"],
    soonAfter: CLAIMED,
    stride: 83,
    body: (step, id) =>
      step
        .prompt("ask", { prompt: prompt(id, { delayMs: 60_000 }), timeout: 400 })
        .catch((error: Error) => error.name),
    steps: [],
    output: () => "ThinkPromptTimeoutError",
    check: async (agent) => differs("the submissions are", await statuses(agent), ["aborted"]),
  }),
  workflow({
    name: "W4 step.prompt whose schema refuses, and that is repaired, in main",
    verbs: ["step.prompt", "openWait"],
    soonAfter: TRIED,
    stride: 127,
    body: (step, id) =>
      step.prompt("ask", {
        prompt: prompt(id, { answers: [{ ...ANSWER, count: 2 }, ANSWER] }),
        output: output.refine(({ count }) => count === 3),
        // A crash in the middle of an answer has the model give the next one.
        repair: 3,
      }),
    steps: [],
    output: () => ANSWER,
    check: async (agent) =>
      differs("the last submission is", (await statuses(agent)).at(0), "completed"),
  }),
  workflow({
    name: "W4 W1 step.prompt whose schema refuses, and takes it after a restart",
    verbs: ["step.prompt", "openWait", "refuseWait", "restartWorkflow"],
    soonAfter: REFUSED,
    stride: 101,
    body: (step, id) =>
      step
        .prompt("ask", { prompt: prompt(id), output: output.refine(() => restarted.has(id)) })
        .catch((error: Error) => error.name),
    // A crash in the start of a workflow may leave it unknown to its agent, which then cannot restart it.
    prepare: (agent, run) => begun(agent, run, () => true),
    steps: [
      async (_, run) => {
        await met(() => isComplete(run));
        restarted.add(run.id);
      },
      restart,
    ],
    output: () => ANSWER,
    check: async (agent) =>
      differs("the submissions are", await statuses(agent), ["completed", "completed"]),
  }),
];

const ITEMS = ["one", "two", "three"];

const MANY: readonly ThinkScenario[] = [
  workflow({
    name: "L1 W1 step.promptAll",
    verbs: ["step.promptAll", "openWait", "checkWait", "readWait"],
    soonAfter: BATCHED,
    stride: 163,
    body: (step, id) =>
      step.promptAll("all", ITEMS, {
        prompt: (item) => prompt(id, { first: item }),
        output,
        concurrency: 2,
      }),
    steps: [],
    output: () => ITEMS.map(() => ANSWER),
    check: async (agent) =>
      differs(
        "the submissions are",
        await statuses(agent),
        ITEMS.map(() => "completed"),
      ),
  }),
  workflow({
    name: "W2 step.promptAll whose time is over",
    verbs: ["step.promptAll", "openWait", "checkWait", "closeWait"],
    soonAfter: BATCHED,
    stride: 97,
    body: async (step, id) => {
      const settled = await step.promptAll("all", ITEMS.slice(1), {
        prompt: (item) => prompt(id, { first: item, delayMs: 60_000 }),
        timeout: 400,
        onError: "return",
      });
      return settled.map((one) => (one.status === "rejected" ? one.reason.name : one.value));
    },
    steps: [],
    output: () => ["ThinkPromptTimeoutError", "ThinkPromptTimeoutError"],
    check: async (agent) =>
      differs("the submissions are", await statuses(agent), ["aborted", "aborted"]),
  }),
  workflow({
    name: "W4 step.promptAll whose schema refuses, and that is repaired",
    verbs: ["step.promptAll", "openWait"],
    soonAfter: TRIED,
    stride: 131,
    body: (step, id) =>
      step.promptAll("all", ITEMS.slice(1), {
        prompt: (item) => prompt(id, { first: item, answers: [{ ...ANSWER, count: 2 }, ANSWER] }),
        output: output.refine(({ count }) => count === 3),
        repair: 3,
      }),
    steps: [],
    output: () => [ANSWER, ANSWER],
  }),
  workflow({
    name: "W4 step.promptAll whose schema refuses",
    verbs: ["step.promptAll", "openWait", "refuseWait"],
    soonAfter: REFUSED,
    stride: 113,
    body: (step, id) =>
      step
        .promptAll("all", ITEMS.slice(1), {
          prompt: (item) => prompt(id, { first: item }),
          output: output.refine(() => false),
        })
        .catch((error: Error) => error.name),
    steps: [],
    output: () => "ThinkPromptValidationError",
  }),
];

const RUNS: readonly ThinkScenario[] = [
  workflow({
    name: "W1 restartWorkflow of a workflow that was answered",
    verbs: ["restartWorkflow", "step.prompt", "openWait"],
    soonAfter: ANY,
    stride: 19,
    body: (step, id) => step.prompt("ask", { prompt: prompt(id), output }),
    prepare: (agent, run) => begun(agent, run, () => isComplete(run)),
    steps: [restart],
    output: () => ANSWER,
    check: async (agent, { id }) => [
      ...(await oneTurn(agent, "main", prompt(id))),
      ...differs("the model was called", callsOf(id), 1),
    ],
  }),
  workflow({
    name: "W5 terminateWorkflow while it waits for a turn",
    verbs: ["terminateWorkflow"],
    soonAfter: ENDED,
    stride: 17,
    status: "terminated",
    body: (step, id) => step.prompt("ask", { prompt: prompt(id, { delayMs: 60_000 }), output }),
    prepare: (agent, run) => begun(agent, run, () => callsOf(run.id, { delayMs: 60_000 })),
    steps: [terminate],
    check: async (agent) => differs("the submissions are", await statuses(agent), ["aborted"]),
  }),
  workflow({
    name: "W5 terminateWorkflow with rollback, while it waits for the second turn",
    verbs: ["terminateWorkflow"],
    soonAfter: ENDED,
    stride: 17,
    status: "terminated",
    body: async (step, id) => {
      await step.prompt("first", {
        prompt: prompt(id),
        output,
        rollback: async () => void undone.add(id),
      });
      return step.prompt("second", { prompt: prompt(id, { delayMs: 60_000 }) });
    },
    prepare: (agent, run) => begun(agent, run, () => callsOf(run.id, { delayMs: 60_000 })),
    steps: [(agent, run) => terminate(agent, run, { rollback: true })],
    check: async (agent, { id }) => [
      ...differs("the submissions are", await statuses(agent), ["completed", "aborted"]),
      ...differs("the first was undone", undone.has(id), true),
    ],
  }),
];

/** What all crashes of prompts are tried with. */
const PROMPTS: readonly ThinkScenario[] = [...ONE, ...MANY, ...RUNS];

/** Runs whose schemas take what they have refused, and those that were rolled back. */
const restarted = new Set<string>();
const undone = new Set<string>();

function charging(account: string): Script {
  return { tool: { name: "charge", input: { account } } };
}

/** AttemptPlan its agent wakes it, where its alarm would do so later. */
async function isComplete(run: Run): Promise<boolean> {
  await run.stub().listSubmissions();
  return (await stateOf(run.id))?.status === "complete";
}

async function restart(agent: Agent, { id }: Run): Promise<void> {
  await agent.restartWorkflow(id);
}

playThinkMatrix(PLAYED["crash-prompts"], PROMPTS);
