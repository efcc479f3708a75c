/** The worker that the tests run in: agents and workflows with nothing in them but what a test needs. */

import { queue } from "./support/recipients.ts";

export { BuiltInAgent, BuiltInWorkflow } from "./support/built-in.ts";
export { LedgerObject } from "./support/ledger-object.ts";
export { OutboxAgent } from "./support/outbox-agent.ts";
export { OutboxObject } from "./support/outbox-object.ts";
export { PromptWorkflow } from "./support/prompt-workflow.ts";
export { Receiver, ReceiverAgent, WaitingWorkflow } from "./support/recipients.ts";
export { SdkObject } from "./support/sdk-object.ts";
export { ThinkAgent } from "./support/think-agent.ts";

export default {
  queue,
  fetch: () => new Response("The test worker has no page", { status: 404 }),
};
