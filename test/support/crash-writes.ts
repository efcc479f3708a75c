/** Writes after which a crash is tried in any case: each is a promise that somebody relies on from then on. */

export const ACCEPTED = /INSERT INTO perdure_submissions/;
export const CLAIMED = /UPDATE perdure_submissions SET status = 'running'/;
export const ACTED = /INSERT INTO perdure_tool_calls/;
export const TRIED = /INSERT INTO perdure_attempts/;
/** The event of an end is written with it. */
export const ENDED = /INSERT INTO perdure_outbox/;
export const BURIED = /INSERT.* INTO perdure_dead_letters/;
export const SETTLED = /UPDATE perdure_submissions\s+SET status = \?, error = /;
export const SKIPPED = /UPDATE perdure_submissions SET status = 'skipped'/;
export const FORGOTTEN = /DELETE FROM perdure_submissions/;
export const REFUSED = /UPDATE perdure_submissions SET is_refused/;
export const BATCHED = /INSERT INTO perdure_batches/;
export const OPENED = /INSERT INTO perdure_waits/;
export const NOTED = /UPDATE perdure_waits SET state/;
export const CLOSED = /UPDATE perdure_waits SET status/;
export const RUN = /INSERT.* INTO perdure_runs/;
export const DECLARED = /perdure_tasks/;
export const ANY = /./;
