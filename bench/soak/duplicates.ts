/** Effects that a receiver would repeat although it deduplicates deliveries by id and other calls by key. */

import type { Evidence, Finding } from "./count.ts";
import type { HookEvent, Look } from "./words.ts";

export function duplicatesOf({ entries, records, looks }: Evidence): Finding[] {
  const found = (id: string, what: string): Finding => ({ kind: "duplicate", id, what });
  const { deliveries, ends, outcomes } = records;
  return [
    ...several(deliveries, ({ bodies }) => bodies).map(([id, bodies]) =>
      found(id, `one delivery id with ${bodies.length} events: ${bodies.join(" and ")}`),
    ),
    ...several(ends, (ids) => ids).map(([id, ids]) =>
      found(id, `the end of one submission by ${ids.length} delivery ids: ${ids.join(", ")}`),
    ),
    ...several(outcomes, (counts) => counts.keys()).map(([id, reported]) =>
      found(id, `one workflow with ${reported.length} outcomes: ${reported.join(" and ")}`),
    ),
    ...several(
      new Map(entries.map((entry) => [entry.id, entry])),
      (entry) => entry.submissionIds,
    ).map(([id, ids]) =>
      found(id, `one key was answered with ${ids.length} ids: ${ids.join(", ")}`),
    ),
    ...several(submissionsByKey(looks), (ids) => ids).map(([key, ids]) =>
      found(key, `one key with ${ids.length} submissions: ${ids.join(", ")}`),
    ),
    ...several(occurrencesOf(deliveries), (ids) => ids).map(([occurrence, ids]) =>
      found(occurrence, `one occurrence ran ${ids.length} times: ${ids.join(", ")}`),
    ),
  ];
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

function submissionsByKey(looks: readonly Look[]): Map<string, string[]> {
  const byKey = new Map<string, string[]>();
  for (const { agent, submissions } of looks) {
    for (const { id, key } of submissions) {
      if (key === null) continue;
      const place = `${agent}: ${key}`;
      byKey.set(place, [...(byKey.get(place) ?? []), id]);
    }
  }
  return byKey;
}

/** By occurrence: its key and its delivery id. */
function occurrencesOf(deliveries: Evidence["records"]["deliveries"]): Map<string, Set<string>> {
  const occurrences = new Map<string, Set<string>>();
  for (const [id, { bodies }] of deliveries) {
    for (const body of bodies) {
      const event = JSON.parse(body) as HookEvent;
      if (event.type !== "occurrence") continue;
      const { agent, task, occurrence, key } = event as HookEvent & { type: "occurrence" };
      const place = `${agent} ${task} ${new Date(occurrence).toISOString()}`;
      occurrences.set(place, (occurrences.get(place) ?? new Set()).add(`${key} by ${id}`));
    }
  }
  return occurrences;
}
