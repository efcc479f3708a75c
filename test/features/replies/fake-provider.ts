/** A provider's API that answers as planned, and records what it was asked. Requests to other hosts pass. */

import { afterEach, vi } from "vitest";

export type Asked = {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of a body
  readonly body: any;
};

export type Answer =
  | {
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** No response, until the caller hangs up. */
  | "hangs"
  /** The connection is lost before a response. */
  | "lost";

type Plan = (asked: Asked, nth: number) => Answer | Promise<Answer>;

const plans = new Map<string, { readonly plan: Plan; readonly asked: Asked[] }>();
const realFetch = globalThis.fetch;

afterEach(() => void vi.restoreAllMocks());

/**
 * A provider of this test alone.
 *
 * @param origin by default one of its own
 */
export function givenProvider(
  plan: Plan,
  origin = `https://provider-${crypto.randomUUID()}.example.com`,
) {
  const asked: Asked[] = [];
  plans.set(origin, { plan, asked });
  vi.spyOn(globalThis, "fetch").mockImplementation(fakeFetch as typeof fetch);
  return { url: origin, asked };
}

async function fakeFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const { origin, pathname, search } = new URL(String(input));
  const provider = plans.get(origin);
  if (!provider) return realFetch(input, init);
  const { plan, asked } = provider;
  const one: Asked = {
    method: init.method ?? "GET",
    path: pathname + search,
    headers: new Headers(init.headers),
    body: typeof init.body === "string" ? JSON.parse(init.body) : undefined,
  };
  asked.push(one);
  const answer = await plan(one, asked.length);
  if (answer === "lost") throw new Error("Network connection lost.");
  if (answer === "hangs") {
    return new Promise((_, reject) => {
      init.signal?.addEventListener("abort", () => reject(new Error("The operation was aborted")));
    });
  }
  const { status, body = "", headers = {} } = answer;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return new Response(text, { status, headers });
}
