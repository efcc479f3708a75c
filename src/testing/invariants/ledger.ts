/** L1 L2 L7 O1: checks of submissions, from their rows and their history. */

import type { Destination } from "../../kernel/outbox/index.ts";
import type { SubmissionStatus } from "../../kernel/submissions/index.ts";
import { isTerminal, NEXT } from "../../kernel/submissions/internal.ts";
import type { Change, Put } from "../history.ts";
import type { Rows } from "./rows.ts";

type Ended = { submission_id: string; notify: string };

export function ledgerProblems(rows: Rows): string[] {
  return [...transitions(rows), ...endings(rows), ...outputs(rows), ...notifications(rows)];
}

/** L2: each change of status is a legal transition. */
function transitions(rows: Rows): string[] {
  return changes(rows).flatMap(({ id, before, after }) => {
    if (before === null) return [];
    const allowed: readonly string[] = NEXT[before as SubmissionStatus];
    return allowed.includes(after) ? [] : [`L2 ${id}: ${before} was followed by ${after}`];
  });
}

/** L1: each accepted submission that is not open has exactly one end. open-work.ts reports open ones. */
function endings(rows: Rows): string[] {
  const ends = new Map<string, string[]>();
  for (const { id, after } of changes(rows)) {
    const known = ends.get(id) ?? [];
    ends.set(id, isTerminal(after as SubmissionStatus) ? [...known, after] : known);
  }
  const open = rows.of<{ submission_id: string }>(
    "perdure_submissions",
    "SELECT submission_id FROM perdure_submissions WHERE settled_at IS NULL",
  );
  for (const { submission_id } of open) ends.delete(submission_id);
  return [...ends]
    .filter(([, states]) => states.length !== 1)
    .map(([id, states]) => `L1 ${id} ended ${states.length} times: ${states.join(", ")}`);
}

/** L7: each completed submission has an output, in its row or in parts. */
function outputs(rows: Rows): string[] {
  return rows.problems(
    "perdure_submissions",
    "'L7 ' || submission_id || ' completed and has no output'",
    `AS ended WHERE status = 'completed' AND (output IS NULL
       OR output = '' AND NOT EXISTS (SELECT 1 FROM perdure_answer_parts WHERE seq = ended.seq AND part = 0))`,
  );
}

/** O1 O2: each destination of an end has one delivery of it, under one id. */
function notifications(rows: Rows): string[] {
  const puts = rows.of<Put>("perdure_testing_puts", "SELECT * FROM perdure_testing_puts");
  const ended = rows.of<Ended>(
    "perdure_submissions",
    `SELECT submission_id, notify FROM perdure_submissions
     WHERE settled_at IS NOT NULL AND notify IS NOT NULL`,
  );
  return ended.flatMap(({ submission_id, notify }) => {
    const own = puts.filter(({ payload }) => submissionOf(payload) === submission_id);
    // A payload in parts is not read; it may belong to this submission.
    const inParts = puts.filter(({ payload }) => payload === null);
    const destinations = JSON.parse(notify) as Destination[];
    return [...new Set(destinations.map(keyOf))].flatMap((key) => {
      const wanted = destinations.filter((to) => keyOf(to) === key).length;
      const isTo = ({ destination }: Put) => keyOf(JSON.parse(destination) as Destination) === key;
      const ids = new Set(own.filter(isTo).map(({ id }) => id));
      const unread = new Set(inParts.filter(isTo).map(({ id }) => id));
      if (ids.size <= wanted && ids.size + unread.size >= wanted) return [];
      const found = ids.size === 0 ? "was never put" : `has ${ids.size} delivery ids`;
      return [`${ids.size === 0 ? "O1" : "O2"} the end of ${submission_id} for ${key} ${found}`];
    });
  });
}

function changes(rows: Rows): Change[] {
  return rows.of<Change>("perdure_testing_changes", "SELECT * FROM perdure_testing_changes");
}

/** The submission that an event reports; a payload in parts is not read. */
function submissionOf(payload: string | null): string | undefined {
  const event = JSON.parse(payload ?? "null") as {
    type?: unknown;
    data?: { submissionId?: string };
  } | null;
  const isEnd = typeof event?.type === "string" && event.type.startsWith("submission.");
  return isEnd ? event?.data?.submissionId : undefined;
}

function keyOf({ policy: _policy, ...to }: Destination): string {
  return JSON.stringify(Object.entries(to).sort());
}
