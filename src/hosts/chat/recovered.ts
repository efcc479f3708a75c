/** What is left of a turn that a crash has interrupted. Pure. */

import type { ChatRecoveryContext } from "@cloudflare/ai-chat";
import type { UIMessage } from "ai";

/** The stored reply of a turn that has ended, where the object went down before its hook. The stream is deleted with the storing. */
export function wholeReply({ streamId, partialParts, messages }: ChatRecoveryContext) {
  const last = messages.at(-1);
  if (streamId || partialParts.length > 0 || last?.role !== "assistant") return undefined;
  const end = last.parts.at(-1);
  return end?.type === "text" && end.state !== "streaming" ? (last as UIMessage) : undefined;
}
