/** The page: the conversation, what is typed now, and the turn that was asked for durably. Its id is in the address. */

import { useAgentChat } from "@cloudflare/ai-chat/react";
import { useAgent } from "agents/react";
import type { UIMessage } from "ai";
import { useSubmission } from "perdure/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import type { Chat } from "../worker.ts";

declare const document: { getElementById(id: string): Element };
declare const location: { hash: string };

function Page() {
  const agent = useAgent<Chat>({ agent: "Chat", name: "main" });
  const { messages, sendMessage, status } = useAgentChat({ agent });
  const [asked, setAsked] = useState(() => location.hash.slice(1) || undefined);

  async function ask(form: FormData): Promise<void> {
    const text = String(form.get("text"));
    if (form.get("how") === "chat") return sendMessage({ text });
    const id = crypto.randomUUID();
    // A reload of the page follows the same turn.
    location.hash = id;
    setAsked(id);
    // The id makes it safe to call again, if the connection is lost meanwhile.
    await agent.call("ask", [id, text]);
  }

  return (
    <main>
      <h1>Chat</h1>
      <section id="messages">
        {messages.map((message: UIMessage) => (
          <p key={message.id}>
            <strong>{message.role}</strong> {textOf(message)}
          </p>
        ))}
      </section>
      <form action={ask}>
        <input name="text" placeholder="What do you want to know?" required />
        <button type="submit" name="how" value="chat" disabled={status !== "ready"}>
          Say
        </button>
        <button type="submit" name="how" value="durable">
          Ask durably
        </button>
      </form>
      {asked && <Turn id={asked} />}
    </main>
  );
}

function Turn({ id }: { id: string }) {
  const { submission, message, connection } = useSubmission(id, { url: "/streams/chat/main" });
  const shown = connection === "connecting" ? "connecting" : (submission?.status ?? connection);
  return (
    <article>
      <span id="status" className={`status ${shown}`}>
        {shown}
      </span>
      <p id="reply">{textOf(message)}</p>
    </article>
  );
}

function textOf(message: UIMessage | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}

createRoot(document.getElementById("page")).render(<Page />);
