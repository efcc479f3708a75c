/** Messages of tests. */

import type { UIMessage } from "ai";
import type { Script } from "perdure/testing";

/** A user message whose text is the script of the model. */
export function message(script: Script | string, id: string = crypto.randomUUID()): UIMessage {
  const text = typeof script === "string" ? script : JSON.stringify(script);
  return { id, role: "user", parts: [{ type: "text", text }] };
}

export function joinTexts(parts: UIMessage["parts"]): string {
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}
