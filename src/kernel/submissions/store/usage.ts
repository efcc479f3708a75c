/** Tokens of all submissions by day, for `budget.tokensPerDay`. All SQL of `perdure_usage`. */

/** Days that are kept: a clock that is set back finds its day again. */
const KEPT_DAYS = 31;

export function addToDay(sql: SqlStorage, day: number, tokens: number): void {
  const add = `INSERT INTO perdure_usage (day, tokens, unmeasured) VALUES (?, ?, ?)
     ON CONFLICT (day) DO UPDATE SET tokens = tokens + excluded.tokens,
       unmeasured = iif(excluded.tokens > 0, 0, unmeasured + 1)`;
  sql.exec(add, day, tokens, tokens > 0 ? 0 : 1);
  const forget = `DELETE FROM perdure_usage
     WHERE day <= (SELECT day FROM perdure_usage ORDER BY day DESC LIMIT 1 OFFSET ?)`;
  sql.exec(forget, KEPT_DAYS);
}

/** `unmeasured` counts the latest model calls that reported no tokens. */
export function usageOfDay(sql: SqlStorage, day: number) {
  const query = "SELECT tokens, unmeasured FROM perdure_usage WHERE day = ?";
  const [row] = sql.exec<{ tokens: number; unmeasured: number }>(query, day).toArray();
  return row ?? { tokens: 0, unmeasured: 0 };
}
