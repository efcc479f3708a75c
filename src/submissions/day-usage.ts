/** Tokens of all submissions by day, where a budget asks for them. All SQL of `perdure_usage`. */

export class DayUsage {
  constructor(private readonly sql: SqlStorage) {}

  /** Adds tokens to a day, and forgets the days before it. */
  add(day: number, tokens: number): void {
    this.sql.exec(
      "INSERT INTO perdure_usage (day, tokens) VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET tokens = tokens + ?",
      day,
      tokens,
      tokens,
    );
    this.sql.exec("DELETE FROM perdure_usage WHERE day < ?", day);
  }

  of(day: number): number {
    const [row] = this.sql
      .exec<{ tokens: number }>("SELECT tokens FROM perdure_usage WHERE day = ?", day)
      .toArray();
    return row?.tokens ?? 0;
  }
}
