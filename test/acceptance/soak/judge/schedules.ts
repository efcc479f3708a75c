/** Finds occurrences of schedules that did not run, and runs that have not ended. */

import type { Beat } from "../beats.ts";
import type { Records } from "../records.ts";
import { BEAT, type HookEvent, isDisturbed, isNested, type Look, TASKS } from "../words.ts";
import type { Evidence, Finding } from "./evidence.ts";

type Run = Look["runs"][number];

/** The interval between the occurrences of the task that the driver acts on. */
const BEAT_MS = 5_000;

export function scheduleFindings(
  { agent, runs, missed, submissions }: Look,
  records: Records,
): Finding[] {
  if (isNested(agent)) return [];
  const rows = new Map(submissions.map((row) => [row.id, row]));
  const received = receivedOccurrences(agent, "tick", records);
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

/** The task that the driver acts on: what it has triggered, skipped and backfilled. */
export function beatFindings(
  { agent, isBackfilled, triggers, skipped, last }: Beat,
  { looks, records }: Pick<Evidence, "looks" | "records">,
): Finding[] {
  const runs = looks.find((look) => look.agent === agent)?.runs ?? [];
  const own = runs.filter(({ task }) => task === BEAT);
  const events = receivedEvents(agent, BEAT, records);
  const keys = new Set(events.map(({ key }) => key));
  const fired = new Set(
    events.filter(({ cause }) => cause !== "trigger").map(({ occurrence }) => occurrence),
  );
  const name = (occurrence: number) => `${agent} ${BEAT} ${new Date(occurrence).toISOString()}`;
  return [
    ...own.flatMap((run): Finding[] => {
      const id = name(run.occurrence);
      const known = `run ${run.key} (${run.cause}) is ${run.status}: ${run.error ?? "no error"}`;
      if (/^(waiting|running)$/.test(run.status)) return [{ kind: "stuck", id, what: known }];
      if (!/^(completed|skipped)$/.test(run.status)) return [{ kind: "failed", id, what: known }];
      if (run.status === "skipped" || keys.has(run.key)) return [];
      return [{ kind: "lost", id, what: `${known}, and its event never came` }];
    }),
    ...[...triggers].flatMap(([key, found]): Finding[] => {
      const id = `${agent} ${BEAT} ${key}`;
      if (found.size > 1) {
        return [{ kind: "duplicate", id, what: `one key with the runs ${[...found].join(", ")}` }];
      }
      const [run] = found;
      if (run === undefined || keys.has(run)) return [];
      return [{ kind: "lost", id, what: `the event of the run ${run} never came` }];
    }),
    ...(isBackfilled ? [] : [...skipped])
      .filter((occurrence) => fired.has(occurrence))
      .map((occurrence): Finding => {
        return { kind: "failed", id: name(occurrence), what: "was skipped, and has run" };
      }),
    ...(last === undefined ? [] : occurrencesIn(last))
      .filter((occurrence) => !fired.has(occurrence))
      .map((occurrence): Finding => {
        return { kind: "lost", id: name(occurrence), what: "was backfilled, and has not run" };
      }),
  ];
}

/** Occurrences of the task in a range, its end excluded. */
function occurrencesIn({ from, to }: { from: number; to: number }): number[] {
  const first = Math.ceil(from / BEAT_MS) * BEAT_MS;
  const count = Math.max(0, Math.ceil((to - first) / BEAT_MS));
  return Array.from({ length: count }, (_, index) => first + index * BEAT_MS);
}

type Occurrence = Extract<HookEvent, { type: "occurrence" }>;

function receivedEvents(agent: string, task: string, { deliveries }: Records): Occurrence[] {
  return [...deliveries.values()].flatMap(({ bodies }) =>
    [...bodies].flatMap((body) => {
      const event = JSON.parse(body) as HookEvent;
      if (event.type !== "occurrence") return [];
      const occurrence = event as Occurrence;
      return occurrence.agent === agent && occurrence.task === task ? [occurrence] : [];
    }),
  );
}

function receivedOccurrences(agent: string, task: string, records: Records): Set<number> {
  return new Set(receivedEvents(agent, task, records).map(({ occurrence }) => occurrence));
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
