/** Submissions in which repetitions are gathered. All SQL of `debounce_key` but its first write, by `accept`. */

import type { NewSubmission } from "./changes.ts";
import type { OpenSubmissions } from "./open.ts";
import { json, type Submission, select } from "./rows.ts";

export class Debounced {
  constructor(
    private readonly sql: SqlStorage,
    private readonly open: OpenSubmissions,
  ) {}

  /** The one that repetitions with this key are still gathered in. */
  find(debounceKey: string): Submission | undefined {
    const [found] = select(
      this.sql,
      `SELECT * FROM perdure_submissions INDEXED BY perdure_submissions_debounce
       WHERE debounce_key = ? AND settled_at IS NULL`,
      debounceKey,
    );
    return found;
  }

  /** pending → pending, with what has come last, and put off if it has not joined the line yet. */
  replace(
    seq: number,
    { messages, metadata, notify, expiresAt }: NewSubmission,
    notBefore: number,
  ): Submission {
    this.open.reschedule();
    const [replaced] = select(
      this.sql,
      `UPDATE perdure_submissions SET messages = ?, metadata = ?, notify = ?, expires_at = ?,
         not_before = CASE WHEN not_before IS NULL THEN NULL ELSE MIN(?, debounce_until) END
       WHERE seq = ? AND status = 'pending' RETURNING *`,
      messages,
      json(metadata),
      json(notify),
      expiresAt ?? null,
      notBefore,
      seq,
    );
    if (!replaced) throw new Error(`Submission ${seq} does not wait any more`);
    return replaced;
  }
}
