/** What becomes of an occurrence that meets open runs of its task (S3). Decides, and has no state. */

import type { Run } from "../rows.ts";
import type { DeclaredTask } from "../tasks/declared.ts";

/** Runs of a task that may wait for one before them, when one more is to join them. */
const MAX_WAITING = 100;

export type Admission = {
  /** Why it is not run, or undefined when it is. */
  readonly skipped: string | undefined;
  /** Whether it is not run because as many runs wait as may. */
  readonly isFull?: boolean;
  /** Open runs that make room for it. */
  readonly cancelled: readonly Run[];
};

/**
 * @param task its `overlap`; with a `catchUp` that keeps all, what comes while missed ones are made up for follows
 *   them: it would be the next to be missed
 * @param open runs of the task, before what comes now. Backfills are in nobody's way: an
 *   occurrence waits for the one that runs, and goes before the rest
 */
export function admit(
  { overlap, catchUpMs }: Pick<DeclaredTask, "overlap" | "catchUpMs">,
  open: readonly Run[],
): Admission {
  const others = open.filter(({ cause }) => cause !== "backfill");
  const [first] = others;
  if (first === undefined || overlap === "allow") return { skipped: undefined, cancelled: [] };
  if (overlap === "cancelPrevious") return { skipped: undefined, cancelled: others };
  const keepsAll = catchUpMs !== "latest" && catchUpMs > 0;
  const isCatchingUp = keepsAll && others.some(({ cause }) => cause === "catch-up");
  if (overlap === "skip" && !isCatchingUp) {
    const when = new Date(first.slot).toISOString();
    return { skipped: `The run of ${when} had not ended`, cancelled: [] };
  }
  const waiting = others.filter(({ status }) => status === "waiting").length;
  const isFull = waiting >= MAX_WAITING;
  return { skipped: isFull ? `${waiting} runs were waiting` : undefined, isFull, cancelled: [] };
}
