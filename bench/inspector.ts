/** Reads the used heap from the runtime's inspector, after a garbage collection. */

/** Node's WebSocket accepts headers, which the browser's type does not have. */
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
    // Wrangler's inspector checks the origin.
    const socket = new NodeWebSocket(address.href, { headers: { Origin: "http://127.0.0.1" } });
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      socket.addEventListener("error", reject, { once: true });
    });
    return new Inspector(socket);
  }

  /** Bytes of the used heap after a garbage collection. */
  async heapUsed(): Promise<number> {
    // A snapshot collects garbage first. workerd does not support the command that only collects.
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
