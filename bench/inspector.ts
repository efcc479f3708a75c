/** Asks the runtime's own inspector what the heap holds, after a garbage collection: what is held, and not what is about to be freed. */

/** Node's WebSocket takes headers, which the type of a browser's does not know. */
const NodeWebSocket = WebSocket as unknown as new (
  url: string,
  init: { readonly headers: Readonly<Record<string, string>> },
) => WebSocket;

/** Asks the inspector of a worker. */
export class Inspector {
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
