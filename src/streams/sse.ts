/** The body of an answer: events with their ids, and a sign of life where nothing happens. */

import { eventsOf } from "./events.ts";

/** Between two signs of life, in milliseconds: proxies close silent connections, some after 30 seconds. */
const ALIVE_MS = 15_000;
/** What an EventSource waits before it connects again, in milliseconds. */
const RETRY_MS = 1_000;

const FORMATS = {
  sse: {
    start: `retry: ${RETRY_MS}\n\n`,
    alive: ": alive\n\n",
    event: ({ id, json }: { id: string; json: string }) =>
      `id: ${id.replaceAll(/[\r\n\0]/g, "")}\ndata: ${json}\n\n`,
  },
  // An empty line is no event.
  lines: { start: "\n", alive: "\n", event: ({ json }: { json: string }) => `${json}\n` },
} as const;

/** When the source fails, e.g. because the agent went down, the body ends: the client connects again. */
export function textOfEvents(
  source: ReadableStream<Uint8Array>,
  format: keyof typeof FORMATS,
): ReadableStream<Uint8Array> {
  const { start, alive, event: textOf } = FORMATS[format];
  const encoder = new TextEncoder();
  const reader = source.getReader();
  const events = eventsOf(reader);
  let timer: ReturnType<typeof setInterval> | undefined;
  let hasLeft = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(start));
      timer = setInterval(() => {
        // Nothing is added for a reader that is behind.
        if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(alive));
      }, ALIVE_MS);
    },
    async pull(controller) {
      try {
        const { done, value } = await events.next();
        if (!done) {
          const json = JSON.stringify(value);
          return controller.enqueue(encoder.encode(textOf({ id: value.id, json })));
        }
      } catch (error) {
        if (hasLeft) return;
        console.warn("[perdure] a stream has ended early, and its client connects again:", error);
      }
      clearInterval(timer);
      controller.close();
    },
    async cancel(reason) {
      hasLeft = true;
      clearInterval(timer);
      // The agent forgets the follower.
      await reader.cancel(reason).catch(() => {});
    },
  });
}
