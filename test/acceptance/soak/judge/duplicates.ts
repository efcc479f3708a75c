/** Repetitions that a receiver could not recognise: it deduplicates deliveries by id, and other calls by key. */

import { isExpectedOutcome } from "../plans.ts";
import type { HookEvent, Look } from "../words.ts";
import type { Evidence, Finding } from "./evidence.ts";

export function duplicateFindings({ entries, records, looks }: Evidence): Finding[] {
  const found = (id: string, what: string): Finding => ({ kind: "duplicate", id, what });
  const { deliveries, ends, outcomes } = records;
  const submitted = entries.flatMap((entry) => (entry.kind === "submission" ? [entry] : []));
  const keys = (of: (entry: (typeof submitted)[number]) => Iterable<string>) =>
    several(new Map(submitted.map((entry) => [entry.id, entry])), of);
  return [
    ...several(deliveries, ({ bodies }) => bodies).map(([id, bodies]) =>
      found(id, `one delivery id with ${bodies.length} events: ${bodies.join(" and ")}`),
    ),
    ...several(ends, (ids) => ids.keys()).map(([id, ids]) =>
      found(id, `the end of one submission by ${ids.length} delivery ids: ${ids.join(", ")}`),
    ),
    ...several(outcomes, (counts) => counts.keys())
      .filter(([, reported]) => !areAlike(reported))
      .map(([id, reported]) =>
        found(id, `one workflow with ${reported.length} outcomes: ${reported.join(" and ")}`),
      ),
    ...keys((entry) => entry.submissionIds).map(([id, ids]) =>
      found(id, `one key was answered with ${ids.length} ids: ${ids.join(", ")}`),
    ),
    ...keys((entry) => entry.retriedIds).map(([id, ids]) =>
      found(id, `one submission was retried as ${ids.length}: ${ids.join(", ")}`),
    ),
    ...several(submissionsByKey(looks, submitted), (ids) => ids).map(([key, ids]) =>
      found(key, `one key with ${ids.length} submissions: ${ids.join(", ")}`),
    ),
    ...several(occurrences(deliveries), (ids) => ids).map(([occurrence, ids]) =>
      found(occurrence, `one occurrence ran ${ids.length} times: ${ids.join(", ")}`),
    ),
  ];
}

/** Whether they differ by interrupted children only, as those of a restarted workflow may. */
function areAlike(outcomes: readonly string[]): boolean {
  const [first = [], ...others] = outcomes.map((outcome) => JSON.parse(outcome) as string[]);
  return others.every(
    (other) => isExpectedOutcome(first, other) || isExpectedOutcome(other, first),
  );
}

/** The keys with more than one value. */
function several<Value>(
  map: ReadonlyMap<string, Value>,
  of: (value: Value) => Iterable<string>,
): [string, string[]][] {
  return [...map]
    .map(([id, value]): [string, string[]] => [id, [...of(value)]])
    .filter(([, values]) => values.length > 1);
}

/** A retried submission has the key of the first one. */
function submissionsByKey(
  looks: readonly Look[],
  submitted: readonly { readonly retriedIds: ReadonlySet<string> }[],
): Map<string, string[]> {
  const retried = new Set(submitted.flatMap(({ retriedIds }) => [...retriedIds]));
  const byKey = new Map<string, string[]>();
  for (const { agent, submissions } of looks) {
    for (const { id, key } of submissions) {
      if (key === null || retried.has(id)) continue;
      const place = `${agent}: ${key}`;
      byKey.set(place, [...(byKey.get(place) ?? []), id]);
    }
  }
  return byKey;
}

/** By occurrence: its key and its delivery id. A trigger has no time of the schedule. */
function occurrences(deliveries: Evidence["records"]["deliveries"]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const [id, { bodies }] of deliveries) {
    for (const body of bodies) {
      const event = JSON.parse(body) as HookEvent;
      if (event.type !== "occurrence") continue;
      const { agent, task, occurrence, cause, key } = event as HookEvent & { type: "occurrence" };
      const when = cause === "trigger" ? key : new Date(occurrence).toISOString();
      const place = `${agent} ${task} ${when}`;
      found.set(place, (found.get(place) ?? new Set()).add(`${key} by ${id}`));
    }
  }
  return found;
}
