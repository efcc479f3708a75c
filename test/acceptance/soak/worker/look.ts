/** Reads the state of an agent by its public verbs, page by page. Changes nothing. */

import type { DurableThink } from "perdure/think";
import { type Look, type Said, THREADS } from "../words.ts";

/** The length of a task's history. */
const RUNS = 200;
/** Small, so that every list has several pages. */
const PAGE = 50;

type Agent = Pick<
  DurableThink,
  | "name"
  | "schedules"
  | "threadMessages"
  | "listSubmissions"
  | "outbox"
  | "approvals"
  | "getWorkflows"
>;

/** @returns all but the alarm and the list for operators, which are read from outside of the agent */
export async function lookAt(agent: Agent): Promise<Look> {
  const { items: tasks } = await agent.schedules.list();
  const runs = await Promise.all(
    tasks.map(({ taskId }) => agent.schedules.runs(taskId, { limit: RUNS })),
  );
  const deliveries = await everyPage((cursor) => agent.outbox.listDeliveries(cursor));
  const deadLetters = await everyPage((cursor) => agent.outbox.listDeadLetters(cursor));
  const approvals = await everyPage((cursor) => agent.approvals.list(cursor));
  const messages: Record<string, Said[]> = {};
  for (const thread of THREADS) messages[thread] = await readThread(agent, thread);
  return {
    agent: agent.name,
    messages,
    submissions: await readSubmissions(agent),
    runs: runs
      .flatMap(({ items }) => items)
      .map((run) => ({
        task: run.taskId,
        occurrence: run.scheduledFor,
        key: run.idempotencyKey,
        cause: run.cause,
        status: run.status,
        submissionId: run.submissionId ?? null,
        error: run.error?.message ?? run.reason ?? null,
      })),
    missed: Object.fromEntries(tasks.map(({ taskId, counts }) => [taskId, counts.missed])),
    deliveries: deliveries.map((delivery) => ({
      id: delivery.id,
      submissionId: delivery.submissionId ?? null,
      kind: delivery.destination.kind,
      state: delivery.state,
      error: "lastError" in delivery ? (delivery.lastError ?? null) : null,
    })),
    deadLetters: deadLetters.map(({ id, lastError: error }) => ({ id, error })),
    approvals: approvals.map(({ approvalId }) => approvalId),
    workflows: await readWorkflows(agent),
    openWork: [],
    alarm: null,
  };
}

async function readSubmissions(agent: Agent): Promise<Look["submissions"]> {
  const found: Look["submissions"][number][] = [];
  for (let before: string | undefined; ; before = found.at(-1)?.id) {
    const page = await agent.listSubmissions({ limit: PAGE, ...(before && { before }) });
    if (page.length === 0) return found;
    for (const one of page) {
      found.push({
        id: one.submissionId,
        key: one.idempotencyKey ?? null,
        thread: one.thread,
        status: one.status,
        attempts: one.attempts,
        output: one.output ?? null,
        messageId: one.messageId ?? null,
        mergedInto: one.mergedInto ?? null,
        error: one.error ?? null,
        failures: one.failedAttempts?.map(({ error }) => error).join("; ") ?? null,
      });
    }
  }
}

async function readThread(agent: Agent, thread: string): Promise<Said[]> {
  const messages = await agent.threadMessages(thread);
  return messages.map(({ id, role, parts }) => {
    const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    return { id, role, text };
  });
}

async function readWorkflows(agent: Agent): Promise<Look["workflows"]> {
  const found: Record<string, string> = {};
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await agent.getWorkflows({ limit: PAGE, ...(cursor && { cursor }) });
    for (const { workflowId, status } of page.workflows) found[workflowId] = status;
    cursor = page.nextCursor;
  }
  return found;
}

async function everyPage<Item>(
  read: (page: {
    limit: number;
    cursor?: string;
  }) => Promise<{ readonly items: readonly Item[]; readonly cursor?: string | undefined }>,
): Promise<Item[]> {
  const found: Item[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await read({ limit: PAGE, ...(cursor && { cursor }) });
    found.push(...page.items);
    if (page.cursor === undefined) return found;
    cursor = page.cursor;
  }
}
