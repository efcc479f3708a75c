/** The worker of the tests that need no Think. */

import { queue } from "./support/recipients.ts";

export { AnswerObject } from "./support/answer-object.ts";
export { GatesObject } from "./support/gates-object.ts";
export { LedgerObject } from "./support/ledger-object.ts";
export { OutboxAgent } from "./support/outbox-agent.ts";
export { OutboxObject } from "./support/outbox-object.ts";
export { PromptWorkflow } from "./support/prompt-workflow.ts";
export { Receiver, ReceiverAgent, WaitingWorkflow } from "./support/recipients.ts";
export { SchedulerAgent } from "./support/scheduler-agent.ts";
export { SchedulerObject } from "./support/scheduler-object.ts";
export { SdkObject } from "./support/sdk-object.ts";

export default {
  queue,
  fetch: () => new Response("The test worker has no page", { status: 404 }),
};
