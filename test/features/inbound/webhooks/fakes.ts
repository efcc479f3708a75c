/** Agents, endpoints and requests of the tests of receivers. */

import type { Json } from "../../../../src/core/json.ts";
import type { Acceptance, AcceptRequest } from "../../../../src/features/inbound/protocol.ts";

/** An agent that records what it accepts: once per arrival and call, like the log of arrivals. */
export class FakeAgent {
  /** For its type. */
  declare readonly waitForSubmission: () => unknown;
  readonly requests: AcceptRequest[] = [];
  readonly calls: { readonly verb: string; readonly args: readonly unknown[] }[] = [];
  readonly #results = new Map<string, Json>();

  /** @param respond to a call, in place of the default result */
  constructor(private readonly respond?: (request: AcceptRequest) => Acceptance | undefined) {}

  async callKernel(_: "acceptArrival", request: AcceptRequest): Promise<Acceptance> {
    this.requests.push(structuredClone(request));
    const own = this.respond?.(request);
    if (own) return own;
    const { arrival, call, refusal } = request;
    if (refusal !== undefined)
      return { verdict: "refused", error: { name: "Error", message: refusal } };
    if (!call) return { verdict: "filtered" };
    const key = `${arrival.source} ${arrival.id} ${call.ordinal}`;
    if (this.#results.has(key))
      return { verdict: "duplicate", result: this.#results.get(key) ?? null };
    this.calls.push({ verb: call.verb, args: call.args });
    const result = { started: call.verb };
    this.#results.set(key, result);
    return { verdict: "accepted", result };
  }

  /** As an app calls it through the stub. */
  declare start: (...args: unknown[]) => Promise<{ started: string }>;
}

/** What runs after the response. */
export class FakeContext {
  readonly works: Promise<unknown>[] = [];
  waitUntil(work: Promise<unknown>): void {
    this.works.push(work);
  }
}

export function post(
  path: string,
  body: BodyInit,
  headers: Readonly<Record<string, string>> = {},
): Request {
  return new Request(`https://app.example${path}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  });
}

/** A body that is made while it is read. @param next makes the next chunk; undefined ends the body */
export function streamed(next: (index: number) => Promise<Uint8Array | undefined>) {
  const seen = { chunks: 0, isCancelled: false };
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = await next(seen.chunks);
        if (seen.isCancelled) return;
        if (!chunk) return controller.close();
        seen.chunks++;
        controller.enqueue(chunk);
      },
      cancel() {
        seen.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, seen };
}

/** The hex HMAC of the body, computed apart from the code that is tested. */
export async function hmacHex(secret: string, body: string | Uint8Array): Promise<string> {
  const { createHmac } = await import("node:crypto");
  return createHmac("sha256", secret).update(body).digest("hex");
}

/** The lines that were logged meanwhile, each as an object. */
export function linesOf(warn: { readonly mock: { readonly calls: unknown[][] } }) {
  return warn.mock.calls.map(([line]) => JSON.parse(String(line)) as Record<string, unknown>);
}
