/** L4: no message is in a conversation twice. */

import type { WorkInspection } from "./inspection/open-work.ts";

/** The fields of a message that are read here. */
export type SaidMessage = { readonly id: string };

/** Reads a thread; undefined for an object without conversations. */
type ReadThread = (thread: string) => Promise<readonly SaidMessage[] | undefined>;

export async function conversationProblems(
  { submissions }: WorkInspection,
  read: ReadThread,
): Promise<string[]> {
  const problems: string[] = [];
  // Isolated turns leave no messages.
  const threads = new Set(["main", ...submissions.map(({ thread }) => thread)]);
  threads.delete("isolated");
  for (const thread of threads) {
    const messages = await read(thread);
    if (!messages) continue;
    const counts = new Map<string, number>();
    for (const { id } of messages) counts.set(id, (counts.get(id) ?? 0) + 1);
    for (const [id, count] of counts) {
      if (count > 1) problems.push(`L4 message ${id} is in its conversation ${count} times`);
    }
  }
  return problems;
}
