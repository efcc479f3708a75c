/** Ids that stay the same: idempotency keys of runs, ids of Workflow instances, and each task's share of its jitter. */

import { createHash } from "node:crypto";
import { DIGEST_LENGTH, digest } from "../core/text.ts";

/** Identifies a run within its object. */
export type RunKey = {
  readonly taskId: string;
  readonly occurrence: number;
  readonly triggerKey: string;
};

/** 1 to 100 of these, the first a letter or digit: https://developers.cloudflare.com/workflows/reference/limits/ */
const VALID_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
const MAX_LENGTH = 100;

/**
 * The id of a Workflow instance for any key: a valid key unchanged, any other as its readable part and a digest of the
 * whole key. The same key always has the same id, and two keys never have the same id by accident.
 *
 *     instanceIdFor("report:2026-01-05") // "report-2026-01-05-" and 22 characters
 */
export function instanceIdFor(key: string): string {
  if (VALID_ID.test(key)) return key;
  const slug = key.replaceAll(/[^A-Za-z0-9_-]+/g, "-").replace(/^[_-]+/, "");
  const readable = slug.slice(0, MAX_LENGTH - DIGEST_LENGTH - 1).replace(/[_-]+$/, "");
  return `${readable || "id"}-${digest(key)}`;
}

/** Think's name for a run: its task and its occurrence. A trigger has no occurrence, and may come at the time of another run. */
export function occurrenceKeyOf({ taskId, occurrence, triggerKey }: RunKey): string {
  return triggerKey === "" ? `${taskId}:${occurrence}` : `${taskId}:trigger:${triggerKey}`;
}

/** Unique per owner, task and occurrence, and valid as the id of a Workflow instance. */
export function idempotencyKeyOf(owner: string, run: RunKey): string {
  return instanceIdFor(`${occurrenceKeyOf(run)}:${owner}`);
}

/** In [0, 1), and always the same for a task of an owner. */
export function jitterShare(owner: string, taskId: string): number {
  const hash = createHash("sha256").update(`${owner}:${taskId}`).digest();
  return hash.readUInt32BE(0) / 2 ** 32;
}
