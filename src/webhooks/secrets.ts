/** Reads secrets of env, and what a request is answered with where one is missing. */

import { thrownText } from "../inbound/offer.ts";
import { RefusedRequest } from "./body.ts";

/** When a sender may try again after 503, in seconds. */
const RETRY_AFTER = 30;

export function unavailable(message: string, reason?: unknown): RefusedRequest {
  return new RefusedRequest(503, message, reason, RETRY_AFTER);
}

/** The log names the bindings, the answer does not. @throws RefusedRequest */
export function misconfigured(names: readonly string[], problem: unknown = "missing"): never {
  // A name in another form may be a secret.
  const shown = names.map((name) => (/^[A-Z_\d]+$/.test(name) ? `env.${name}` : "(not shown)"));
  throw unavailable(
    "A secret is missing or invalid.",
    `Secret ${shown.join(", ")}: ${thrownText(problem)}`,
  );
}

/** A string, or what a binding of the Secrets Store has. Undefined: missing or empty. */
export async function secretIn(env: object, name: string): Promise<string | undefined> {
  try {
    const binding = (env as Record<string, { get?(): Promise<unknown> } | undefined>)[name];
    const value: unknown = (await binding?.get?.()) ?? binding;
    return typeof value === "string" && value ? value : undefined;
  } catch {
    // Answered and logged as a missing secret.
    return undefined;
  }
}
