/** Why waits are closed from outside. */

import type { Closing, Wait } from "./protocol.ts";

const cancelled = (error: string): Closing => ({ status: "cancelled", result: { error } });

/** Closes an open wait that a later run replaces. */
export const REPLACED = cancelled("Its workflow was restarted, and asks something else now");
/** Closes a wait that a restarted run has not asked for again. */
const ABANDONED = cancelled("Its workflow was restarted, and has not asked for it again");
/** Closes a wait whose run has ended. A run that continues from a step takes it back. */
export const RUN_ENDED = cancelled("The run of the workflow that waited for it has ended");
/** Closes a wait whose step never asked for its end. */
const FORGOTTEN: Closing = {
  status: "expired",
  result: { error: "Its step never asked for its end" },
};

/** The run of an open wait whose workflow was restarted, until the new run asks for it. */
export const RESTARTED = "restarted";
/** After this time, a wait that a restarted run has not asked for again is cancelled. */
export const RESTARTED_MS = 600_000;

/** Closes an open wait whose time is over. */
export const overdue = ({ run }: Wait): Closing => (run === RESTARTED ? ABANDONED : FORGOTTEN);

/** Whether the end of its run has closed a wait, by the error that it has. */
export const isOfEndedRun = (error: unknown): boolean =>
  error === (RUN_ENDED.result as { readonly error: string }).error;
