/** What a Think agent is told about the agent tools of its workflows. */

import type { AgentToolLifecycleResult, AgentToolRunInfo } from "agents/agent-tools";
import { ThinkApprovals } from "./think-approvals.ts";
import { CAPABILITIES } from "./think-rooms.ts";

export class ThinkAgentTools<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkApprovals<Env, State, Props> {
  /** For `step.agentTool()`: agents call it when a run has ended, at least once, and again for one that ends after it was given up. */
  async finishAgentToolStep(
    run: AgentToolRunInfo,
    result: AgentToolLifecycleResult,
  ): Promise<void> {
    await this[CAPABILITIES].agentTools.finished(run, result);
  }
}
