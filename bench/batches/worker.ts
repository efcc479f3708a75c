/** The worker of the batches: an agent with a model that answers at once, and a workflow that asks about many items. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ask, ScriptedModel } from "perdure/testing";
import { DurableThink } from "perdure/think";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import { served } from "../worker/served.ts";

interface Env extends Cloudflare.Env {
  readonly BatchAgent: DurableObjectNamespace<BatchAgent>;
  readonly BATCHES: Workflow<Params>;
}
export type Params = { readonly items: number; readonly startedAt: number };
export type Batch = { readonly id: string; readonly items: number };
/** The result of a workflow: the number of correct answers in the right order, and the duration. */
export type Outcome = { readonly right: number; readonly ms: number };

/** Submissions of one page of a list. */
const PAGE = 1_000;

export class BatchAgent extends DurableThink<Env> {
  override getModel() {
    return new ScriptedModel();
  }

  async startBatch(id: string, params: Params): Promise<void> {
    await this.runWorkflow("BATCHES", params, { id, agentBinding: "BatchAgent" });
  }

  /** The numbers of accepted and of completed submissions. */
  async progress(): Promise<{ accepted: number; ended: number }> {
    let [accepted, ended] = [0, 0];
    for (let before: string | undefined; ; ) {
      const page = await this.listSubmissions({ limit: PAGE, ...(before && { before }) });
      const last = page.at(-1);
      if (last === undefined) return { accepted, ended };
      accepted += page.length;
      ended += page.filter(({ status }) => status === "completed").length;
      before = last.submissionId;
    }
  }
}

export class BatchWorkflow extends ThinkWorkflow<BatchAgent, Params> {
  override async run(
    { payload: { items, startedAt } }: AgentWorkflowEvent<Params>,
    step: ThinkWorkflowStep,
  ): Promise<Outcome> {
    const results = await step.promptAll(
      "batch",
      Array.from({ length: items }, (_, count) => count),
      {
        prompt: (count) => ask({ answer: { count } }),
        output: z.object({ count: z.number().int() }),
        timeout: "1 day",
      },
    );
    const right = results.filter(({ count }, index) => count === index).length;
    return { right, ms: Date.now() - startedAt };
  }
}

const agentOf = (env: Env, { id }: Batch) => env.BatchAgent.getByName(`agent-of-${id}`);

export default served<Env>({
  async start(env, batch: Batch) {
    const startedAt = Date.now();
    await agentOf(env, batch).startBatch(batch.id, { items: batch.items, startedAt });
  },
  progress: (env, batch: Batch) => agentOf(env, batch).progress(),
  /** After a kill, the local engine continues only when it receives an event. */
  async resume(env, { id }: Batch) {
    await (await env.BATCHES.get(id)).sendEvent({ type: "resume", payload: {} });
  },
  status: async (env, { id }: Batch) => (await env.BATCHES.get(id)).status(),
});
