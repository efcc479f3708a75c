/** A submission that a crash has interrupted, and what is left of its turn. Pure. */

import type { ChatRecoveryContext, ChatRecoveryOptions } from "@cloudflare/ai-chat";
import type { UIMessage } from "ai";
import type { AttemptRef, Submissions } from "../../submissions/index.ts";

/** An interrupted turn is neither continued nor stored. */
export const DROPPED: ChatRecoveryOptions = { continue: false, persist: false };

/** A submission that was left running when the object last went down. */
export type Left = NonNullable<ReturnType<Submissions["findByMessage"]>>;

export function refOf({ seq, attempts }: Left): AttemptRef {
  return { seq, attempt: attempts };
}

/** The stored reply of a turn that has ended, where the object went down before its hook. The stream is deleted with the storing. */
export function wholeReply({ streamId, partialParts, messages }: ChatRecoveryContext) {
  const last = messages.at(-1);
  if (streamId || partialParts.length > 0 || last?.role !== "assistant") return undefined;
  const end = last.parts.at(-1);
  return end?.type === "text" && end.state !== "streaming" ? (last as UIMessage) : undefined;
}
