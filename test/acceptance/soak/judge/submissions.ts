/** Each accepted submission has ended exactly once, with its own answer: in the event, in the inspection and in its deliveries. */

import { isDeepStrictEqual } from "node:util";
import type { SubmissionEntry } from "../ledger.ts";
import { type Ask, BUSY, expectedOutput, isDisturbed } from "../words.ts";
import { type Evidence, type Finding, isOpen, type Row, time } from "./evidence.ts";

/** A submission that the driver knows of. */
export type Known = {
  readonly agent: string;
  readonly key: string;
  readonly ask: Ask;
  readonly submissionId: string;
  readonly isCancelled?: boolean;
};

export type Rows = ReadonlyMap<string, Row>;

export function rowsById({ looks }: Pick<Evidence, "looks">): Rows {
  return new Map(looks.flatMap(({ submissions }) => submissions.map((row) => [row.id, row])));
}

/** Submissions that the driver or one of its webhooks has asked for, by id. */
export function knownSubmissions({ entries, records }: Evidence): Map<string, Known> {
  const known = new Map<string, Known>();
  for (const entry of entries) {
    if (entry.kind === "submission") {
      const { agent, id: key, ask, isCancelled = false } = entry;
      for (const submissionId of [...entry.submissionIds, ...entry.retriedIds])
        known.set(submissionId, { agent, key, ask, submissionId, isCancelled });
    }
    if (entry.kind === "arrival" && entry.ask !== undefined) {
      const { agent, id: key, ask } = entry;
      for (const submissionId of records.arrived.get(key) ?? [])
        known.set(submissionId, { agent, key, ask, submissionId });
    }
  }
  return known;
}

export function submissionFindings(evidence: Evidence): Finding[] {
  const rows = rowsById(evidence);
  const known = knownSubmissions(evidence);
  const answers = answersOfTurns(rows, known);
  const stored = new Set(evidence.looks.flatMap((look) => look.submissions.map(({ key }) => key)));
  return [
    ...evidence.entries.flatMap((entry) =>
      entry.kind === "submission" ? entryFindings(entry, { evidence, rows, stored }) : [],
    ),
    ...[...known.values()].flatMap((one) => endFindings(one, { evidence, rows, answers })),
    ...evidence.refusedKeys
      .filter((key) => stored.has(key))
      .map(
        (id): Finding => ({ kind: "failed", id, what: "its call was refused, and it is stored" }),
      ),
  ];
}

/** Requests without an answer, refused ones that are stored, and accepted ones that are missing. */
function entryFindings(
  entry: SubmissionEntry,
  {
    evidence,
    rows,
    stored,
  }: { evidence: Evidence; rows: Rows; stored: ReadonlySet<string | null> },
): Finding[] {
  const { id, agent, askedAt, acceptedAt, refused } = entry;
  const asked = `asked of ${agent} at ${time(askedAt)}`;
  if (acceptedAt === undefined) return [{ kind: "stuck", id, what: `${asked}, no answer` }];
  if (refused !== undefined && entry.submissionIds.size === 0) {
    if (!stored.has(id)) return [];
    return [{ kind: "failed", id, what: `${asked}, refused with ${refused}, and it is stored` }];
  }
  const ids = [...entry.submissionIds, ...entry.retriedIds];
  return ids.flatMap((submissionId): Finding[] => {
    const what = `submission ${submissionId}, ${asked}, accepted at ${time(acceptedAt)}`;
    const row = rows.get(submissionId);
    if (entry.isDeleted) {
      return row ? [{ kind: "came back", id, what: `${what}: was deleted` }] : [];
    }
    if (row === undefined) return [{ kind: "lost", id, what: `${what}: is not in the list` }];
    // Reported with everything else that is open.
    if (isOpen(row)) return [];
    if (evidence.records.ends.has(submissionId)) return deliveryFindings(entry, row, evidence);
    return [{ kind: "lost", id, what: `${what}: ${describe(row)}, its event never came` }];
  });
}

/** One delivery for each destination, under the id that the receiver has seen. */
function deliveryFindings(
  { id, agent, ask }: SubmissionEntry,
  row: Row,
  { looks, records }: Evidence,
): Finding[] {
  const look = looks.find((one) => one.agent === agent);
  const own = look?.deliveries.filter(({ submissionId }) => submissionId === row.id) ?? [];
  const expected = ask.hasBoom ? ["method", "webhook"] : ["webhook"];
  const seen = records.ends.get(row.id);
  const isRight =
    own
      .map(({ kind }) => kind)
      .sort()
      .join() === expected.join() &&
    own.every(
      ({ state, kind, id }) => state === "delivered" && (kind !== "webhook" || seen?.has(id)),
    );
  if (isRight) return [];
  const what = `the deliveries of ${row.id} are ${JSON.stringify(own)}, expected one of each: ${expected}`;
  return [{ kind: own.length > expected.length ? "duplicate" : "lost", id, what }];
}

/** The status and the answer, in the event and in the inspection. */
function endFindings(
  { submissionId, key, agent, ask, isCancelled = false }: Known,
  {
    evidence,
    rows,
    answers,
  }: { evidence: Evidence; rows: Rows; answers: ReadonlyMap<string, readonly unknown[]> },
): Finding[] {
  const [end] = evidence.records.ends.get(submissionId)?.values() ?? [];
  const row = rows.get(submissionId);
  if (end === undefined) return [];
  const found = (kind: Finding["kind"], what: string): Finding[] => [
    { kind, id: key, what: `submission ${submissionId} of ${agent}: ${what}` },
  ];
  if (row && row.status !== end.status) {
    return found("failed", `the event has ${end.status}, the inspection ${row.status}`);
  }
  const mayEnd =
    end.status === "completed" ||
    (end.status === "aborted" && (isCancelled || isDisturbed(agent) || ask.thread === BUSY)) ||
    (end.status === "skipped" && (isDisturbed(agent) || ask.expiresInMs !== undefined));
  if (!mayEnd) return found("failed", row ? describe(row) : `${end.status} (${end.error})`);
  if (end.status !== "completed") return [];
  const expected = answers.get(submissionId) ?? [expectedOutput(ask)];
  const isOwn = (output: unknown) => expected.some((one) => isDeepStrictEqual(one, output));
  if (!isOwn(end.output)) {
    return found("wrong answer", `the event has ${text(end.output)}, expected ${text(expected)}`);
  }
  if (row === undefined || isOwn(row.output)) return [];
  return found(
    "wrong answer",
    `the inspection has ${text(row.output)}, expected ${text(expected)}`,
  );
}

/** Answers that submissions of one turn may have: all that have joined it end with the same one. */
function answersOfTurns(rows: Rows, known: ReadonlyMap<string, Known>): Map<string, unknown[]> {
  const turnOf = (row: Row): string => {
    const into = row.mergedInto === null ? undefined : rows.get(row.mergedInto);
    return into ? turnOf(into) : (row.mergedInto ?? row.id);
  };
  const turns = Map.groupBy(rows.values(), turnOf);
  const answers = new Map<string, unknown[]>();
  for (const joined of turns.values()) {
    if (joined.length === 1) continue;
    const all = joined
      .flatMap(({ id }) => known.get(id) ?? [])
      .map(({ ask }) => expectedOutput(ask));
    for (const { id } of joined) answers.set(id, all);
  }
  return answers;
}

function describe({ status, attempts, error, failures }: Row): string {
  return `${status} after ${attempts} attempts (${error ?? "no error"}; failed before: ${failures ?? "never"})`;
}

function text(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 300) ?? "none";
}
