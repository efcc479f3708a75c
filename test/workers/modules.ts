/** The worker of the tests that need no Think. */

import { crashable } from "../../src/testing/index.ts";
import { AlertsObject as Alerts } from "../operator/alerts/alerts-object.ts";
import { queue } from "../outbox/recipients.ts";
import { AnswerObject as Answer } from "../support/objects/answer-object.ts";
import { InboundObject as Inbound } from "../support/objects/inbound-object.ts";
import { KeeperObject as Keeper } from "../support/objects/keeper-object.ts";
import { LedgerObject as Ledger } from "../support/objects/ledger-object.ts";
import { OutboxObject as Outbox } from "../support/objects/outbox-object.ts";
import { SchedulerObject as Scheduler } from "../support/objects/scheduler-object.ts";
import { WaitsObject as Waits } from "../support/objects/waits-object.ts";
import { PlantedObject as Planted } from "../testing/planted-object.ts";

export { LimitedAgent } from "../features/limits/limited-agent.ts";
export { BareRoot, PlainRoot, TickingChild } from "../hosts/agent/roots-agents.ts";
export { SdkObject } from "../hosts/sdk/sdk-object.ts";
export { AlertsAgent } from "../operator/alerts/alerts-agent.ts";
export { OutboxAgent } from "../outbox/outbox-agent.ts";
export { Receiver, ReceiverAgent, WaitingWorkflow } from "../outbox/recipients.ts";
export { SchedulerAgent } from "../scheduler/scheduler-agent.ts";
export { LimitedObject } from "../support/objects/limited-object.ts";
export { PromptWorkflow } from "../support/workflows/prompt-workflow.ts";

// For scenarios that crash them at every write.
export const AlertsObject = crashable(Alerts);
export const AnswerObject = crashable(Answer);
export const InboundObject = crashable(Inbound);
export const WaitsObject = crashable(Waits);
export const LimitKeeper = crashable(Keeper);
export const LedgerObject = crashable(Ledger);
export const OutboxObject = crashable(Outbox);
export const PlantedObject = crashable(Planted);
export const SchedulerObject = crashable(Scheduler);

export default {
  queue,
  fetch: () => new Response("The test worker has no page", { status: 404 }),
};
