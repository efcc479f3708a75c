/** O2 O3 O4: checks of deliveries, from their rows and their history. */

import type { Rows } from "./rows.ts";

/** Tables whose rows keep a large payload in parts. */
const TABLES = ["perdure_outbox", "perdure_dead_letters", "perdure_delivered"];

/**
 * @param taken ids of the deliveries that a destination accepted, if the object was watched
 * @param hasDeadLetters whether some are expected
 */
export function outboxProblems(
  rows: Rows,
  taken: ReadonlySet<string> | undefined,
  hasDeadLetters: boolean,
): string[] {
  const inParts = TABLES.map((table) => `SELECT id FROM ${table} WHERE payload IS NULL`);
  return [
    ...rows.problems(
      "perdure_dead_letters",
      "'O3 delivery ' || id || ' is a dead letter: ' || last_error",
      "WHERE NOT ?",
      Number(hasDeadLetters),
    ),
    ...rows.problems(
      "perdure_testing_puts",
      "'O2 delivery ' || id || ' was put with several events'",
      "GROUP BY id HAVING count(DISTINCT payload) > 1",
    ),
    // It is kept, or was for a workflow that had ended. A dead letter may have been deleted since.
    ...rows.problems(
      "perdure_testing_puts",
      "DISTINCT 'O2 delivery ' || id || ' left the outbox, and no destination accepted it'",
      `WHERE ? AND id NOT IN (SELECT id FROM perdure_outbox UNION SELECT id FROM perdure_dead_letters
         UNION SELECT id FROM perdure_delivered WHERE discard_reason IS NOT NULL
         UNION SELECT value FROM json_each(?))`,
      Number(taken !== undefined && !hasDeadLetters),
      JSON.stringify([...(taken ?? [])]),
    ),
    // Parts exist exactly for the entries that need them.
    ...rows.problems(
      "perdure_outbox_parts",
      "DISTINCT 'O4 parts of delivery ' || id || ' have no entry'",
      `WHERE id NOT IN (${inParts.join(" UNION ")})`,
    ),
    ...TABLES.flatMap((table) =>
      rows.problems(
        table,
        "'O4 the parts of delivery ' || id || ' are missing'",
        "WHERE payload IS NULL AND id NOT IN (SELECT id FROM perdure_outbox_parts)",
      ),
    ),
  ];
}
