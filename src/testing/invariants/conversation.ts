/** L4: each message of a completed submission is in its conversation, once. */

import { isIsolated } from "../../kernel/submissions/internal.ts";
import type { Rows } from "./rows.ts";

/** The fields of a message that are read here. */
export type SaidMessage = { readonly id: string };

/** Reads a thread; undefined for an object without conversations. */
export type ReadThread = (thread: string) => Promise<readonly SaidMessage[] | undefined>;

type Said = { submission_id: string; thread: string; status: string; messages: string };

export async function conversationProblems(rows: Rows, read: ReadThread): Promise<string[]> {
  const said = rows.of<Said>(
    "perdure_submissions",
    `SELECT submission_id, thread, status, messages FROM perdure_submissions
     WHERE settled_at IS NOT NULL ORDER BY seq`,
  );
  const problems: string[] = [];
  for (const thread of new Set(["main", ...said.map(({ thread }) => thread)])) {
    // Isolated turns, also those of a batch, leave no messages.
    if (isIsolated(thread)) continue;
    const messages = await read(thread);
    if (!messages) continue;
    const own = said.filter((one) => one.thread === thread);
    problems.push(...problemsOf(own, messages));
  }
  return problems;
}

function problemsOf(said: readonly Said[], messages: readonly SaidMessage[]): string[] {
  const times = new Map<string, number>();
  for (const { id } of messages) times.set(id, (times.get(id) ?? 0) + 1);
  const twice = [...times].filter(([, count]) => count > 1);
  const missing = said
    .filter(({ status }) => status === "completed")
    .flatMap(({ submission_id, messages }) =>
      (JSON.parse(messages) as SaidMessage[])
        .filter(({ id }) => !times.has(id))
        .map(({ id }) => `L4 message ${id} of ${submission_id} is not in its conversation`),
    );
  return [
    ...twice.map(([id, count]) => `L4 message ${id} is in its conversation ${count} times`),
    ...missing,
  ];
}
