/** Chat agents of the tests, and a client of the chat over a WebSocket. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { until } from "../../support/given.ts";
import { type ChatApp, hooks } from "./chat-app.ts";

let made = 0;

export function givenChat<Kind extends "ChatApp" | "PlainChat" | "VariantChat">(kind: Kind) {
  const name = `${kind}-${++made}-${crypto.randomUUID()}`;
  const objects = env[kind] as unknown as DurableObjectNamespace<ChatApp>;
  const stub = () => objects.getByName(name);
  return {
    name,
    verbs: stub,
    hooks: () => hooks.get(name) ?? [],
    ended: (submissionId: string) =>
      until(async () => {
        const found = await stub()
          .inspectSubmission(submissionId)
          .catch(() => null);
        return found?.status !== "pending" && found?.status !== "running" && found;
      }),
    running: (submissionId: string) =>
      until(async () => (await stub().inspectSubmission(submissionId))?.status === "running"),
    crash: () =>
      runInDurableObject(stub() as unknown as DurableObjectStub, (_, ctx) =>
        ctx.abort("crash"),
      ).catch(() => {}),
    texts: async () => {
      const messages: UIMessage[] = await stub().threadMessages("main");
      return messages.map(
        ({ role, parts }) =>
          `${role}: ${parts.map((part) => (part.type === "text" ? part.text : "")).join("")}`,
      );
    },
  };
}

type Frame = { readonly type: string; readonly id?: string; readonly done?: boolean } & Record<
  string,
  unknown
>;

/** A client that sends frames as `useAgentChat()` does. */
export async function client(name: string) {
  const stub = env.ChatApp.getByName(name) as unknown as DurableObjectStub;
  const { webSocket } = await stub.fetch("http://chat.test/", {
    headers: { Upgrade: "websocket" },
  });
  if (!webSocket) throw new Error("No WebSocket");
  const frames: Frame[] = [];
  webSocket.addEventListener("message", ({ data }) => {
    frames.push(JSON.parse(data as string) as Frame);
  });
  webSocket.accept();
  const send = (frame: object) => webSocket.send(JSON.stringify(frame));
  return {
    frames,
    send,
    /** Sends the conversation with a new message, and returns the id of the request. */
    ask(messages: UIMessage[]): string {
      const id = crypto.randomUUID();
      const init = { method: "POST", body: JSON.stringify({ messages }) };
      send({ type: "cf_agent_use_chat_request", id, init });
      return id;
    },
    done: (id: string) =>
      until(() => frames.find((frame) => frame.id === id && frame.done === true)),
    /** The chunks of a reply, as text. */
    bodies: (id: string) =>
      frames.flatMap(({ type, body, ...frame }) =>
        frame.id === id && type === "cf_agent_use_chat_response" ? [String(body)] : [],
      ),
    close: () => webSocket.close(),
  };
}
