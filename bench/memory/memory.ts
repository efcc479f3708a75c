/**
 * What the JavaScript heap of an object holds for 10,000 waiting submissions, and after their ends, above what it held
 * idle (L9). Measured by the runtime's own inspector after a garbage collection, so that the numbers are what is held
 * and not what is about to be freed. Fails above the limits.
 */

import { startWorker } from "../start-worker.ts";

const COUNT = 10_000;
/** Of one message. The content waits in storage: were it held, that alone would be twice the limit. */
const BYTES = 6_400;
const MEBIBYTE = 1024 * 1024;
const MAX_PENDING = 32 * MEBIBYTE;
const MAX_ENDED = 8 * MEBIBYTE;

/** Node's WebSocket takes headers, which the type of a browser's does not know. */
const NodeWebSocket = WebSocket as unknown as new (
  url: string,
  init: { readonly headers: Readonly<Record<string, string>> },
) => WebSocket;

/** Asks the inspector of a worker. */
class Inspector {
  #next = 1;
  readonly #socket: WebSocket;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  static async connect(url: URL): Promise<Inspector> {
    const address = new URL("/ws", url.href.replace(/^http/, "ws"));
    // Wrangler's inspector takes no connection from just anywhere.
    const socket = new NodeWebSocket(address.href, { headers: { Origin: "http://127.0.0.1" } });
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      socket.addEventListener("error", reject, { once: true });
    });
    return new Inspector(socket);
  }

  /** Bytes of the heap that are in use once nothing can be freed any more. */
  async heapUsed(): Promise<number> {
    // A snapshot collects garbage before it is taken; workerd does not answer to the command that only collects.
    this.#send("HeapProfiler.takeHeapSnapshot");
    const { usedSize } = (await this.#ask("Runtime.getHeapUsage")) as { usedSize: number };
    return usedSize;
  }

  #ask(method: string): Promise<unknown> {
    const id = this.#send(method);
    return new Promise((resolve, reject) => {
      const onMessage = ({ data }: MessageEvent) => {
        const answer = JSON.parse(String(data)) as {
          id?: number;
          result?: unknown;
          error?: object;
        };
        if (answer.id !== id) return;
        this.#socket.removeEventListener("message", onMessage);
        if (answer.error) reject(new Error(`${method}: ${JSON.stringify(answer.error)}`));
        else resolve(answer.result);
      };
      this.#socket.addEventListener("message", onMessage);
    });
  }

  #send(method: string): number {
    const id = this.#next++;
    this.#socket.send(JSON.stringify({ id, method }));
    return id;
  }

  close(): void {
    this.#socket.close();
  }
}

const worker = await startWorker(import.meta.dirname);
try {
  const ask = async (what: string) => (await worker.fetch(`http://worker/${what}`)).text();
  await ask("fill?count=0");
  const inspectorUrl = await worker.inspectorUrl;
  if (!inspectorUrl) throw new Error("The runtime has no inspector");
  const inspector = await Inspector.connect(inspectorUrl);
  const idle = await inspector.heapUsed();
  const pending = await ask(`fill?count=${COUNT}&bytes=${BYTES}`);
  const filled = (await inspector.heapUsed()) - idle;
  await ask("drain");
  const ended = (await inspector.heapUsed()) - idle;
  const mib = (bytes: number) => `${(bytes / MEBIBYTE).toFixed(1)} MiB`;
  console.log(
    `${pending} pending, ${mib(COUNT * BYTES)} of messages: ${mib(filled)} of heap above idle (at most ${mib(MAX_PENDING)})`,
  );
  console.log(`after their ends: ${mib(ended)} above idle (at most ${mib(MAX_ENDED)})`);
  inspector.close();
  process.exitCode = filled <= MAX_PENDING && ended <= MAX_ENDED ? 0 : 1;
} finally {
  await worker.dispose();
}
