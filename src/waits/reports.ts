/** What a workflow is told of a wait that has a row: its receipt, its end, and the event of its end. Pure. */

import { byteLength } from "../core/json.ts";
import { PART_LENGTH } from "../core/text.ts";
import type { WorkflowDestination } from "../outbox/types.ts";
import type { Closing, Wait, WaitEnd, WaitEvent, WaitReceipt } from "./protocol.ts";

/** The event that reports the end of this wait, and of no other. */
function eventTypeOf(waitId: string): string {
  return `perdure-wait-${waitId}`;
}

export function receiptOf(wait: Wait): WaitReceipt {
  const { waitId, proof, status } = wait;
  const receipt = { waitId, eventType: eventTypeOf(waitId), proof };
  return { ...receipt, ...(status !== "open" && { end: endOf(wait) }) };
}

export function endOf({ waitId, status, settledAt, result = null }: Wait): WaitEnd {
  if (status === "open" || settledAt === undefined) throw new Error(`Wait ${waitId} is open`);
  const text = JSON.stringify(result);
  if (text.length <= PART_LENGTH) return { waitId, status, settledAt, result };
  return { waitId, status, settledAt, reference: { bytes: byteLength(text) } };
}

/** The event of its end, as JSON, and where it goes. */
export function reportOf(
  { waitId, workflow, proof }: Wait,
  { status, result }: Closing,
  now: number,
): { destination: WorkflowDestination; event: string } {
  const event = {
    type: `wait.${status}`,
    timestamp: new Date(now).toISOString(),
    data: { waitId, status, settledAt: now, result },
  } satisfies WaitEvent;
  const destination = {
    kind: "workflow",
    workflow: workflow.name,
    instance: workflow.id,
    eventType: eventTypeOf(waitId),
    proof,
  } as const;
  return { destination, event: JSON.stringify(event) };
}
