/** Reads the events of `perdure/streams` in a page, and connects again until their end. */

import { type FollowEvent, readFollowed } from "../events.ts";

/** Without a sign of life for this time, the connection is lost, in milliseconds. The server gives one every 15 seconds. */
const SILENT_MS = 40_000;
/** Between two attempts to connect, in milliseconds: doubled each time, up to the second. */
const RETRY_MS = [500, 10_000] as const;

export type Following = {
  /** The address of the handler of `perdure/streams`, with the agent and its name: `"/streams/Support/main"`. */
  readonly url: string;
  /** Sent with each request, e.g. `authorization`. Cookies of the same origin are always sent. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** The server does not let the page follow it, or knows nothing of it: the page does not ask again. */
export class StreamRefusedError extends Error {
  override readonly name = "StreamRefusedError";
  constructor(
    /** 400, 401, 403 or 404. */
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export type Connection = "connecting" | "open";

/**
 * Calls `onEvent` for each event until the end.
 *
 * @throws StreamRefusedError, and what `onEvent` throws
 */
export async function follow(
  address: string,
  { headers, signal }: { headers: Following["headers"]; signal: AbortSignal },
  onEvent: (event: FollowEvent) => void,
  onConnection: (connection: Connection) => void,
): Promise<void> {
  let from: string | undefined;
  let retryMs: number = RETRY_MS[0];
  while (!signal.aborted) {
    onConnection("connecting");
    try {
      const body = await connect(address, from, headers, signal);
      onConnection("open");
      for await (const event of readFollowed(lively(body))) {
        retryMs = RETRY_MS[0];
        from = event.id;
        onEvent(event);
        if (event.type === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      const isRefused = error instanceof StreamRefusedError;
      if (isRefused && (error.status !== 400 || from === undefined)) throw error;
      // The server does not know the id, e.g. after an update.
      if (isRefused) from = undefined;
    }
    // Many pages that lose the same server do not come back at once.
    await sleep(retryMs * (0.5 + Math.random() / 2), signal);
    retryMs = Math.min(retryMs * 2, RETRY_MS[1]);
  }
}

async function connect(
  address: string,
  from: string | undefined,
  headers: Following["headers"],
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const response = await fetch(address, {
    headers: {
      ...headers,
      accept: "application/x-ndjson",
      ...(from !== undefined && { "last-event-id": from }),
    },
    signal,
  });
  if (response.ok && response.body) return response.body;
  const { error } = (await response.json().catch(() => ({}))) as { error?: { message?: string } };
  const message = error?.message ?? `The server answered with ${response.status}.`;
  const isFinal = response.status >= 400 && response.status < 500 && response.status !== 429;
  throw isFinal ? new StreamRefusedError(response.status, message) : new Error(message);
}

/** A copy of the stream that fails when no bytes come for {@link SILENT_MS}. */
function lively(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const silent = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error("The connection is silent")), SILENT_MS);
      });
      try {
        const { done, value } = await Promise.race([reader.read(), silent]);
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        await reader.cancel(error).catch(() => {});
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
