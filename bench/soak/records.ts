/** The records of the receiver, and how each kind of request is recorded. */

import type { HookEvent, Outcome } from "./words.ts";

export type Records = {
  /** By delivery id: the bodies that came with it, and how often any came. */
  readonly deliveries: Map<string, { readonly bodies: Set<string>; times: number }>;
  /** By key of the effect. */
  readonly effects: Map<string, number>;
  /** By workflow: each outcome, and how often it was reported. */
  readonly outcomes: Map<string, Map<string, number>>;
  /** By submission: the delivery ids of its end. */
  readonly ends: Map<string, Set<string>>;
  /** Requests with an invalid signature. */
  readonly forged: string[];
};

export function noRecords(): Records {
  return {
    deliveries: new Map(),
    effects: new Map(),
    outcomes: new Map(),
    ends: new Map(),
    forged: [],
  };
}

/** Records an accepted webhook with a valid signature. */
export function noteDelivery(records: Records, id: string, body: string): void {
  const known = records.deliveries.get(id) ?? { bodies: new Set(), times: 0 };
  known.bodies.add(body);
  known.times++;
  records.deliveries.set(id, known);
  const event = JSON.parse(body) as HookEvent;
  if (event.type === "occurrence") return;
  const { submissionId } = (event as HookEvent & { data: { submissionId: string } }).data;
  records.ends.set(submissionId, (records.ends.get(submissionId) ?? new Set()).add(id));
}

export function noteEffect(records: Records, key: string): void {
  records.effects.set(key, (records.effects.get(key) ?? 0) + 1);
}

export function noteOutcome(records: Records, { workflow, outcome }: Outcome): void {
  const known = records.outcomes.get(workflow) ?? new Map<string, number>();
  known.set(outcome, (known.get(outcome) ?? 0) + 1);
  records.outcomes.set(workflow, known);
}
