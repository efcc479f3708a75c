/** Asks the chat, and follows the turn as its page does. With `crash` it kills the runtime while it answers. */

import { setTimeout as sleep } from "node:timers/promises";
import { readFollowed } from "../../src/features/streams/events.ts";
import { call, type Run } from "../runtime.ts";

const KILLS = 2;
const AGAIN_MS = 300;

/** Resolves with whether the whole answer has come. */
export async function runChat(run: Run): Promise<boolean> {
  const { runtime, crash, signal } = run;
  const ask = () => call(runtime, "ask/turn-1", { text: "Where is my lamp?" });
  await ask();
  let kills = crash ? KILLS : 0;
  let from: string | undefined;
  for (;;) {
    signal.throwIfAborted();
    try {
      const headers = { accept: "application/x-ndjson", ...(from && { "last-event-id": from }) };
      const address = `${runtime.url}/streams/chat/main/submissions/turn-1`;
      const { body } = await fetch(address, { headers, signal });
      for await (const event of readFollowed(body as ReadableStream<Uint8Array>)) {
        from = event.id;
        if (event.type === "message") {
          const text = event.message.parts.map((part) => (part.type === "text" ? part.text : ""));
          console.log("chat: completed", JSON.stringify(text.join("")));
          return text.join("").endsWith("in two days.");
        }
        if (event.type === "end") return false;
        if (event.type !== "reply" || kills === 0) continue;
        kills--;
        await runtime.kill();
        console.log("  kill of the runtime while it answers");
        await runtime.start(signal);
        await ask();
      }
    } catch (error) {
      // The connection is lost with the runtime.
      if (!crash) throw error;
      await sleep(AGAIN_MS, undefined, { signal });
    }
  }
}
