/** An agent crashes at any write while an operator acts on it, and the operator repeats the call. */

import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Action } from "../../../src/operator/protocol.ts";
import { PLAYED } from "../../hosts/think/crash/crash-verbs.ts";
import { differs } from "../../support/crash/objects.ts";
import {
  ACCEPTED,
  type Agent,
  playThinkMatrix,
  type Run,
  SETTLED,
  script,
  statuses,
  type ThinkScenario,
} from "../../support/crash/think.ts";
import { message } from "../../support/given.ts";

const by = "ada";
const reason = "a crash";
const COUNT = 3;
const notBefore = "2100-01-01T00:00:00Z";

/** Scheduled submissions that would be answered at once. */
async function givenScheduled(agent: Agent, { id }: Run): Promise<void> {
  for (let each = 0; each < COUNT; each++) {
    const name = `${id}-${each}`;
    const said = [message(script(name), name)];
    await agent.submitMessages(said, { submissionId: name, idempotencyKey: name, notBefore });
  }
}

const operate = (action: Action) => (agent: Agent) =>
  capabilitiesOf(agent).operations.operate({ action, by, reason }) as never;

/** Each call has a row, and only those that a crash has ended are `started`. */
async function logProblems(agent: Agent, starts: number): Promise<string[]> {
  const { items } = await capabilitiesOf(agent).operations.listActions({ limit: 100 });
  const unfinished = items.filter(({ outcome }) => outcome === "started").length;
  const strange = items.filter((entry) => entry.by !== by || entry.reason !== reason);
  return [
    ...(unfinished > starts - 1 ? [`${unfinished} rows are started after ${starts} starts`] : []),
    ...(strange.length > 0 ? ["a row has another operator"] : []),
    ...(items.some(({ outcome }) => outcome === "failed") ? ["an action has failed"] : []),
  ];
}

const SCENARIOS: readonly ThinkScenario[] = [
  {
    name: "L5 operations.operate() that cancels all that a filter selects",
    verbs: ["operations.operate"],
    soonAfter: SETTLED,
    stride: 13,
    // The wake for the scheduled time may lapse.
    expect: { alarm: true },
    prepare: givenScheduled,
    steps: [operate({ do: "cancel", filter: { status: "pending" } })],
    check: async (agent, run) => [
      ...differs("L5 they are", await statuses(agent), ["aborted", "aborted", "aborted"]),
      ...(await logProblems(agent, run.starts())),
    ],
  },
  {
    name: "L3 operations.operate() that retries all that a filter selects",
    verbs: ["operations.operate"],
    soonAfter: ACCEPTED,
    stride: 61,
    prepare: async (agent, run) => {
      await givenScheduled(agent, run);
      for (let each = 0; each < COUNT; each++) await agent.cancelSubmission(`${run.id}-${each}`);
    },
    steps: [operate({ do: "retry", filter: {} })],
    check: async (agent, run) => {
      const all = (await statuses(agent)).toSorted();
      const [aborted, completed] = ["aborted", "completed"].map((one) => Array(COUNT).fill(one));
      return [
        ...differs("L3 they are", all, [...(aborted ?? []), ...(completed ?? [])]),
        ...(await logProblems(agent, run.starts())),
      ];
    },
  },
];

playThinkMatrix(PLAYED["crash-operator"], SCENARIOS);
