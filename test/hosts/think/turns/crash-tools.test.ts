/** An agent crashes at any write or delivery of turns with tool calls. */

import { capabilitiesOf } from "../../../../src/hosts/public.ts";
import { method } from "../../../../src/outbox/index.ts";
import type { SubmissionInspection } from "../../../../src/submissions/types.ts";
import { differs } from "../../../support/crash/objects.ts";
import {
  ACTED,
  type Agent,
  ANY,
  playThinkMatrix,
  script,
  statusesAre,
  submit,
  type ThinkScenario,
} from "../../../support/crash/think.ts";
import { appHooks, charges, type ThinkAgent, thinkOptions } from "../../../support/think-agent.ts";
import { PLAYED } from "../crash/crash-verbs.ts";

const charge = (account: string) => ({ name: "charge", input: { account } });
/** Two calls in one step, and then the first of them again, on purpose. */
const three = (id: string) => [[charge(`${id}-1`), charge(`${id}-2`)], charge(`${id}-1`)];
const THREE: Readonly<Record<string, number>> = { "1": 2, "2": 1 };

const conversation = async (agent: Agent, thread = "main") =>
  JSON.stringify(
    thread === "main" ? await agent.getMessages() : await agent.threadMessages(thread),
  );

/** Once; or never, where a crash came before the effect: then the model was told that the outcome is unknown. */
function chargedOnce(account: string, said: string): string[] {
  const times = charges.get(account) ?? 0;
  if (times === 0 && said.includes("interrupted")) return [];
  return differs(`${account} was charged`, times, 1);
}

/** Each call once. Those that did not run are interrupted ones, and the model was told so. */
async function calledOnce(agent: Agent, id: string, thread: string): Promise<string[]> {
  const ran = Object.keys(THREE).map((call) => charges.get(`${id}-${call}`) ?? 0);
  const made = Object.values(THREE);
  const isTwice = ran.some((times, index) => times > (made[index] ?? 0));
  const said = await conversation(agent, thread);
  // An isolated turn keeps no conversation that would say so.
  const isTold = thread === "isolated" || said.includes("interrupted");
  return isTwice || !isTold ? differs("the accounts were charged", ran, made) : [];
}

const TOOLS: readonly ThinkScenario[] = [
  {
    name: "L1 L3 submitMessages, with a tool that has an effect",
    verbs: ["submitMessages"],
    soonAfter: ACTED,
    stride: 103,
    prepare: (agent) => agent.listSubmissions(),
    steps: [submit((id) => script(id, { tool: charge(id) }))],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "completed")),
      ...chargedOnce(id, await conversation(agent)),
    ],
  },
  ...(["main", "side", "isolated"] as const).map(
    (thread): ThinkScenario => ({
      name: `L6 tools in one step, and one of them again, after some text (${thread})`,
      verbs: ["submitMessages"],
      soonAfter: ACTED,
      stride: 53,
      prepare: (agent) => agent.listSubmissions(),
      steps: [submit((id) => script(id, { first: "Now.", tools: three(id) }), { thread })],
      check: async (agent, { id }) => [
        ...(await statusesAre(agent, "completed")),
        ...(await calledOnce(agent, id, thread)),
      ],
    }),
  ),
  {
    name: "L6 a tool that kills its agent, after some text",
    verbs: ["submitMessages"],
    soonAfter: ANY,
    stride: 61,
    prepare: async (agent, { id }) => {
      const onTool = async (object: ThinkAgent) => {
        charges.set(id, (charges.get(id) ?? 0) + 1);
        object.die();
      };
      appHooks.set(id, { onTool });
      await agent.listSubmissions();
    },
    steps: [submit((id) => script(id, { first: "Now.", tools: [charge(`${id}-tool`)] }))],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "completed")),
      ...chargedOnce(id, await conversation(agent)),
    ],
  },
  {
    name: "O3 L1 a hook that hangs, and a delivery that kills its agent beside one that is refused",
    verbs: ["submitMessages"],
    soonAfter: ANY,
    stride: 47,
    expect: { deadLetters: true },
    prepare: async (agent, { id }) => {
      const onStatus = async ({ status }: SubmissionInspection) => {
        if (status === "completed") await new Promise(() => {});
      };
      appHooks.set(id, { onStatus });
      thinkOptions.set(id, { hookTimeoutMs: 200 });
      await agent.listSubmissions();
    },
    steps: [
      submit((id) => script(id), {
        notify: [method("onFatal"), method("onEnd", { policy: { maxAttempts: 1 } })],
      }),
    ],
    check: async (agent) => [
      ...(await statusesAre(agent, "completed")),
      ...differs("the dead letters are", await capabilitiesOf(agent).outbox.countDeadLetters(), 1),
    ],
  },
  {
    name: "L6 a tool that may be repeated, after some text",
    verbs: ["submitMessages"],
    soonAfter: ACTED,
    stride: 53,
    prepare: (agent) => agent.listSubmissions(),
    steps: [
      submit((id) => script(id, { first: "Now.", tools: [charge(id)] }), {
        retry: { afterSideEffects: "repeat" },
      }),
    ],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "completed")),
      ...differs("the account was charged", (charges.get(id) ?? 0) > 0, true),
    ],
  },
];

playThinkMatrix(PLAYED["crash-tools"], TOOLS);
