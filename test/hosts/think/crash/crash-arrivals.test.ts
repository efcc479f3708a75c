/** An agent crashes at any write or arrival while it accepts arrivals. What they start is started once. */

import { handlers } from "../../../../src/features/inbound/offer.ts";
import { capabilitiesOf } from "../../../../src/hosts/public.ts";
import { differs } from "../../../support/crash/objects.ts";
import {
  ACCEPTED,
  type Agent,
  ENDED,
  isAtRest,
  playThinkMatrix,
  type Run,
  said,
  script,
  stateOf,
  statusesAre,
  type ThinkScenario,
} from "../../../support/crash/think.ts";
import { message } from "../../../support/given.ts";
import { arrival, call } from "../../../support/inbound.ts";
import type { ThinkAgent } from "../../../support/think-agent.ts";
import { workflowBodies } from "../../../support/workflows/scripted-workflow.ts";
import { PLAYED } from "./crash-verbs.ts";

const SOURCE = "crashes";
/** How often a workflow has had its effect, by its id. */
const effects = new Map<string, number>();

const messagesOf = (id: string) => [message(script(id), id)];
const arrivalOf = ({ id }: Run) => arrival(id, { source: SOURCE });
const verdictsOf = async (agent: Agent) => {
  const { items: arrivals } = await capabilitiesOf(agent).inbound.list();
  return arrivals.map(({ verdict, calls }) => [verdict, calls.length]);
};

handlers.set(SOURCE, {
  name: SOURCE,
  handle: async ({ id }, agent) => (agent as ThinkAgent).submitMessages(messagesOf(id)),
});

/** An arrival that was refused, and that `step` replays. */
function replay(verb: string, step: (agent: Agent, run: Run) => Promise<unknown>): ThinkScenario {
  return {
    name: `I7 ${verb}`,
    verbs: [verb],
    soonAfter: ACCEPTED,
    stride: 67,
    prepare: async (agent, run) => {
      await agent.callKernel("acceptArrival", {
        arrival: arrivalOf(run),
        refusal: "Error: not now",
      });
    },
    steps: [async (agent, run) => void (await step(agent, run))],
    check: submitted,
  };
}

async function submitted(agent: Agent, { id }: Run): Promise<string[]> {
  return [
    ...(await statusesAre(agent, "completed")),
    ...differs("main has", (await said(agent)).length, 1),
    ...differs("the log has", await verdictsOf(agent), [["accepted", 1]]),
    ...differs("the key is", (await agent.listSubmissions())[0]?.idempotencyKey, `${SOURCE}:${id}`),
  ];
}

const ARRIVALS: readonly ThinkScenario[] = [
  {
    name: "I1 acceptArrival of one that submits messages",
    verbs: ["acceptArrival"],
    soonAfter: ACCEPTED,
    stride: 67,
    prepare: (agent) => agent.listSubmissions(),
    steps: [
      async (agent, run) => {
        const request = call(arrivalOf(run), "submitMessages", [messagesOf(run.id)]);
        await agent.callKernel("acceptArrival", request);
      },
    ],
    check: submitted,
  },
  {
    name: "I1 acceptArrival of one that starts a workflow",
    verbs: ["acceptArrival"],
    soonAfter: ENDED,
    stride: 11,
    prepare: async (agent, { id }) => {
      workflowBodies.set(id, async (step) => {
        await step.do("effect", async () => void effects.set(id, (effects.get(id) ?? 0) + 1));
        await step.reportComplete("done");
      });
      await agent.listSubmissions();
    },
    steps: [
      async (agent, run) => {
        const args = ["SCRIPTED_WORKFLOW", {}, { id: run.id }];
        await agent.callKernel("acceptArrival", call(arrivalOf(run), "runWorkflow", args));
      },
    ],
    isOver: async (agent, { id }) => {
      const { status = "unknown" } = (await stateOf(id)) ?? {};
      return ["complete", "errored"].includes(status) && (await isAtRest(agent));
    },
    // The wake of the outbox may lapse.
    expect: { alarm: true },
    check: async (agent, { id }) => {
      const platform = await stateOf(id);
      // As in crash-starts.test.ts: agents do not try again after a crash before run().
      const isCutOff = platform?.error?.message === "crash of a test" && !effects.has(id);
      return [
        ...(isCutOff ? [] : differs("its effects are", effects.get(id), 1)),
        ...differs("the log has", await verdictsOf(agent), [["accepted", 1]]),
      ];
    },
  },
  replay("inbound.replay", (agent, { id }) => capabilitiesOf(agent).inbound.replay(SOURCE, id)),
  replay("inbound.replayMany", (agent) =>
    capabilitiesOf(agent).inbound.replayMany({ source: SOURCE }),
  ),
];

playThinkMatrix(PLAYED["crash-arrivals"], ARRIVALS);
