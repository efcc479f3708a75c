/** An agent crashes at any write or delivery of the start of a workflow, which is started once and tracked. */

import { env } from "cloudflare:workers";
import { differs } from "../../../support/crash/objects.ts";
import {
  type Agent,
  ENDED,
  isAtRest,
  playThinkMatrix,
  type Run,
  stateOf,
  type ThinkScenario,
} from "../../../support/crash/think.ts";
import { workflowBodies } from "../../../support/workflows/scripted-workflow.ts";
import { PLAYED } from "./crash-verbs.ts";

/** How often a workflow has had its effect, by its id. */
const effects = new Map<string, number>();

/** A scenario whose workflow has an effect, reports its end, and is started by `step`. */
function start(name: string, step: (agent: Agent, run: Run) => Promise<void>): ThinkScenario {
  return {
    name,
    verbs: ["runWorkflow"],
    // Of the start; the second crash is in the life that makes up for it.
    soonAfter: ENDED,
    stride: 7,
    prepare: async (agent, { id }) => {
      workflowBodies.set(id, async (step) => {
        await step.do("effect", async () => void effects.set(id, (effects.get(id) ?? 0) + 1));
        await step.reportComplete("done");
      });
      await agent.listSubmissions();
    },
    steps: [step],
    isOver: async (agent, { id }) => {
      const { status = "unknown" } = (await stateOf(id)) ?? {};
      return ["complete", "errored"].includes(status) && (await isAtRest(agent));
    },
    // The wake of the outbox may lapse.
    expect: { alarm: true },
    check,
  };
}

async function check(agent: Agent, { id }: Run): Promise<string[]> {
  const platform = await stateOf(id);
  const tracked = (await agent.trackedWorkflows()).map(({ workflowId, status }) => [
    workflowId,
    status,
  ]);
  // Before run() agents asks for the agent, and tries again after a reset of the platform, but not after a test's crash.
  const isCutOff = platform?.error?.message === "crash of a test" && !effects.has(id);
  return [
    ...(isCutOff ? [] : differs("W6 the workflow is", platform?.status, "complete")),
    ...(isCutOff ? [] : differs("W6 its effects are", effects.get(id), 1)),
    ...differs("W6 the agent tracks", tracked, [[id, platform?.status]]),
    ...differs("W6 another Workflow has the id", await isStarted(env.APPROVAL_WORKFLOW, id), false),
  ];
}

const isStarted = (workflow: Workflow, id: string) =>
  workflow.get(id).then(
    () => true,
    () => false,
  );

const STARTS: readonly ThinkScenario[] = [
  start("W6 runWorkflow, repeated by a caller without an answer", async (agent, { id }) => {
    await agent.startScripted(id, { ifExists: "return" });
  }),
  start("W6 runWorkflow, whose caller knows that the id exists", async (agent, { id }) => {
    try {
      await agent.startScripted(id);
    } catch (error) {
      if (!String(error).includes("instance.already_exists")) throw error;
    }
  }),
  start("W6 runWorkflow in a transaction", async (agent, { id }) => {
    await agent.orderScripted(id);
  }),
  start("W6 runWorkflow for two Workflows with one id", async (agent, { id }) => {
    await agent.startTwoWithOneId(id);
  }),
];

playThinkMatrix(PLAYED["crash-starts"], STARTS);
