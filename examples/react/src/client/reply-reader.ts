/** Converts the streamed chunks of a reply to a message. */

import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import type { ReplyMessage } from "perdure/think";

export class ReplyReader {
  #chunks = 0;
  #controller: ReadableStreamDefaultController<UIMessageChunk> | undefined;

  constructor(
    readonly attempt: number,
    onMessage: (message: UIMessage) => void,
  ) {
    const stream = new ReadableStream<UIMessageChunk>({
      start: (controller) => {
        this.#controller = controller;
      },
    });
    void (async () => {
      for await (const message of readUIMessageStream({ stream })) onMessage(message);
    })();
  }

  /** Whether these chunks directly follow the ones that were added before. */
  fits({ attempt, from }: ReplyMessage): boolean {
    return attempt === this.attempt && from === this.#chunks;
  }

  add({ chunks }: ReplyMessage): void {
    this.#chunks += chunks.length;
    for (const chunk of chunks) this.#controller?.enqueue(chunk);
  }

  close(): void {
    this.#controller?.close();
    this.#controller = undefined;
  }
}
