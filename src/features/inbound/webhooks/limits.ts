/** The limits of a receiver. In a file without imports, because bundlers write such numbers where they are used. */

/** The default of `maxBytes`: 1 MiB. */
export const DEFAULT_BYTES = 1_048_576;
/** The most that `maxBytes` takes: 25 MiB. */
export const MAX_BYTES = 26_214_400;
/** Of an endpoint. */
export const MAX_SECRETS = 10;
/** In milliseconds. A Worker runs for 30 seconds after its response. */
export const MAX_TIME_LIMIT = 30_000;
/** Characters of an arrival's type. */
export const MAX_TYPE = 200;
/**
 * Those after it do not count. Senders send one signature for each of their active secrets.
 */
export const MAX_SIGNATURES = 16;
/** Levels of a body. */
export const MAX_LEVELS = 500;
/** Lines of the log in a period, of one source and status. */
export const LINES_PER_PERIOD = 10;
export const PERIOD_MS = 60_000;
/** Refused requests of this time are counted together. */
export const COLLECT_MS = 10_000;
/** Characters of a reason in the log. */
export const MAX_REASON = 300;
