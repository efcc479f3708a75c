/** A workflow that runs child agents, under introspection, and what its agent knows of them. */

import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { ask, type Script } from "../../../src/testing/index.ts";
import { outputOf } from "../engine.ts";
import { finishesOf, progressOf, type ToolParent, toolHooks } from "./agent-tool-agents.ts";
import type { ToolOutcome, ToolParams } from "./agent-tool-workflow.ts";

/** A unique input, so that its model calls can be counted. */
export function input(script: Script = {}): string {
  return ask({ delayMs: 50, ...script, text: `${script.text ?? "done"} ${crypto.randomUUID()}` });
}

type Hooks = NonNullable<ReturnType<(typeof toolHooks)["get"]>>;

export async function givenTools(
  tools: ToolParams["tools"],
  {
    isImpatient = false,
    isParallel = false,
    inside,
    ...hooks
  }: Hooks & { isImpatient?: boolean; isParallel?: boolean; inside?: string } = {},
) {
  const id = `wf-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  toolHooks.set(name, hooks);
  const instance = await introspectWorkflowInstance(env.AGENT_TOOL_WORKFLOW, id);
  const namespace = isImpatient ? env.ImpatientToolParent : env.ToolParent;
  const agent = () => namespace.getByName(name) as unknown as DurableObjectStub<ToolParent>;
  const params = { tools, isParallel };
  return {
    id,
    name,
    agent,
    instance,
    start: () =>
      inside ? agent().startToolsInside(inside, id, params) : agent().startTools(id, params),
    complete: async () => {
      await instance.waitForStatus("complete");
      return (await instance.getOutput()) as ToolOutcome[];
    },
    /** The same, with an agent that is asked meanwhile: one that went down is woken by it, and not by its alarm. */
    completeAwake: async () => {
      const ask = () =>
        void Promise.resolve(capabilitiesOf(agent()).approvals.list()).catch(() => {});
      const plan = setInterval(ask, 300);
      try {
        await instance.waitForStatus("complete");
        return (await instance.getOutput()) as ToolOutcome[];
      } finally {
        clearInterval(plan);
      }
    },
    /** What a run of it after a restart returns. */
    completeAgain: () => outputOf<ToolOutcome[]>(env.AGENT_TOOL_WORKFLOW, id),
    /** The run that a step has started. */
    runOf: async (step: string): Promise<string> => {
      const receipt = await instance.waitForStepResult({ name: `${step}:agent-tool-submit` });
      return `perdure-${(receipt as { waitId: string }).waitId}-1`;
    },
    progress: () => progressOf.get(inside ?? name) ?? [],
    finishes: () => finishesOf.get(inside ?? name) ?? [],
    [Symbol.asyncDispose]: () => instance.dispose(),
  };
}
