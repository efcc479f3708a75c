/** `perdure/webhooks`: receives webhooks, verified and accepted once. */

export { InvalidOptionError } from "../../../core/options/options.ts";
export type { ApprovalClick, Arrival } from "./arrival.ts";
export type { ApprovalClicks, ButtonApproval, ButtonOptions, MayDecide } from "./click.ts";
export { type LinksOptions, links } from "./links.ts";
export type { Endpoint, EndpointOptions, ShortDuration } from "./preset.ts";
export { type CustomOptions, custom, type Field } from "./presets/custom.ts";
export { type DiscordBody, discord } from "./presets/discord.ts";
export { approvalComponents, discordApprovals } from "./presets/discord-approvals.ts";
export { type GitHubBody, github } from "./presets/github.ts";
export { type GitLabBody, gitlab } from "./presets/gitlab.ts";
export { type LinearBody, linear } from "./presets/linear.ts";
export { type MetaBody, meta, type WhatsAppMessage } from "./presets/meta.ts";
export { type ShopifyBody, shopify } from "./presets/shopify.ts";
export { type SlackBody, type SlackEvent, slack } from "./presets/slack.ts";
export { approvalBlocks, slackApprovals } from "./presets/slack-approvals.ts";
export { type StandardWebhooksBody, standardWebhooks, svix } from "./presets/standard-webhooks.ts";
export { type StripeBody, stripe } from "./presets/stripe.ts";
export {
  type TelegramBody,
  type TelegramMessage,
  telegram,
} from "./presets/telegram.ts";
export { type TwilioBody, twilio } from "./presets/twilio.ts";
export { type Receiver, webhooks } from "./receiver.ts";
export { countRefusals } from "./refusals.ts";
export { type ChannelOptions, type ChannelReceiver, channel } from "./sources/channel.ts";
export { type QueueHandler, type QueueOptions, queue } from "./sources/queue.ts";
export {
  type Occurrence,
  type ScheduledHandler,
  type ScheduledOptions,
  scheduled,
} from "./sources/scheduled.ts";
