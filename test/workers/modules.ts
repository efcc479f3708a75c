/** The worker of the tests that need no Think. */

import { crashable } from "../../src/testing/index.ts";
import { AnswerObject as Answer } from "../support/answer-object.ts";
import { LedgerObject as Ledger } from "../support/ledger-object.ts";
import { OutboxObject as Outbox } from "../support/outbox-object.ts";
import { PlantedObject as Planted } from "../support/planted-object.ts";
import { queue } from "../support/recipients.ts";
import { SchedulerObject as Scheduler } from "../support/scheduler-object.ts";
import { WaitsObject as Waits } from "../support/waits-object.ts";

export { OutboxAgent } from "../support/outbox-agent.ts";
export { PromptWorkflow } from "../support/prompt-workflow.ts";
export { Receiver, ReceiverAgent, WaitingWorkflow } from "../support/recipients.ts";
export { SchedulerAgent } from "../support/scheduler-agent.ts";
export { SdkObject } from "../support/sdk-object.ts";

// For scenarios that crash them at every write.
export const AnswerObject = crashable(Answer);
export const WaitsObject = crashable(Waits);
export const LedgerObject = crashable(Ledger);
export const OutboxObject = crashable(Outbox);
export const PlantedObject = crashable(Planted);
export const SchedulerObject = crashable(Scheduler);

export default {
  queue,
  fetch: () => new Response("The test worker has no page", { status: 404 }),
};
