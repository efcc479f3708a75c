/** The object crashes at any write or delivery: what every host promises of a turn, a workflow, a cancellation and an approval. */

import { capabilitiesOf } from "../../src/hosts/public.ts";
import { method } from "../../src/kernel/outbox/index.ts";
import {
  ask,
  type CrashScenario,
  crashAtEveryWrite,
  inspectWork,
} from "../../src/testing/index.ts";
import { momentsFrom, playScenarios } from "../support/crash/matrix.ts";
import { message, until } from "../support/given.ts";
import { sizeOf } from "../support/sizes.ts";
import { type ContractHost, supports, titleOf, type Verbs } from "./host.ts";
import { charges, steps as durableSteps, heard } from "./hosts/app.ts";
import type { Asked } from "./hosts/workflows.ts";

type Scenario = Omit<CrashScenario<undefined>, "objects" | "moments">;
type Step = (verbs: Verbs, id: string) => Promise<unknown>;

const STRIDE = sizeOf("CRASH_STRIDE", 17);

const step =
  (work: Step): CrashScenario<undefined>["steps"][number] =>
  (stub, { id }) =>
    work(stub as unknown as Verbs, id);

const problems =
  (work: (verbs: Verbs, id: string) => Promise<(string | false | undefined)[]>) =>
  async (stub: unknown, { id }: { readonly id: string }) =>
    (await work(stub as Verbs, id)).filter((problem) => typeof problem === "string");

/** Submits a script under the id of the run, so that a repetition submits nothing new. */
function submit(script: object, more: object = {}): Step {
  return (verbs, id) =>
    verbs.submitMessages([message({ id, ...script }, `asked-${id}`)], {
      submissionId: id,
      notify: method("hear"),
      ...more,
    });
}

const heardOnce = (id: string) => {
  const ids = new Set(heard.get(id));
  return ids.size !== 1 && `O1 ${ids.size} deliveries of the end of ${id}`;
};

function scenariosOf(host: ContractHost): Scenario[] {
  const { workflow, workflows } = host;
  const run = (asked: (id: string) => Asked): Step => {
    return (verbs, id) =>
      verbs.runWorkflow(workflow, asked(id), { id: `wf-${id}`, ifExists: "return" });
  };
  const outputOf = async (id: string) => (await (await workflows.get(`wf-${id}`)).status()).output;
  const isOver = async (stub: unknown, { id }: { readonly id: string }) => {
    const instance = await workflows.get(`wf-${id}`);
    const { status } = await instance.status();
    // An AgentWorkflow of the SDK fails if its agent is down in the moment when it begins. The health report says: restart it.
    if (status === "errored") await instance.restart();
    return status === "complete" && (await inspectWork(stub as object)).open.length === 0;
  };
  return [
    {
      name: "a turn with a tool",
      steps: [
        step((verbs, id) =>
          submit({ tool: { name: "charge", input: { account: id } }, text: "paid" })(verbs, id),
        ),
      ],
      check: problems(async (verbs, id) => {
        const found = await verbs.inspectSubmission(id);
        const times = charges.get(id) ?? 0;
        const replies = (await verbs.threadMessages("main")).filter(
          ({ role }) => role === "assistant",
        );
        return [
          found?.status !== "completed" && `L1 ${id} is ${found?.status}: ${found?.error}`,
          times > 1 && supports(host, "tools") && `L6 the tool ran ${times} times`,
          replies.length !== 1 && `L4 ${replies.length} replies`,
          heardOnce(id),
        ];
      }),
    },
    {
      name: "a turn with a durable tool",
      steps: [
        step((verbs, id) =>
          submit({ tool: { name: "ship", input: { account: id } }, text: "sent" })(verbs, id),
        ),
      ],
      check: problems(async (verbs, id) => {
        const found = await verbs.inspectSubmission(id);
        const ran = durableSteps.get(id) ?? [];
        const distinct = new Set(ran).size;
        const recordsSteps = supports(host, "tools");
        return [
          found?.status !== "completed" && `L1 ${id} is ${found?.status}: ${found?.error}`,
          recordsSteps && distinct !== 3 && `L6 ${distinct} steps: ${ran}`,
          // Only the step that the crash has interrupted may run again.
          recordsSteps && ran.length > 4 && `L6 steps ran ${ran.length} times: ${ran}`,
          heardOnce(id),
        ];
      }),
    },
    {
      name: "an isolated turn",
      steps: [step(submit({ text: "done" }, { thread: "isolated" }))],
      check: problems(async (verbs, id) => {
        const found = await verbs.inspectSubmission(id);
        return [found?.status !== "completed" && `L1 ${id} is ${found?.status}`, heardOnce(id)];
      }),
    },
    {
      name: "a cancellation",
      steps: [
        step(submit({ delayMs: 60 })),
        step((verbs, id) => verbs.cancelSubmission(id, "not needed")),
      ],
      check: problems(async (verbs, id) => {
        const found = await verbs.inspectSubmission(id);
        const isEnded = found?.status === "aborted" || found?.status === "completed";
        return [!isEnded && `L5 ${id} is ${found?.status}`, heardOnce(id)];
      }),
    },
    {
      name: "a workflow with a prompt",
      timeout: 40_000,
      steps: [step(run((id) => ({ step: "answer", prompt: ask({ id, answer: { title: id } }) })))],
      isOver,
      check: problems(async (_, id) => {
        const output = (await outputOf(id)) as { title?: string } | null;
        return [output?.title !== id && `W1 the output is ${JSON.stringify(output)}`];
      }),
    },
    {
      name: "an approval",
      // It has few writes.
      stride: Math.min(STRIDE, 2),
      prepare: async (stub, { id }) => {
        const verbs = stub as unknown as Verbs;
        await run(() => ({ step: "approval" }))(verbs, id);
        await until(async () => (await capabilitiesOf(verbs).approvals.list()).items.length > 0);
      },
      steps: [
        step(async (verbs) => {
          const {
            items: [asked],
          } = await capabilitiesOf(verbs).approvals.list();
          // Without one, the decision was stored before the crash.
          if (asked)
            await capabilitiesOf(verbs).approvals.grant(asked.approvalId, {
              payload: { amount: 5 },
            });
        }),
      ],
      isOver,
      check: problems(async (_, id) => {
        const output = (await outputOf(id)) as { approved?: boolean } | null;
        return [output?.approved !== true && `W3 the output is ${JSON.stringify(output)}`];
      }),
    },
  ];
}

export function crashContract(host: ContractHost): void {
  playScenarios(
    `L1 L6 O1 W1 W2 W3 on ${titleOf(host)}: all is well after a crash at any write or delivery of`,
    scenariosOf(host),
    async (scenario, index) => [
      await crashAtEveryWrite({
        concurrency: 4,
        stride: STRIDE,
        ...scenario,
        objects: host.objects,
        moments: momentsFrom(STRIDE === 1 ? 0 : index),
      } as CrashScenario<undefined>),
    ],
  );
}
