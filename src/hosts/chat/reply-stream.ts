/** The response of `onChatMessage()` on its way to the chat: who watches it, and what clients and the conversation do not get. */

import { isFinalAnswer } from "../../submissions/host.ts";
import type { Chunk, ReplyEnd } from "./reply-end.ts";

type ReplyWatch = {
  /** Called for each piece of the response. */
  readonly onData: () => void;
  /** Reads how the reply ends. */
  readonly end: ReplyEnd | undefined;
  /** Whether the call of the final answer is left out: it is in the ledger. */
  readonly hidesAnswer: boolean;
};

/** The same response, watched. */
export function watchedResponse(response: Response, watch: ReplyWatch): Response {
  if (!response.body) return response;
  const isEvents = response.headers.get("content-type")?.includes("text/event-stream") ?? false;
  const watched = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(data, controller) {
        watch.onData();
        controller.enqueue(data);
      },
    }),
  );
  return new Response(isEvents ? watchedEvents(watched, watch) : watched, response);
}

/** Most events of a reply. They do not tell how it ends. */
const DELTA = /^data: \{"type":"(text|reasoning|tool-input)-delta"/;

function watchedEvents(
  body: ReadableStream<Uint8Array>,
  { end, hidesAnswer }: ReplyWatch,
): ReadableStream<Uint8Array> {
  const hidden = hidesAnswer ? new HiddenAnswer() : undefined;
  const keep = (event: string) => {
    if (end && !DELTA.test(event)) end.read(chunkOf(event) ?? {});
    return hidden?.kept(event) ?? [`${event}\n\n`];
  };
  let rest = "";
  const events = new TransformStream<string, string>({
    transform(text, controller) {
      const lines = (rest + text).split("\n\n");
      rest = lines.pop() ?? "";
      for (const line of lines) for (const kept of keep(line)) controller.enqueue(kept);
    },
    flush(controller) {
      if (rest) for (const kept of keep(rest)) controller.enqueue(kept);
      end?.close();
    },
  });
  return body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .pipeThrough(events)
    .pipeThrough(new TextEncoderStream());
}

class HiddenAnswer {
  readonly #calls = new Set<string>();
  /** The start of a step, until the step has a part that is shown. */
  #start: string | undefined;

  /** The events to send now, as text. */
  kept(event: string): string[] {
    const line = `${event}\n\n`;
    const chunk = chunkOf(event);
    if (!chunk) return [line];
    const { type, toolName, toolCallId } = chunk;
    if (toolCallId !== undefined && isFinalAnswer(toolName ?? "")) this.#calls.add(toolCallId);
    if (toolCallId !== undefined && this.#calls.has(toolCallId)) return [];
    if (type === "start-step") {
      this.#start = line;
      return [];
    }
    const start = this.#start;
    if (start === undefined || !type || UNSEEN.has(type)) {
      if (start !== undefined && type === "finish-step") {
        this.#start = undefined;
        return [];
      }
      return [line];
    }
    this.#start = undefined;
    return [start, line];
  }
}

/** Chunks that show nothing in a step. */
const UNSEEN: ReadonlySet<string> = new Set(["finish-step", "finish", "message-metadata", "start"]);

function chunkOf(event: string): Chunk | undefined {
  if (!event.startsWith("data: {")) return undefined;
  try {
    return JSON.parse(event.slice("data: ".length)) as Chunk;
  } catch {
    return undefined;
  }
}
