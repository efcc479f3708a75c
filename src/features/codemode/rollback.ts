/** Undoes the execution of a wait, for the workflow that compensates and waits for it no longer. */

import { readOptions, text } from "../../core/options/option-schemas.ts";
import type { Closing } from "../../workflow/waits/protocol.ts";
import type { Waits } from "../../workflow/waits/waits.ts";
import { executionOf } from "./kind.ts";
import type { CodemodePort } from "./types.ts";

const OVER: Closing = { status: "cancelled", result: { error: "Its workflow is rolled back" } };

/** The outcome of a rollback: there may have been nothing to undo, or no record of the calls any more. */
type CodemodeRollback = "rolled-back" | "nothing" | "forgotten";

/** What `runCode()` calls at its agent, besides the calls of all steps. */
export type CodemodeCalls = { rollbackCodemode(waitId: string): Promise<CodemodeRollback> };

/**
 * Stops the execution of that wait if it runs, and reverts what it has applied, the latest first, where its
 * tools have a `revert`. May be called again after a failure: what was reverted is left alone. A later run of the workflow
 * runs the code afresh.
 *
 * @throws InvalidOptionError for what is no id, Error while the execution is still being stopped, or when a revert failed
 */
export async function rollBack(
  waits: Waits,
  port: CodemodePort,
  waitId: string,
): Promise<CodemodeRollback> {
  readOptions(text(), waitId, "waitId");
  await waits.ready();
  if (waits.find(waitId)?.status === "open") await waits.close({ waitId }, OVER);
  const wait = waits.find(waitId);
  if (!wait) return "forgotten";
  if (wait.isLive) throw new Error(`The code of wait ${waitId} is still running`);
  // It answers no other run any more, because its effects are undone.
  waits.store.releaseKey(waitId);
  if (wait.state === undefined) return "nothing";
  const runtime = await port.runtime();
  const { execution } = await executionOf(runtime, wait);
  if (!execution) return "forgotten";
  await runtime.rollback({ executionId: execution.id });
  return "rolled-back";
}
