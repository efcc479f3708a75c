/** Undoes the execution of a gate, for the workflow that compensates and waits for it no longer. */

import type { Gates } from "../waits/gates.ts";
import type { Closing } from "../waits/types.ts";
import { executionOf } from "./codemode.ts";
import type { CodemodePort } from "./types.ts";

const OVER: Closing = { status: "cancelled", result: { error: "Its workflow is rolled back" } };

/** What became of it: there may have been nothing to undo, or no record of it any more. */
export type CodemodeRollback = "rolled-back" | "nothing" | "forgotten";

/**
 * Stops the execution of that gate where it is under way, and reverts what it has applied, the latest first, where its
 * tools have a `revert`. May be called again after a failure: what was reverted is left alone. A later run of the workflow
 * runs the code afresh (W1).
 *
 * @throws Error while the execution is still being stopped, or when a revert failed
 */
export async function rollBack(
  gates: Gates,
  port: CodemodePort,
  gateId: string,
): Promise<CodemodeRollback> {
  if ((await gates.find(gateId))?.status === "open") await gates.expire(gateId, OVER);
  const gate = await gates.find(gateId);
  if (!gate) return "forgotten";
  if (gate.isLive) throw new Error(`The code of gate ${gateId} is still under way`);
  await gates.release(gateId);
  if (gate.state === undefined) return "nothing";
  const runtime = await port.runtime();
  const { execution } = await executionOf(runtime, gate);
  if (!execution) return "forgotten";
  await runtime.rollback({ executionId: execution.id });
  return "rolled-back";
}
