/** What can be read off a conversation: who asked last, and what a reply left in it. Pure. */

import type { UIMessage } from "ai";
import { isFinalAnswer } from "../../sdk/final-answer.ts";
import { toolOf } from "../../sdk/reply.ts";

/** The messages that the latest reply answers, or would answer. */
export function lastAsked(messages: readonly UIMessage[]): readonly UIMessage[] {
  const last = messages.findLastIndex(({ role }) => role !== "assistant");
  const before = messages.slice(0, Math.max(last, 0));
  const reply = before.findLastIndex(({ role }) => role === "assistant");
  return messages.slice(reply + 1, last + 1);
}

export function idsOf(messages: readonly UIMessage[]): ReadonlySet<string> {
  return new Set(messages.map(({ id }) => id));
}

/** The ids of these messages and of the replies that directly follow each of them. */
export function withReplies(messages: readonly UIMessage[], ids: ReadonlySet<string>): string[] {
  let isTheirs = false;
  return messages.flatMap(({ id, role }) => {
    if (role !== "assistant" || ids.has(id)) isTheirs = ids.has(id);
    return isTheirs ? [id] : [];
  });
}

/** Whether anything of a reply is left in the conversation once the final answer is taken out. */
export function isKept({ parts }: UIMessage): boolean {
  return parts.some((part) => part.type !== "step-start" && !isFinalAnswer(toolOf(part) ?? ""));
}
