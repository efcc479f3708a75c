/** `perdure/webhooks`: receives webhooks, verified and accepted once. */

export { InvalidOptionError } from "../core/options.ts";
export type { ApprovalClick, InboundDelivery } from "./delivery.ts";
export type { Endpoint, EndpointOptions } from "./preset.ts";
export { type CustomOptions, custom } from "./presets/custom.ts";
export { type GitHubBody, type GitHubOptions, github } from "./presets/github.ts";
export { type StandardWebhooksBody, standardWebhooks, svix } from "./presets/standard-webhooks.ts";
export { type StripeBody, stripe } from "./presets/stripe.ts";
export { type Receiver, webhooks } from "./receiver.ts";
export { type ChannelOptions, type ChannelReceiver, channel } from "./sources/channel.ts";
export { type QueueHandler, type QueueOptions, queue } from "./sources/queue.ts";
export {
  type Occurrence,
  type ScheduledHandler,
  type ScheduledOptions,
  scheduled,
} from "./sources/scheduled.ts";
