/** Makes messages of the parts of replies. */

import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import type { ReplyPart } from "../events.ts";

/** The reply of one submission. A new attempt, or a new instance of the object, begins it anew. */
export class ReplyReader {
  #controller: ReadableStreamDefaultController<UIMessageChunk> | undefined;
  #run = 0;

  /** @param onMessage gets the message as far as it was said */
  constructor(private readonly onMessage: (message: UIMessage) => void) {}

  take({ from, base, chunks }: ReplyPart): void {
    if (from === 0 || !this.#controller) this.#begin(base);
    for (const chunk of chunks) this.#controller?.enqueue(chunk);
  }

  /** No more parts follow. */
  close(): void {
    this.#run++;
    const controller = this.#controller;
    this.#controller = undefined;
    controller?.close();
  }

  #begin(base: UIMessage | undefined): void {
    this.close();
    const run = this.#run;
    const stream = new ReadableStream<UIMessageChunk>({
      start: (controller) => {
        this.#controller = controller;
      },
    });
    const made = readUIMessageStream({ stream, ...(base && { message: base }) });
    const read = async () => {
      // An earlier reply may still have messages to give.
      for await (const message of made) if (run === this.#run) this.onMessage(message);
    };
    // A reply that cannot be read is shown at its end, when the whole message comes.
    void read().catch((error: unknown) => {
      console.warn("[perdure] a part of a reply could not be read:", error);
      // Its stream takes no more chunks.
      if (run === this.#run) this.#controller = undefined;
    });
  }
}
