/** The records of the receiver, and how each kind of request is recorded. */

import type { HookEvent, Outcome, Reading, ToolStep } from "./words.ts";

type End = Extract<HookEvent, { data: unknown }>["data"];

export type Records = {
  /** By delivery id: the bodies that came with it, and how often any came. */
  readonly deliveries: Map<string, { readonly bodies: Set<string>; times: number }>;
  /** Calls of the ordinary tool, by key. */
  readonly effects: Map<string, number>;
  /** Steps of the durable tool, in order. */
  readonly steps: ToolStep[];
  /** Results that the model has read, in order. */
  readonly readings: Reading[];
  /** By workflow: each outcome as JSON, and how often it was reported. */
  readonly outcomes: Map<string, Map<string, number>>;
  /** By submission: the end by each delivery id. */
  readonly ends: Map<string, Map<string, End>>;
  /** By key of an event that the driver has put: its delivery ids. */
  readonly puts: Map<string, Set<string>>;
  /** By arrival: the delivery ids of its note. */
  readonly arrivals: Map<string, Set<string>>;
  /** By arrival: the submissions that it has started. */
  readonly arrived: Map<string, Set<string>>;
  /** Requests with an invalid signature. */
  readonly forged: string[];
};

export function noRecords(): Records {
  return {
    deliveries: new Map(),
    effects: new Map(),
    steps: [],
    readings: [],
    outcomes: new Map(),
    ends: new Map(),
    puts: new Map(),
    arrivals: new Map(),
    arrived: new Map(),
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
  if (event.type === "put") add(records.puts, event.key, id);
  else if (event.type === "arrival") add(records.arrivals, event.key, id);
  else if ("data" in event) {
    const { submissionId, metadata } = event.data;
    const ends = records.ends.get(submissionId) ?? new Map<string, End>();
    records.ends.set(submissionId, ends.set(id, event.data));
    if (metadata?.arrival !== undefined) add(records.arrived, metadata.arrival, submissionId);
  }
}

/** Records an event that a method of the agent has received. */
export function noteMethod(records: Records, { id, key }: { id: string; key: string }): void {
  add(records.puts, key, id);
}

export function noteEffect(records: Records, key: string): void {
  records.effects.set(key, (records.effects.get(key) ?? 0) + 1);
}

export function noteOutcome(records: Records, { workflow, outcome }: Outcome): void {
  const known = records.outcomes.get(workflow) ?? new Map<string, number>();
  const text = JSON.stringify(outcome);
  known.set(text, (known.get(text) ?? 0) + 1);
  records.outcomes.set(workflow, known);
}

function add(map: Map<string, Set<string>>, key: string, value: string): void {
  map.set(key, (map.get(key) ?? new Set()).add(value));
}
