/**
 * Counts findings, of which there must be none: lost and unfinished work, effects that are repeated in spite of deduplication,
 * and agents that wake without work. Decides by the records alone.
 */

import { duplicatesOf } from "./duplicates.ts";
import type { Entry } from "./ledger.ts";
import type { Records } from "./records.ts";
import { scheduleFindings } from "./schedules.ts";
import { CUT_OFF, type Look } from "./words.ts";

export const KINDS = [
  "lost",
  "stuck",
  "duplicate",
  "effects run twice",
  "came back",
  "alarm",
  "failed",
] as const;

export type Finding = {
  readonly kind: (typeof KINDS)[number];
  /** The subject: a key, a workflow, an occurrence or an agent. */
  readonly id: string;
  /** The known facts. */
  readonly what: string;
};

export type Evidence = {
  readonly entries: readonly Entry[];
  readonly records: Records;
  readonly looks: readonly Look[];
  /** The platform's status of each workflow. */
  readonly platform: Readonly<Record<string, string>>;
  /** Options that accepted an unpaired surrogate. */
  readonly acceptedMalformed: Iterable<string>;
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
    ...entries.flatMap((entry) => repeatedEffects(entry, records)),
    ...comeBack(evidence),
    ...[...evidence.acceptedMalformed].map(
      (option): Finding => ({ kind: "failed", id: option, what: "took half of a surrogate pair" }),
    ),
    ...looks.flatMap((look) => scheduleFindings(look, records)),
    ...looks.flatMap((look) => remainsOf(look)),
  ];
}

function submissionFindings(
  { id: key, agent, acceptedAt, askedAt, submissionIds }: Entry,
  rows: ReadonlyMap<string, Look["submissions"][number]>,
  { ends }: Records,
): Finding[] {
  const asked = `asked of ${agent} at ${at(askedAt)}`;
  if (acceptedAt === undefined) return [{ kind: "stuck", id: key, what: `${asked}, no answer` }];
  return [...submissionIds].flatMap((id): Finding[] => {
    const row = rows.get(id);
    const known = `submission ${id}, ${asked}, accepted at ${at(acceptedAt)}`;
    if (row === undefined) return [{ kind: "lost", id: key, what: `${known}: not in the ledger` }];
    // Reported with everything else that is open.
    if (OPEN.includes(row.status)) return [];
    const said = `${row.status} after ${row.attempts} attempts (${row.error ?? "no error"})`;
    if (!ends.has(id)) {
      return [{ kind: "lost", id: key, what: `${known}: ${said}, its event never came` }];
    }
    return row.status === "error" ? [{ kind: "failed", id: key, what: `${known}: ${said}` }] : [];
  });
}

/** Tool calls that ran more often than the model made them. */
function repeatedEffects({ agent, planned }: Entry, { effects }: Records): Finding[] {
  return [...planned].flatMap(([key, times]): Finding[] => {
    const ran = effects.get(key) ?? 0;
    if (ran <= times) return [];
    return [
      { kind: "effects run twice", id: key, what: `of ${agent}: ran ${ran} times, asked ${times}` },
    ];
  });
}

/** Cleared messages that are in the conversation again, and messages that are there twice. */
function comeBack({ entries, looks }: Evidence): Finding[] {
  const found = (id: string, what: string): Finding => ({ kind: "came back", id, what });
  const messages = new Map(looks.map((look) => [look.agent, look.messages]));
  const back = entries.filter(
    ({ agent, id, thread = "", isCleared }) =>
      isCleared && messages.get(agent)?.[thread]?.includes(id),
  );
  const twice = looks.flatMap(({ agent, messages }) =>
    Object.values(messages).flatMap((ids) =>
      ids
        .filter((id, index) => ids.indexOf(id) !== index)
        .map((id) => found(id, `of ${agent}: twice`)),
    ),
  );
  return [...back.map(({ id, agent }) => found(id, `of ${agent}: was cleared`)), ...twice];
}

function workflowFindings(
  { id, agent, acceptedAt, askedAt, expected, isTerminated }: Entry,
  { records, platform }: Evidence,
): Finding[] {
  const status = platform[id] ?? "unknown";
  const known = `workflow of ${agent}, asked at ${at(askedAt)}, ${status}`;
  if (acceptedAt === undefined) return [{ kind: "stuck", id, what: `${known}: no answer` }];
  const outcome = records.outcomes.get(id)?.keys().next().value;
  if (/^(queued|running|paused|waiting)/.test(status)) {
    return [{ kind: "stuck", id, what: `${known}, its outcome: ${outcome ?? "none yet"}` }];
  }
  if (isTerminated && /^(terminated|complete)/.test(status)) return [];
  if (outcome === undefined) return [{ kind: "lost", id, what: `${known}: no outcome came` }];
  const isExpected = outcome.replaceAll(CUT_OFF, "child:researched") === expected;
  if (isExpected && status === "complete") return [];
  return [{ kind: "failed", id, what: `${known}: ${outcome}, expected ${expected}` }];
}

/** Leftovers in an agent's storage. */
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
    ...look.openWaits.map((wait) => ({ id: wait, what: `a wait of ${agent} that is open` })),
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
