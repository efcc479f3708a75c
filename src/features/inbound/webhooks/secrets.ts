/** What a request is answered with where the agent cannot be reached, or a secret is missing. */

import { shownName } from "../../../core/secrets.ts";
import { thrownText } from "../offer.ts";
import { RefusedRequest } from "./body.ts";

/** 503, and the sender may try again. */
export function unavailable(message: string, reason?: unknown): RefusedRequest {
  return new RefusedRequest(503, message, reason, { "retry-after": "30" });
}

/** The log names the bindings, the answer does not. @throws RefusedRequest */
export function misconfigured(names: readonly string[], problem: unknown = "missing"): never {
  const shown = names.map((name) => (shownName(name) ? `env.${name}` : "(not shown)"));
  throw unavailable(
    "A secret is missing or invalid.",
    `Secret ${shown.join(", ")}: ${thrownText(problem)}`,
  );
}
