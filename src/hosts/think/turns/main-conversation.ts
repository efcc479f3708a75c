/** The agent's own conversation, as far as the ledger's turns leave traces in it. */

import type { Think } from "@cloudflare/think";
import type { UIMessage } from "ai";
import type { ConversationState, SettledCall, SubmittedTurn } from "../../../submissions/index.ts";
import { isProviderResult, settledCalls } from "../../sdk/reply.ts";
import { idsOf, withReplies } from "./conversation.ts";

export class MainConversation {
  constructor(private readonly agent: Think) {}

  /** What a turn has left. */
  async inspectConversation({ messages }: SubmittedTurn): Promise<ConversationState> {
    const { agent } = this;
    const ids = idsOf(messages);
    const found = await Promise.all([...ids].map((id) => agent.session.getMessage(id)));
    const count = found.filter(Boolean).length;
    const after = agent.messages.slice(agent.messages.findLastIndex(({ id }) => ids.has(id)) + 1);
    return {
      applied: count === 0 ? "none" : count === ids.size ? "all" : "partial",
      hasEffects: count > 0 && after.some(({ parts }) => parts.some(isProviderResult)),
    };
  }

  /** Takes the turn's messages and the replies to them out. */
  async removeMessages({ messages }: SubmittedTurn): Promise<void> {
    const ids = withReplies(this.agent.messages, idsOf(messages));
    if (ids.length > 0) await this.agent.session.deleteMessages(ids);
  }

  /** The calls of tools that have ended in the replies to these messages. */
  settledCalls(ids: ReadonlySet<string>, messages = this.agent.messages): SettledCall[] {
    return settledCalls(messages.slice(messages.findIndex(({ id }) => ids.has(id)) + 1));
  }

  /** Those of the messages that are not in it yet. */
  unsaid(messages: readonly UIMessage[]): UIMessage[] {
    const said = idsOf(this.agent.messages);
    return messages.filter(({ id }) => !said.has(id));
  }

  /**
   * Messages that were asked before move to the end, because a model
   * answers what comes last; what was begun to reply to them goes.
   */
  async askAgain(messages: readonly UIMessage[]): Promise<void> {
    const { agent } = this;
    const ids = idsOf(messages);
    const last = agent.messages.at(-1);
    if (!last || ids.has(last.id)) return;
    if (!agent.messages.some(({ id }) => ids.has(id))) return;
    await agent.session.deleteMessages(withReplies(agent.messages, ids));
  }
}
