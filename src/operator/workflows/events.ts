/** The events of a workflow instance that the platform has, from the first one. */

import type { WorkflowInfo } from "agents/workflows";
import { TimeoutError, withTimeout } from "../../core/clock.ts";
import type { OperatedAgent } from "../operated.ts";
import { instanceOf, PLATFORM_MS } from "./instances.ts";

const MAX_EVENTS = 5_000;
const GAP_MS = 250;

/**
 * @param gapMs idle gap after which the stream has caught up
 * @returns whether all events were read, undefined where the platform has none, or does not answer
 */
export async function eachEvent(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
  note: (event: WorkflowInstanceEvent) => void,
  gapMs = GAP_MS,
): Promise<{ readonly isComplete: boolean } | undefined> {
  const until = performance.now() + PLATFORM_MS;
  const left = () => Math.max(0, until - performance.now());
  let idleMs = 0;
  try {
    const instance = await withTimeout(instanceOf(operated, tracked), left());
    if (typeof instance?.subscribe !== "function") return undefined;
    using events = await withTimeout(instance.subscribe(), left());
    for (let read = 0; read < MAX_EVENTS; read++) {
      idleMs = Math.min(gapMs, left());
      const { done, value } = await withTimeout(events.next(), idleMs);
      if (done || !value) return { isComplete: true };
      note(value);
    }
    return { isComplete: false };
  } catch (error) {
    // The next event has not happened yet, or the platform is slow.
    if (error instanceof TimeoutError) return { isComplete: idleMs === gapMs };
    console.warn(`[perdure] the steps of workflow ${tracked.workflowId} could not be read:`, error);
    return undefined;
  }
}

export function timeOf({ timestamp }: Pick<WorkflowInstanceEvent, "timestamp">): number {
  return new Date(timestamp as number).getTime();
}
