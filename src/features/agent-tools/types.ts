/** Types of agent tools: requests and ends of their waits. */

import type { AgentToolChildAdapter } from "agents/agent-tools";
import type { AgentToolEnd } from "../../workflow/agent-tool.ts";

/** How far a wait has come. */
export type AgentToolState = {
  /** Numbers the dispatches, from 1 on: each has a run of its own. */
  dispatch: number;
  /** Whether the child has taken it. */
  isSent: boolean;
  /** How often the agent had no slot for it. */
  refusals: number;
  /** How often it could not be started. */
  failures: number;
  /** Why it has not started yet. */
  problem?: string | undefined;
  /** The agent has given it up, though the child may still end it. */
  interrupted?: Extract<AgentToolEnd, { status: "interrupted" }>;
};

/** A child's record of a run. */
export type Inspection = NonNullable<
  Awaited<ReturnType<AgentToolChildAdapter["inspectAgentToolRun"]>>
>;
