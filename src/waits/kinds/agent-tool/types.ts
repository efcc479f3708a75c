/** Types of agent tools: requests and ends of their waits, and the methods of the agent that they use. */

import type { AgentToolChildAdapter } from "agents/agent-tools";
import type { Json } from "../../../core/json.ts";
import type { WaitWorkflow } from "../../protocol.ts";

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

/** Public methods of the agent and of the child. */
export interface AgentToolPort {
  /** Whether the Worker exports a class of that name. */
  isExported(className: string): boolean;
  /** Starts a run that outlives this call; the agent reports its end to `AgentTools.finished()`. A known id starts none. */
  start(
    className: string,
    run: { runId: string; input: Json; display: Json | undefined; maxBudgetMs: number },
  ): Promise<{ status: "running" | "error"; error?: string }>;
  /** Whether the agent knows the run. */
  has(className: string, runId: string): boolean;
  /** Cancels a run, also one of which only the agent knows. */
  cancel(runId: string, reason: string): Promise<void>;
  /** Cancels a run that the child may have begun after it was cancelled. */
  abandon(className: string, runId: string, reason: string): Promise<void>;
  /** The child's record of the run, or null where it has none. */
  inspect(className: string, runId: string): Promise<Inspection | null>;
  /** What the child reports from now on, until the run has ended. */
  tail(className: string, runId: string): Promise<ReadableStream<unknown>>;
  /** Reports progress to the app and its clients. */
  report(workflow: WaitWorkflow, progress: AgentToolProgress): Promise<void>;
}
