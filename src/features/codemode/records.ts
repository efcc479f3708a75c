/**
 * Finds an execution among those that the runtime lists, by public means only:
 * by its id, or by a comment in its code that names the wait.
 */

import { normalizeCode } from "@cloudflare/codemode";
import type { CodemodeRuntime, ExecutionRecord } from "./types.ts";

/** A clock may have been set back by so much between the note and the record. */
const SLACK_MS = 60_000;

const TERMINAL: readonly ExecutionRecord["status"][] = [
  "completed",
  "error",
  "rejected",
  "rolled_back",
];

/** The beginning of the message about a result that JSON cannot hold. */
export const NOT_JSON =
  "The result of the code has no JSON form. Return plain data, or a reference to what the code has written to a workspace: ";

/**
 * Runs in the sandbox, around the code: codemode reads only the `message` of what is thrown, and passes on any result. A value
 * without a message is thrown as an Error. A result is checked by the rules of `lostInJson()`.
 */
const GUARD = `async (run) => {
  const { stringify, parse } = JSON;
  let result;
  try {
    result = await run();
  } catch (error) {
    if (typeof error?.message === "string" && error.message) throw error;
    let text = "a value of type " + typeof error;
    try { text = error instanceof Error ? String(error) : (stringify(error) ?? String(error)); } catch {}
    throw new Error("The code threw " + text);
  }
  try {
    const text = stringify(result, function (key, value) {
      const it = this[key];
      const kind = Object.prototype.toString.call(it).slice(8, -1);
      const isPlain =
        it === undefined ? !Array.isArray(this)
        : typeof it === "number" ? Number.isFinite(it)
        : /^(Array|Boolean|Null|Object|String)$/.test(kind);
      if (isPlain) return value;
      const what = it === undefined || typeof it === "number" ? it : "a " + kind;
      throw new Error((key ? stringify(key) : "it") + " is " + what);
    });
    return text && parse(text);
  } catch (error) {
    throw new Error("${NOT_JSON}" + error.message);
  }
}`;

/** The comment that names the wait in the code of its execution. */
export function markOf(waitId: string): string {
  return `/* perdure:${waitId} */`;
}

/** The code as codemode gets it, with a comment that names the wait. It cannot see the names that the guard uses. */
export function markedCode(code: string, waitId: string): string {
  return `${markOf(waitId)}\nasync () => (${GUARD})(${normalizeCode(code)}\n)`;
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
