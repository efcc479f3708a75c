/** What other modules of Perdure use besides `index.ts`. Not for users. */

export { openArrivals } from "./open-work.ts";
export type { WebhookRequest, WebhookResult, WebhookValue } from "./waits/types.ts";
export { logRefusal } from "./webhooks/refusal-log.ts";
