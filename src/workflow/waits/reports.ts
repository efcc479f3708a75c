/** The messages to a workflow about a wait that has a row: its receipt, its end, and the event of its end. Pure. */

import { byteLength } from "../../core/json.ts";
import { PART_LENGTH } from "../../core/text.ts";
import type { WorkflowDestination } from "../../outbox/destinations/workflow-event.ts";
import type { Wait, WaitEnd, WaitReceipt, WaitWorkflow } from "./protocol.ts";

/** Sends an event to the instance of a workflow that waits for it. */
export function destinationOf(
  { name: workflow, id: instance }: Pick<WaitWorkflow, "name" | "id">,
  eventType: string,
  proof?: string,
): WorkflowDestination {
  return { kind: "workflow", workflow, instance, eventType, ...(proof !== undefined && { proof }) };
}

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

/** The event of the end of a closed wait, as JSON, and where it goes. */
export function reportOf({ waitId, workflow, proof, status, settledAt = 0, result = null }: Wait): {
  destination: WorkflowDestination;
  event: string;
} {
  const event = {
    type: `wait.${status}`,
    timestamp: new Date(settledAt).toISOString(),
    data: { waitId, status, settledAt, result },
  };
  const destination = destinationOf(workflow, eventTypeOf(waitId), proof);
  return { destination, event: JSON.stringify(event) };
}
