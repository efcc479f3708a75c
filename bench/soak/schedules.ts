/** Finds occurrences of schedules that did not run, and runs that have not ended. */

import type { Finding } from "./count.ts";
import type { Records } from "./records.ts";
import { type HookEvent, isDisturbed, type Look, TASKS } from "./words.ts";

type Run = Look["runs"][number];

export function scheduleFindings(
  { agent, runs, missed, submissions }: Look,
  records: Records,
): Finding[] {
  const rows = new Map(submissions.map((row) => [row.id, row]));
  const received = receivedOccurrences(agent, records);
  return Object.entries(TASKS).flatMap(([task, apart]) => {
    const own = runs.filter((run) => run.task === task);
    const name = (occurrence: number) => `${agent} ${task} ${new Date(occurrence).toISOString()}`;
    const counted = missed[task] ?? 0;
    return [
      ...gapsIn(
        [...own.map(({ occurrence }) => occurrence), ...(task === "tick" ? received : [])],
        apart,
      ).map(
        (occurrence): Finding => ({
          kind: "lost",
          id: name(occurrence),
          what: "an occurrence that never fired",
        }),
      ),
      ...(counted === 0
        ? []
        : [
            {
              kind: "lost",
              id: `${agent} ${task}`,
              what: `${counted} occurrences missed`,
            } as const,
          ]),
      ...own
        .filter((run) => !isMeantToEnd(agent, run))
        .flatMap((run) => runFindings(run, name(run.occurrence), { rows, received })),
    ];
  });
}

/** The turns of a disturbed agent's own conversation end when that is cleared. */
function isMeantToEnd(agent: string, { task, status }: Run): boolean {
  return isDisturbed(agent) && task === "think" && !["waiting", "running"].includes(status);
}

function runFindings(
  { task, occurrence, status, key, submissionId, error }: Run,
  id: string,
  { rows, received }: { rows: ReadonlyMap<string, unknown>; received: ReadonlySet<number> },
): Finding[] {
  const known = `run ${key} is ${status} (${error ?? "no error"})`;
  if (status === "waiting" || status === "running") return [{ kind: "stuck", id, what: known }];
  if (status !== "completed") return [{ kind: "failed", id, what: known }];
  const hasCome =
    task === "tick" ? received.has(occurrence) : submissionId !== null && rows.has(submissionId);
  if (hasCome) return [];
  const missing = task === "tick" ? "its event never came" : `no submission ${submissionId}`;
  return [{ kind: "lost", id, what: `${known}, and ${missing}` }];
}

/** The occurrences of an agent's ticks that the receiver received. */
function receivedOccurrences(agent: string, { deliveries }: Records): Set<number> {
  const occurrences = new Set<number>();
  for (const { bodies } of deliveries.values()) {
    for (const body of bodies) {
      const event = JSON.parse(body) as HookEvent & { type: "occurrence" };
      if (event.type === "occurrence" && event.agent === agent) occurrences.add(event.occurrence);
    }
  }
  return occurrences;
}

/** Between the first and the last one. */
function gapsIn(occurrences: readonly number[], apart: number): number[] {
  if (occurrences.length === 0) return [];
  const known = new Set(occurrences);
  const [first, last] = [Math.min(...occurrences), Math.max(...occurrences)];
  return Array.from({ length: (last - first) / apart }, (_, index) => first + index * apart).filter(
    (occurrence) => !known.has(occurrence),
  );
}
