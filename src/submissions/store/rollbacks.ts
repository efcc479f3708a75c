/** Submissions whose messages have to leave the conversation again. All SQL of `is_undone` but its first write, by `settle`. */

import { type Submission, select } from "./rows.ts";

export class Rollbacks {
  constructor(private readonly sql: SqlStorage) {}

  /** Those whose messages are still to be taken out. */
  open(): Submission[] {
    return select(
      this.sql,
      "SELECT * FROM perdure_submissions INDEXED BY perdure_submissions_undo WHERE is_undone = 0",
    );
  }

  /** All that have ever joined its turn; those came after it. */
  joinedTo({ seq, submissionId }: Submission): Submission[] {
    const query = "SELECT * FROM perdure_submissions WHERE seq > ? AND merged_into = ?";
    return select(this.sql, query, seq, submissionId);
  }

  /** Its messages have to leave the conversation, though it has ended already. */
  add(seq: number): void {
    this.sql.exec(
      "UPDATE perdure_submissions SET is_undone = 0 WHERE seq = ? AND settled_at IS NOT NULL",
      seq,
    );
  }

  /** Its messages have left the conversation. */
  done(seq: number): void {
    this.sql.exec("UPDATE perdure_submissions SET is_undone = 1 WHERE seq = ?", seq);
  }
}
