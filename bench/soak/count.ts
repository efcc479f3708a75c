/**
 * Counts what must be none: what was accepted and is lost, what has not ended, what a receiver that deduplicates would still
 * do twice, and what keeps an agent waking. Decides by what was written down; it asks nobody.
 */

import { duplicatesOf } from "./duplicates.ts";
import type { Entry } from "./ledger.ts";
import type { Records } from "./records.ts";
import { scheduleFindings } from "./schedules.ts";
import { CUT_OFF, type Look } from "./words.ts";

export const KINDS = ["lost", "stuck", "duplicate", "alarm", "failed"] as const;

export type Finding = {
  readonly kind: (typeof KINDS)[number];
  /** Of what it is found: a key, a workflow, a slot, an agent. */
  readonly id: string;
  /** What is known of it. */
  readonly what: string;
};

export type Evidence = {
  readonly entries: readonly Entry[];
  readonly records: Records;
  readonly looks: readonly Look[];
  /** What the platform says of each workflow. */
  readonly platform: Readonly<Record<string, string>>;
};

const OPEN = ["pending", "running"];

export function findingsOf(evidence: Evidence): Finding[] {
  const { entries, looks, records } = evidence;
  const rows = new Map(looks.flatMap(({ submissions }) => submissions.map((row) => [row.id, row])));
  return [
    ...entries.flatMap((entry) =>
      entry.kind === "workflow"
        ? workflowFindings(entry, evidence)
        : submissionFindings(entry, rows, records),
    ),
    ...duplicatesOf(evidence),
    ...looks.flatMap((look) => scheduleFindings(look, records)),
    ...looks.flatMap(remainsOf),
  ];
}

function submissionFindings(
  { id: key, agent, acceptedAt, askedAt, submissionIds, hasEffect }: Entry,
  rows: ReadonlyMap<string, Look["submissions"][number]>,
  { ends }: Records,
): Finding[] {
  const asked = `asked of ${agent} at ${at(askedAt)}`;
  if (acceptedAt === undefined) return [{ kind: "stuck", id: key, what: `${asked}, no answer` }];
  return [...submissionIds].flatMap((id): Finding[] => {
    const row = rows.get(id);
    const known = `submission ${id}, ${asked}, accepted at ${at(acceptedAt)}`;
    if (row === undefined) return [{ kind: "lost", id: key, what: `${known}: not in the ledger` }];
    // Told of with everything else that is open.
    if (OPEN.includes(row.status)) return [];
    const said = `${row.status} after ${row.attempts} attempts (${row.error ?? "no error"})`;
    if (!ends.has(id)) {
      return [{ kind: "lost", id: key, what: `${known}: ${said}, its event never came` }];
    }
    const isMeant = hasEffect === true && isGivenUp(row);
    return row.status === "error" && !isMeant
      ? [{ kind: "failed", id: key, what: `${known}: ${said}` }]
      : [];
  });
}

/** What a kill or its model has ended after a tool had run, and so is not tried again (L6). */
export function isGivenUp({ status, hasEffects }: Look["submissions"][number]): boolean {
  return status === "error" && hasEffects === 1;
}

function workflowFindings(
  { id, agent, acceptedAt, askedAt, expected }: Entry,
  { records, platform }: Evidence,
): Finding[] {
  const status = platform[id] ?? "unknown";
  const known = `workflow of ${agent}, asked at ${at(askedAt)}, ${status}`;
  if (acceptedAt === undefined) return [{ kind: "stuck", id, what: `${known}: no answer` }];
  const outcome = records.outcomes.get(id)?.keys().next().value;
  if (/^(queued|running|paused|waiting)/.test(status)) {
    return [{ kind: "stuck", id, what: `${known}, its outcome: ${outcome ?? "none yet"}` }];
  }
  if (outcome === undefined) return [{ kind: "lost", id, what: `${known}: no outcome came` }];
  const isExpected = outcome.replaceAll(CUT_OFF, "child:researched") === expected;
  if (isExpected && status === "complete") return [];
  return [{ kind: "failed", id, what: `${known}: ${outcome}, expected ${expected}` }];
}

/** What an agent should not have any more. */
function remainsOf({ agent, ...look }: Look): Finding[] {
  const stuck = [
    ...look.submissions
      .filter(({ status }) => OPEN.includes(status))
      .map(({ id, key, status, attempts, startedAt, dueAt, failures }) => ({
        id,
        what:
          `submission ${key} of ${agent}: ${status}, attempt ${attempts}, started at ${startedAt && at(startedAt)}, ` +
          `due at ${dueAt && at(dueAt)}, failed before: ${failures ?? "never"}`,
      })),
    ...look.openGates.map((gate) => ({ id: gate, what: `a gate of ${agent} that is open` })),
  ].map((found): Finding => ({ kind: "stuck", ...found }));
  const lost = look.deadLetters.map(
    (letter): Finding => ({ kind: "lost", id: letter, what: `a dead letter of ${agent}` }),
  );
  const alarms = [
    ...look.outbox.map((entry) => `in the outbox: ${entry}`),
    ...look.jobs
      .filter(({ id }) => id.startsWith("perdure"))
      .map(({ id, time }) => `job ${id} at ${at(time)}`),
    ...(look.alarm !== null && look.jobs.length === 0
      ? [`an alarm at ${at(look.alarm)}, and no job`]
      : []),
  ].map((what): Finding => ({ kind: "alarm", id: agent, what }));
  return [...stuck, ...lost, ...alarms];
}

function at(time: number): string {
  return new Date(time).toISOString().slice(5, 23);
}
