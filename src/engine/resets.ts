/** Recognises errors of the platform's resets. A file of its own, because only Workers can load `agents`. */

import {
  isDurableObjectCodeUpdateReset,
  isDurableObjectMemoryLimitReset,
  isDurableObjectStorageReset,
} from "agents";

/**
 * Whether the platform is stopping this isolate (deploy, memory limit, storage reset). Writes no longer commit, and the
 * work itself has not failed: the next start recovers from the rows.
 */
export function isReset(error: unknown): boolean {
  try {
    return (
      isDurableObjectCodeUpdateReset(error) ||
      isDurableObjectMemoryLimitReset(error) ||
      isDurableObjectStorageReset(error)
    );
  } catch {
    // Its getters throw when they are read.
    return false;
  }
}
