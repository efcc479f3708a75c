/** Messages of tests. */

import type { Sessions } from "agents/sessions";
import type { UIMessage } from "ai";
import type { Script } from "perdure/testing";

/** Methods of agents whose clients chat. */
export type ChatClient = { saveMessages(messages: UIMessage[]): Promise<unknown> };

/** A user message whose text is the script of the model. */
export function message(script: Script | string, id: string = crypto.randomUUID()): UIMessage {
  const text = typeof script === "string" ? script : JSON.stringify(script);
  return { id, role: "user", parts: [{ type: "text", text }] };
}

export function joinTexts(parts: UIMessage["parts"]): string {
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** Keeps a text in a session of the app, as `agents/docs/sessions.md` shows it. Returns all texts of that session. */
export async function remember(sessions: Sessions, text: string): Promise<string[]> {
  const session = sessions.session("notes");
  await session.appendMessage(message(text));
  return (await session.getHistory()).map(({ parts }) => joinTexts(parts as UIMessage["parts"]));
}
