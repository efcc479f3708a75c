/** O2 O3 O4: checks of deliveries, from their rows and their history. */

import type { Put } from "../history.ts";
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
  if (!rows.has("perdure_outbox")) return [];
  return [
    ...(hasDeadLetters ? [] : deadLetters(rows)),
    ...payloads(rows),
    // A dead letter may have been deleted since.
    ...(taken && !hasDeadLetters ? lost(rows, taken) : []),
    ...orphans(rows),
  ];
}

function deadLetters(rows: Rows): string[] {
  return rows
    .of<{ id: string; last_error: string }>(
      "perdure_dead_letters",
      "SELECT id, last_error FROM perdure_dead_letters",
    )
    .map(({ id, last_error }) => `O3 delivery ${id} is a dead letter: ${last_error}`);
}

/** O2: a delivery id belongs to one event. */
function payloads(rows: Rows): string[] {
  return rows
    .of<{ id: string }>(
      "perdure_testing_puts",
      "SELECT id FROM perdure_testing_puts GROUP BY id HAVING count(DISTINCT payload) > 1",
    )
    .map(({ id }) => `O2 delivery ${id} was put with several events`);
}

/** O2: a delivery that left the outbox was accepted, is kept, or was for a workflow that had ended. */
function lost(rows: Rows, taken: ReadonlySet<string>): string[] {
  const kept = `SELECT id FROM perdure_outbox UNION SELECT id FROM perdure_dead_letters
    UNION SELECT id FROM perdure_delivered WHERE discard_reason IS NOT NULL`;
  return rows
    .of<Put>(
      "perdure_testing_puts",
      `SELECT id FROM perdure_testing_puts EXCEPT SELECT id FROM (${kept})`,
    )
    .filter(({ id }) => !taken.has(id))
    .map(({ id }) => `O2 delivery ${id} left the outbox, and no destination accepted it`);
}

/** O4: parts exist exactly for the entries that need them. */
function orphans(rows: Rows): string[] {
  const inParts = ["perdure_outbox", "perdure_dead_letters", "perdure_delivered"]
    .map((table) => `SELECT id FROM ${table} WHERE payload IS NULL`)
    .join(" UNION ");
  const parts = "SELECT DISTINCT id FROM perdure_outbox_parts";
  const ids = (query: string) => rows.of<{ id: string }>("perdure_outbox_parts", query);
  return [
    ...ids(`${parts} EXCEPT SELECT id FROM (${inParts})`).map(
      ({ id }) => `O4 parts of delivery ${id} have no entry`,
    ),
    ...ids(`SELECT id FROM (${inParts}) EXCEPT ${parts}`).map(
      ({ id }) => `O4 the parts of delivery ${id} are missing`,
    ),
  ];
}
