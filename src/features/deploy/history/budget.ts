/** How much a history may hold: what does not fit is left out, and the history says so. */

import type { Json } from "../../../core/json.ts";

/** Steps of the platform, and steps that have asked the agent. */
export const MOST_STEPS = 1_000;

const TOO_MUCH = "more than 1,000 steps, 4 MB or 5 seconds";

/** The proof of a wait is in no list: its event has it. A replay needs one, whatever it is. */
function withoutProof(this: object, name: string, value: unknown): unknown {
  return name === "proof" && "eventType" in this ? "(hidden)" : value;
}

export class Budget {
  /** UTF-16 units of JSON. */
  left = 4e6;
  /** Why it is not all. */
  isCut: string | undefined;

  /** A value as JSON. Undefined where it does not fit, and for undefined. */
  taken(value: unknown): Json | undefined {
    const json = JSON.stringify(value, withoutProof) as string | undefined;
    if (json === undefined) return undefined;
    if (json.length > this.left) return this.cut();
    this.left -= json.length;
    return JSON.parse(json) as Json;
  }

  cut(why: unknown = TOO_MUCH): undefined {
    this.isCut ??= `${why}`;
  }
}
