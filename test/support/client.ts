/** A client that is connected to an object over a WebSocket, and sends frames as `useAgent()` and `useAgentChat()` do. */

import type { UIMessage } from "ai";
import { until } from "./given.ts";

type Frame = { readonly type?: string; readonly id?: string; readonly done?: boolean } & Record<
  string,
  unknown
>;

/** Connects to an object, which is given as a stub of any class. */
export async function clientOf(stub: unknown) {
  const { webSocket } = await (stub as DurableObjectStub).fetch("http://client.test/", {
    headers: { Upgrade: "websocket" },
  });
  if (!webSocket) throw new Error("The object does not accept WebSockets");
  /** What it was sent, as text and as JSON. A text that is no JSON has no frame. */
  const texts: string[] = [];
  const frames: Frame[] = [];
  webSocket.addEventListener("message", ({ data }) => {
    texts.push(String(data));
    if (String(data).startsWith("{")) frames.push(JSON.parse(String(data)) as Frame);
  });
  webSocket.accept();
  const send = (frame: object | string) =>
    webSocket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
  return {
    frames,
    send,
    /** The first text that has this part. */
    text: (part: string) => until(() => texts.find((text) => text.includes(part))),
    /** Sends the conversation with a new message, and returns the id of the request. */
    ask(messages: UIMessage[], body: object = {}): string {
      const id = crypto.randomUUID();
      const init = { method: "POST", body: JSON.stringify({ messages, ...body }) };
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
