/** An AIChatAgent as the ledger sees it: its own queue runs the turns of the main conversation. */

import { AIChatAgent } from "@cloudflare/ai-chat";
import type { UIMessage } from "ai";
import { type CheckedSubmission, MAIN } from "../../kernel/submissions/internal.ts";
import { CHAT } from "../limitations.ts";
import { ChatHostBase } from "../sdk/chat-host-base.ts";
import type { HostParts } from "../sdk/host-base.ts";
import type { TurnSource } from "../sdk/turn-source.ts";
import { checkChannel, NotSupportedByHostError } from "../support.ts";
import { ChatTurns } from "./chat-turns.ts";
import type { HookedChat } from "./hooks.ts";

type ChatHostOptions = {
  readonly agent: HookedChat;
  /** The model, instructions and tools of side turns. */
  readonly source: TurnSource;
  /** Whether the app's class has a model for side turns. */
  readonly hasModel: boolean;
};

export class ChatHost extends ChatHostBase {
  readonly mainTurns: ChatTurns;

  constructor(
    parts: HostParts,
    private readonly options: ChatHostOptions,
  ) {
    super(parts, { ...options, turnTask: AIChatAgent.CHAT_FIBER_NAME });
    this.mainTurns = new ChatTurns(options.agent, this.submissions, this.recovery);
  }

  override check(submission: CheckedSubmission): void {
    const name = "perdure/chat";
    checkChannel(name, submission);
    if (this.options.hasModel) return;
    const { models = [] } = submission.answer ?? {};
    if (submission.thread !== MAIN)
      throw new NotSupportedByHostError(name, "other threads without getModel()", CHAT);
    if (models.length > 0)
      throw new NotSupportedByHostError(name, "models without getModel()", CHAT);
  }

  protected wrapHooks(): void {
    const { agent } = this.options;
    const hooks = this.mainTurns.wrap({
      onChatMessage: agent.onChatMessage.bind(agent),
      onChatResponse: agent.onChatResponse.bind(agent),
      onChatRecovery: agent.onChatRecovery.bind(agent),
      chatRecovery: agent.chatRecovery,
    });
    Object.assign(agent, hooks);
  }

  override submissionOf(requestId: string): string | undefined {
    return this.mainTurns.turnOf(requestId)?.submissionId;
  }

  override isInsideTurn(): boolean {
    return this.mainTurns.isInsideTurn || super.isInsideTurn();
  }

  override messages(thread: string): Promise<UIMessage[]> {
    if (thread !== MAIN) return super.messages(thread);
    return this.options.agent.sessions.session().getHistory() as Promise<UIMessage[]>;
  }
}
