/** An agent crashes at any write or delivery of the other steps: approvals, agent tools, Code Mode and sleeps. */

import { env } from "cloudflare:workers";
import { z } from "zod";
import { runCode } from "../../../src/features/codemode/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { sleepUntilNext } from "../../../src/scheduler/index.ts";
import { ask, type Script } from "../../../src/testing/index.ts";
import { charging, times } from "../../features/codemode/steps/codemode.ts";
import { PLAYED } from "../../hosts/think/crash/crash-verbs.ts";
import { differs } from "../../support/crash/objects.ts";
import {
  ACCEPTED,
  type Agent,
  ANY,
  begun,
  CLOSED,
  ENDED,
  met,
  NOTED,
  OPENED,
  playThinkMatrix,
  type Run,
  stateOf,
  type ThinkScenario,
  terminate,
  workflow,
} from "../../support/crash/think.ts";
import { ToolChild } from "../../support/workflows/agent-tool-agents.ts";

const DECIDED = ["pending", "approved", "rejected", "refused"] as const;
const refund = z.object({ amount: z.number() });
/** Over the 1 MiB of an event: it is told by a reference, and read in parts. */
const LONG = 1_200_000;

/** The one approval of the agent, pending or decided, once it has been asked for; or the one that asks again. */
async function approvalOf({ stub }: Run, isAgain = false): Promise<string> {
  let found: string | undefined;
  await met(async () => {
    const { items: all } = await capabilitiesOf(stub()).approvals.list({ status: [...DECIDED] });
    found = all.find(({ refusal }) => (refusal !== undefined) === isAgain)?.approvalId;
    return found;
  });
  return found ?? "";
}

const grant =
  (payload?: { amount: number }, isAgain = false) =>
  async (_: Agent, run: Run) => {
    const approvalId = await approvalOf(run, isAgain);
    await capabilitiesOf(run.stub()).approvals.grant(approvalId, {
      by: "ann",
      ...(payload && { payload }),
    });
  };

const reject = async (_: Agent, run: Run) => {
  await capabilitiesOf(run.stub()).approvals.reject(await approvalOf(run), { by: "ann" });
};

const APPROVALS: readonly ThinkScenario[] = [
  workflow({
    name: "O1 W1 step.approval that is granted",
    verbs: ["step.approval", "openWait", "approvals.grant"],
    soonAfter: CLOSED,
    stride: 17,
    body: async (step) => {
      const decision = await step.approval("wait", { schema: refund });
      return decision.approved && decision.payload;
    },
    steps: [grant({ amount: 3 })],
    output: () => ({ amount: 3 }),
    check: async (agent) =>
      differs(
        "approved are",
        (await capabilitiesOf(agent).approvals.list({ status: "approved" })).items.length,
        1,
      ),
  }),
  workflow({
    name: "O1 W1 step.approval that is rejected",
    verbs: ["step.approval", "openWait", "approvals.reject"],
    soonAfter: ENDED,
    stride: 17,
    body: async (step) => (await step.approval("wait")).approved,
    steps: [reject],
    output: () => false,
  }),
  workflow({
    name: "W2 step.approval whose time is over",
    verbs: ["step.approval", "openWait", "closeWait"],
    soonAfter: OPENED,
    stride: 13,
    body: (step) => step.approval("wait", { timeout: 400 }).catch((error: Error) => error.name),
    steps: [],
    output: () => "ApprovalTimeoutError",
  }),
  workflow({
    name: "W4 step.approval whose payload the schema refuses, and that is granted again",
    verbs: ["step.approval", "openWait", "approvals.grant"],
    soonAfter: OPENED,
    stride: 19,
    body: async (step) => {
      const schema = refund.refine(({ amount }) => amount !== 13);
      const decision = await step.approval("wait", { schema });
      return decision.approved && decision.payload.amount;
    },
    steps: [grant({ amount: 13 }), grant({ amount: 7 }, true)],
    output: () => 7,
  }),
  workflow({
    name: "W5 terminateWorkflow while a person is asked",
    verbs: ["terminateWorkflow"],
    soonAfter: CLOSED,
    stride: 13,
    status: "terminated",
    body: (step) => step.approval("wait"),
    prepare: (agent, run) => begun(agent, run, () => approvalOf(run)),
    steps: [terminate],
    check: async (agent) =>
      differs(
        "pending are",
        (await capabilitiesOf(agent).approvals.list({ status: "pending" })).items.length,
        0,
      ),
  }),
];

/** A delivery, until a wait has taken it. */
const deliver = async (_: Agent, { id, stub }: Run) => {
  const body = { order: 7 };
  const delivery = { source: "stripe", id: `of-${id}`, type: "paid", body, receivedAt: Date.now() };
  await met(async () => {
    const taken = await stub().deliver(delivery);
    return taken.length > 0 || (await stub().webhookStatuses()).includes("completed");
  });
};

const WEBHOOKS: readonly ThinkScenario[] = [
  workflow({
    name: "O1 W1 step.webhook that a delivery ends",
    verbs: ["step.webhook", "openWait"],
    soonAfter: CLOSED,
    stride: 17,
    body: async (step) => (await step.webhook("paid", { match: { order: 7 } })).body,
    steps: [deliver],
    output: () => ({ order: 7 }),
    check: async (agent) => differs("the waits are", await agent.webhookStatuses(), ["completed"]),
  }),
  workflow({
    name: "O1 step.approval that is granted by a link",
    verbs: ["step.approval", "openWait", "followLink"],
    soonAfter: CLOSED,
    stride: 17,
    body: async (step) => (await step.approval("wait")).by,
    steps: [
      async (_, run) => {
        const approvalId = await approvalOf(run);
        await run.stub().callKernel("followLink", [], { do: "grant", approvalId, by: "link" });
      },
    ],
    output: () => "link",
    check: async (agent) =>
      differs(
        "approved are",
        (await capabilitiesOf(agent).approvals.list({ status: "approved" })).items.length,
        1,
      ),
  }),
];

/** What came of a step: its result, or the name of its error. */
const outcomeOf = <T>(step: Promise<T>) => step.catch((error: Error) => error.name);

/**
 * The step returned that, or says that the crash has cut it off (L6): a child that had nothing to go on from, code of which
 * a call may or may not have had its effect. Then nobody but the app can know whether it may run again, and a restart of
 * the workflow, as the error says, gives the result.
 */
async function returned(agent: Agent, { id, starts }: Run, wanted: unknown): Promise<string[]> {
  const { output } = (await stateOf(id)) ?? {};
  const isCutOff = starts() > 1 && INTERRUPTED.includes(String(output));
  if (!isCutOff) return differs("it returned", output, wanted);
  await agent.restartWorkflow(id);
  await met(async () => (await stateOf(id))?.status === "complete");
  return differs("after a restart it returned", (await stateOf(id))?.output, wanted);
}

const INTERRUPTED = ["AgentToolInterruptedError", "CodemodeInterruptedError"];

/** An input of the child that no other play has. */
const input = (id: string, script: Script = {}) => ask({ text: id, ...script });

const AGENT_TOOLS: readonly ThinkScenario[] = [
  workflow({
    name: "L1 W1 step.agentTool",
    verbs: ["step.agentTool", "openWait"],
    soonAfter: OPENED,
    stride: 83,
    objects: env.ToolParent as never,
    body: (step, id) =>
      outcomeOf(
        step.agentTool("child", ToolChild, { input: input(id) }).then((run) => run.summary),
      ),
    steps: [],
    check: (agent, run) => returned(agent, run, run.id),
  }),
  workflow({
    name: "O4 step.agentTool with an output that is reported by a reference",
    verbs: ["step.agentTool", "openWait", "readWait"],
    soonAfter: CLOSED,
    stride: 97,
    objects: env.ToolParent as never,
    body: (step, id) => {
      const asked = input(id, { tool: { name: "record", input: { times: LONG } } });
      return outcomeOf(
        step
          .agentTool("child", ToolChild, { input: asked })
          .then(({ output }) => (output as { text: string }).text.length),
      );
    },
    steps: [],
    check: (agent, run) => returned(agent, run, LONG),
  }),
  workflow({
    name: "W4 step.agentTool whose output the schema refuses",
    verbs: ["step.agentTool", "openWait", "refuseWait"],
    soonAfter: CLOSED,
    stride: 97,
    objects: env.ToolParent as never,
    body: (step, id) =>
      outcomeOf(step.agentTool("child", ToolChild, { input: input(id), output: refund })),
    steps: [],
    check: (agent, run) => returned(agent, run, "AgentToolValidationError"),
  }),
  workflow({
    name: "W2 step.agentTool whose time is over",
    verbs: ["step.agentTool", "openWait", "closeWait"],
    soonAfter: NOTED,
    stride: 83,
    objects: env.ToolParent as never,
    body: (step, id) => {
      const asked = input(id, { delayMs: 60_000 });
      return outcomeOf(step.agentTool("child", ToolChild, { input: asked, timeout: 600 }));
    },
    steps: [],
    check: (agent, run) => returned(agent, run, "AgentToolTimeoutError"),
  }),
];

const objects = env.CodemodeAgent as never;
/** Looks at an order, and reserves it: which can be undone. */
const reserving = (order: string) => `async () => shop.reserve({ order: "${order}" })`;

/** Each call of the code has had its effect once, or as often (L6). */
function effects(order: string, wanted: Record<string, number>): string[] {
  return Object.entries(wanted).flatMap(([what, count]) =>
    differs(`${what} was done`, times(what, order), count),
  );
}

const CODE: readonly ThinkScenario[] = [
  workflow({
    name: "L6 runCode",
    verbs: ["runCode", "openWait"],
    soonAfter: OPENED,
    stride: 17,
    objects,
    body: (step, id) =>
      outcomeOf(runCode(step, "reserve", { code: reserving(id) }).then(({ output }) => output)),
    steps: [],
    check: async (agent, run) => {
      const before = times("reserve", run.id);
      const problems = await returned(agent, run, { done: "reserve", order: run.id });
      return before > 1 ? [...problems, `L6 it was reserved ${before} times`] : problems;
    },
  }),
  workflow({
    name: "L6 W3 codemode with an approval",
    verbs: ["runCode", "openWait", "approvals.grant"],
    soonAfter: CLOSED,
    stride: 37,
    objects,
    body: (step, id) =>
      outcomeOf(runCode(step, "charge", { code: charging(id) }).then(({ output }) => output)),
    steps: [grant()],
    output: (id) => ({ done: "charge", order: id }),
    check: async (_, { id }) => effects(id, { look: 1, charge: 1 }),
  }),
  workflow({
    name: "L6 rollbackCodemode when the workflow is terminated",
    verbs: ["rollbackCodemode", "terminateWorkflow"],
    soonAfter: ANY,
    stride: 17,
    status: "terminated",
    objects,
    body: async (step, id) => {
      await runCode(step, "reserve", { code: reserving(id), rollback: true });
      await step.waitForEvent("never", { type: "never", timeout: "1 hour" });
    },
    prepare: (agent, run) => begun(agent, run, () => times("reserve", run.id) === 1),
    steps: [(agent, run) => terminate(agent, run, { rollback: true })],
    check: async (_, { id }) => effects(id, { reserve: 1, unreserve: 1 }),
  }),
];

const SLEEPS: readonly ThinkScenario[] = [
  workflow({
    name: "S2 sleepUntilNext(), and a prompt after it",
    verbs: ["sleepUntilNext", "step.prompt"],
    soonAfter: ACCEPTED,
    stride: 101,
    body: async (step, id) => {
      const at = await sleepUntilNext(step, "second", "cron * * * * * * in UTC");
      return [at !== null && at % 1_000, await step.prompt("ask", { prompt: input(id) })];
    },
    steps: [],
    output: (id) => [0, id],
  }),
];

/** What all crashes of other waits are tried with. */
const WAITS: readonly ThinkScenario[] = [
  ...APPROVALS,
  ...AGENT_TOOLS,
  ...CODE,
  ...SLEEPS,
  ...WEBHOOKS,
];

playThinkMatrix(PLAYED["crash-waits"], WAITS);
