/** The names of runs, and a task's own share of its jitter. All of them depend on the owner and the task alone. */

import { createHash } from "node:crypto";
import type { LifecycleServices } from "agents/lifecycle";
import { digest } from "../core/text.ts";
import { instanceIdFor } from "./instance-id.ts";
import type { RunKey } from "./rows.ts";

/** A new owner, in 22 characters. Made once for each object, and stored: neither a class's name nor anything else of the code is in it. */
export function newOwner(): string {
  return digest(crypto.randomUUID());
}

/** The owner of runs from before owners were stored. */
export function ownerOfNames({
  className,
  name,
  routes,
}: Pick<LifecycleServices, "className" | "name"> & {
  readonly routes: Pick<LifecycleServices["routes"], "source">;
}): string {
  // A sub-agent's name is unique within its parent only; its address has the parents.
  return digest(JSON.stringify([className, name, routes.source?.key ?? null]));
}

/** What Think calls a run: its task and its slot. A trigger has no slot, and may come at that of another run. */
export function occurrenceKeyOf({ taskId, slot, triggerKey }: RunKey): string {
  return triggerKey === "" ? `${taskId}:${slot}` : `${taskId}:trigger:${triggerKey}`;
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
