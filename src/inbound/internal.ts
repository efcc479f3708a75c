/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { FailedDelivery, InboundFacts } from "./facts.ts";
export { INBOUND_FILTER } from "./options.ts";
export type { WebhookRequest, WebhookResult, WebhookValue } from "./waits/types.ts";
export { logRefusal } from "./webhooks/refusal-log.ts";
