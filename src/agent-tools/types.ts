/** Types of agent tools: requests and ends of their waits. */

import type { AgentToolChildAdapter } from "agents/agent-tools";
import type { Json } from "../core/json.ts";

/** What `step.agentTool()` asks of its agent. */
export type AgentToolRequest = {
  /** Of the child's class, as the Worker exports it. */
  className: string;
  input: Json;
  /** For clients that show the run. */
  display?: Json;
};

/** A named checkpoint that a child has reported. */
export type Milestone = {
  name: string;
  /** Counts them within the run, from 0 on. */
  sequence: number;
  /** Epoch milliseconds. */
  at: number;
  data?: Json;
};

/** Why the agent stopped waiting for a child: the union of agents, which may grow. */
export type InterruptedReason =
  | "no-progress"
  | "window-exceeded"
  | "not-tailable"
  | "inspect-timeout"
  | "inspect-failed"
  | "recovery-deadline"
  | "budget-exceeded";

/** How a run ended, or that its step has timed out. */
export type AgentToolEnd =
  | {
      status: "completed";
      runId: string;
      output?: Json;
      summary: string;
      milestones: Milestone[];
    }
  | { status: "error" | "aborted" | "timeout"; runId: string; error: string }
  | {
      status: "interrupted";
      runId: string;
      error: string;
      reason?: InterruptedReason;
      childStillRunning: boolean;
    };

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

/** A workflow's progress, in the form of the platform, with the step and the run. */
export type AgentToolProgress = {
  /** The step's name. */
  step: string;
  status: "running";
  runId: string;
  message?: string;
  /** From 0 to 1. */
  percent?: number;
  phase?: string;
  /** The name of a milestone. */
  milestone?: string;
  data?: Json;
};

/** A child's record of a run. */
export type Inspection = NonNullable<
  Awaited<ReturnType<AgentToolChildAdapter["inspectAgentToolRun"]>>
>;
