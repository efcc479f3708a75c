/** Compares presets with the senders' own packages. */

import { expect } from "vitest";
import { type Endpoint, webhooks } from "../../../../../src/features/inbound/webhooks/index.ts";
import { FakeContext } from "../fakes.ts";

export const SECRET = "the-secret_of-the-tests";
export const OTHER = "another-secret";

/** What may be wrong with a signature, as an edit of the signature itself. */
const EDITS: Readonly<Record<string, (signature: string) => string>> = {
  unchanged: (signature) => signature,
  empty: () => "",
  truncated: (signature) => signature.slice(0, -1),
  "truncated by a byte": (signature) => signature.slice(0, -2),
  longer: (signature) => `${signature}00`,
  "repeated in place": (signature) => signature + signature,
  "repeated as a list": (signature) => `${signature}, ${signature}`,
  "upper case": (signature) => signature.toUpperCase(),
  "neither hex nor base64": (signature) => `?${signature.slice(1)}`,
  "one digit replaced": (signature) => (signature[0] === "a" ? "b" : "a") + signature.slice(1),
  "spaces around": (signature) => ` ${signature} `,
};

export async function statusOf(
  endpoint: Endpoint,
  request: Request,
  env: object = { SECRET },
): Promise<number> {
  const response = await webhooks(endpoint)(request, env, new FakeContext());
  return response?.status ?? 0;
}

export async function isAcceptedBy(work: () => unknown): Promise<boolean> {
  try {
    return (await work()) !== false;
  } catch {
    return false;
  }
}

/** Expects the same of both sides for every edit of the signature. */
export async function compare(options: {
  readonly endpoint: Endpoint;
  readonly env?: object;
  /** The request with an edit of its signature. */
  readonly request: (edit: (signature: string) => string) => Request | Promise<Request>;
  /** Throws or returns false for a request that the package refuses. */
  readonly oracle: (headers: Headers, body: string, url: string) => unknown;
  /** Where the preset is stricter on purpose. */
  readonly refuses?: (headers: Headers) => boolean;
}): Promise<void> {
  for (const [name, edit] of Object.entries(EDITS)) {
    const request = await options.request(edit);
    const body = await request.clone().text();
    const isAccepted =
      !options.refuses?.(request.headers) &&
      (await isAcceptedBy(() => options.oracle(request.headers, body, request.url)));
    const status = await statusOf(options.endpoint, request, options.env);
    expect({ name, status }).toEqual({ name, status: isAccepted ? 200 : 401 });
    if (name === "unchanged") expect(isAccepted).toBe(true);
  }
}
