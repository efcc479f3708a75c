/** The agent's own conversation: what the turns of submissions have left in it. */

import type { UIMessage } from "ai";
import type {
  ConversationState,
  SettledCall,
  SubmittedTurn,
} from "../../kernel/submissions/internal.ts";
import { isFinalAnswer } from "../../kernel/submissions/internal.ts";
import { isProviderResult, settledCalls, toolOf, withReplies } from "./reply.ts";

/** A conversation that the agent itself keeps: its messages in memory, and where they are stored. */
type OwnConversation = {
  readonly messages: readonly UIMessage[];
  readonly session: {
    getMessage(id: string): Promise<unknown>;
    deleteMessages(ids: string[]): Promise<unknown>;
  };
};

/** The messages that the latest reply answers, or that the next one would answer. */
export function lastAsked(messages: readonly UIMessage[]): readonly UIMessage[] {
  const last = messages.findLastIndex(({ role }) => role !== "assistant");
  const before = messages.slice(0, Math.max(last, 0));
  const reply = before.findLastIndex(({ role }) => role === "assistant");
  return messages.slice(reply + 1, last + 1);
}

export function idsOf(messages: readonly UIMessage[]): ReadonlySet<string> {
  return new Set(messages.map(({ id }) => id));
}

/** Whether anything of a reply is left in the conversation without the call of the final answer. */
export function isKept({ parts }: UIMessage): boolean {
  return parts.some((part) => part.type !== "step-start" && !isFinalAnswer(toolOf(part) ?? ""));
}

export class MainConversation {
  constructor(private readonly agent: OwnConversation) {}

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

  async message(id: string): Promise<UIMessage | undefined> {
    return ((await this.agent.session.getMessage(id)) as UIMessage | null) ?? undefined;
  }

  /** Removes the turn's messages and the replies to them. */
  async removeMessages({ messages }: SubmittedTurn): Promise<void> {
    const ids = withReplies(this.agent.messages, idsOf(messages));
    if (ids.length > 0) await this.agent.session.deleteMessages(ids);
  }

  /** The ended tool calls in the replies to these messages. */
  settledCalls(ids: ReadonlySet<string>, messages = this.agent.messages): SettledCall[] {
    return settledCalls(messages.slice(messages.findIndex(({ id }) => ids.has(id)) + 1));
  }

  /** Removes messages of an earlier attempt and the replies to them, unless they are last. A model answers what comes last. */
  async removeEarlier(messages: readonly UIMessage[]): Promise<void> {
    const { agent } = this;
    const ids = idsOf(messages);
    const last = agent.messages.at(-1);
    const theirs = withReplies(agent.messages, ids);
    if (!last || ids.has(last.id) || theirs.length === 0) return;
    await agent.session.deleteMessages(theirs);
  }
}
