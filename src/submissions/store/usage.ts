/** Tokens of all submissions by day, where a budget asks for them. All SQL of `perdure_usage`. */

/** Days that are kept: a clock that goes back finds the day that it comes back to. */
const KEPT_DAYS = 31;

export type UsageOfDay = {
  readonly tokens: number;
  /** How many of the latest calls of a model have used no tokens that can be counted. */
  readonly unmeasured: number;
};

export class DayUsage {
  constructor(private readonly sql: SqlStorage) {}

  /** Adds a call of a model to a day, and forgets the oldest days. */
  add(day: number, tokens: number): void {
    this.sql.exec(
      `INSERT INTO perdure_usage (day, tokens, unmeasured) VALUES (?, ?, ?)
       ON CONFLICT (day) DO UPDATE SET tokens = tokens + excluded.tokens,
         unmeasured = iif(excluded.tokens > 0, 0, unmeasured + 1)`,
      day,
      tokens,
      tokens > 0 ? 0 : 1,
    );
    this.sql.exec(
      "DELETE FROM perdure_usage WHERE day <= (SELECT day FROM perdure_usage ORDER BY day DESC LIMIT 1 OFFSET ?)",
      KEPT_DAYS,
    );
  }

  of(day: number): UsageOfDay {
    const [row] = this.sql
      .exec<UsageOfDay>("SELECT tokens, unmeasured FROM perdure_usage WHERE day = ?", day)
      .toArray();
    return row ?? { tokens: 0, unmeasured: 0 };
  }
}
