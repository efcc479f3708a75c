/** For features that install a kind of wait with rows. */

export { InvalidWaitError, MOST_BYTES } from "./errors.ts";
export type { Closing, Ending, StoredKind, Wait } from "./protocol.ts";
export { GRACE_MS } from "./waits.ts";
