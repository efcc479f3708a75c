/** Workflows that ask people, and the people. */

import { env } from "cloudflare:workers";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Approval, ApprovalDecisionResult } from "../../../src/hosts/think/index.ts";
import { outputOf } from "../engine.ts";
import { givenThink, until } from "../given.ts";
import { type AppHooks, appHooks } from "../think-agent.ts";
import type { ApprovalOutcome, ApprovalParams } from "./approval-workflow.ts";
import { type BeforeStep, beforeStep } from "./watched-steps.ts";

export type Output = { outcomes: ApprovalOutcome[]; metadata: unknown };
export type Agent = ReturnType<typeof givenThink>;

/** An agent and the instance that it has started. */
export async function givenWorkflow(
  approvals: ApprovalParams["approvals"],
  {
    classic,
    beforeStep: hold,
    ...hooks
  }: AppHooks & { classic?: boolean; beforeStep?: BeforeStep } = {},
) {
  const id = `wf-${crypto.randomUUID()}`;
  if (hold) beforeStep.set(id, hold);
  const name = `agent-of-${id}`;
  appHooks.set(name, hooks);
  const params = { approvals, ...(classic && { classic }) };
  await givenThink(name).runWorkflow("APPROVAL_WORKFLOW", params, { id });
  return {
    id,
    /** A stub does not outlive a crash. */
    get agent() {
      return givenThink(name);
    },
    output: (timeoutMs?: number) => outputOf<Output>(env.APPROVAL_WORKFLOW, id, timeoutMs),
    status: async () => (await (await env.APPROVAL_WORKFLOW.get(id)).status()).status,
    pending: () => pendingAt(givenThink(name)),
  };
}

/** The one approval that is pending, as soon as there is one. */
export async function pendingAt(agent: Agent, other?: string): Promise<Approval> {
  return until(async () => {
    const all = (await capabilitiesOf(agent).approvals.list()).items as Approval[];
    return all.find(({ approvalId }) => approvalId !== other);
  });
}

/** What a decision has decided. */
export async function decidedBy(decision: PromiseLike<ApprovalDecisionResult>) {
  const decided = await decision;
  if (decided.outcome !== "decided") throw new Error(`It was ${decided.outcome}`);
  return decided;
}
