/** The recovery of a chat of the SDK: which interrupted turns it continues, and whether it still has some to recover. */

import type { Agent } from "agents";
import {
  CHAT_RECOVERY_TASK_NAME,
  type ChatRecoveryContext,
  type ChatRecoveryOptions,
} from "agents/chat";
import type { TaskRunState } from "agents/tasks";
import type { UIMessage } from "ai";
import type { TurnEnd } from "../../submissions/host.ts";
import type { AttemptRef } from "../../submissions/states.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import {
  idsOf,
  isProviderResult,
  type MainConversation,
  settledCalls,
  textOf,
  toolOf,
} from "./conversation.ts";

/** An interrupted turn is neither continued nor stored. */
export const DROPPED: ChatRecoveryOptions = { continue: false, persist: false };

/** A submission that was left running when the object last went down. */
export type Left = NonNullable<ReturnType<Submissions["store"]["findByMessage"]>>;

export function refOf({ seq, attempts }: Left): AttemptRef {
  return { seq, attempt: attempts };
}

/** In a sub-agent the chat's recovery cannot be looked up. It begins within this time after a start. */
const SUB_AGENT_RECOVERY_MS = 60_000;
/** The states of a task that has not ended. */
const OPEN: TaskRunState[] = ["pending", "running", "waiting"];
/** How long, and how often, `clearMessages()` checks whether the chat has handled interrupted turns. */
const CATCH_UP_MS = 5_000;
const LOOK_EVERY_MS = 50;

/** The key of the time of the latest reset, epoch milliseconds. */
const RESET_AT = "perdure:reset_at";

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
    this.#startedAt = this.submissions.loop.clock.now();
  }

  /** Ends all open submissions of the conversation, and stores that turns which began before do not come back. */
  reset(): void {
    // By the clock of `createdAt`. It commits with the ends.
    this.#kv.put(RESET_AT, Date.now());
    this.submissions.turns.reset();
  }

  /** Whether the conversation was reset, and maybe cleared, after the turn had begun. */
  isReset({ createdAt }: ChatRecoveryContext): boolean {
    return (this.#kv.get<number>(RESET_AT) ?? 0) > createdAt;
  }

  get #kv(): SyncKvStorage {
    return this.submissions.store.storage.kv;
  }

  /**
   * What the chat does with the interrupted turn of a submission. If it does not continue the turn, the ledger has ended the
   * submission, or runs it again.
   * @param decision of the app
   */
  decide(
    left: Left,
    ctx: ChatRecoveryContext,
    conversation: MainConversation,
    decision: ChatRecoveryOptions,
  ): ChatRecoveryOptions {
    const { submissions } = this;
    const isDeclined = decision.continue === false;
    const settled = conversation.settledCalls(idsOf(left.messages), ctx.messages);
    const parts = ctx.partialParts as UIMessage["parts"];
    const partial = settledCalls([{ parts }]);
    const hasOpenCall = parts.filter((part) => toolOf(part) !== undefined).length > partial.length;
    // In place of the call, the chat would show the model an error.
    const isCallRepeated =
      hasOpenCall &&
      submissions.store.toolCalls.hasInterruptedSteps(left.seq, [...settled, ...partial]);
    // An answer is the text of one reply, and the chat would continue the half that it has.
    const isRepeated = isCallRepeated || (left.answer !== undefined && textOf({ parts }) !== "");
    // Otherwise the chat is about to store this part.
    if (decision.persist !== false && !isRepeated) settled.push(...partial);
    const hasProviderEffects = isRepeated && parts.some(isProviderResult);
    const mayContinue = hasProviderEffects
      ? left.retry?.afterSideEffects === "repeat"
      : submissions.turns.mayContinue(left, settled);
    if (!isDeclined && mayContinue) {
      if (!isRepeated) return decision;
      // The ledger runs a new attempt. In a sub-agent it would wait for the chat's recovery, which continues nothing now.
      if (this.agent.parentPath.length > 0) this.#startedAt = Number.NEGATIVE_INFINITY;
      return DROPPED;
    }
    const why = isDeclined
      ? "onChatRecovery declined to continue it"
      : "its tools have had effects, so it is not run again";
    submissions.turns.end(refOf(left), interrupted(why, ctx.requestId));
    return { ...decision, continue: false };
  }

  /** Whether the chat may still continue an interrupted turn. */
  async isOpen(): Promise<boolean> {
    const { agent, submissions } = this;
    if (agent.parentPath.length > 0) {
      return submissions.loop.clock.now() - this.#startedAt < SUB_AGENT_RECOVERY_MS;
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
    for (
      const until = submissions.loop.clock.now() + CATCH_UP_MS;
      submissions.loop.clock.now() < until;
    ) {
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
