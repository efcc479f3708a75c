/** The errors of the arrival log. When a call throws one, nothing was stored. */

import { preview, shorten } from "../../core/json.ts";
import { InvalidFieldError } from "../../core/options/options.ts";

/** A request that no receiver of this package makes. */
export class InvalidArrivalError extends InvalidFieldError {
  override readonly name = "InvalidArrivalError";
}

/** The handler has called something that no arrival can call. */
export class InvalidCallError extends Error {
  override readonly name = "InvalidCallError";
}

/** The agent accepts too many arrivals at once, or this one for too long. The sender may try again. */
export class InboundBusyError extends Error {
  override readonly name = "InboundBusyError";
}

/** The arrival cannot be replayed. */
export class ReplayError extends Error {
  override readonly name = "ReplayError";
  constructor(
    readonly source: string,
    readonly id: string,
    problem: string,
  ) {
    super(`Arrival ${preview(id)} of ${preview(source)} cannot be replayed: ${problem}`);
  }
}

/** The Worker has no handler for the arrivals of a source. */
export function unknownSource(source: string, id: string, known: readonly string[]): ReplayError {
  const listed = shorten(known.join(", ")) || "none";
  const problem = `this Worker has no source of that name (it has: ${listed}).`;
  const remedy =
    "Deploy a Worker whose main module creates it with webhooks(), email(), queue() or scheduled(), under the same name.";
  return new ReplayError(source, id, `${problem} ${remedy}`);
}
