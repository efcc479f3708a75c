/**
 * Finds an execution among those that the runtime lists, by public means only:
 * by its id, or by a comment in its code that names the wait.
 */

import type { CodemodeRuntime, ExecutionRecord } from "./types.ts";

/** A clock may have been set back by so much between the note and the record. */
const SLACK_MS = 60_000;

const TERMINAL: readonly ExecutionRecord["status"][] = [
  "completed",
  "error",
  "rejected",
  "rolled_back",
];

/** The code, with a comment that names the wait: inside the fences, where a model has put it into some. */
export function markedCode(code: string, waitId: string): string {
  const fence = /^\s*```[^\n]*\n/.exec(code)?.[0] ?? "";
  return `${fence}/* perdure:${waitId} */\n${code.slice(fence.length)}`;
}

export type Found = {
  readonly execution: ExecutionRecord | undefined;
  /** Whether one that is not found may have been there: newer ones have ended, and none is left of those before it. */
  readonly mayBeForgotten: boolean;
};

/** @param since when it was begun at the earliest, epoch milliseconds: much older ones are not looked at */
export async function findExecution(
  runtime: Pick<CodemodeRuntime, "executions">,
  since: number,
  isIt: (execution: ExecutionRecord) => boolean,
): Promise<Found> {
  // Each record comes with its whole log, and the one looked for is mostly the newest.
  for (let limit = 2; ; limit *= 4) {
    const listed = await runtime.executions(limit);
    const execution = listed.find(isIt);
    if (execution) return { execution, mayBeForgotten: false };
    const ended = listed.filter(({ status }) => TERMINAL.includes(status));
    const isPast = ended.some(({ createdAt }) => createdAt < since - SLACK_MS);
    if (isPast || listed.length < limit) {
      return { execution: undefined, mayBeForgotten: isGapPossible(ended, since) };
    }
  }
}

/** Ended ones are pruned, the oldest first: as long as an older one is there, none that is newer is missing. */
function isGapPossible(ended: readonly ExecutionRecord[], since: number): boolean {
  return ended.length > 0 && ended.every(({ createdAt }) => createdAt >= since);
}
