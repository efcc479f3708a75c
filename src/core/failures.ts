/**
 * Classes of failure. What happens next depends on the class alone, never on
 * where the failure was caught.
 */

import {
  isDurableObjectCodeUpdateReset,
  isDurableObjectMemoryLimitReset,
  isDurableObjectStorageReset,
} from "agents";

export type Failure = {
  /** The error's stable name, e.g. `APICallError`. */
  readonly name: string;
  /** What went wrong, for a person. */
  readonly message: string;
};

/** What was thrown, as plain data that a row can hold. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: "Error", message: String(error) };
}

/**
 * Whether the platform is taking this isolate down (deploy, memory limit,
 * storage reset). Nothing written from here on would last, and none of it is
 * the work's fault: the next start recovers from the rows.
 */
export function isReset(error: unknown): boolean {
  return (
    isDurableObjectCodeUpdateReset(error) ||
    isDurableObjectMemoryLimitReset(error) ||
    isDurableObjectStorageReset(error)
  );
}
