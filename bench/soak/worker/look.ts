/** Reads an agent's storage: the tables of Perdure, of its workflows and of the job queue. Changes nothing. */

import type { DurableThink } from "perdure/think";
import type { Look } from "../words.ts";

/** The length of a task's history. */
const RUNS = 200;

export async function lookAt(
  agent: Pick<DurableThink, "name" | "schedules" | "threadMessages">,
  storage: DurableObjectStorage,
): Promise<Look> {
  const all = <Row extends Record<string, SqlStorageValue>>(query: string) =>
    storage.sql.exec<Row>(query).toArray();
  const { items: tasks } = await agent.schedules.list();
  const runs = await Promise.all(
    tasks.map(({ taskId }) => agent.schedules.runs(taskId, { limit: RUNS })),
  );
  const idsOf = (messages: readonly { id: string }[]) => messages.map(({ id }) => id);
  return {
    agent: agent.name,
    messages: {
      main: idsOf(await agent.threadMessages("main")),
      side: idsOf(await agent.threadMessages("side")),
    },
    submissions: all(
      `SELECT submission_id AS id, idempotency_key AS key, status, attempts, error, started_at AS startedAt, due_at AS dueAt,
         (SELECT GROUP_CONCAT(attempt || ' at ' || ended_at || ': ' || error, '; ') FROM perdure_attempts WHERE seq = s.seq) AS failures
       FROM perdure_submissions s`,
    ),
    // A plain object runs none in the soak, and has no such table.
    workflows: all("SELECT 1 FROM sqlite_master WHERE name = 'cf_agents_workflows'").length
      ? all("SELECT workflow_id AS id, status FROM cf_agents_workflows")
      : [],
    runs: runs
      .flatMap(({ items }) => items)
      .map((run) => ({
        task: run.taskId,
        occurrence: run.scheduledFor,
        key: run.idempotencyKey,
        status: run.status,
        submissionId: run.submissionId ?? null,
        error: run.error?.message ?? run.reason ?? null,
      })),
    missed: Object.fromEntries(tasks.map(({ taskId, counts }) => [taskId, counts.missed])),
    openWaits: all<{ wait: string }>(
      "SELECT kind || ' of ' || instance AS wait FROM perdure_waits WHERE settled_at IS NULL",
    ).map(({ wait }) => wait),
    outbox: all<{ entry: string }>(
      `SELECT id || ' to ' || destination_key || ', attempt ' || attempts || ', due ' || due_at || ', ' || COALESCE(last_error, 'no error') AS entry
       FROM perdure_outbox`,
    ).map(({ entry }) => entry),
    deadLetters: all<{ letter: string }>(
      "SELECT id || ' to ' || destination_key || ': ' || last_error AS letter FROM perdure_dead_letters",
    ).map(({ letter }) => letter),
    alarm: await storage.getAlarm(),
    jobs: all("SELECT id, time FROM cf_agents_jobs ORDER BY time"),
  };
}
