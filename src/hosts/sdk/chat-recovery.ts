/** The recovery of a chat of the SDK: whether it still has to recover turns that a crash has interrupted, and the end of one that it gives up. */

import type { Agent } from "agents";
import { CHAT_RECOVERY_TASK_NAME } from "agents/chat";
import type { TaskRunState } from "agents/tasks";
import type { Submissions, TurnEnd } from "../../submissions/index.ts";

/** In a sub-agent the chat's recovery cannot be looked up. It begins within this time after a start. */
const SUB_AGENT_RECOVERY_MS = 60_000;
/** The states of a task that has not ended. */
const OPEN: TaskRunState[] = ["pending", "running", "waiting"];
/** How long, and how often, `clearMessages()` checks whether the chat has handled interrupted turns. */
const CATCH_UP_MS = 5_000;
const LOOK_EVERY_MS = 50;

/** It only reads. */
export class ChatRecovery {
  #startedAt = 0;

  constructor(
    private readonly agent: Pick<Agent, "parentPath" | "tasks">,
    private readonly submissions: Submissions,
    /** The task that runs a turn. */
    private readonly turnTask: string,
  ) {}

  /** The object starts: its own recovery starts about now. */
  start(): void {
    this.#startedAt = this.submissions.now();
  }

  /** The recovery of a sub-agent continues nothing after this. Returns false for another agent, whose recovery can be looked up. */
  endInSubAgent(): boolean {
    const isSubAgent = this.agent.parentPath.length > 0;
    if (isSubAgent) this.#startedAt = Number.NEGATIVE_INFINITY;
    return isSubAgent;
  }

  /** Whether the chat may still continue an interrupted turn. */
  async isOpen(): Promise<boolean> {
    const { agent, submissions } = this;
    if (agent.parentPath.length > 0) {
      return submissions.now() - this.#startedAt < SUB_AGENT_RECOVERY_MS;
    }
    // Turns, and their recoveries, are durable Tasks of the agent. The app may have tasks of its own.
    for (const definition of [this.turnTask, CHAT_RECOVERY_TASK_NAME]) {
      if ((await agent.tasks.list({ definition, status: OPEN, limit: 1 })).length > 0) return true;
    }
    return false;
  }

  /**
   * Resolves when the chat has handled the turns that a crash interrupted, or after {@link CATCH_UP_MS}. It would store the
   * results of their tools in a conversation that was cleared.
   */
  async caughtUp(): Promise<void> {
    const { agent, submissions } = this;
    const left = { definition: this.turnTask, status: OPEN };
    for (const until = submissions.now() + CATCH_UP_MS; submissions.now() < until; ) {
      const turns = await agent.tasks.list(left);
      if (turns.every(({ createdAt }) => createdAt >= this.#startedAt)) return;
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}

/** The setting behind each reason for which the recovery gives up: `reason` in node_modules/agents/docs/chat-agents.md. */
const SETTINGS: Readonly<Record<string, string>> = {
  interrupted_attempts_exceeded: "maxInterruptedAttempts",
  max_attempts_exceeded: "maxAttempts",
  no_progress_timeout: "noProgressTimeoutMs",
  work_budget_exceeded: "maxRecoveryWork",
};

/** @param why what happened, or the reason of the chat's recovery */
export function interrupted(why: string, requestId: string): TurnEnd {
  const setting = SETTINGS[why];
  const remedy = setting ? ` chatRecovery.${setting} lets the chat try longer.` : "";
  const message = `The turn was interrupted and not continued: ${why}.${remedy}`;
  return { outcome: "error", failure: { name: "TurnInterruptedError", message }, requestId };
}
