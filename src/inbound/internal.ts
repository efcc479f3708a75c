/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { WebhookRequest, WebhookResult, WebhookValue } from "./waits/types.ts";
export { logRefusal } from "./webhooks/refusal-log.ts";
