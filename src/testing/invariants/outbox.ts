/** O2 O3 O4: checks of deliveries, from their rows and their history. */

import type { Rows } from "./rows.ts";

/**
 * @param taken ids of the deliveries that a destination accepted, if the object was watched
 * @param hasDeadLetters whether some are expected
 */
export function outboxProblems(
  rows: Rows,
  taken: ReadonlySet<string> | undefined,
  hasDeadLetters: boolean,
): string[] {
  return [
    ...(hasDeadLetters ? [] : deadLetters(rows)),
    ...payloads(rows),
    // A dead letter may have been deleted since.
    ...(taken && !hasDeadLetters ? lost(rows, taken) : []),
    ...parts(rows),
  ];
}

function deadLetters(rows: Rows): string[] {
  return rows.problems(
    "perdure_dead_letters",
    "'O3 delivery ' || id || ' is a dead letter: ' || last_error",
  );
}

/** O2: a delivery id belongs to one event. */
function payloads(rows: Rows): string[] {
  return rows.problems(
    "perdure_testing_puts",
    "'O2 delivery ' || id || ' was put with several events'",
    "GROUP BY id HAVING count(DISTINCT payload) > 1",
  );
}

/** O2: a delivery that left the outbox was accepted, is kept, or was for a workflow that had ended. */
function lost(rows: Rows, taken: ReadonlySet<string>): string[] {
  return rows.problems(
    "perdure_testing_puts",
    "DISTINCT 'O2 delivery ' || id || ' left the outbox, and no destination accepted it'",
    `WHERE id NOT IN (SELECT id FROM perdure_outbox UNION SELECT id FROM perdure_dead_letters
       UNION SELECT id FROM perdure_delivered WHERE discard_reason IS NOT NULL
       UNION SELECT value FROM json_each(?))`,
    JSON.stringify([...taken]),
  );
}

/** O4: parts exist exactly for the entries that need them. */
function parts(rows: Rows): string[] {
  const tables = ["perdure_outbox", "perdure_dead_letters", "perdure_delivered"];
  const inParts = tables.map((table) => `SELECT id FROM ${table} WHERE payload IS NULL`);
  return [
    ...rows.problems(
      "perdure_outbox_parts",
      "DISTINCT 'O4 parts of delivery ' || id || ' have no entry'",
      `WHERE id NOT IN (${inParts.join(" UNION ")})`,
    ),
    ...tables.flatMap((table) =>
      rows.problems(
        table,
        "'O4 the parts of delivery ' || id || ' are missing'",
        "WHERE payload IS NULL AND id NOT IN (SELECT id FROM perdure_outbox_parts)",
      ),
    ),
  ];
}
