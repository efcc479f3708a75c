/** Attempts that failed and were followed by another one. All SQL that writes `perdure_attempts`, and what is decided by. */

import { readFailure, storedFailure } from "../../core/failures.ts";
import { insert } from "../../core/sql.ts";
import { type AttemptPlan, attemptPlanOf, type PriorAttempt } from "../turns/next-attempt.ts";
import type { FailedAttempt, TokenUsage } from "../types.ts";
import { type FailedEnd, json, type Submission } from "./rows.ts";

/** UTF-16 units that are kept of a refused answer, to show it to the model. */
const GIVEN_LENGTH = 64 * 1024;

const COLUMNS =
  "seq, attempt, started_at, ended_at, error, error_name, usage, follow, timeline, given";

type NewAttempt = Pick<FailedEnd, "failure" | "spent" | "follow" | "given" | "timeline"> & {
  readonly seq: number;
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt: number;
};

export class Attempts {
  constructor(private readonly sql: SqlStorage) {}

  /** Records a failed attempt, in the transaction that makes its submission pending again. */
  add({ seq, attempt, startedAt, endedAt, ...end }: NewAttempt): void {
    const { failure, spent: usage, given, ...rest } = end;
    insert(this.sql, "perdure_attempts", {
      ...{ seq, attempt, startedAt, endedAt, usage, follow: rest.follow, timeline: rest.timeline },
      error: storedFailure(failure),
      errorName: failure.name,
      given: given && cut(given),
    });
  }

  /** A new submission continues an ended one: it gets its attempts, the last one as failed, and its usage. */
  inherit(seq: number, from: Submission, last: Omit<NewAttempt, "seq" | "attempt">): void {
    const { attempts, resets, waits, usage } = from;
    const copy = `INSERT INTO perdure_attempts (${COLUMNS})
                  SELECT ?${COLUMNS.slice("seq".length)} FROM perdure_attempts WHERE seq = ?`;
    this.sql.exec(copy, seq, from.seq);
    this.add({ ...last, seq, attempt: attempts });
    const query =
      "UPDATE perdure_submissions SET attempts = ?, resets = ?, waits = ?, usage = ? WHERE seq = ?";
    this.sql.exec(query, attempts, resets, waits, json(usage), seq);
  }

  /** The attempts of a submission that failed and were not its last, oldest first. */
  failed(seq: number): FailedAttempt[] {
    const query = `SELECT attempt, started_at AS startedAt, ended_at AS endedAt, error, error_name AS errorName, usage
                   FROM perdure_attempts WHERE seq = ? ORDER BY attempt`;
    type Row = Omit<FailedAttempt, "usage"> & { usage: string | null };
    return Array.from(this.sql.exec<Row>(query, seq), ({ usage, ...attempt }) => ({
      ...attempt,
      error: readFailure(attempt.error).message,
      ...(usage !== null && { usage: JSON.parse(usage) as TokenUsage }),
    }));
  }

  /** The earlier attempts, oldest first. No read for a first attempt, or without an answer to give. */
  priors(of: Pick<Submission, "seq" | "attempts" | "answer">): PriorAttempt[] {
    if (!of.answer || of.attempts < 2) return [];
    const query = `SELECT follow, error, given FROM perdure_attempts
                   WHERE seq = ? AND attempt < ? ORDER BY attempt`;
    type Row = Omit<PriorAttempt, "given"> & { given: string | null };
    const rows = this.sql.exec<Row>(query, of.seq, of.attempts);
    return Array.from(rows, ({ given, ...prior }) => ({
      ...prior,
      error: readFailure(prior.error).message,
      given: given ?? undefined,
    }));
  }

  /** What the latest attempt asks. */
  planOf(of: Pick<Submission, "seq" | "attempts" | "answer">): AttemptPlan | undefined {
    return attemptPlanOf(of.answer, this.priors(of));
  }
}

function cut(text: string): string {
  return text.length > GIVEN_LENGTH ? `${text.slice(0, GIVEN_LENGTH)} [cut]` : text;
}
