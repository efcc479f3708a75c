/** The reply of a side turn: its id, what of it is stored, and whether it is complete. Pure. */

import type { UIMessage } from "ai";
import type { SettledCall } from "../../kernel/submissions/internal.ts";
import { isFinalAnswer } from "../../kernel/submissions/internal.ts";

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
