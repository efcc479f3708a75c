/** The messages of a conversation: a turn's reply, its text and what of it is stored; and what turns have left in the agent's own conversation. */

import type { UIMessage } from "ai";
import {
  type ConversationState,
  isFinalAnswer,
  type SubmittedTurn,
} from "../../submissions/host.ts";
import type { SettledCall } from "../../submissions/store/tool-calls.ts";

type Part = UIMessage["parts"][number];

/** The same for every attempt, so that a turn finds its reply after a crash. */
export function replyIdOf(submissionId: string): string {
  return `${submissionId}:reply`;
}

/**
 * What a thread stores of a reply: all but the call of the final answer, which is in the ledger. Undefined if nothing is left.
 * @param isPartial whether the turn has failed or was cancelled; the mark is in the metadata
 */
export function keptOf(reply: UIMessage, isPartial: boolean): UIMessage | undefined {
  const parts = reply.parts.filter((part) => !isFinalAnswer(toolOf(part) ?? "")).map(finished);
  if (parts.every(({ type }) => type === "step-start")) return undefined;
  return marked({ ...reply, parts }, isPartial);
}

/** The reply of an earlier attempt with that of its follow-up. Undefined if there is neither. */
export function continued(
  earlier: UIMessage | undefined,
  reply: UIMessage | undefined,
  isPartial: boolean,
): UIMessage | undefined {
  if (!earlier) return reply;
  return marked(
    { ...earlier, ...reply, parts: [...earlier.parts, ...(reply?.parts ?? [])] },
    isPartial,
  );
}

/** A reply with the mark that it is partial, or without it. */
function marked({ metadata, ...message }: UIMessage, isPartial: boolean): UIMessage {
  const { perdure: _, ...others } = (metadata ?? {}) as Record<string, unknown>;
  const all = { ...others, ...(isPartial && PARTIAL) };
  return { ...message, ...(Object.keys(all).length > 0 && { metadata: all }) };
}

const PARTIAL = { perdure: { isPartial: true } };

/** Whether only the beginning of a reply is there: its turn failed or was cancelled. */
export function isPartial({ metadata }: UIMessage): boolean {
  return (metadata as Partial<typeof PARTIAL> | undefined)?.perdure?.isPartial === true;
}

type CallPart = {
  readonly toolCallId: string;
  readonly state: string;
  readonly preliminary?: boolean;
  readonly providerExecuted?: boolean;
  readonly errorText?: string;
};

/** The ended tool calls in these replies. */
export function settledCalls(replies: readonly Pick<UIMessage, "parts">[]): SettledCall[] {
  return replies.flatMap(({ parts }) =>
    parts.flatMap((part) => {
      if (toolOf(part) === undefined) return [];
      const { toolCallId, state, preliminary, errorText } = part as CallPart;
      if (state === "output-error") return [{ toolCallId, errorText: errorText ?? "" }];
      return state === "output-available" && !preliminary ? [{ toolCallId }] : [];
    }),
  );
}

/** Whether a part says that a tool has run at the model's provider, where its calls are not recorded. */
export function isProviderResult(part: Part): boolean {
  if (toolOf(part) === undefined) return false;
  const { state, providerExecuted } = part as CallPart;
  return providerExecuted === true && (state === "output-available" || state === "output-error");
}

/** The ids of those messages of a conversation, and of the replies that directly follow each of them. */
export function withReplies(
  conversation: readonly { readonly id: string; readonly role: string }[],
  ids: ReadonlySet<string>,
): string[] {
  let isTheirs = false;
  return conversation.flatMap(({ id, role }) => {
    if (role !== "assistant" || ids.has(id)) isTheirs = ids.has(id);
    return isTheirs ? [id] : [];
  });
}

/** A text that was cut off must not look as if it were still being written. */
function finished(part: Part): Part {
  const isText = part.type === "text" || part.type === "reasoning";
  return isText && part.state === "streaming" ? { ...part, state: "done" } : part;
}

/** The tool that a part is a call of, if it is one. */
export function toolOf(part: Part): string | undefined {
  if (part.type === "dynamic-tool") return part.toolName;
  return part.type.startsWith("tool-") ? part.type.slice("tool-".length) : undefined;
}

/**
 * The text of a reply after its last tool call.
 * @param from the first part of this attempt; those before are of an earlier one
 */
export function textOf(reply: Pick<UIMessage, "parts"> | undefined, from = 0): string {
  const parts = reply?.parts.slice(from) ?? [];
  const after = parts.slice(parts.findLastIndex((part) => toolOf(part) !== undefined) + 1);
  return after.map((part) => (part.type === "text" ? part.text : "")).join("");
}

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
