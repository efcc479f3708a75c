/** What becomes of the tool calls of an agent's turns when it dies. */

import { charges } from "../support/think-agent.ts";
import { type Agent, differs, type ThinkScenario } from "../support/think-matrix.ts";
import { script, statusesAre, submit } from "./think-turns.ts";
import { ACTED } from "./think-writes.ts";

const charge = (account: string) => ({ name: "charge", input: { account } });
const both = (id: string) => [charge(`${id}-1`), charge(`${id}-2`)];

const conversation = async (agent: Agent, thread = "main") =>
  JSON.stringify(
    thread === "main" ? await agent.getMessages() : await agent.threadMessages(thread),
  );

/** Once; or never, where a crash came before the effect: then the model was told that nobody knows. */
function chargedOnce(account: string, said: string): string[] {
  const times = charges.get(account) ?? 0;
  if (times === 0 && said.includes("interrupted")) return [];
  return differs(`${account} was charged`, times, 1);
}

export const TOOLS: readonly ThinkScenario[] = [
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
  ...(["main", "side"] as const).map(
    (thread): ThinkScenario => ({
      name: `L6 two tools in one step, after some text (${thread})`,
      verbs: ["submitMessages"],
      soonAfter: ACTED,
      stride: 53,
      prepare: (agent) => agent.listSubmissions(),
      steps: [submit((id) => script(id, { first: "Now.", tools: [both(id)] }), { thread })],
      check: async (agent, { id }) => {
        const said = await conversation(agent, thread);
        return [
          ...(await statusesAre(agent, "completed")),
          ...both(id).flatMap(({ input }) => chargedOnce(input.account, said)),
        ];
      },
    }),
  ),
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
