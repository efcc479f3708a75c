/** Whether a chat of the SDK still has to recover turns that a crash has interrupted. It only reads. */

import type { Agent } from "agents";
import { CHAT_RECOVERY_TASK_NAME } from "agents/chat";
import type { TaskRunState } from "agents/tasks";
import type { Submissions } from "../../submissions/index.ts";

/** In a sub-agent the chat's recovery cannot be looked up. It begins within this time after a start. */
const SUB_AGENT_RECOVERY_MS = 60_000;
/** The states of a task that has not ended. */
const OPEN: TaskRunState[] = ["pending", "running", "waiting"];
/** How long, and how often, `clearMessages()` checks whether the chat has handled interrupted turns. */
const CATCH_UP_MS = 5_000;
const LOOK_EVERY_MS = 50;

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
