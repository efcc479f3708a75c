/**
 * Decides what to do next with an execution, from the stored progress and the
 * runtime's record. Pure. Codemode resumes what is paused, and nothing
 * else: a run that was cut off stays `running` for ever.
 *
 * | noted            | recorded                       | then                                          |
 * |------------------|--------------------------------|-----------------------------------------------|
 * | nothing          | (not looked for)               | execute                                       |
 * | begun            | none                           | execute; failed where it may be forgotten     |
 * | asked, approved  | none                           | failed: its record was deleted                |
 * | begun, approved  | running, no call begun         | forget it, execute again                      |
 * | begun, approved  | running, calls begun           | interrupted                              |
 * | asked            | running                        | approved elsewhere: wait, until it stands still |
 * | begun            | paused                         | ask                                           |
 * | asked            | paused at another action       | ask                                           |
 * | asked            | paused, undecided              | wait                                          |
 * | asked            | paused, granted                | approve                                       |
 * | asked            | paused, denied                 | reject                                        |
 * | approved         | paused at the same action      | approve: it had not begun                     |
 * | approved         | paused at another action       | ask                                           |
 * | any              | completed, error, rejected     | close                                         |
 * | any              | rolled_back                    | close: failed                                 |
 *
 * A pass that was refused (`refused`) changed nothing, and is not tried again. Nor is one that came to its end (`hasRun`)
 * and has left what it found, or no record: the code may have had its effects.
 */

import type { WaitStatus } from "../../workflow/waits/protocol.ts";
import { begunCalls, pendingAction } from "./outcome.ts";
import type { CallRecord, ExecutionRecord, Progress } from "./types.ts";

/** A running execution that has recorded nothing for so long is taken for cut off. A pass takes a minute at most by default. */
const STILL_MS = 15 * 60_000;

export type Situation = {
  readonly progress: Progress | undefined;
  readonly execution: ExecutionRecord | undefined;
  /** Whether an execution that is not found may have been, and was pruned. */
  readonly mayBeForgotten: boolean;
  /** The status of the approval of the action that was asked about. */
  readonly approval: "open" | WaitStatus | undefined;
  /** Why a pass since the last start was refused. */
  readonly refused: string | undefined;
  /** Whether a pass of this drive has ended. */
  readonly hasRun: boolean;
  readonly now: number;
};

export type Action =
  | { readonly do: "execute"; readonly forget?: string }
  | { readonly do: "wait" }
  | {
      readonly do: "ask" | "approve" | "reject";
      readonly execution: ExecutionRecord;
      readonly action: CallRecord;
    }
  | {
      readonly do: "complete" | "interrupted" | "rejected";
      readonly execution: ExecutionRecord;
    }
  | { readonly do: "fail"; readonly error: string };

const DELETED = "The record of the execution was deleted before it ended";
const FORGOTTEN =
  "The agent went down when the code was about to run, and its record may have been pruned: whether it ran is unknown. " +
  "Raise maxExecutions of the runtime, and restart the workflow to run the code afresh.";

const UNRECORDED =
  "The code was run, and the runtime has no record of what came of it. Set maxExecutions of the runtime to at least 1, and " +
  "delete no execution before its step has ended; restart the workflow to run the code afresh.";
const NO_ACTION = "The execution is paused, and no action of it waits for a decision";
const UNCHANGED = "The action was approved, and the runtime still waits for its approval";

export function decide(situation: Situation): Action {
  const { progress, execution, mayBeForgotten, refused, hasRun } = situation;
  if (!progress) return { do: "execute" };
  if (!execution) {
    if (refused !== undefined) return { do: "fail", error: refused };
    if (progress.step !== "begun") return { do: "fail", error: DELETED };
    if (hasRun) return { do: "fail", error: UNRECORDED };
    return mayBeForgotten ? { do: "fail", error: FORGOTTEN } : { do: "execute" };
  }
  switch (execution.status) {
    case "completed":
      return { do: "complete", execution };
    case "error":
      return { do: "fail", error: execution.error ?? "The code failed" };
    case "rejected":
      return { do: "rejected", execution };
    case "rolled_back":
      return { do: "fail", error: "The execution was rolled back before its result was taken" };
    case "running":
      return ofRunning(situation, execution, progress);
    case "paused":
      return ofPaused(situation, execution, progress);
  }
}

function ofRunning(
  { refused, hasRun, now }: Situation,
  execution: ExecutionRecord,
  progress: Progress,
): Action {
  const isElsewhere = progress.step === "asked" || refused !== undefined || hasRun;
  if (isElsewhere && now - execution.updatedAt < STILL_MS) return { do: "wait" };
  if (begunCalls(execution).length > 0) return { do: "interrupted", execution };
  return { do: "execute", forget: execution.id };
}

function ofPaused(
  { approval, refused, hasRun }: Situation,
  execution: ExecutionRecord,
  progress: Progress,
): Action {
  const action = pendingAction(execution);
  if (!action) return { do: "fail", error: NO_ACTION };
  if (refused !== undefined) return { do: "fail", error: refused };
  const found = { execution, action };
  if (progress.step === "begun" || progress.seq !== action.seq) return { do: "ask", ...found };
  if (progress.step === "approved" && hasRun) return { do: "fail", error: UNCHANGED };
  if (progress.step === "approved" || approval === "completed") return { do: "approve", ...found };
  if (approval === undefined) return { do: "ask", ...found };
  return approval === "open" ? { do: "wait" } : { do: "reject", ...found };
}
