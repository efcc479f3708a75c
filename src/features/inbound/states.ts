/** The verdicts that are stored, and the only ways between them. */

import type { Verdict } from "./protocol.ts";

/** `duplicate` is an answer, and no row has it. */
export type StoredVerdict = Exclude<Verdict, "duplicate">;

/** Which verdict may follow which. An accepted arrival stays accepted. @internal */
export const NEXT = {
  filtered: ["refused", "accepted"],
  refused: ["filtered", "accepted"],
  accepted: [],
  held: ["filtered", "refused", "accepted"],
} as const satisfies Record<StoredVerdict, readonly StoredVerdict[]>;

export const VERDICTS = Object.keys(NEXT) as StoredVerdict[];

/** The verdicts that may become this one, or have it already. */
export function verdictsBefore(next: StoredVerdict): StoredVerdict[] {
  return VERDICTS.filter(
    (one) => one === next || (NEXT[one] as readonly StoredVerdict[]).includes(next),
  );
}
