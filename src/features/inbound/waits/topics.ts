/**
 * Finds the waits that an arrival is for. A wait has a topic, and an index of the engine's table has those of the open ones.
 * Called within transactions, once the object has started.
 */

import type { JobStore } from "../../../engine/store.ts";
import type { Wait } from "../../../workflow/waits/protocol.ts";
import { toWait } from "../../../workflow/waits/wait-job.ts";

const WITH_TOPIC =
  "FROM perdure_jobs INDEXED BY perdure_jobs_topic WHERE topic IS NOT NULL AND ended_at IS NULL AND";

/** Open waits with one of these topics, of each topic the oldest first. Read one by one: a wait may be large. */
export function* openWithTopics(
  store: JobStore,
  topics: readonly string[],
  limit: number,
): Generator<Wait> {
  const query = `SELECT * ${WITH_TOPIC} topic IN (SELECT value FROM json_each(?)) LIMIT ?`;
  for (const job of store.each(query, JSON.stringify(topics), limit)) yield toWait(job);
}

export function countOfTopic(store: JobStore, topic: string, limit: number): number {
  return store.query(`SELECT 1 ${WITH_TOPIC} topic = ? LIMIT ?`, topic, limit).length;
}

/**
 * An open wait of each group of topics that begin with the same characters. Reads two rows of each group.
 *
 * @param start with what the topics of all groups begin
 * @param length of the common beginning of a group
 */
export function oneOfEachTopic(store: JobStore, start: string, length: number): Wait[] {
  // "~" comes after all characters of a topic.
  const next = (after: string) =>
    `(SELECT topic ${WITH_TOPIC} topic > ${after} AND topic < ?1 || '~' ORDER BY topic LIMIT 1)`;
  const found = store.each(
    `WITH RECURSIVE first (topic) AS (
       SELECT ${next("?1")}
       UNION ALL SELECT ${next("SUBSTR(first.topic, 1, ?2) || '~'")} FROM first WHERE first.topic IS NOT NULL
     )
     SELECT * FROM perdure_jobs WHERE seq IN
       (SELECT (SELECT seq ${WITH_TOPIC} topic = first.topic LIMIT 1) FROM first WHERE first.topic IS NOT NULL)`,
    start,
    length,
  );
  return Array.from(found, toWait);
}

/** True if an arrival has ended a wait. */
export function hasAnswered(store: JobStore, answeredBy: string): boolean {
  const query = "SELECT 1 FROM perdure_jobs WHERE ended_by = ? LIMIT 1";
  return store.query(query, answeredBy).length > 0;
}
